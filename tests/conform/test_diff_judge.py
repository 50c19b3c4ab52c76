"""`interp.compare` on what specifications leave open, on programs as they stand, and on loops. Backends are planted."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import BackendError
from minihlo.interp.backends.own import Minihlo
from minihlo.ops.policy import Policy

from ..processes import run_minihlo

Results = list[np.ndarray]


def backend(change: Callable[[str, Results], Results]) -> Callable[[str, Sequence[np.ndarray]], Results]:
    """A backend that gives our results, changed."""
    return lambda text, arrays: change(text, Minihlo("minihlo", Policy()).evaluate(text, arrays))


def gives(*results: Any) -> Callable[[str, Sequence[np.ndarray]], Results]:
    """A backend that gives these results; floats travel as their codes."""
    return lambda _text, _arrays: [np.asarray(r) for r in results]


def func(takes: str, results: str, body: str) -> str:
    return f"func.func @main({takes}) -> {results} {{\n{body}\n}}"


def verdict(text: str, inputs: Sequence[Any], got: np.ndarray) -> tuple[str, list[str]]:
    (op,) = interp.compare(text, *inputs, backend=gives(got)).ops
    return op.verdict, op.causes


SORT = """%0 = "stablehlo.sort"(%x) <{{dimension = 0 : i64, is_stable = true}}> ({{
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %p = stablehlo.abs %a : tensor<f32>
  %q = stablehlo.abs %b : tensor<f32>
  %c = stablehlo.compare {direction}, %p, %q{kind} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}}) : (tensor<4xf32>) -> tensor<4xf32>
