"""What takes too long: --timeout, --max-steps, and malformed text that used to take minutes to read."""

from pathlib import Path

import numpy as np
import pytest

from minihlo.interp import load
from minihlo.interp.errors import LimitError, ProgramError
from minihlo.interp.parse import syntax
from minihlo.interp.parse.syntax import MAX_DIGITS
from minihlo.interp.planner import plan

from ..cli_cases import in_process, refused
from ..processes import run_minihlo

ENDLESS = """func.func @main() -> tensor<i32> {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %x = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.while(%a = %x) : tensor<i32> cond {
    stablehlo.return %t : tensor<i1>
  } do {
    stablehlo.return %a : tensor<i32>
  }
  return %0 : tensor<i32>
}
"""
COUNTS = """func.func @main() -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %hundred = stablehlo.constant dense<100> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.while(%a = %zero) : tensor<i32> cond {
    %c = stablehlo.compare LT, %a, %hundred : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.add %a, %one : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  return %0 : tensor<i32>
}
"""
#: main, three constants, 101 conditions of one op, 100 bodies of one op, the loop.
STEPS = 1 + 3 + 2 * 101 + 2 * 100 + 1


@pytest.fixture
def endless(tmp_path: Path) -> str:
    (tmp_path / "endless.mlir").write_text(ENDLESS)
    return str(tmp_path / "endless.mlir")


def test_timeout_of_run_and_diff(capfd: pytest.CaptureFixture[str], endless: str) -> None:
    compared = "and may never end (--timeout SECONDS)", "1 op: 1 PASS", "stopped: this was compared until then"
    for command, found in ((["run", endless], ()), (["diff", endless, "minihlo"], compared)):
        assert run_minihlo(*command, "--timeout", "2") == 124
        out, err = capfd.readouterr()
        assert err == f"minihlo: {endless}: stopped after 2 seconds (--timeout)\n"
        assert all(line in out for line in found) if found else out == ""
    assert run_minihlo("run", endless.replace("endless", "x"), "--timeout", "100") == 2  # an error is one still


def test_a_program_in_time_is_not_disturbed(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "counts.mlir").write_text(COUNTS)
    assert run_minihlo("run", str(tmp_path / "counts.mlir"), "--timeout", "300", "--max-steps", str(STEPS)) == 0
    assert capfd.readouterr().out == "tensor<i32> {100}\n"


def test_the_number_of_steps_is_exact(capfd: pytest.CaptureFixture[str], endless: str) -> None:
    program = load(COUNTS)
    enough = plan(program.program, most_steps=STEPS)
    for _ in range(2):  # each run has them all
        assert int(program.run(enough, [])[0]) == 100
    with pytest.raises(LimitError, match=rf"^<string>:5:8: stablehlo.while: stopped after {STEPS - 1} steps$"):
        program.run(plan(program.program, most_steps=STEPS - 1), [])
    assert run_minihlo("run", endless, "--max-steps", "1000") == 124
    assert capfd.readouterr().err == f"{endless}:4:8: stablehlo.while: stopped after 1000 steps\n"


@pytest.mark.parametrize("limit", [["--timeout", "2"], ["--max-steps", "1000"]])
def test_limits_of_test(capfd: pytest.CaptureFixture[str], endless: str, limit: list[str]) -> None:
    with open(endless, "a") as file:
        file.write(f"// -----\n{COUNTS}")
    assert run_minihlo("test", endless, "-j", "1", *limit) == 1
    out, err = capfd.readouterr()
    reported = (out + err).split("\n")[0]
    assert reported.startswith(f"{endless}:")
    assert "stopped after" in reported
    assert " 1        1 " in out  # the second program passed


@pytest.mark.parametrize("option", ["--timeout=0", "--timeout=x", "--timeout=-1", "--timeout=inf", "--timeout=nan"])
def test_bad_timeouts(endless: str, option: str) -> None:
    assert "expected seconds" in refused(*in_process("run", endless, option))


