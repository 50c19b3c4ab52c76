"""Chains of groups and reductions over the same rows run as one program, with the bits that they have op by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import choose, planner
from minihlo.ops.engine import compiled
from minihlo.ops.engine.fast import row_run
from minihlo.ops.engine.speed import NONE, Speed
from minihlo.ops.policy import Policy
from minihlo.ops.types import type_of_dtype

from ..conftest import Tune, tuned
from .test_random_loops import check as check_loop

F32, BF16, F16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
FNUZ, FN = np.dtype(ml_dtypes.float8_e4m3fnuz), np.dtype(ml_dtypes.float8_e4m3fn)
_PLAIN = Policy()


@pytest.fixture(params=["compiled", "numpy", "step by step"])
def ran(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[Any]:
    """Row programs run by compiled code, as numpy does what that leaves to it, or op by op; gives those that ran."""
    tune(compiled_from=1, compiled_worth=0, group_call_cost=1 << 20, fuse_many=0)
    tune(fast_from=1, fast_few=1, row_few=1, fast_short=1, fast_elements=64, fast_line=1, fast_wide=24, fast_alone=0)
    programs: list[Any] = []
    run = row_run.RowRunner.run_rows

    def counted(self: Any, values: Sequence[np.ndarray], outputs: Sequence[row_run.Output]) -> Any:
        results = run(self, values, outputs)
        programs.append(results is not None)
        return results

    def whole(self: Any, values: Sequence[np.ndarray], outputs: Sequence[row_run.Output]) -> Any:
        programs.append(True)
        results = [np.empty(o.shape, o.dtype) for o in outputs]
        self._is_row = [o.is_row for o in outputs]
        for i in range(-(-self._rows // 3)):
            self.by_numpy(i, (3, self._columns), self._laid(values), results, np.zeros(0, np.float32), None)
        return results

    if request.param == "compiled":
        if not compiled.is_available():
            pytest.skip("numba is not installed")
        monkeypatch.setattr(row_run.RowRunner, "run_rows", counted)
        return programs
    for module in (planner, choose):
        monkeypatch.setattr(module, "is_available", lambda: True)
    if request.param == "numpy":
        monkeypatch.setattr(row_run.RowRunner, "run_rows", whole)
    else:
        programs.append(True)
        monkeypatch.setattr(row_run, "machine", lambda _: None)
    return programs


def bits(x: np.ndarray) -> bytes:
    """Of two NaN it is the processor's choice which one an op hands on."""
    element = type_of_dtype(x.dtype)
    if element.is_float and element.bits >= 16:
        x = np.where(np.isnan(x), np.array(np.nan).astype(x.dtype), x)
    return x.tobytes()


def check(f: Callable[..., Any], *arrays: np.ndarray, policy: Policy = _PLAIN) -> str:
    """Compare with op by op; gives the listing of the plan."""
    text = jax.jit(f, keep_unused=True).lower(*[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]).as_text()
    program = interp.load(text).program
    plans = [planner.plan(program, policy=policy, speed=tuned(s)) for s in (Speed(), NONE)]
    with np.errstate(all="ignore"):
        result, wanted = (machine.run(plan, list(arrays)) for plan in plans)
    assert [(r.dtype, r.shape, bits(r)) for r in result] == [(r.dtype, r.shape, bits(r)) for r in wanted], text
    return " ".join(source.text for source in plans[0].sources.values())


