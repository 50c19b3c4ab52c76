"""The guide in docs/extend.md holds: what is declared as it says is in every list, and nowhere else is it named."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: A function of one number and one of two, each declared in one place, with expected values in the two oracles.
DECLARED = """
import numpy as np
from minihlo.ops import op as registry
from minihlo.ops.elementwise.elementwise import elementwise
from minihlo.ops.minifloat import arithmetic, functions
from minihlo.ops.minifloat.number import Number
from minihlo.ops.op import CORRECTLY_ROUNDED, ROUNDED_TO_32

registry.ops()

def two_to_the(x):
    one = np.ones(x.kind.shape, np.int64)
    return functions.power(Number(np.zeros(x.kind.shape, np.uint8), np.zeros(x.kind.shape, bool), one, one), x)

@elementwise("test_exp2", "float", accuracy=ROUNDED_TO_32, direct=two_to_the)
def exp2(x):
    '''2 to the power of the operand.'''
    return np.exp2(x)

def difference(x, y):
    return arithmetic.absolute(arithmetic.subtract(x, y))

@elementwise("test_distance", "float", accuracy=CORRECTLY_ROUNDED, operands=2, direct=difference)
def distance(x, y):
    '''The size of the difference.'''
    return np.abs(x - y)

@elementwise("chlo.test_exp2", "float", accuracy=ROUNDED_TO_32, direct=two_to_the)
def chlo_exp2(x):
    '''2 to the power of the operand.'''
    return np.exp2(x)

from tests import oracle
from tests.oracle import Fraction

power = (lambda x: oracle.power(Fraction(2), x)), oracle.ONE, oracle.INF, oracle.ZERO
for name in ("test_exp2", "chlo.test_exp2"):
    oracle.FUNCTIONS[name] = power
    oracle.UNARY[name] = lambda x: oracle.power(Fraction(2), x)
oracle.BINARY["test_distance"] = lambda x, y: oracle.magnitude(oracle.add(x, oracle.negate(y)))

from decimal import Decimal
from minihlo.interp.oracle import functions as oracle_of_the_tester
oracle_of_the_tester.FUNCTIONS["test_exp2"] = oracle_of_the_tester.Function(
    np.exp2, lambda x: Decimal(2) ** x, is_exact=lambda operands, _: operands[0].is_integer()
)
"""


def run(script: str) -> None:
    """Run a script after the declarations, in a process of its own."""
    result = subprocess.run([sys.executable, "-c", DECLARED + script], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_new_functions_are_in_every_list() -> None:
    run("""
from tools import tables
from tools.crosscheck import causes, compare as crosscheck
from tools.mlir_tests import catalog
from tools.random_programs import builder, known, rules_elementwise

assert "[`test_exp2`](" in tables.ops_table() and "[`test_distance`](" in tables.ops_table()
signatures = {"test_exp2.f8E4M3"}  # of what the tester has an oracle for
assert signatures <= {c.signature for c in crosscheck.list_cases()}
assert all(causes.absence_of(p, s) for p in ("xla", "reference", "ml_dtypes") for s in signatures)
assert "stablehlo.test_exp2" in rules_elementwise.UNARY and "stablehlo.test_distance" in rules_elementwise.BINARY
assert "chlo.test_exp2" in rules_elementwise.CHLO
assert {"stablehlo.test_exp2", "stablehlo.test_distance", "chlo.test_exp2"} <= set(catalog.files().values())

steps = [s for i in range(150) for s in builder.random_program(0, i).steps]
assert {"stablehlo.test_exp2", "stablehlo.test_distance", "chlo.test_exp2"} <= {s.op for s in steps}
step = next(s for s in steps if s.op == "stablehlo.test_exp2")
assert {peer for lack in known.LACKS if lack.applies(step) for peer in lack.peers} >= {"xla", "reference"}
""")


def test_new_functions_are_tested() -> None:
    run("""
from minihlo.interp import load
from minihlo.interp.oracle import exact
from tests import exact_cases
from tests import oracle
from tools.mlir_tests import write

for name in ("stablehlo.test_exp2", "stablehlo.test_distance", "chlo.test_exp2"):
    assert f'"{name}"(' in write.make(name)  # which runs every chunk

x, y = exact_cases.all_pairs("f8E4M3FN")
for op, operands in (("test_exp2", [x]), ("chlo.test_exp2", [x]), ("test_distance", [x, y])):
    places = list(range(len(operands)))
    (got,) = exact_cases.run(["f8E4M3FN"] * len(operands), [(op, places, "f8E4M3FN")], operands)
    fmt = oracle.FORMATS["f8E4M3FN"]
    if len(operands) == 1:
        wanted = [c for c in oracle.unary_codes(fmt, op) for _ in range(256)]
    else:
        wanted = oracle.binary_codes(fmt, op)
    exact_cases.check(fmt, got, wanted, [exact_cases.codes_of(o) for o in operands], op)

from minihlo.interp.oracle.formats import FORMATS
codes, _ = exact.evaluate("test_exp2", FORMATS["f8E4M3"], FORMATS["f8E4M3"].decode(np.arange(256, dtype=np.uint8)))
fmt = oracle.FORMATS["f8E4M3"]
assert all(oracle.same(fmt, a, b) for a, b in zip(codes.tolist(), oracle.unary_codes(fmt, "test_exp2"), strict=True))
""")


def test_new_functions_are_fused_and_tabled() -> None:
    run("""
from minihlo.interp import load
from minihlo.interp import listing

t = "tensor<100000xf8E4M3FN>"
program = load(f'''func.func @main(%a: {t}, %b: {t}) -> {t} {{
  %0 = "stablehlo.test_distance"(%a, %b) : ({t}, {t}) -> {t}
  %1 = "stablehlo.test_exp2"(%0) : ({t}) -> {t}
  return %1 : {t}
}}''')
assert {part.group for part in listing.groups(program.plan()).values()} == {"table 1"}
""")


def test_a_format_is_named_in_its_rows_alone() -> None:
    """Without the rows of a format everything else can be imported and used: nothing else needs to have its name."""
    script = """
from minihlo.ops.minifloat import formats
from minihlo.interp.oracle import formats as formats_of_the_tester
from tests import oracle_numbers

for table in (formats.FORMATS, formats_of_the_tester.FORMATS, oracle_numbers.FORMATS):
    del table["f8E4M3B11FNUZ"]
for module in (formats, formats_of_the_tester, oracle_numbers):
    module.MINIFLOATS = tuple(name for name in module.MINIFLOATS if name != "f8E4M3B11FNUZ")

import importlib, pkgutil
import minihlo.interp, minihlo.ops, tools
from tests import exact_cases

for package in (minihlo.ops, minihlo.interp, tools):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.endswith("__main__") or ".jax_tests" in module.name:
            continue
        importlib.import_module(module.name)
from minihlo.ops.types import ELEMENT_TYPES
from minihlo.interp.plugin.buffers import DTYPES
assert "f8E4M3B11FNUZ" not in ELEMENT_TYPES and len(DTYPES) == 29 and "f8E4M3B11FNUZ" not in exact_cases.DTYPES
"""
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