@pytest.mark.parametrize("option", ["--max-steps=0", "--max-steps=1.5", "--max-steps=-1", "--max-steps=" + "9" * 50])
def test_bad_numbers_of_steps(endless: str, option: str) -> None:
    assert "expected an integer" in refused(*in_process("run", endless, option))


def constant(t: str, value: str) -> str:
    return (
        f"func.func @main() -> tensor<{t}> {{\n  %0 = stablehlo.constant dense<{value}> : tensor<{t}>\n"
        f"  return %0 : tensor<{t}>\n}}"
    )


@pytest.mark.parametrize("value", ["9" * 20000, "-" + "9" * 20000, "1" * 20000 + ".0", "0." + "1" * 20000])
def test_numbers_of_too_many_digits_have_a_place(value: str) -> None:
    with pytest.raises(ProgramError, match=rf"^<string>:2:\d+: expected a number of at most {MAX_DIGITS} digits"):
        load(constant("f64", value))


def test_long_numbers_that_are_right() -> None:
    assert load(constant("f64", "0." + "0" * 320 + "1" * 1500))()[0] == float("0." + "0" * 320 + "1" * 1500)
    assert load(constant("20000xi8", '"0x' + "11" * 20000 + '"'))()[0].tolist() == [0x11] * 20000


@pytest.mark.parametrize("part", ["check.expect_eq %x ", "check.expect_eq %x, \n", 'check.expect_eq "a" '])
def test_malformed_checks_are_looked_at_once(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Each look goes on to the end of the text, so that one for each would take quadratic time."""
    looks, look = [], syntax.items_of
    monkeypatch.setattr(syntax, "items_of", lambda *arguments: (looks.append(arguments), look(*arguments))[1])
    with pytest.raises(ProgramError, match=r"^<string>:1:\d+: check.expect_eq: expected a form such as"):
        load("func.func @m(%x: tensor<f32>) {" + part * 1000)
    assert len(looks) == 1


#: Operations on tensors without elements, one size of which is far above what could be stepped through.
HUGE = 10**13
WITHOUT_ELEMENTS = {
    "iota": (f"{HUGE}x0xi8", (), f"stablehlo.iota dim = 0 : tensor<{HUGE}x0xi8>"),
    "cholesky": (
        f"{HUGE}x0x0xf32",
        (f"{HUGE}x0x0xf32",),
        f"stablehlo.cholesky %0, lower = true : tensor<{HUGE}x0x0xf32>",
    ),
    "scatter": (
        f"{HUGE}x0xf32",
        (f"{HUGE}x0xf32", "2x1xi64", f"2x{HUGE}x0xf32"),
        """"stablehlo.scatter"(%0, %1, %2) <{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>): stablehlo.return %y : tensor<f32>
        }) : """
        f"(tensor<{HUGE}x0xf32>, tensor<2x1xi64>, tensor<2x{HUGE}x0xf32>) -> tensor<{HUGE}x0xf32>",
    ),
    "convolution": (
        f"1x{HUGE}x0xf32",
        ("1x1x1xf32", "1x1x0xf32"),
        "stablehlo.convolution(%0, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        f"window = {{pad = [[0, {HUGE - 1}]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : "
        f"(tensor<1x1x1xf32>, tensor<1x1x0xf32>) -> tensor<1x{HUGE}x0xf32>",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_ELEMENTS)
def test_tensors_without_elements_take_no_memory(name: str) -> None:
    """Whatever their sizes: a step, or a byte, for each of 10^13 would not end, or not fit."""
    result, operands, operation = WITHOUT_ELEMENTS[name]
    arguments = ", ".join(f"%{i}: tensor<{t}>" for i, t in enumerate(operands))
    program = f"func.func @main({arguments}) -> tensor<{result}> {{\n%r = {operation}\nreturn %r : tensor<{result}>\n}}"
    shapes = [tuple(map(int, t.split("x")[:-1])) for t in operands]
    values = [
        np.zeros(shape, t.split("x")[-1].replace("i", "int").replace("f", "float"))
        for shape, t in zip(shapes, operands, strict=True)
    ]
    (actual,) = load(program)(*values)
    assert actual.shape == tuple(map(int, result.split("x")[:-1]))
