"""interp.compare: what is right in more than one way, and known faults of XLA's CPU compiler."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import Minihlo
from minihlo.interp.conform.result import ACCURACY, DIVERGENT, FAIL, PASS, UNSUPPORTED

from .divergence_cases import F8, FNUZ, Faulty, Results, W, X, line_of, sole_failure, verdicts


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


def test_functions_may_be_rounded_by_f16() -> None:
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
    from minihlo.interp.diff.source import Source
    from minihlo.interp.judging.equality import grade_by_equality
    from minihlo.interp.judging.left_open import grade_open
    from minihlo.interp.judging.record import OPEN, SAME, WRONG
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
            actual = grade_by_equality(theirs, ours)
            if actual.worst == SAME:  # both are NaN
                continue
            grade_open(operation, operands, theirs, ours, actual)
            if point.result_type == "f8E4M3FN":  # what is open there is the sign of NaN, not whether it is one
                assert actual.worst == WRONG
                continue
            assert actual.grades.tolist() == [OPEN], point
            assert [n.identifier for n in actual.notes] == [point.identifier]


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
        flush="forbid",
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
    actual = {o.op.removeprefix("stablehlo."): o.verdict for o in report.ops}
    assert {o for o, v in actual.items() if v == UNSUPPORTED} == {"broadcast_in_dim", "transpose", "reduce"}
    assert {v for v in actual.values() if v != UNSUPPORTED} <= {PASS, ACCURACY}
    assert {"add", "exponential", "compare", "select", "convert"} <= actual.keys()
