"""Vectors as C: a header for each operation, one for all, a runner, a session, and an example function."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...oracle.formats import code_dtype
from .acceptable import NOT_LISTED
from .manifest import Entry, Tensor, nan_codes
from .stores import Families, hex_codes

#: Files that are the same in every export.
FIXED = ("minihlo.h", "runner.c", "session.c", "example.c")


class Headers(Families):
    """The files of an export `--as c`."""

    suffix = "h"
    _most = 8  #: bytes of a result

    def __init__(self, folder: Path, form: str) -> None:
        super().__init__(folder, form)
        self._counts: dict[str, int] = {}

    def head(self) -> str:
        guard = f"MINIHLO_{self.op.upper()}_H"
        return f'#ifndef {guard}\n#define {guard}\n#include "minihlo.h"\n\n'

    def text_of(self, codes: np.ndarray, number: int) -> tuple[str, str]:
        if codes.ndim == 2:
            lines = (f"{{{place}, 0x{low:x}, 0x{high:x}}},\n" for place, low, high in codes.tolist())
            kind, text = "struct minihlo_choice", "".join(lines)
        else:  # C99 has no empty arrays
            text = "".join(f"{line},\n" for line in hex_codes(codes, ",", "0x")) or "0\n"
            kind = f"uint{8 * codes.dtype.itemsize}_t"
        name = f"{self.op}_{number}"
        return name, f"static const {kind} {name}[] = {{\n{text}}};\n"

    def call(self, entry: Entry) -> None:
        operands, other = ", ".join(map(_tensor, entry.operands)), entry.alternatives
        attributes = " ".join(f"{k}={v}" for k, v in entry.attributes.items())
        of = f'"{entry.name}", "{entry.op}", "{attributes}", {len(entry.operands)}, {{{operands}}}'
        choices = f"{other.place}, {other.rows}" if other is not None else "0, 0"
        nan = nan_codes(entry.result.type)
        codes = ", ".join(f"{{0x{low:x}, 0x{high:x}}}" for low, high in nan) or "{0, 0}"
        self.calls.append(
            f"{{{{{of}, {_tensor(entry.result)}}},\n {{{', '.join(t.place for t in entry.operands)}}}, "
            f"{entry.result.place}, {choices}, {{{codes}}}, {len(nan)}, "
            f"{int(not NOT_LISTED.isdisjoint(entry.rules))}}},\n"
        )
        size = int(np.prod(entry.result.shape)) * code_dtype(entry.result.type).itemsize
        self._most = max(self._most, size)

    def tail(self) -> str:
        self._counts[self.op] = len(self.calls)
        rows = "".join(self.calls)
        return f"\nstatic const struct minihlo_vector {self.op}_vectors[] = {{\n{rows}}};\n\n#endif\n"

    def end(self, vectors: str) -> None:
        self.close()
        includes = "".join(f'#include "{op}.h"\n' for op in self._counts)
        table = "".join(f"    {{{op}_vectors, {n}}},\n" for op, n in self._counts.items())
        text = (
            f"#ifndef MINIHLO_VECTORS_H\n#define MINIHLO_VECTORS_H\n{includes}\n"
            f'#define MINIHLO_VECTORS "{vectors}"\n'
            f"#define MINIHLO_MOST_BYTES {self._most} /* of one result */\n\n"
            "static const struct minihlo_family {\n    const struct minihlo_vector *vectors;\n"
            f"    unsigned long count;\n}} minihlo_families[] = {{\n{table}}};\n\n#endif\n"
        )
        fixed = {name: (Path(__file__).parent / "c" / name).read_bytes() for name in FIXED}
        for name, data in ({"vectors.h": text} | fixed).items():
            with self.open(name) as stream:
                stream.write(data)


def _tensor(t: Tensor) -> str:
    dims = ", ".join(map(str, t.shape)) or "0"
    return f'{{"{t.type}", {code_dtype(t.type).itemsize}, {len(t.shape)}, {{{dims}}}, {int(np.prod(t.shape))}}}'
