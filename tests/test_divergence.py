"""interp.compare: ops named where a backend goes wrong, and only these. Faults are planted, or known ones of XLA."""

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import BackendError, Minihlo
from minihlo.interp.conform.result import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED
from minihlo.interp.diff.report import OpReport, Report

SOURCE = Path(__file__).read_text().splitlines()
F8, FNUZ = jnp.float8_e4m3fn, jnp.float8_e4m3fnuz
Results = list[np.ndarray]


@dataclasses.dataclass
class Faulty:
    """minihlo with a fault in one op: where a program's text matches, its results are changed."""

    op: str  #: a regular expression
    change: Callable[[Results], Any]
    name: str = "faulty"

    def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> Any:
        results = Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)
        return self.change(results) if re.search(self.op, text) else results


def next_code(results: Results) -> Results:
    """The last element of the first result is one code, or number, larger."""
    first = results[0].copy()
    first.reshape(-1)[-1:] += first.dtype.type(1) if first.dtype != bool else first.reshape(-1)[-1:] ^ True
    return [first, *results[1:]]


def line_of(op: OpReport) -> str:
    assert op.location.file == __file__
    return SOURCE[op.location.line - 1].strip()


def verdicts(report: Report) -> list[str]:
    return [o.verdict for o in report.ops]


def sole_failure(report: Report) -> OpReport:
    assert [v for v in verdicts(report) if v != PASS] == [FAIL], str(report)
    return report.failures[0]


# -- planted faults ----------------------------------------------------------------------------------------------------

X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)


def model(x: Any, w: Any) -> Any:
    h = x.astype(F8) @ w.astype(F8)
    e = jnp.exp(h)  # here
    s = e + e  # and here
    m = jax.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c), s)  # and in a loop
    c = jax.lax.cond(m[0, 0] > 7, lambda v: -v, lambda v: jax.lax.abs(v), m)
    return jax.nn.relu(c).T, jnp.argsort(x, 1), x.sum(), x[:, ::2]


@pytest.mark.parametrize("how", ["op", "program"])
def test_without_a_fault_all_ops_pass(how: str) -> None:
    report = interp.compare(model, X, W, backend="minihlo", how=how)
    assert set(verdicts(report)) == {PASS}
    assert report.failures == []
    assert report.verdict == PASS
    assert [r.shape for r in report.results] == [(2, 4), (4, 6), (), (4, 3)]


#: What is wrong, and what stands in its line.
PLANTED = {
    r"stablehlo.dot_general": "h = x.astype",
    r"stablehlo.convert .*f32.* -> tensor<6x2xf8": "h = x.astype",
    r"stablehlo.exponential": "# here",
    r"stablehlo.add .*f8": "# and here",
    r"stablehlo.sine": "# and in a loop",
    r"stablehlo.abs": "jax.lax.cond",
    r"stablehlo.compare .*f8": "jax.lax.cond",
    r"stablehlo.maximum": "jax.nn.relu",  # in a function that JAX makes
    r"stablehlo.transpose": "jax.nn.relu",
    r"stablehlo.sort": "jnp.argsort",
    r"stablehlo.reduce\(": "x.sum",
    r"stablehlo.slice .*4x6xf32": "x[:, ::2]",
}


@pytest.mark.parametrize("op", PLANTED)
def test_a_backend_that_is_wrong_in_one_op(op: str) -> None:
    change = (lambda r: [2 * x for x in r]) if "reduce" in op else next_code
    report = interp.compare(model, X, W, backend=Faulty(op, change))
    failure = sole_failure(report)
    assert re.search(op.partition(" ")[0].rstrip("\\("), failure.op)
    assert PLANTED[op] in line_of(failure)
    if "sort" not in op and "reduce" not in op:
        assert f"{failure.elements // failure.executions} element" in str(report) or failure.executions > 1


@pytest.mark.parametrize("how", ["op", "program"])
def test_each_op_is_given_what_the_backend_has_computed(how: str) -> None:
    given: list[list[int]] = []

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> Results:
        if "stablehlo.multiply" in text:
            given.extend(a.tolist() for a in arrays)
        text = text.replace("stablehlo.add", "stablehlo.subtract")
        return Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)

    def f(x: Any, y: Any) -> Any:
        return (x + y) * y

    report = interp.compare(f, np.array([7]), np.array([2]), backend=evaluate, how=how)
    assert [o.verdict for o in report.ops] == [FAIL, PASS]
    assert report.results[0].tolist() == [10]  # (7 - 2) * 2
    assert given == ([[5], [2]] if how == "op" else [[7], [2]])


