"""Writes vectors: the operands of cases and the acceptable results, one part of a case at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...backends.operation import attribute_text
from ...judging.groups import group
from ...oracle.formats import code_dtype
from .. import files
from ..run import Task
from ..tester import Spec, Tester
from ..verdicts.outcome import Settings
from . import manifest
from .acceptable import acceptable
from .c_source import Headers
from .calls import calls as calls_of
from .calls import name
from .manifest import Alternatives, Entry, ExportOptions, Tensor
from .stores import Arrays, Families, Store, digest

#: The forms of files.
FORMS = {"npy": Arrays, "hex": Arrays, "json": Families, "c": Headers}


def export(path: Path, tasks: Sequence[Task], made: ExportOptions) -> tuple[int, int, str]:
    """Writes vectors to a folder; the manifest last.

    Args:
        path: the folder, which is empty or does not exist.
        tasks: the tasks of a run with a backend of operations.
        made: the description of the export.

    Returns:
        the number of calls, the number of bytes, and the identifier of the vectors.

    Raises InputError if the folder is not empty, and OutputError if it cannot be written.
    """
    store = FORMS[made.form](path, made.form)
    tester = Tester(None, Settings("vectors", made.level, made.seed, made.ulp))
    families: dict[str, list[Entry]] = {}
    for op, specs in group((s for t in tasks for s in t.specs), lambda s: s.case.op).items():
        families[op] = [entry for spec in specs for entry in _entries(tester, spec, store, made)]
        store.family(op, families[op])
    written = [entry for calls in families.values() for entry in calls]
    vectors = manifest.identifier(made, written)
    store.end(vectors, families)
    files.write(path / manifest.NAME, manifest.dumps(made, written, vectors, store.files))
    return len(written), sum(f.size for f in store.files.values()), vectors


def _entries(tester: Tester, spec: Spec, store: Store, made: ExportOptions) -> Iterator[Entry]:
    part, family = tester.part(spec), spec.case.op
    right = acceptable(part, made.ulp)
    every = calls_of(part)
    for i, call in enumerate(every):
        own = right.of(call.start, call.size)
        shape, op = list(call.shape), call.operation
        given = zip(call.operands, op.operands, strict=True)
        operands = [Tensor(t, list(x.shape), digest(x), store.array(family, x)) for x, t in given]
        codes = own.expected.astype(code_dtype(op.result), copy=False).reshape(call.shape)
        result = Tensor(op.result, shape, digest(codes), store.array(family, codes))
        rows = own.alternatives
        other = Alternatives(len(rows), digest(rows), store.array(family, rows, True)) if len(rows) else None
        case, attributes = spec.case, {k: attribute_text(v) for k, v in op.attributes.items()}
        where = name(spec, made.level, i, len(every)), case.signature, spec.form, spec.part, i
        yield Entry(*where, op.op, attributes, operands, result, other, list(own.rules))
