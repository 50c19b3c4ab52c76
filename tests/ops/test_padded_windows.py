"""Windows of which most is padding: the same bits as the fold of every place, without a step for each."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from minihlo.interp import load
from minihlo.ops.cast import cast
from minihlo.ops.policy import Policy
from minihlo.ops.reductions import padded_windows, window
from minihlo.ops.types import ELEMENT_TYPES

from ..run_op import TYPES, from_codes
from ..thinned import TYPICAL, thinned
from ..windows import SEED, Windows, program

KINDS = [t for t in TYPES if not t.is_complex]
FLOATS = ["add", "multiply", "maximum", "minimum", "subtract"]
BODIES = {op: f"%z = stablehlo.{op} %x, %y : T" for op in FLOATS} | {
    "turned": "%z = stablehlo.subtract %y, %x : T",
    "two ops": "%t = stablehlo.add %x, %x : T\n %z = stablehlo.subtract %t, %y : T",
    "or": "%z = stablehlo.or %x, %y : T",
}


def random_padding(rng: np.random.Generator) -> Windows:
    """Windows with more places than the operand, of one to three dimensions."""
    while True:
        rank = int(rng.integers(1, 4))
        shape, window, strides, base, dilation = (
            tuple(map(int, rng.integers(low, high, rank)))
            for low, high in ((0, 5), (1, 50 if rank == 1 else 8), (1, 4), (1, 6), (1, 4))
        )
        padding = tuple((int(a), int(b)) for a, b in rng.integers(-2, 60 if rank == 1 else 20, (rank, 2)))
        w = Windows(shape, window, strides, padding, base, dilation)
        if 0 < math.prod(w.counts) < 500:
            return w


def codes(result: np.ndarray) -> bytes:
    return np.ascontiguousarray(result).tobytes()


def by_steps(w: Windows, x: np.ndarray, init: np.ndarray, body: str, element: str) -> np.ndarray:
    """The body run as a program of its own, a step at a time for all windows."""
    count = math.prod(w.counts)
    t = f"tensor<{count}x{element}>"
    step = load(f"func.func @main(%x: {t}, %y: {t}) -> {t} {{ {body.replace(': T', f': {t}')}\n return %z : {t} }}")
    totals = np.broadcast_to(init, count).copy()
    for index in np.ndindex(w.window):
        at = [w.element(start, index) for start in np.ndindex(w.counts)]
        row = np.stack([init if a is None else x[a] for a in at])
        (totals,) = step(totals, row)
    return totals.reshape(w.counts)


@pytest.mark.parametrize(
    "element", thinned(KINDS, lambda t: t.name in (*TYPICAL, "f32", "bf16", "i1", "i8", "ui32", "i64")), ids=str
)
def test_the_bits_are_those_of_the_whole_fold(element: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every kind of initial value: neutral and not, zeros of both signs, infinities, NaN."""
    rng = np.random.default_rng(SEED)
    kind = str(element)
    names = ["or", "maximum", "add"] if kind == "i1" else [n for n in BODIES if n != "or" or not element.is_float]
    used = 0
    fold_padded = padded_windows.fold_padded

    def counted(*arguments: Any) -> Any:
        nonlocal used
        actual = fold_padded(*arguments)
        used += actual is not None
        return actual

    monkeypatch.setattr(padded_windows, "PLACES", 1)
    monkeypatch.setattr(padded_windows, "SHARE", 1)
    monkeypatch.setattr(window, "fold_padded", counted)
    for number in range(24):
        w, name = random_padding(rng), names[number % len(names)]
        values = np.array([0, 1, 2, 3, 0.5, -0.0, -1, np.inf, -np.inf, np.nan]) if element.is_float else None
        if values is None:
            some = from_codes(rng.integers(0, 2 if kind == "i1" else 1 << min(element.bits, 62), 64), element)
            init = np.zeros((), some.dtype) if number % 3 else some[0, ...]
        else:
            wide = ELEMENT_TYPES["f64"]
            some = cast(rng.choice(values, 64), wide, element, Policy())
            init = cast(values[number % 10, ...], wide, element, Policy())
        x = rng.choice(some, math.prod(w.shape)).reshape(w.shape)
        (actual,) = load(program(w, BODIES[name], kind))(x, init)
        assert codes(actual) == codes(by_steps(w, x, np.asarray(init), BODIES[name], kind)), (w, name, init)
    assert used > 8


def test_gaps_that_are_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PLACES": 1, "SHARE": 1, "_GAP": 1, "_STEPS": 3}.items():
        monkeypatch.setattr(padded_windows, name, value)
    rng = np.random.default_rng(SEED)
    for number in range(80):
        w, name = random_padding(rng), FLOATS[number % 5]
        x = rng.integers(-3, 4, w.shape).astype(np.float32)
        init = np.array(number % 3 - 1, np.float32)
        (actual,) = load(program(w, BODIES[name], "f32"))(x, init)
        assert codes(actual) == codes(by_steps(w, x, init, BODIES[name], "f32")), (w, name)


HUGE = Windows((100_000,), (10**9,), (1,), ((10**9 - 10**5, 10**5 - 1),), (1,), (1,))


@pytest.mark.parametrize("element", ["f32", "i32", "f8E4M3FN", "bf16"])
def test_a_window_of_1e9_places(element: str) -> None:
    """A step for each of 10^9 places of 10^5 windows would take days."""
    x = np.arange(100_000) % 7 - 3
    (t,) = (t for t in KINDS if str(t) == element)
    value = x.astype(t.dtype)
    (actual,) = load(program(HUGE, BODIES["maximum"], element))(value, np.array(-3).astype(t.dtype))
    assert actual.shape == (100_000,)
    assert (actual.astype(np.float64) == 3).all()
    w = dataclasses.replace(HUGE, padding=((0, 10**9 - 10**5 + 10),))
    (actual,) = load(program(w, BODIES["add"], "i32"))(x.astype(np.int32), np.array(0, np.int32))
    assert actual.tolist() == [x[k:].sum() for k in range(11)]


def test_windows_far_beyond_memory() -> None:
    w = Windows((2, 3), (10**12, 10**9), (10**9, 10**8), ((10**12, 5), (10**9, 0)), (10**11, 1), (1, 1))
    x = np.arange(1, 7, dtype=np.int32).reshape(2, 3)
    (actual,) = load(program(w, BODIES["add"]))(x, np.array(0, np.int32))
    assert actual.shape == w.counts
    for start in ((0, 0), (5, 0), (w.counts[0] - 1, w.counts[1] - 1)):
        inside = [
            x[i, j]
            for i in range(2)
            for j in range(3)
            if 0 <= i * 10**11 + 10**12 - start[0] * 10**9 < 10**12 and 0 <= j + 10**9 - start[1] * 10**8 < 10**9
        ]
        assert actual[start] == sum(inside)