def test_one_wrong_code_of_65536_is_found_and_told() -> None:
    pairs = np.meshgrid(*[np.arange(256, dtype=np.uint8)] * 2, indexing="ij")
    x, y = (p.ravel().view(F8) for p in pairs)
    at = 0x38 << 8 | 0x40  # 1 + 2

    def change(results: Results) -> Results:
        if results[0].size != 65536:  # of a part it is wrong too
            return [results[0] + np.uint8(results[0].size == 1)]
        found = results[0].copy()
        found[at] += 1
        return [found]

    failure = sole_failure(interp.compare(lambda a, b: a + b, x, y, backend=Faulty("stablehlo.add", change)))
    assert (failure.differing, failure.elements, dict(failure.histogram)) == (1, 65536, {1.0: 1})
    (example,) = failure.worst
    assert example.index == (at,)
    assert example.operands == ("0x38 = 1 : f8E4M3FN", "0x40 = 2 : f8E4M3FN")
    assert (example.got, example.expected, example.ulp) == ("0x45 = 3.25", "0x44 = 3", 1)
    assert failure.input_values == ["1xf8E4M3FN=[0x38]", "1xf8E4M3FN=[0x40]"]
    assert interp.load(failure.program)(*failure.inputs)[0].tolist() == [3]


def test_a_fault_that_a_part_does_not_show_is_told_with_all_operands(tmp_path: Path) -> None:
    def change(results: Results) -> Results:
        return next_code(results) if results[0].size == 100 else results

    x = np.arange(100, dtype=np.float32)
    failure = sole_failure(interp.compare(jnp.negative, x, backend=Faulty("stablehlo.negate", change)))
    assert "tensor<100xf32>" in failure.program
    assert failure.input_values == ["@input0.npy"]
    failure.save(tmp_path)
    assert np.array_equal(np.load(tmp_path / "input0.npy"), x)
    assert (tmp_path / "op.mlir").read_text() == failure.program


def test_what_a_backend_does_not_do_is_told_and_our_result_taken() -> None:
    def refuse(_: Results) -> Any:
        raise NotImplementedError("no exponential")

    def crash(_: Results) -> Any:
        raise RuntimeError("boom")

    report = interp.compare(model, X, W, backend=Faulty("stablehlo.exponential", refuse))
    assert {o.op: o.verdict for o in report.ops if o.verdict != PASS} == {"stablehlo.exponential": UNSUPPORTED}
    assert report.failures == []
    assert "no exponential" in str(report)
    report = interp.compare(model, X, W, backend=Faulty("stablehlo.exponential", crash))
    assert [(o.op, o.verdict) for o in report.failures] == [("stablehlo.exponential", CRASH)]
    assert "RuntimeError: boom" in str(report)


def test_results_of_other_types() -> None:
    def reshaped(results: Results) -> Results:
        return [results[0].T]

    def none(_: Results) -> Results:
        return []

    x = np.zeros((2, 3), np.float32)
    failure = sole_failure(interp.compare(jnp.sin, x, backend=Faulty("stablehlo.sine", reshaped)))
    assert failure.notes == ["gives f32[3, 2] where f32[2, 3] is right"]
    report = interp.compare(jnp.sin, x, backend=Faulty("stablehlo.sine", none))
    assert [o.verdict for o in report.failures] == [CRASH]


def test_an_op_of_a_loop_is_counted_over_its_turns() -> None:
    def f(x: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda i, c: c * i, x)

    x = np.ones(3, F8)
    failure = sole_failure(interp.compare(f, x, backend=Faulty(r"stablehlo.multiply .*f8", next_code)))
    assert (failure.executions, failure.elements, failure.differing) == (5, 15, 5)
    assert "5 of 15 elements in 5 executions differ" in str(failure.text("faulty"))
    report = interp.compare(f, x, backend="minihlo", turns=2)
    assert {o.op: o.executions for o in report.ops}["stablehlo.multiply"] == 2
    assert "examined for 2 turns" in next(o for o in report.ops if o.op == "stablehlo.while").notes[0]
    assert report.results[0].tolist() == [0, 0, 0]


