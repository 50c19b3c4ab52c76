"""Faults planted in the package, each of which a file of mlir_tests/ alone has to find."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "mlir_tests"

#: Runs after the fault is planted, since tables and plans are kept: a file's functions, each told by name if it fails.
_RUN = r"""
import re, sys
from pathlib import Path
from minihlo.interp import load
from minihlo.interp.errors import CheckFailure
for text in re.split(r"^// -----$", Path(sys.argv[1]).read_text(), flags=re.MULTILINE):
    if f"@{sys.argv[2]}" not in text:
        continue
    try:
        load(text)()
    except CheckFailure:
        print(re.search(r"^func\.func @(\w+)", text, re.MULTILINE)[1])
"""

_START = """
import dataclasses, sys
import numpy as np
from minihlo.ops.elementwise import float_kernels
from minihlo.ops import cast, op, policy, tables
from minihlo.ops.minifloat import arithmetic, codec, formats
op.ops()

def replace(old, new):
    for module in list(sys.modules.values()):
        if module.__name__.startswith("minihlo"):
            for name, value in list(vars(module).items()):
                if value is old:
                    setattr(module, name, new)
"""

_TABLE = """
def table(self, old=tables.Tabulated.table):
    found = old(self)
    if [element.name for element in self._elements] == {which} and found.flags.writeable is False:
        found = found.copy()
        found.view(np.uint8)[{entry}] ^= 1
        self._entries = found
    return found
tables.Tabulated.table = table
"""

FAULTS = {
    "one entry of a table of two": (
        _TABLE.format(which='["f8E4M3", "f8E4M3"]', entry=0x3A17),
        "multiply",
        "f8E4M3_all_pairs",
    ),
    "one entry of a table of one": (_TABLE.format(which='["f8E5M2FNUZ"]', entry=0x5B), "tanh", "f8E5M2FNUZ_all"),
    "one entry of a table of a conversion": (
        """
def table(source, target, chosen, old=cast.code_table):
    found = old(source, target, chosen)
    if (source.name, target.name) == ("bf16", "f8E4M3FN"):
        codes = found.view(np.uint8).copy()
        codes[0x3E91] ^= 1
        found = codes.view(found.dtype)
    return found
replace(cast.code_table, table)
""",
        "convert",
        "bf16_to_f8E4M3FN_all",
    ),
    "FNUZ bias 7": (
        "object.__setattr__(formats.FORMATS['f8E4M3FNUZ'], 'bias', 7)",
        "multiply",  # a sum of codes is the same whatever the bias
        "f8E4M3FNUZ",
    ),
    "ties away from zero": (
        """
def rounded(x, fmt, chosen=policy.Policy(), *rest, old=codec.round_number):
    return old(x, fmt, dataclasses.replace(chosen, rounding="nearest_away"), *rest)
replace(codec.round_number, rounded)
""",
        "add",
        "f8E5M2",
    ),
    "subnormals flushed": (
        """
def rounded(x, fmt, *rest, old=codec.round_number):
    codes = np.array(old(x, fmt, *rest))
    if not fmt.has_zero:
        return codes
    size = codes & (fmt.sign_bit - 1)
    return np.where((0 < size) & (size < 1 << fmt.mantissa_bits), codes & fmt.sign_bit, codes).astype(codes.dtype)
replace(codec.round_number, rounded)
""",
        "multiply",
        "f8E4M3FN",
    ),
    "NaN lost in maximum": (
        """
def larger(x, y, old=arithmetic.maximum):
    return old(*(dataclasses.replace(a, **{
        f.name: np.where(a.is_nan, getattr(b, f.name), getattr(a, f.name)) for f in dataclasses.fields(a)
    }) for a, b in ((x, y), (y, x))))
for cell in op.lookup("maximum").bind.__closure__:
    if isinstance(cell.cell_contents, float_kernels.Function):
        object.__setattr__(cell.cell_contents, "direct", larger)
""",
        "maximum",
        "f8E4M3FN",
    ),
    "f64 rounded to f32 first": (
        "cast._odd_f32 = lambda x: np.asarray(x.astype(np.float32))",
        "convert",
        "f64_to_f8E4M3FN",
    ),
    "sums in the element type": (
        """
def initialize(self, *args, old=policy.Policy.__init__, **fields):
    old(self, *args, **fields)
    object.__setattr__(self, "accumulate", "element")
policy.Policy.__init__ = initialize
""",
        "dot_general",
        "f8E4M3FN_rounded_once",
    ),
}


def failing(fault: str, op: str, function: str = "") -> list[str]:
    """The functions of an op's file, or those whose name begins so, that fail in a process with the fault."""
    command = [sys.executable, "-c", _START + fault + _RUN, str(FOLDER / f"interpret_{op}.mlir"), function]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_alone_finds(name: str) -> None:
    fault, op, function = FAULTS[name]
    assert f"{op}_{function}" in failing(fault, op, f"{op}_{function}")


def test_without_a_fault_nothing_fails() -> None:
    assert failing("", "maximum") == []
