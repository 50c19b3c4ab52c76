"""`minihlo conform`: planted faults are found and told in words, and those of known backends."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from minihlo.interp.cli import main
from minihlo.interp.conform.cases import cases, forms
from minihlo.interp.conform.cases import forms as layouts
from minihlo.interp.conform.result import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED

from ..jaxlib_versions import VERSION
from .conform_results import failing, found

pytestmark = pytest.mark.usefixtures("in_the_repository")


def test_a_bias_off_by_one(report) -> None:
    arguments = ("--formats", "f8E4M3FNUZ", "--ops", "convert,multiply,add", "--form", "array")
    _, r = report("tests.conform_faults:Biased", *arguments)
    for case in ("multiply.f8E4M3FNUZ", "convert.f8E4M3FNUZ.f32", "convert.f32.f8E4M3FNUZ"):
        sentence = "the format's exponent bias is taken for one smaller than it is"
        assert found(r, case).diagnosis.startswith(sentence)
    assert found(r, "add.f8E4M3FNUZ").verdict == PASS  # a sum of codes is the same whatever the bias


def test_nan_read_as_negative_zero(report) -> None:
    _, r = report("tests.conform_faults:NegativeZero", "--formats", "f8E4M3FNUZ", "--ops", "add,negate")
    assert found(r, "add.f8E4M3FNUZ").diagnosis == "0x80, which is NaN, is read as -0"
    case = found(r, "negate.f8E4M3FNUZ")
    assert "0x80" in case.diagnosis
    assert case.counts == {PASS: 255, FAIL: 1}


def test_a_reciprocal_instead_of_a_division(report) -> None:
    _, r = report("tests.conform_faults:reciprocal", "--formats", "f8E4M3FN", "--ops", "divide")
    assert set(failing(r)) == {("divide.f8E4M3FN", form) for form in ("scalar", "broadcast", "rows", "columns")}
    for sentence in failing(r).values():
        assert sentence.startswith("only with operands that are broadcast: multiplied by the reciprocal")


@pytest.mark.exhaustive
def test_a_hang_is_the_op_that_hangs(report) -> None:
    arguments = ("--formats", "f8E4M3FN", "--ops", "tan*,sine,add", "--form", "array", "--timeout", "6")
    _, r = report("tests.conform_faults:hanging", *arguments)
    assert {c.signature for c in r.cases if c.verdict == CRASH} == {"tanh.f8E4M3FN"}
    assert "no answer" in found(r, "tanh.f8E4M3FN").message
    assert found(r, "tan.f8E4M3FN").verdict == PASS


def test_a_crash_is_the_smallest_case_that_crashes(report) -> None:
    arguments = ("--formats", "f8E4M3FN", "--ops", "sqrt,cbrt,add", "--form", "array")
    code, r = report("tests.conform_faults:crashing", *arguments)
    assert code == 1
    assert {c.signature for c in r.cases if c.verdict == CRASH} == {"sqrt.f8E4M3FN"}
    case = found(r, "sqrt.f8E4M3FN")
    assert "SIGABRT" in case.message
    operand = re.search(r"--operands 0x(\w\w)$", case.command)
    assert operand
    assert int(operand[1], 16) & 0x80
    assert "stablehlo.sqrt" in case.program


def test_what_fails_in_arrays_alone(report) -> None:
    _, r = report("tests.conform_faults:falling_short", "--formats", "f8E5M2", "--ops", "multiply", "--form", "array")
    case = found(r, "multiply.f8E5M2")
    assert case.diagnosis.endswith("only in arrays, not alone")
    assert case.command.endswith("*64'")


@pytest.mark.parametrize("element", ["f4E2M1FN", pytest.param("f6E3M2FN", marks=pytest.mark.exhaustive)])
def test_what_is_no_code_is_wrong(report, element: str) -> None:
    _, r = report("tests.conform_faults:with_other_bits", "--formats", element, "--ops", "add,reduce_add")
    case = found(r, f"add.{element}")
    assert (case.verdict, case.counts[FAIL]) == (FAIL, case.total)
    assert case.diagnosis == f"all wrong results are no codes of {element}"
    assert {(f.got_value, f.ulp) for f in case.failures} == {("none", None)}
    assert found(r, f"reduce_add.{element}", "length-64").verdict == PASS  # whose text has no such op


def test_results_of_another_width(report) -> None:
    _, r = report("tests.conform_faults:Wide", "--formats", "f8E5M2", "--ops", "abs,negate", "--form", "array")
    assert found(r, "abs.f8E5M2").verdict == PASS
    case = found(r, "negate.f8E5M2")
    assert (case.verdict, case.message) == (CRASH, "the results of negate.f8E5M2: expected uint8, got int64")


def test_a_backend_of_single_operations(report) -> None:
    _, r = report("tests.conform_faults:Operations", "--formats", "f8E5M2", "--ops", "add,subtract")
    case = found(r, "add.f8E5M2")
    assert case.counts[FAIL] == 1  # -0 + -0
    assert [f.operands for f in case.failures] == [[[0x80], [0x80]]]
    assert found(r, "subtract.f8E5M2").verdict == UNSUPPORTED
    of_blocks = {*forms.OF_BLOCKS, *forms.OF_BLOCK_PRODUCTS} - {"array"}
    in_programs = {"constant", "scalar", "chain", "upcast", "test", *forms.LENGTHS} - set(layouts.LAYOUTS)
    assert {c.form for c in r.cases} == set(forms.FORMS) - in_programs - of_blocks


ROUNDING = """
def rounded(x, fmt, chosen, *rest, old=codec.round_number):
    EXPRESSION