def test_faults_of_ops_compiled_together() -> None:
    """A backend that keeps a sum unrounded where it is multiplied on: nothing an op alone shows."""

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> Results:
        results = Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)
        if "stablehlo.add" in text and "stablehlo.multiply" in text:
            x = arrays[0].view(F8).astype(np.float32)
            results[-1] = ((x + np.float32(1)) * np.float32(3)).astype(F8).view(np.uint8)
        return results

    def f(x: Any) -> Any:
        y = x + F8(1)
        return y * F8(3)  # of what is not rounded

    x = np.array([16, 17, 18, 9.0]).astype(F8)
    assert verdicts(interp.compare(f, x, backend=evaluate)) == [PASS] * 4
    failure = sole_failure(interp.compare(f, x, backend=evaluate, how="program"))
    assert "# of what is not rounded" in line_of(failure)
    assert failure.op == "stablehlo.multiply"
    assert re.fullmatch(r"as if the result of stablehlo.add \(.*\) had not been rounded before", failure.notes[0])


# -- what is right in more than one way --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["op", "program"])
def test_sums_of_any_order_are_right(how: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return x @ w, x.sum(0), jnp.cumsum(x, 0), jnp.convolve(x[:, 0], w[0])

    x = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    w = np.random.default_rng(1).normal(size=(50, 40)).astype(np.float32)
    assert set(verdicts(interp.compare(f, x, w, how=how))) == {PASS}
    assert set(verdicts(interp.compare(f, x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), how=how))) <= {PASS, ACCURACY}


@pytest.mark.parametrize("size", [2, 30])
def test_and_wrong_ones_are_not(size: int) -> None:
    x = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    for dtype, by in ((np.float32, 512), (jnp.bfloat16, 1), (FNUZ, 1)):
        backend = Faulty("stablehlo.dot_general", lambda r, by=by: [r[0] + r[0].dtype.type(by)])
        failure = sole_failure(interp.compare(jnp.dot, x.astype(dtype), x.astype(dtype), backend=backend))
        assert failure.differing > 0.5 * size * size


def test_sums_rounded_at_each_step_are_known() -> None:
    x = np.random.default_rng(0).normal(size=(5, 9)).astype(F8)
    (op,) = interp.compare(lambda a: a @ a.T, x, backend="minihlo").ops[-1:]
    assert op.verdict == PASS
    stepwise = Minihlo("stepwise", interp.Policy(accumulate="element"))
    (op,) = interp.compare(lambda a: a @ a.T, x, backend=stepwise).ops[-1:]
    assert op.verdict == ACCURACY
    assert op.notes == ["as if products and sums rounded in f8E4M3FN in order"]


def test_products_of_narrower_operands_are_known() -> None:
    def evaluate(_: str, arrays: Sequence[np.ndarray]) -> Results:
        x, y = (a.view(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32) for a in arrays)
        return [(x @ y).view(np.uint32)]

    x = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    (op,) = interp.compare(jnp.dot, x, x[::-1], backend=evaluate).ops
    assert op.verdict == ACCURACY
    assert op.notes == ["as of operands rounded to bf16, which the default precision permits"]
    precise = functools.partial(jnp.dot, precision="highest")
    assert interp.compare(precise, x, x[::-1], backend=evaluate).verdict == FAIL


def test_functions_have_limits() -> None:
    x = np.linspace(0.15, 5.05, 50, dtype=np.float32)  # 1 is not among them, whose logarithm is a number

    def off(by: int) -> Faulty:
        return Faulty("stablehlo.log", lambda r: [r[0] + np.uint32(by)])

    assert sorted({*verdicts(interp.compare(jnp.log, x, backend=off(3)))}) == [ACCURACY]
    assert sole_failure(interp.compare(jnp.log, x, backend=off(100))).histogram == {100.0: 50}


def test_minifloat_functions_may_be_rounded_to_f16_first_and_no_more() -> None:
    x = np.arange(256, dtype=np.uint8).view(FNUZ)

    def through(dtype: Any) -> Callable[[str, Sequence[np.ndarray]], Results]:
        def evaluate(_: str, arrays: Sequence[np.ndarray]) -> Results:
            y = np.exp(arrays[0].view(FNUZ).astype(np.float64)).astype(dtype)
            return [y.astype(np.float32).astype(FNUZ).view(np.uint8)]

        return evaluate

    with np.errstate(all="ignore"):
        assert interp.compare(jnp.exp, x, backend=through(np.float32)).verdict in (PASS, ACCURACY)
        assert interp.compare(jnp.exp, x, backend=through(np.float16)).verdict in (PASS, ACCURACY)
        assert interp.compare(jnp.exp, x, backend=through(ml_dtypes.float8_e5m2)).verdict == FAIL


