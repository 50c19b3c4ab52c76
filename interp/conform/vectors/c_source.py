"""Vectors as C: a header for each operation, one for all, a runner, a session, and an example function."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .acceptable import NOT_LISTED
from .calls import plain
from .manifest import Entry, nan_codes
from .stores import Folder, HashedFile, digest, hex_codes

#: Files that are the same in every export.
FIXED = ("minihlo.h", "runner.c", "session.c", "example.c")


class Headers:
    """The files of an export `--as c`."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._stream: HashedFile | None = None
        self._op = ""
        self._known: dict[str, str] = {}
        self._rows: list[str] = []
        self._counts: dict[str, int] = {}
        self._most = 8

    def array(self, codes: np.ndarray) -> str:
        """See stores.Store."""
        flat = plain(codes).reshape(-1)
        lines = (f"{line},\n" for line in hex_codes(flat, ",", "0x"))
        # C99 has no empty arrays.
        return self._store(f"{digest(flat)}-{flat.dtype}", f"uint{8 * flat.dtype.itemsize}_t", "".join(lines) or "0\n")

    def alternatives(self, rows: np.ndarray) -> str:
        """See stores.Store."""
        lines = (f"{{{place}, 0x{low:x}, 0x{high:x}}},\n" for place, low, high in rows.tolist())
        return self._store(f"{digest(rows)}-rows", "struct minihlo_choice", "".join(lines))

    def _store(self, key: str, kind: str, text: str) -> str:
        assert self._stream is not None
        if key not in self._known:
            name = self._known[key] = f"{self._op}_{len(self._known)}"
            self._stream.write(f"static const {kind} {name}[] = {{\n{text}}};\n")
        return f"{self._op}.h#{self._known[key]}"

    def call(self, entry: Entry) -> None:
        """See stores.Store."""
        operands = [_tensor(t.type, t.shape) for t in entry.operands]
        at = [t.at.partition("#")[2] for t in entry.operands]
        attributes = " ".join(f"{k}={v}" for k, v in entry.attributes.items())
        other = entry.alternatives
        nan = nan_codes(entry.result.type)
        of = (
            f'{{"{entry.name}", "{entry.op}", "{attributes}", {len(operands)}, '
            f"{{{', '.join(operands)}}}, {_tensor(entry.result.type, entry.result.shape)}}}"
        )
        choices = f"{other.at.partition('#')[2]}, {other.rows}" if other is not None else "0, 0"
        codes = ", ".join(f"{{0x{low:x}, 0x{high:x}}}" for low, high in nan) or "{0, 0}"
        self._rows.append(
            f"{{{of},\n {{{', '.join(at)}}}, {entry.result.at.partition('#')[2]}, {choices}, "
            f"{{{codes}}}, {len(nan)}, {int(not NOT_LISTED.isdisjoint(entry.rules))}}},\n"
        )
        size = int(np.prod(entry.result.shape)) * _bytes(entry.result.type)
        self._most = max(self._most, size)

    def next_family(self, op: str) -> None:
        """See stores.Store."""
        self._close()
        self._op, guard = op, f"MINIHLO_{op.upper()}_H"
        self._stream = self._folder.open(f"{op}.h")
        self._stream.write(f'#ifndef {guard}\n#define {guard}\n#include "minihlo.h"\n\n')

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.write(f"\nstatic const struct minihlo_vector {self._op}_vectors[] = {{\n")
            for row in self._rows:
                self._stream.write(row)
            self._stream.write("};\n\n#endif\n")
            self._stream.close()
            self._counts[self._op] = len(self._rows)
        self._stream, self._known, self._rows = None, {}, []

    def end(self, vectors: str) -> None:
        """See stores.Store."""
        self._close()
        includes = "".join(f'#include "{op}.h"\n' for op in self._counts)
        table = "".join(f"    {{{op}_vectors, {n}}},\n" for op, n in self._counts.items())
        self._folder.write(
            "vectors.h",
            (
                f"#ifndef MINIHLO_VECTORS_H\n#define MINIHLO_VECTORS_H\n{includes}\n"
                f'#define MINIHLO_VECTORS "{vectors}"\n'
                f"#define MINIHLO_MOST_BYTES {self._most} /* of one result */\n\n"
                "static const struct minihlo_family {\n    const struct minihlo_vector *vectors;\n"
                f"    unsigned long count;\n}} minihlo_families[] = {{\n{table}}};\n\n#endif\n"
            ).encode(),
        )
        for name in FIXED:
            self._folder.write(name, (Path(__file__).parent / "c" / name).read_bytes())


def _bytes(element: str) -> int:
    from ...oracle.formats import code_dtype

    return code_dtype(element).itemsize


def _tensor(element: str, shape: list[int]) -> str:
    dims = ", ".join(map(str, shape)) or "0"
    return f'{{"{element}", {_bytes(element)}, {len(shape)}, {{{dims}}}, {int(np.prod(shape))}}}'