for module in list(sys.modules.values()):
    if getattr(module, "round_number", None) is codec.round_number and module is not codec:
        module.round_number = rounded
codec.round_number = rounded
"""
FAULTS = [
    "formats.FORMATS['f8E5M2'].__dict__.update(max_code=0x7A)",
    ROUNDING.replace("EXPRESSION", "codes = old(x, fmt, chosen, *rest); return codes ^ (codes == 0x15)"),
    ROUNDING.replace("EXPRESSION", "return old(x, fmt, dataclasses.replace(chosen, rounding='nearest_away'), *rest)"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_minihlo_is_found(fault: str) -> None:
    start = (
        "import dataclasses, sys\n"
        "from minihlo.ops import op as registry\n"
        "from minihlo.ops.minifloat import codec, formats\n"
        "from minihlo.interp.cli import main\n"
        "registry.ops()\n"
    )
    words = ["conform", "minihlo", "--formats", "f8E5M2", "--ops", "add", "--form", "array", "-j", "1"]
    script = f"{start}{fault}\nsys.exit(main({words}))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (result.returncode, "FAIL add.f8E5M2 array" in result.stdout) == (1, True), result.stdout + result.stderr


@pytest.mark.exhaustive
def test_minihlo_passes_every_form(report) -> None:
    code, r = report("minihlo", "--formats", "f4*")
    assert code == 0
    assert {c.verdict for c in r.cases} == {PASS}
    of_level_2 = {form for form in forms.LENGTHS if form not in {f for c in cases.cases(1) for f in forms.forms(c, 1)}}
    assert {c.form for c in r.cases} == set(forms.FORMS) - {"test"} - of_level_2


def test_the_reference_interpreter(report) -> None:
    ops = "negate,subtract,sqrt,round_nearest_even,logistic,compare_LT_TOTALORDER,divide"
    _, r = report("reference", "--formats", "f8E8M0FNU,f8E3M4,f4E2M1FN", "--ops", ops, "--form", "array")
    told = failing(r)
    of_sign = {"the sign of the result is put into the exponent's first bit"}
    of_sign |= {"the sign is dropped, and the format has none"}  # of later versions
    assert told["negate.f8E8M0FNU", "array"] in of_sign
    assert found(r, "sqrt.f8E3M4").verdict == PASS
    # In steps, as the specification writes it; where these are NaN and the result is a number, that is no excuse.
    assert found(r, "logistic.f4E2M1FN").verdict == found(r, "logistic.f8E3M4").verdict == ACCURACY
    assert found(r, "logistic.f8E3M4").worst_ulp == 4
    assert told["compare_LT_TOTALORDER.f4E2M1FN", "array"].startswith("TOTALORDER is ignored")
    assert found(r, "divide.f4E2M1FN").verdict == DIVERGENT
    _, r = report("reference", "--case", "dot_general.f8E3M4", "--form", "length-64")
    assert found(r, "dot_general.f8E3M4", "length-64").model == "products and sums rounded in f8E3M4 in order"
    _, r = report("reference", "--case", "logistic.f8E4M3FN")
    assert failing(r)["logistic.f8E4M3FN", "array"] == "1 / (1 + exp(-x)) with each step rounded to the format"


def test_xla(report) -> None:
    arguments = ("--formats", "f8E5M2,f6E2M3FN", "--ops", "divide,reduce_add,exponential")
    _, r = report("jax:cpu", *arguments)
    made = ("scalar", "broadcast") if VERSION >= (0, 10) else ("scalar",)
    assert set(failing(r)) == {("divide.f8E5M2", form) for form in made}
    assert "multiplied by the reciprocal, rounded to f16" in failing(r)["divide.f8E5M2", "scalar"]
    assert found(r, "reduce_add.f8E5M2", "length-64").model == "accumulated in f8E5M2 in windows of 32"
    assert found(r, "exponential.f8E5M2").counts == {PASS: 255, ACCURACY: 1}
    assert found(r, "divide.f6E2M3FN").verdict == UNSUPPORTED
    _, r = report("jax:cpu", "--case", "dot_general.f8E5M2", "--form", "length-64")
    assert found(r, "dot_general.f8E5M2", "length-64").model == "exact, then rounded to f16"


@pytest.mark.exhaustive
def test_printed_commands_reproduce(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is run as it is printed, and fails as it did."""
    main(["conform", "jax:cpu", "--formats", "f8E5M2", "--ops", "divide", "-j", "1"])
    printed = capsys.readouterr().out
    commands = re.findall(r"^ +minihlo (conform .*)$", printed, re.MULTILINE)
    lines = re.findall(r"^  (0x.* => 0x\w\w expected 0x\w\w) ", printed, re.MULTILINE)
    assert commands
    for command in commands:
        assert main(shlex.split(command)) == 1
        again = capsys.readouterr().out
        assert any(line in again for line in lines)


def test_a_program_reproduces_elsewhere(report, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, r = report("tests.conform_faults:Flushed", "--ops", "multiply", "--formats", "f8E4M3FN", "--form", "array")
    case = found(r, "multiply.f8E4M3FN")
    assert (code, case.verdict, case.diagnosis) == (1, FAIL, "results that are subnormal are flushed to zero")
    assert (case.failures[0].got, abs(case.failures[0].error)) == (0, case.failures[0].ulp)
    (tmp_path / "program.mlir").write_text(case.program)
    inputs = [word for text in case.inputs for word in ("--input", text)]
    capfd.readouterr()
    assert main(["run", str(tmp_path / "program.mlir"), *inputs, "--format", "json"]) == 0
    assert str(case.failures[0].expected) in capfd.readouterr().out