def test_what_formats_leave_open() -> None:
    """Each point of the table, with the codes of other implementations, and one that none of them gives."""
    from minihlo.interp.comparison.grades import OPEN, SAME, WRONG, graded
    from minihlo.interp.comparison.left_open import grade_open
    from minihlo.interp.diff.source import Source
    from minihlo.ops.minifloat.open_points import OPEN_POINTS
    from minihlo.ops.types import ELEMENT_TYPES

    for point in OPEN_POINTS:
        source, target = ELEMENT_TYPES[point.operand_type], ELEMENT_TYPES[point.result_type]
        named = [f"%{i}" for i in range(len(point.operands))]
        text = f"""func.func @main({", ".join(f"{n}: tensor<1x{source}>" for n in named)}) -> tensor<1x{target}> {{
          %r = "stablehlo.{point.op}"({", ".join(named)}) : ({", ".join([f"tensor<1x{source}>"] * len(named))})
            -> tensor<1x{target}>
          return %r : tensor<1x{target}>
        }}"""
        program = Source.of_text(text, "point.mlir")
        assert program.function.body is not None
        operation = program.function.body.operations[0]
        operands = [np.array([c], source.format.code_dtype).view(source.dtype) for c in point.operands]
        ours = np.array([point.code], target.format.code_dtype).view(target.dtype)
        for code in {*point.others.values(), point.code ^ 1} - {point.code}:
            theirs = np.array([code], target.format.code_dtype).view(target.dtype)
            found = graded(theirs, ours)
            if found.worst == SAME:  # both are NaN
                continue
            grade_open(operation, operands, theirs, ours, found)
            if point.result_type == "f8E4M3FN":  # what is open there is the sign of NaN, not whether it is one
                assert found.worst == WRONG
                continue
            assert found.grades.tolist() == [OPEN], point
            assert [n.identifier for n in found.notes] == [point.identifier]


def test_what_ops_leave_open() -> None:
    def swapped(results: Results) -> Results:
        return [np.where(results[0] == 0, 0x80000000, 0).astype(np.uint32)]

    zeros = np.array([0.0, -0.0], np.float32)
    report = interp.compare(jnp.maximum, zeros, zeros[::-1], backend=Faulty("stablehlo.maximum", swapped))
    assert [o.verdict for o in report.ops] == [DIVERGENT]
    x = np.array([np.nan, 1e20, -1e20, 3], np.float32)
    other = Faulty("stablehlo.convert", lambda r: [np.array([7, 7, 7, 3], np.int8)])
    assert interp.compare(lambda a: a.astype(jnp.int8), x, backend=other).verdict == DIVERGENT
    wrong = Faulty("stablehlo.convert", lambda r: [np.array([7, 7, 7, 4], np.int8)])
    assert interp.compare(lambda a: a.astype(jnp.int8), x, backend=wrong).verdict == FAIL
    by_zero = Faulty("stablehlo.divide", lambda r: [r[0] * 0 + 9])
    one, none = np.ones(2, np.int32), np.zeros(2, np.int32)
    assert interp.compare(jax.lax.div, one, none, backend=by_zero).verdict == DIVERGENT
    assert interp.compare(jax.lax.div, one, one, backend=by_zero).verdict == FAIL


# -- XLA's CPU compiler, of which tools/divergences.toml tells the faults ----------------------------------------------


def test_faults_of_xla_are_named_with_their_lines() -> None:
    def f(a: Any, b: Any, c: Any, d: Any) -> Any:
        whole = a.astype(jnp.int32)  # 6 becomes the largest integer
        double = b + b  # 2**-127 is taken for 0
        square = c * c  # 1e-40 is flushed
        return whole, double, square, jnp.exp(c), d.astype(jnp.float8_e8m0fnu)  # rounded twice

    numbers = np.array([1e-20, 2, -1, 0], np.float32)
    report = interp.compare(
        f,
        np.arange(-6, 7).astype(jnp.float4_e2m1fn),
        np.arange(3, dtype=np.uint8).view(jnp.float8_e8m0fnu),
        numbers,
        np.array([3, 25165823, 5], np.int32),
    )
    failures = report.failures
    assert [line_of(o).partition("# ")[2] for o in failures] == [
        "6 becomes the largest integer",
        "2**-127 is taken for 0",
        "1e-40 is flushed",
        "rounded twice",
    ]
    assert [o.notes for o in failures] == [
        ["the limits of the integer type are rounded to the format before the number is compared with them"],
        ["operands that are subnormal are flushed to zero"],
        ["results that are subnormal are flushed to zero"],
        ["the result is rounded twice, to f32 first"],
    ]
    assert {o.verdict for o in report.ops} <= {PASS, ACCURACY, FAIL}


