"""Vectors as C: a header for each operation, one for all, a runner, a session, and an example function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .acceptable import NOT_LISTED
from .manifest import Entry, Tensor, nan_codes
from .stores import Families, hex_codes

#: Files that are the same in every export.
FIXED = ("minihlo.h", "runner.c", "session.c", "example.c")


class Headers(Families):
    """The files of an export `--as c`."""

    suffix = "h"

    def head(self, op: str) -> str:
        guard = f"MINIHLO_{op.upper()}_H"
        return f'#ifndef {guard}\n#define {guard}\n#include "minihlo.h"\n\n'

    def array_text(self, op: str, number: int, codes: np.ndarray) -> tuple[str, str]:
        if codes.ndim == 2:
            lines = (f"{{{place}, 0x{low:x}, 0x{high:x}}},\n" for place, low, high in codes.tolist())
            kind, text = "struct minihlo_choice", "".join(lines)
        else:  # C99 has no empty arrays
            text = "".join(f"{line},\n" for line in hex_codes(codes, ",", "0x")) or "0\n"
            kind = f"uint{8 * codes.dtype.itemsize}_t"
        name = f"{op}_{number}"
        return name, f"static const {kind} {name}[] = {{\n{text}}};\n"

    def tail(self, op: str, calls: Sequence[Entry]) -> str:
        rows = "".join(map(_call, calls))
        return f"\nstatic const struct minihlo_vector {op}_vectors[] = {{\n{rows}}};\n\n#endif\n"

    def end(self, vectors: str, families: Mapping[str, Sequence[Entry]]) -> None:
        results = [c.result for calls in families.values() for c in calls]
        most = max(8, *(t.size * t.width for t in results))
        includes = "".join(f'#include "{op}.h"\n' for op in families)
        table = "".join(f"    {{{op}_vectors, {len(calls)}}},\n" for op, calls in families.items())
        text = (
            f"#ifndef MINIHLO_VECTORS_H\n#define MINIHLO_VECTORS_H\n{includes}\n"
            f'#define MINIHLO_VECTORS "{vectors}"\n'
            f"#define MINIHLO_MOST_BYTES {most} /* of one result */\n\n"
            "static const struct minihlo_family {\n    const struct minihlo_vector *vectors;\n"
            f"    unsigned long count;\n}} minihlo_families[] = {{\n{table}}};\n\n#endif\n"
        )
        self.write("vectors.h", text)
        for name in FIXED:
            self.write(name, (Path(__file__).parent / "c" / name).read_bytes())


def _call(entry: Entry) -> str:
    operands, other = ", ".join(map(_tensor, entry.operands)), entry.alternatives
    attributes = " ".join(f"{k}={v}" for k, v in entry.attributes.items())
    of = f'"{entry.name}", "{entry.op}", "{attributes}", {len(entry.operands)}, {{{operands}}}'
    choices = f"{other.place}, {other.rows}" if other is not None else "0, 0"
    nan = nan_codes(entry.result.type)
    codes = ", ".join(f"{{0x{low:x}, 0x{high:x}}}" for low, high in nan) or "{0, 0}"
    return (
        f"{{{{{of}, {_tensor(entry.result)}}},\n {{{', '.join(t.place for t in entry.operands)}}}, "
        f"{entry.result.place}, {choices}, {{{codes}}}, {len(nan)}, "
        f"{int(not NOT_LISTED.isdisjoint(entry.rules))}}},\n"
    )


def _tensor(t: Tensor) -> str:
    dims = ", ".join(map(str, t.shape)) or "0"
    return f'{{"{t.type}", {t.width}, {len(t.shape)}, {{{dims}}}, {t.size}}}'
