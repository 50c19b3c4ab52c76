"""Writes vectors: the operands of cases and the acceptable results, one part of a case at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...backends.operation import attribute_text
from ...errors import OutputError
from ...judging.open_points import question
from ...oracle.formats import code_dtype
from ..run import Task
from ..tester import Spec, Tester
from ..verdicts.outcome import Settings
from .acceptable import acceptable
from .c_source import Headers
from .calls import calls, name
from .manifest import NAME, Alternatives, Entry, ExportOptions, Tensor, Writer
from .stores import Arrays, Families, Store, digest, empty_folder

#: The forms of files.
FORMS = {"npy": Arrays, "hex": Arrays, "json": Families, "c": Headers}


def specs(tasks: Sequence[Task]) -> list[Spec]:
    """The parts of all cases, grouped by operation."""
    every = [s for t in tasks for s in t.specs]
    families = list(dict.fromkeys(s.case.op for s in every))
    return sorted(every, key=lambda s: families.index(s.case.op))


def export(path: Path, tasks: Sequence[Task], made: ExportOptions) -> tuple[int, int, str]:
    """Writes vectors to a folder.

    Args:
        path: the folder, which is empty or does not exist.
        tasks: the tasks of a run with a backend of operations.
        made: the description of the export.

    Returns:
        the number of calls, the number of bytes, and the identifier of the vectors.

    Raises InputError if the folder is not empty, and OutputError if it cannot be written.
    """
    store = FORMS[made.form](empty_folder(path), made.form)
    tester = Tester(None, Settings("vectors", made.level, made.seed, made.ulp))
    unfinished = path / f"{NAME}.part"
    try:
        with open(unfinished, "w", encoding="utf-8") as stream:
            writer = Writer(stream, made)
            family = ""
            for spec in specs(tasks):
                if spec.case.op != family:
                    family = spec.case.op
                    store.next_family(family)
                for entry in _entries(tester, spec, store, made):
                    writer.add(entry, question)
                    store.call(entry)
            store.end(writer.vectors)
            writer.end(store.files)
        os.replace(unfinished, path / NAME)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{error.filename or path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()
    return writer.count, sum(f.size for f in store.files.values()), writer.vectors


def _entries(tester: Tester, spec: Spec, store: Store, made: ExportOptions) -> Iterator[Entry]:
    part = tester.part(spec)
    right = acceptable(part, made.ulp)
    every = calls(part)
    for i, call in enumerate(every):
        own = right.of(call.start, call.size)
        shape, op = list(call.shape), call.operation
        given = zip(call.operands, op.operands, strict=True)
        operands = [Tensor(t, list(x.shape), digest(x), store.array(x)) for x, t in given]
        codes = own.expected.astype(code_dtype(op.result), copy=False).reshape(call.shape)
        result = Tensor(op.result, shape, digest(codes), store.array(codes))
        rows = own.alternatives
        other = Alternatives(len(rows), digest(rows), store.array(rows, True)) if len(rows) else None
        case, attributes = spec.case, {k: attribute_text(v) for k, v in op.attributes.items()}
        where = name(spec, made.level, i, len(every)), case.signature, spec.form, spec.part, i
        yield Entry(*where, op.op, attributes, operands, result, other, list(own.rules))