def test_a_training_step_in_f8_agrees_with_xla() -> None:
    def loss(w: Any, x: Any) -> Any:
        h = jax.nn.relu((x.astype(FNUZ) @ w["a"].astype(FNUZ)).astype(jnp.float32))
        return ((h.astype(FNUZ) @ w["b"].astype(FNUZ)).astype(jnp.float32) ** 2).mean()

    def step(w: Any, x: Any) -> Any:
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w, x))

    w = {"a": X.T[:, :3] / 4, "b": W[:3]}
    report = interp.compare(step, w, X)
    assert report.failures == [], str(report)
    assert len(report.ops) > 20


def test_a_library_without_programs() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x + y) @ y.T, jnp.exp(x), x > y, jnp.where(x > 0, x, y).astype(jnp.bfloat16).sum()

    x = np.random.default_rng(0).normal(size=(3, 4)).astype(F8)
    report = interp.compare(f, x, x[::-1], backend="ml_dtypes")
    found = {o.op.removeprefix("stablehlo."): o.verdict for o in report.ops}
    assert {o for o, v in found.items() if v == UNSUPPORTED} == {"broadcast_in_dim", "transpose", "reduce"}
    assert {v for v in found.values() if v != UNSUPPORTED} <= {PASS, ACCURACY}
    assert {"add", "exponential", "compare", "select", "convert"} <= found.keys()


# -- what can be compared, and how it is said --------------------------------------------------------------------------

PROGRAM = """
func.func @main(%x: tensor<?xf32>, %n: tensor<i32>) -> tensor<?xf32> {
  %y = stablehlo.exponential %x : tensor<?xf32>
  %z = func.call @twice(%y) : (tensor<?xf32>) -> tensor<?xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %n, %v = %z) : tensor<i32>, tensor<?xf32>
    cond {
      %p = stablehlo.compare GT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.subtract %i, %one : tensor<i32>
      %w = stablehlo.negate %v : tensor<?xf32>
      stablehlo.return %j, %w : tensor<i32>, tensor<?xf32>
    }
  return %r#1 : tensor<?xf32>
}
func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = stablehlo.add %x, %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""


def test_programs_of_text_and_of_any_sizes(tmp_path: Path) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(PROGRAM)
    for program in (PROGRAM, path, str(path), PROGRAM.encode()):
        for how in ("op", "program"):
            report = interp.compare(program, np.zeros(3, np.float32), np.int32(3), how=how)
            assert set(verdicts(report)) == {PASS}
            assert report.results[0].tolist() == [2, 2, 2]
    report = interp.compare(str(path), np.zeros(3, np.float32), 3, backend=Faulty("stablehlo.negate", next_code))
    failure = sole_failure(report)
    assert str(failure.location) == f"{path}:12:12"
    assert failure.executions == 2


def test_a_diagnosis_explains_all_results_or_is_none() -> None:
    x = np.arange(256, dtype=np.uint8).view(F8)
    y = np.full(256, 4, np.float32).astype(F8)

    def faulty(change: Callable[[np.ndarray], Any]) -> list[str]:
        backend = Faulty("stablehlo.multiply", lambda r: [np.asarray(change(r[0]), np.uint8)])
        return sole_failure(interp.compare(jnp.multiply, x, y, backend=backend)).notes

    exact = x.astype(np.float32) * 4
    largest = np.where(np.signbit(exact), 0xFE, 0x7E)
    beyond = np.abs(exact) > 464
    assert faulty(lambda r: np.where(beyond, largest, r)) == [
        "what is beyond the largest number becomes the largest number"
    ]
    assert faulty(lambda r: np.where(beyond & (exact < 0), largest, r)) == [
        "what is below the lowest number becomes the lowest number"
    ]
    small = (np.abs(exact) < 2.0**-6) & (exact != 0)
    flushed = ["results that are subnormal are flushed to zero"]
    assert faulty(lambda r: np.where(small, r & 0x80, r)) == flushed
    first = int(np.flatnonzero(small)[0])
    for change in (lambda r: np.where(np.arange(256) == first, r & 0x80, r), lambda r: np.where(r == 0x3A, 0x3B, r)):
        assert flushed != faulty(change) == []
    assert faulty(lambda r: np.where(np.arange(256) % 16 == 15, 1, r)) == [
        "all wrong results are at indices of dimension 0 that are 15 modulo 16"
    ]


def test_ops_that_are_wrong_in_the_same_way_are_told_together() -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = x * x  # again
        return x + x

    x = np.ones(8, np.float32)
    report = interp.compare(f, x, backend=Faulty("stablehlo.multiply", lambda r: [r[0] + np.uint32(64)]))
    assert len(report.failures) == 20
    text = str(report)
    assert text.count("to reproduce it") == 1
    assert "the same in 19 more ops:" in text
    assert text.count("8 of 8 elements differ: 8 by 64 ULP") == 20
    assert len(report.data()["ops"]) == 21


def test_static_arguments_and_jitted_functions() -> None:
    def f(x: Any, n: int, *, k: int = 1) -> Any:
        return jnp.tile(x, n) * k

    x = np.arange(2, dtype=np.float32)
    for report in (
        interp.compare(f, x, 3, static_argnums=1, k=2),
        interp.compare(jax.jit(f, static_argnums=1), x, 3, k=2),
        interp.compare(jax.jit(f, static_argnames=("n", "k")), x, n=3, k=2),
        interp.compare(interp.jit(f, static_argnums=1), x, 3, k=2),
    ):
        assert report.results[0].tolist() == [0, 2] * 3
    key = jax.random.key(0)
    assert interp.compare(jax.random.normal, key, (3,), static_argnums=1).failures == []


def test_how_a_report_reads() -> None:
    def f(x: Any) -> Any:
        return x + x  # this line

    report = interp.compare(f, np.array([1.0, 2.0]).astype(F8), backend=Faulty("stablehlo.add", next_code))
    assert line_of(report.ops[0]) == "return x + x  # this line"
    assert (
        str(report)
        == f"""faulty, each op by itself, on the operands that the backend has computed