return %0 : tensor<4xf32>"""


@pytest.mark.parametrize(
    ("direction", "kind", "x", "got", "expected"),
    [
        ("GT", "", [1, np.nan, 3, 2], [3, np.nan, 2, 1], "DIVERGENT"),
        ("GT", "", [1, np.nan, 3, 2], [3, np.nan, 2, 2], "FAIL"),  # other elements
        ("GT", "", [1, 4, 3, 2], [3, 4, 2, 1], "FAIL"),  # an order
        ("LT", ",  TOTALORDER", [1, np.nan, 3, 2], [np.nan, 1, 2, 3], "FAIL"),
        ("GE", "", [1, 4, 3, 2], [1, 4, 3, 2], "DIVERGENT"),
    ],
)
def test_a_sort_by_what_is_no_order(direction: str, kind: str, x: list, got: list, expected: str) -> None:
    text = func("%x: tensor<4xf32>", "tensor<4xf32>", SORT.format(direction=direction, kind=kind))
    found, causes = verdict(text, [np.array(x, np.float32)], np.array(got, np.float32))
    assert (found, "no-order" in causes) == (expected, expected == "DIVERGENT")


@pytest.mark.parametrize(
    ("x", "got", "expected"),
    [([1, np.nan, 3, 2], 2, "DIVERGENT"), ([1, np.nan, 3, 2], 4, "FAIL"), ([1, 4, 3, 2], 2, "FAIL")],
)
def test_a_maximum_that_does_not_associate_nan(x: list, got: float, expected: str) -> None:
    body = """%i = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %i) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      reducer(%a: tensor<f32>, %b: tensor<f32>) {
        %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %s = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
        stablehlo.return %s : tensor<f32>
      }
    return %0 : tensor<f32>"""
    text = func("%x: tensor<4xf32>", "tensor<f32>", body)
    assert verdict(text, [np.array(x, np.float32)], np.float32(got))[0] == expected


def test_elements_of_a_sort_stay_together() -> None:
    body = """%0:2 = "stablehlo.sort"(%x, %y) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %e = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %e : tensor<i1>
    }) : (tensor<3xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xi32>)
    return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>"""
    text = func("%x: tensor<3xf32>, %y: tensor<3xi32>", "(tensor<3xf32>, tensor<3xi32>)", body)
    inputs = np.array([1, np.nan, 3], np.float32), np.array([7, 8, 9], np.int32)
    for places, expected in (([9, 8, 7], "DIVERGENT"), ([9, 7, 8], "FAIL")):
        planted = gives(np.array([3, np.nan, 1], np.float32), np.array(places, np.int32))
        assert interp.compare(text, *inputs, backend=planted).verdict == expected
    fair = np.array([1, 2, 3], np.float32), inputs[1]  # whatever the sort, these keys have one order
    assert interp.compare(text.replace("true", "false"), *fair, backend=gives(*fair)).verdict == "FAIL"


FOLD = """%i = stablehlo.constant dense<{init}> : tensor<{t}>
%0 = "stablehlo.reduce_window"(%x, %i) <{{window_dimensions = array<i64: 2>, padding = {pad}}}> ({{
^bb0(%a: tensor<{t}>, %b: tensor<{t}>):
  %s = stablehlo.{op} %a, %b : tensor<{t}>
  stablehlo.return %s : tensor<{t}>
}}) : (tensor<3x{t}>, tensor<{t}>) -> tensor<4x{t}>
return %0 : tensor<4x{t}>"""


@pytest.mark.parametrize(
    ("t", "op", "init", "got", "expected"),
    [
        ("i32", "add", "100", [101, 3, 5, 103], "DIVERGENT"),  # the padding alone
        ("i32", "add", "100", [301, 203, 205, 303], "DIVERGENT"),
        ("i32", "add", "100", [151, 103, 105, 203], "FAIL"),  # half of one
        ("i32", "multiply", "2", [8, 8, 24, 24], "DIVERGENT"),
        ("i32", "multiply", "2", [6, 4, 12, 12], "FAIL"),
        ("i32", "xor", "100", [101, 3, 1, 103], "DIVERGENT"),
        ("i32", "xor", "100", [1, 102, 101, 3], "FAIL"),
        ("f32", "add", "2.0", [3, 3, 5, 5], "DIVERGENT"),
        ("f32", "add", "2.0", [3.5, 3, 5, 5], "FAIL"),
        ("f32", "add", "0.0", [1, 3, 5, 4], "FAIL"),
    ],
)
def test_the_number_of_initial_values_is_open(t: str, op: str, init: str, got: list, expected: str) -> None:
    dtype = {"i32": np.int32, "f32": np.float32}[t]
    text = func(
        f"%x: tensor<3x{t}>", f"tensor<4x{t}>", FOLD.format(t=t, op=op, init=init, pad="dense<1> : tensor<1x2xi64>")
    )
    found, causes = verdict(text, [np.array([1, 2, 3], dtype)], np.array(got, dtype))
    assert found == expected
    assert "initial-values" in causes or expected == "FAIL"
    assert not any("subnormal" in c for c in causes)


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        (3, 100, "DIVERGENT"),
        (100, 2, "DIVERGENT"),
        (2, -1, "DIVERGENT"),
        (2, 6, "FAIL"),
        (-1, 101, "FAIL"),
        (0, 3, "FAIL"),
    ],
)
def test_an_integer_power_beyond_the_type(base: int, exponent: int, expected: str) -> None:
    body = "%0 = stablehlo.power %x, %y : tensor<1xi8>\nreturn %0 : tensor<1xi8>"
    text = func("%x: tensor<1xi8>, %y: tensor<1xi8>", "tensor<1xi8>", body)
    inputs = [np.array([v], np.int8) for v in (base, exponent)]
    assert verdict(text, inputs, np.array([77], np.int8))[0] == expected


@pytest.mark.parametrize(("got", "expected"), [(515, "PASS"), (516, "ACCURACY"), (600, "FAIL")])
def test_a_composite_is_judged_by_the_exact_value_of_the_whole(got: float, expected: str) -> None:
    """16384 / sqrt(0.0625) is beyond f16, but times 2^-7 plus 3 it is 515."""
    t = "tensor<1xf16>"
    body = (
        '%0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : '
        f"(tensor<2x1xf16>, {t}, {t}, {t}, {t}) -> tensor<2x1xf16>\nreturn %0 : tensor<2x1xf16>"
    )
    takes = f"%x: tensor<2x1xf16>, %s: {t}, %o: {t}, %m: {t}, %v: {t}"
    values = [[[16384], [1]], [0.0078125], [3], [0], [0.0625]]
    inputs = [np.array(v, np.float16) for v in values]
    exact = np.array([[got], [3.03125]], np.float16)
    assert verdict(func(takes, "tensor<2x1xf16>", body), inputs, exact)[0] == expected


def test_a_composite_that_overflows_on_the_way() -> None:
    """The variance is beyond f16, so steps may give NaN, or the offset; another number is wrong."""
    t, f = "tensor<2x1xf16>", "tensor<1xf16>"
    body = (
        '%0:3 = "stablehlo.batch_norm_training"(%x, %s, %s) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : '
        f"({t}, {f}, {f}) -> ({t}, {f}, {f})\nreturn %0#0 : {t}"
    )
    inputs = [np.array(v, np.float16) for v in ([[30000], [-30000]], [1])]
    rest = np.array([0], np.float16), np.array([np.inf], np.float16)
    for got, expected in ((np.nan, "ACCURACY"), (2, "PASS"), (1, "ACCURACY"), (5, "FAIL")):
        given = gives(np.array([[got], [0]], np.float16), *rest)
        (op,) = interp.compare(func(f"%x: {t}, %s: {f}", t, body), *inputs, backend=given).ops
        assert op.verdict == expected


@pytest.mark.parametrize(("got", "expected"), [(8, "PASS"), (7, "DIVERGENT"), (9, "FAIL")])
def test_where_updates_meet_any_of_them_is_right(got: float, expected: str) -> None:
    body = """%0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
    }) : (tensor<1xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<1xf32>\nreturn %0 : tensor<1xf32>"""
    text = func("%x: tensor<1xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>", "tensor<1xf32>", body)
    inputs = [np.ones(1, np.float32), np.zeros((2, 1), np.int32), np.array([7, 8], np.float32)]
    assert verdict(text, inputs, np.array([got], np.float32))[0] == expected


def test_sums_whose_magnitudes_overflow() -> None:
    body = (
        "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : "
        "(tensor<1x4xf64>, tensor<4x1xf64>) -> tensor<1x1xf64>\nreturn %0 : tensor<1x1xf64>"
    )
    text = func("%x: tensor<1x4xf64>, %y: tensor<4x1xf64>", "tensor<1x1xf64>", body)
    x, y = np.array([[-0.90e308, 1.00e308, 0.30e308, -0.53e308]]), np.array([[0.6], [1.0], [0.9], [0.9]])
    right = float(interp.load(text)(x, y)[0][0, 0])
    for steps, expected in ((1, "PASS"), (1 << 40, "FAIL")):
        got = np.array([[right]]).view(np.int64) + steps
        assert verdict(text, [x, y], got.view(np.float64))[0] == expected
    # No order of numbers beyond f32 overflows in f64.
    assert verdict(text, [x / 1e269, y], np.array([[np.inf]]))[0] == "FAIL"


def test_the_program_of_an_op_has_its_constants_and_no_shardings() -> None:
    text = """module attributes {mhlo.num_partitions = 2 : i32} {
    sdy.mesh @mesh = <["x"=2]>
    func.func @main(%x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
      %z = stablehlo.constant dense<1.0> : tensor<f32>
      %two = stablehlo.add %z, %z : tensor<f32>
      %r = stablehlo.reduce(%x init: %z) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
        reducer(%a: tensor<f32>, %b: tensor<f32>) {
          %d = stablehlo.multiply %b, %z : tensor<f32>
          %s = stablehlo.multiply %d, %two : tensor<f32>
          %t = stablehlo.add %a, %s : tensor<f32>
          stablehlo.return %t : tensor<f32>
        }
      %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<4xf32>
      return %r, %0 : tensor<f32>, tensor<4xf32>
    }}"""
    texts: list[tuple[str, int]] = []

    def evaluate(program: str, arrays: Sequence[np.ndarray]) -> Results:
        texts.append((program, len(arrays)))
        return Minihlo("minihlo", Policy()).evaluate(program, arrays)

    report = interp.compare(text, np.arange(4, dtype=np.float32), backend=evaluate)
    assert report.verdict == "PASS"
    _, (reduce, takes), (negate, _), (whole, _) = texts
    assert "dense<1.000000e+00>" in reduce
    assert "stablehlo.add %cst, %cst" in reduce
    assert takes == 1  # the operand that is no constant
    assert "sdy" not in negate
    assert "num_partitions" not in whole


TWO = (
    func(
        "%x: tensor<3x{t}>",
        "tensor<3x{t}>",
        "%0 = stablehlo.{op} %x, %x : tensor<3x{t}>\n%1 = stablehlo.reverse %0, dims = [0] : tensor<3x{t}>\n"
        "return %1 : tensor<3x{t}>",
    )
    .replace("{\n", "{{\n")
    .replace("\n}", "\n}}")
)


@pytest.mark.parametrize(
    ("t", "op", "expected"), [("i32", "add", "FAIL"), ("f32", "add", "FAIL"), ("f32", "power", "ACCURACY")]
)
def test_outputs_of_the_program_as_it_stands(t: str, op: str, expected: str) -> None:
    def change(program: str, results: Results) -> Results:
        is_whole = "reverse" in program and f"stablehlo.{op}" in program
        return [r + r.dtype.type(1) if is_whole else r for r in results]  # of codes: the next numbers

    x = np.array([1, 2, 3], {"i32": np.int32, "f32": np.float32}[t])
    report = interp.compare(TWO.format(t=t, op=op), x, backend=backend(change))
    assert [o.verdict for o in report.ops] == ["PASS", "PASS"]
    assert report.outputs is not None
    assert (report.outputs.verdict, report.verdict) == (expected, expected)
    assert f"the program as it stands: {expected}: output 0 differs in 3 of 3 elements" in str(report)
    assert bool(report.failures) == (expected == "FAIL")


def test_sampled_loops_end(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    loop = """%z = stablehlo.constant dense<10> : tensor<i64>
    %one = stablehlo.constant dense<1> : tensor<i64>
    %r = stablehlo.while(%j = %i) : tensor<i64> cond {
      %c = stablehlo.compare LT, %j, %z : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.add %j, %one : tensor<i64>
      stablehlo.return %k : tensor<i64>
    }
    return %r : tensor<i64>"""
    (tmp_path / "w.mlir").write_text(func("%i: tensor<i64>", "tensor<i64>", loop))
    seeds = [run_minihlo("diff", str(tmp_path / "w.mlir"), "minihlo", "--seed", str(seed)) for seed in range(3)]
    assert seeds == [0, 0, 0]
    assert "integers small as a loop takes more than 100,000 steps" in capfd.readouterr().out
    endless = loop.replace("compare LT, %j, %z", "compare EQ, %j, %j")
    (tmp_path / "w.mlir").write_text(func("%i: tensor<i64>", "tensor<i64>", endless))
    assert run_minihlo("diff", str(tmp_path / "w.mlir"), "minihlo") == 2  # nothing is compared
    assert capfd.readouterr().out.count("left out, as a loop takes more than 100,000 steps") == 2


def test_a_wrong_result_stays_wrong_when_a_later_execution_has_none() -> None:
    calls = []

    def change(program: str, results: Results) -> Results:
        if "stablehlo.negate" not in program:
            return results
        calls.append(program)
        if len(calls) > 1:
            raise BackendError("refused", "no more")
        return [r + r.dtype.type(1) for r in results]

    twice = """%z = stablehlo.constant dense<0> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %z, %v = %x) : tensor<i32>, tensor<2xi32> cond {
      %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.negate %v : tensor<2xi32>
      stablehlo.return %j, %w : tensor<i32>, tensor<2xi32>
    }
    return %r#1 : tensor<2xi32>"""
    report = interp.compare(
        func("%x: tensor<2xi32>", "tensor<2xi32>", twice), np.array([1, 2], np.int32), backend=backend(change)
    )
    assert [o.verdict for o in report.ops if o.op == "stablehlo.negate"] == ["FAIL"]


