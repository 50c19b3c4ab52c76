"""Writes the tables and the output of commands in README.md and DIVERGENCES.md: `python -m tools.generate`.

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; NAME is a key of `TABLES`. In a block of `console`
what follows a line `$ COMMAND` is what the command prints. With `--check` the documents stay as they are, and the
differences are printed; the exit status says whether there are any.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np

from minihlo.ops.minifloat.codec import decode, to_fraction
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS, Nan
from minihlo.ops.minifloat.open_points import ML_DTYPES, ONNX, OPEN_POINTS, XLA
from minihlo.ops.registry import describe, ops

from .crosscheck import page

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", ROOT / "DIVERGENCES.md")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _number(value: Fraction) -> str:
    power = value.denominator.bit_length() - 1
    if value.numerator == 1 and power > 4:
        return f"2^-{power}"
    return f"2^{int(value).bit_length() - 1}" if value > 1e6 else f"{float(value):g}"


def formats_table() -> str:
    rows = []
    for name in MINIFLOATS:
        f = FORMATS[name]
        codes = np.arange(f.max_code + 1)
        values = [to_fraction(decode(codes[i], f)) for i in (1 if f.has_zero else 0, f.max_code)]
        nan = {Nan.NONE: "none", Nan.IEEE: f"0x{f.max_code + 2:02X}…", Nan.LAST: "0xFF"}.get(f.nan)
        rows.append(
            [
                f"`{name}`",
                f"`{f.dtype_name}`",
                f"{int(f.is_signed)}.{f.exponent_bits}.{f.mantissa_bits}",
                str(f.bias),
                _number(values[1]),
                _number(values[0]),
                f"0x{f.infinity_code:02X}" if f.infinity_code is not None else "no",
                nan or f"0x{f.nan_code:02X}",
                "yes" if f.has_negative_zero else "no",
            ]
        )
    return table(["MLIR", "ml_dtypes", "S.E.M", "bias", "largest", "smallest", "+inf", "NaN", "-0"], rows)


def ops_table() -> str:
    rows = (
        [f"`{o.name.removeprefix('stablehlo.')}`", describe(o.types), o.accuracy.text, o.summary]
        for o in sorted(ops().values(), key=lambda o: (not o.name.startswith("stablehlo."), o.name))
    )
    return table(["op", "element types", "results", "meaning"], rows)


def open_points_table() -> str:
    def code(value: int | None) -> str:
        return "" if value is None else f"0x{value:02X}"

    rows = (
        [
            p.question,
            ", ".join(f"`{f}`" for f in p.formats),
            p.ours,
            code(p.code),
            *(code(p.others.get(who)) for who in (ML_DTYPES, XLA, ONNX)),
        ]
        for p in OPEN_POINTS
    )
    return table(["what is left open", "formats", "minihlo gives", "code", ML_DTYPES, XLA, ONNX], rows)


TABLES: dict[str, Callable[[], str]] = {
    "formats": formats_table,
    "ops": ops_table,
    "open points": open_points_table,
    **page.SECTIONS,
}


def console(block: str) -> str:
    """A block of commands with their output made anew."""
    lines = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        result = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        lines += [f"$ {command}", result.stdout.decode().rstrip()]
    return "\n".join(line for line in lines if line)


def generated(text: str) -> str:
    """`text` with everything generated made anew. Raises KeyError for a name that is not in TABLES."""
    text = re.sub(r"(```console\n)(.*?)(\n```)", lambda m: m[1] + console(m[2]) + m[3], text, flags=re.DOTALL)
    return re.sub(
        r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}{TABLES[m[2]]()}\n{m[3]}",
        text,
        flags=re.DOTALL,
    )


def main() -> int:
    current = {path: path.read_text() for path in DOCUMENTS}
    new = {path: generated(text) for path, text in current.items()}
    if "--check" in sys.argv[1:]:
        for path, text in new.items():
            lines = difflib.unified_diff(current[path].splitlines(), text.splitlines(), path.name, "made anew", n=0)
            sys.stderr.writelines(f"{line}\n" for line in lines)
        return int(new != current)
    for path, text in new.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