def numbers(dtype: np.dtype, shape: tuple[int, ...], seed: int = 0, special: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * 2).astype(np.float32)
    flat = x.reshape(-1)
    if special:
        flat[rng.integers(0, x.size, x.size // 9)] = rng.choice([0.0, -0.0, 1e-40, -3e-39, 65000.0], x.size // 9)
        flat[rng.integers(0, x.size, 2)] = rng.choice([np.nan, np.inf, -np.inf], 2)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def wide(x: Any) -> Any:
    return x.astype(jnp.float32)


def softmax(x: Any) -> Any:
    return jax.nn.softmax(wide(x) if x.dtype.itemsize == 1 else x, axis=-1).astype(x.dtype)


def layer_norm(x: Any, gain: Any = None, axes: Any = -1) -> Any:
    y = wide(x)
    centred = y - y.mean(axes, keepdims=True)
    normal = centred * jax.lax.rsqrt((centred * centred).mean(axes, keepdims=True) + 1e-5)
    return (normal if gain is None else normal * wide(gain)).astype(x.dtype)


def rms_norm(x: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(1e-3))


def quantized(x: Any) -> Any:
    scale = jnp.max(jnp.abs(wide(x)), -1, keepdims=True) / 240
    return (wide(x) / scale).astype(FNUZ), scale


def statistics(x: Any) -> Any:
    y = wide(x)
    return y.max(-1), y.min(-1), y.mean(-1), y.var(-1, keepdims=True)


def gradient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: jax.grad(lambda y: (wide(f(y)) * jnp.arange(x.shape[-1], dtype=jnp.float32)).sum())(x)


ONE = {
    "softmax": softmax,
    "log_softmax": lambda x: jax.nn.log_softmax(wide(x)),
    "logsumexp": lambda x: jax.nn.logsumexp(wide(x), axis=-1),
    "layer norm": layer_norm,
    "rms norm": rms_norm,
    "statistics": statistics,
    "quantized": quantized,
    "sums": lambda x: (
        (x - x.dtype.type(0.5)) * jax.lax.reduce(x, x.dtype.type(0.25), jax.lax.add, (x.ndim - 1,))[..., None]
    ),
    "masked softmax": lambda x: softmax(jnp.where(jnp.arange(x.shape[-1]) < 3, x, x.dtype.type(-7))),
    "gradient of softmax": gradient(softmax),
    "gradient of layer norm": gradient(layer_norm),
    "gradient of rms norm": gradient(rms_norm),
}


@pytest.mark.parametrize("dtype", [F32, BF16, F16, FNUZ], ids=str)
@pytest.mark.parametrize("name", ONE)
def test_chains(ran: list[Any], name: str, dtype: np.dtype) -> None:
    if dtype.itemsize == 1 and name.endswith(("rms norm", "sums")):
        pytest.skip("its sums are of few bits")
    # Functions of 16 bits are tables for the machine, which have to be worth making.
    large = (130, 530) if dtype.itemsize == 2 else (21, 37)
    check(ONE[name], numbers(dtype, large, 0, special=True))
    check(ONE[name], numbers(dtype, (2, 9, 5), 1, special=False))
    assert any(ran)


@pytest.mark.parametrize("dtype", [F32, BF16, FN], ids=str)
def test_rows_of_several_dimensions_and_gains_along_them(ran: list[Any], dtype: np.dtype) -> None:
    x, gain = numbers(dtype, (3, 2, 4, 5)), numbers(dtype, (4, 5), 1)
    check(lambda x, g: layer_norm(x, g, (-2, -1)), x, gain)
    check(lambda x, g: layer_norm(x, g[0], -1), x, gain)
    assert any(ran)


def test_a_mask_that_rows_share_and_scores_that_lie_the_other_way_round(ran: list[Any]) -> None:
    x, mask = numbers(F32, (3, 4, 6, 6)), numbers(F32, (6, 6), 1, False) > 0
    check(lambda x, m: softmax(jnp.where(m, x, -1e9)), x, mask)
    check(lambda x, m: softmax(jnp.where(m, x.transpose(0, 1, 3, 2), -1e9)), x, mask)
    assert any(ran)


@pytest.mark.parametrize("rounding", ["toward_zero", "up", "down", "nearest_away"])
def test_other_roundings(ran: list[Any], rounding: str) -> None:
    for dtype in (F32, BF16, F16, FNUZ):
        for name in ("softmax", "sums", "quantized"):
            if dtype.itemsize > 1 or name != "sums":
                check(ONE[name], numbers(dtype, (9, 11)), policy=Policy(rounding=rounding))
    assert ran


def test_numbers_for_rows_along_columns_are_no_part_of_the_rows(ran: list[Any]) -> None:
    """A square tells rows from columns by nothing but where the numbers lie."""

    def f(x: Any) -> Any:
        m = x.max(-1)
        e = jnp.exp(x - m[:, None])
        return e / e.sum(-1)[None, :], e * m[None, :]

    check(f, numbers(F32, (6, 6), 0, False))
    assert any(ran)


def test_what_others_need_between_the_ops_of_a_chain(ran: list[Any]) -> None:
    """A sort takes a part of a chain, and the chain goes on with what the sort gives: that is another chain."""

    def f(x: Any) -> Any:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        s = jnp.sort(e, -1)
        t = (s + e) / s.sum(-1, keepdims=True)
        return t - t.max(-1, keepdims=True), e.sum(-1)

    check(f, numbers(F32, (11, 7), 0, False))
    assert any(ran)


def test_exponentials_that_compiled_code_cannot_round(tune: Tune) -> None:
    """Blocks in which one stands near the middle between two numbers are left to numpy."""
    if not compiled.is_available():
        pytest.skip("numba is not installed")
    tune(compiled_from=1, compiled_worth=0, fast_elements=64, fast_line=1, row_few=1)
    x = np.linspace(-80, 80, 64 * 1024).astype(np.float32).reshape(-1, 16)
    check(lambda x: (lambda e: (e * 2 - e.sum(-1, keepdims=True), e.max(-1)))(jnp.exp(x)), x)


def random_function(seed: int) -> Callable[..., Any]:
    def f(x: Any, y: Any, r: Any) -> Any:
        rng = np.random.default_rng(seed)
        full, rows = [x, y], [r]

        def some(values: Sequence[Any]) -> Any:
            return values[int(rng.integers(max(len(values) - 4, 0), len(values)))]

        for _ in range(rng.integers(6, 22)):
            kind, a, b, s = rng.integers(9), some(full), some(full), some(rows)
            if kind <= 1:
                full.append(some([jnp.add, jnp.subtract, jnp.multiply, jnp.maximum])(a, b))
            elif kind <= 3:
                op = some([jnp.add, jnp.subtract, jnp.multiply, jnp.minimum])
                full.append(op(a, s[:, None]) if rng.random() < 0.8 else op(s[None, :], a))
            elif kind <= 5:
                rows.append(some([jnp.sum, jnp.max, jnp.min])(a, -1))
            elif kind == 6:
                rows.append(jnp.abs(s) + some(rows))
            elif kind == 7:
                full.append(some([jnp.exp, jnp.abs, jnp.negative])(a * 0.5))
            else:
                full.append([lambda v: v.T, lambda v: v[::-1], lambda v: jnp.sort(v, -1)][rng.integers(3)](a))
        return *full[-3:], *rows[-2:]

    return f


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("seed", range(9))
def test_random_programs(seed: int) -> None:
    arrays = numbers(F32, (9, 9), 0, False), numbers(F32, (9, 9), 1, False), numbers(F32, (9,), 2, False)
    check(random_function(seed), *arrays)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("seed", range(9, 60))
def test_more_random_programs(seed: int) -> None:
    test_random_programs(seed)


@pytest.mark.usefixtures("ran")
def test_a_number_for_each_row_that_is_needed_along_the_row() -> None:
    """The largest of a row, laid along it before it is squared, is no output of a program."""

    def f(x: Any) -> Any:
        along = [jnp.broadcast_to(r(x, axis=-1, keepdims=True), x.shape) for r in (jnp.max, jnp.sum)]
        return along[0] * along[0], x - along[1], (x / along[1]).sum(-1)

    check(f, numbers(F32, (13, 70)))


def test_a_table_with_a_table_in_it() -> None:
    """A step of a program that is a lookup table is computed by steps of which one is a lookup table."""
    check_loop(6740)