TINY = float(np.float32(2.0**-149))


@pytest.mark.parametrize(
    ("op", "y", "got", "reported"),
    [
        ("add", [TINY, 1, 2], [0, 1, 3], "DIVERGENT"),  # operands
        ("multiply", [2.0**-60, 1, 2], [0, TINY, 2], "DIVERGENT"),  # a result
        ("maximum", [2 * TINY, 1, 2], [TINY, 1, 2], "DIVERGENT"),  # compared as zeros, and kept
        ("remainder", [3 * TINY, 1, 2], [np.nan, TINY, 1], "DIVERGENT"),
        ("add", [TINY, 1, 2], [TINY * 3, 1, 3], "FAIL"),
        ("add", [TINY, 1, 2], [0, 1, 4], "FAIL"),  # of another fault too
    ],
)
def test_flushing_is_allowed_reported_or_forbidden(op: str, y: list, got: list, reported: str) -> None:
    body = f"%0 = stablehlo.{op} %x, %y : tensor<3xf32>\nreturn %0 : tensor<3xf32>"
    text = func("%x: tensor<3xf32>, %y: tensor<3xf32>", "tensor<3xf32>", body)
    x = np.array([2.0**-80 if op == "multiply" else TINY, TINY, 1], np.float32)
    inputs, planted = [x, np.array(y, np.float32)], gives(np.array(got, np.float32))
    found = {f: interp.compare(text, *inputs, backend=planted, flush=f) for f in ("allow", "report", "forbid")}
    is_flush = reported == "DIVERGENT"
    assert [r.verdict for r in found.values()] == ["PASS" if is_flush else "FAIL", reported, "FAIL"]
    line = f"subnormal numbers are taken as zero by 1 op (stablehlo.{op}); --flush forbid calls that a failure"
    assert (line in str(found["report"])) == is_flush
    with pytest.raises(interp.InputError, match="flush: expected one of allow, report, forbid, got 'never'"):
        interp.compare(text, *inputs, backend=planted, flush="never")