1 op: 1 FAIL

FAIL  {report.ops[0].location}: return x + x  # this line
  stablehlo.add (tensor<2xf8E4M3FN>, tensor<2xf8E4M3FN>) -> tensor<2xf8E4M3FN>
  1 of 2 elements differs by 1 ULP
    [1] (0x40 = 2 : f8E4M3FN, 0x40 = 2 : f8E4M3FN) gives 0x49 = 4.5, exact 0x48 = 4 (1 ULP)
  to reproduce it: minihlo diff op.mlir faulty --input '1xf8E4M3FN=[0x40]'
    func.func @main(%arg0: tensor<1xf8E4M3FN>) -> tensor<1xf8E4M3FN> {{
      %0 = stablehlo.add %arg0, %arg0 : tensor<1xf8E4M3FN>
      return %0 : tensor<1xf8E4M3FN>
    }}"""
    )


def test_errors() -> None:
    x = np.zeros(2, np.float32)
    for arguments, options, message in (
        ((jnp.sin, x), {"backend": "nothing"}, r"^there is no backend and no platform of JAX 'nothing' \("),
        ((jnp.sin, x), {"backend": 3}, r"^expected a backend \(an object with a method evaluate\), got int$"),
        ((jnp.sin, x), {"backend": "ml_dtypes", "how": "program"}, "^ml_dtypes takes single operations, no programs"),
        ((jnp.sin, x), {"how": "well"}, r"^how: expected one of op, program, got 'well'$"),
        ((jnp.sin, x), {"turns": 0}, "^turns: expected at least 1, got 0$"),
        ((3, x), {}, "^expected a function or a program, got int$"),
        ((PROGRAM, x), {}, r"@main takes 2 inputs \(tensor<\?xf32>, tensor<i32>\), got 1$"),
        ((interp.load(PROGRAM), x, 1), {}, "^a loaded program cannot be compared"),
        ((PROGRAM, x, 1), {"static_argnums": 1}, "^a program takes arrays only"),
        ((jax.jit(jnp.sin), x), {"static_argnums": 1}, "^the function is jitted already"),
    ):
        with pytest.raises(interp.InputError, match=message):
            interp.compare(*arguments, **options)

    def absent(*_: Any) -> Any:
        raise BackendError("absent", "it is not there")

    with pytest.raises(BackendError, match="not there"):
        interp.compare(jnp.sin, x, backend=absent)