def test_minifloats_are_not_flushed() -> None:
    t = "tensor<1xf8E5M2>"
    text = func(f"%x: {t}", t, f"%0 = stablehlo.add %x, %x : {t}\nreturn %0 : {t}")
    x = np.array([1], np.uint8).view("float8_e5m2")
    assert interp.compare(text, x, backend=gives(np.array([0], np.uint8))).verdict == "FAIL"


def test_a_scalar_that_takes_its_initial_value_twice() -> None:
    v, t = "tensor<3xi32>", "tensor<i32>"
    total = f"stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : ({v}, {t}) -> {t}"
    text = func(f"%x: {v}", t, f"%z = stablehlo.constant dense<5> : {t}\n%r = {total}\nreturn %r : {t}")
    report = interp.compare(text, np.array([1, 2, 3], np.int32), backend=gives(np.array(16, np.int32)))
    assert report.ops[-1].verdict == "DIVERGENT"


def test_flushing_before_rounding_and_on_the_way() -> None:
    """0x3F66 * 0x8E is subnormal in f32, and rounds to the least normal bf16. The square of 2^-63.5 (1 + i) is
    2^-126 i, twice the product of the parts, which is subnormal.
    """
    t, c = "tensor<1xbf16>", "tensor<1xcomplex<f32>>"
    text = func(f"%x: {t}, %y: {t}", t, f"%0 = stablehlo.multiply %x, %y : {t}\nreturn %0 : {t}")
    x, y = (np.array([code], np.uint16).view("bfloat16") for code in (0x3F66, 0x8E))
    square = func(f"%x: {c}", c, f'%0 = "chlo.square"(%x) : ({c}) -> {c}\nreturn %0 : {c}')
    z = np.array([2.0**-63.5 * (1 + 1j)], np.complex64)
    for got, expected in ((0, "DIVERGENT"), (0x3F80, "FAIL")):
        assert verdict(text, [x, y], np.array([got], np.uint16))[0] == expected
    for got, expected in ((0, "DIVERGENT"), (1, "FAIL")):
        parts = [np.array([got], np.float32)] * 2
        assert interp.compare(square, z, backend=gives(*parts)).verdict == expected
