"""Functions of f32 by compiled code: numpy's bits, which are correctly rounded, for all kinds of numbers."""

from __future__ import annotations

import ctypes
import importlib

import mpmath
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine import compiled
from minihlo.ops.engine.fast import opcodes, run
from minihlo.ops.engine.native import functions
from minihlo.ops.engine.speed import Speed
from minihlo.ops.op import lookup

from .. import oracle
from ..conftest import Tune, tuned

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")

F32 = oracle.FORMATS["f32"]
NAMES = ["rsqrt", "exponential", "exponential_minus_one", "log", "log_plus_one", "tanh", "logistic", "sine", "cosine"]
#: Of either sign: zero, subnormal and normal numbers and their ends, one and its neighbours, where exp ends, the
#: largest angle, infinity, NaN.
CODES = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x33800000, 0x3F7FFFFE, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x42B17217,
     0x42B17218, 0x42AEAC50, 0x42CE8ECF, 0x42CFF1B5, 0x49800000, 0x49800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000,
     0x7FC12345, 0x7F812345],
    np.uint32,
)  # fmt: skip
SPECIAL = np.concatenate([CODES, CODES | 0x80000000]).view(np.float32)


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[int]:
    """All groups are for compiled code; gives the blocks that were left to numpy."""
    tune(compiled_worth=0, fast_from=1, fast_few=1, fast_short=1, block=64)
    blocks: list[int] = []
    real = run.Runner.by_numpy

    def noted(self: run.Runner, index: int, *rest: object) -> None:
        blocks.append(index)
        real(self, index, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(run.Runner, "by_numpy", noted)
    return blocks


def program(name: str, size: int) -> str:
    t = f"tensor<{size}xf32>"
    return f"func.func @main(%x: {t}) -> {t} {{\n%r = stablehlo.{name} %x : {t}\nreturn %r : {t}\n}}"


def results(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The codes by compiled code, and by numpy."""
    text, both = program(name, x.size), []
    for speed in (Speed(), Speed(compiled=False)):
        plan = planner.plan(interp.load(text).program, speed=tuned(speed))
        both.append(machine.run(plan, [x])[0].view(np.uint32))
    assert planner.plan(interp.load(text).program, speed=tuned(Speed())).chosen[-1].decision.executor == "compiled"
    return both[0], both[1]


def by_numpy(name: str, x: np.ndarray) -> np.ndarray:
    """The codes without compiled code."""
    plan = planner.plan(interp.load(program(name, x.size)).program, speed=Speed(compiled=False))
    return machine.run(plan, [x])[0].view(np.uint32)


def test_these_are_all_functions() -> None:
    records = [lookup(f"stablehlo.{name}") for name in NAMES]
    assert sorted(r.traits.compiled or 0 for r in records if r is not None) == list(opcodes.FUNCTIONS)


@pytest.mark.usefixtures("stops")
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_all_kinds(name: str) -> None:
    rng, count = np.random.default_rng(NAMES.index(name)), 20000
    for x in (
        np.resize(SPECIAL, 2048),
        rng.integers(0, 1 << 32, count, np.uint32).view(np.float32),
        rng.standard_normal(count).astype(np.float32),
        rng.uniform(-110, 95, count).astype(np.float32),
        (1 + rng.standard_normal(count) * 2.0 ** rng.integers(-24, -1, count)).astype(np.float32),
        (rng.standard_normal(count) * 2.0 ** rng.integers(-149, -10, count)).astype(np.float32),
        (rng.integers(-(1 << 19), 1 << 19, count) * (np.pi / 2)).astype(np.float32),
    ):
        got, wanted = results(name, x)
        assert got.tolist() == wanted.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_against_the_oracle(name: str, stops: list[int]) -> None:
    rng = np.random.default_rng(3)
    some = [rng.standard_normal(60), rng.uniform(-20, 20, 60), 2.0 ** rng.uniform(-126, 20, 30), [np.inf, 0.0]]
    x = np.concatenate(some).astype(np.float32)
    if name in ("rsqrt", "log", "log_plus_one"):
        x = np.abs(x)
    got, _ = results(name, x)
    for code, result in zip(x.view(np.uint32).tolist(), got.tolist(), strict=True):
        wanted = oracle.encode(F32, oracle.UNARY[name](oracle.decode(F32, code)))
        assert oracle.same(F32, result, wanted), (hex(code), hex(result), hex(wanted))
    assert not stops or name in ("sine", "cosine")  # of infinity


@pytest.mark.parametrize("name", NAMES)
def test_few_blocks_are_left_to_numpy(name: str, stops: list[int]) -> None:
    x = np.random.default_rng(5).uniform(0.01, 8, 1 << 16).astype(np.float32)
    got, wanted = results(name, x)
    assert (got == wanted).all()
    assert len(stops) <= 1


#: The function of f64 behind each, the exact one, and the power of two that bounds the relative error: half of what
#: the machine allows for.
BOUNDS = {
    "quick._exp": (mpmath.exp, -43),
    "quick._rsqrt": (lambda v: 1 / mpmath.sqrt(v), -43),
    "quick._expm1": (mpmath.expm1, -43),
    "quick._log": (mpmath.log, -43),
    "quick._log1p": (mpmath.log1p, -43),
    "quick._tanh": (mpmath.tanh, -43),
    "quick._logistic": (lambda v: 1 / (1 + mpmath.exp(-v)), -43),
    "_exp": (mpmath.exp, -50),
    "_rsqrt": (lambda v: 1 / mpmath.sqrt(v), -50),
    "_expm1": (mpmath.expm1, -50),
    "_log": (mpmath.log, -50),
    "_log1p": (mpmath.log1p, -50),
    "_tanh": (mpmath.tanh, -49),
    "_logistic": (lambda v: 1 / (1 + mpmath.exp(-v)), -49),
    "_sine": (mpmath.sin, -50),
    "_cosine": (mpmath.cos, -50),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_errors_in_f64_are_as_small_as_promised(name: str) -> None:
    numba, (exact, bound) = importlib.import_module("numba"), BOUNDS[name]
    module, _, name = name.rpartition(".")
    of = getattr(importlib.import_module(f"minihlo.ops.engine.fast.{module or 'functions'}"), name)

    @numba.njit(error_model="numpy")
    def applied(x, out):
        for j in range(x.size):
            out[j] = of(x[j])

    rng, count = np.random.default_rng(9), 300
    x = np.concatenate(
        [
            rng.standard_normal(count),
            rng.uniform(-80, 80, count),
            1 + rng.standard_normal(count) * 2.0 ** rng.integers(-22, -1, count),
            rng.standard_normal(count) * 2.0 ** rng.integers(-120, 0, count),
            rng.integers(-600000, 600000, count) * (np.pi / 2),
            np.arange(1, 60) * (np.log(2) / 2),  # where the reduction goes from one power of two to the next
        ]
    ).astype(np.float32)
    x = np.abs(x) if name in ("_rsqrt", "_log") else x[x > -1] if name == "_log1p" else x
    x = x[np.abs(x) < 80] if name in ("_exp", "_expm1", "_tanh", "_logistic") else x
    out = np.empty(x.size)
    applied(x.astype(np.float64), out)
    with mpmath.workprec(200):
        for v, y in zip(x.tolist(), out.tolist(), strict=True):
            wanted = exact(mpmath.mpf(v))
            assert abs(mpmath.mpf(y) - wanted) <= mpmath.ldexp(abs(wanted), bound), (v, y)


@pytest.mark.usefixtures("stops")
@pytest.mark.parametrize("name", NAMES)
def test_lines_of_any_length(name: str) -> None:
    rng = np.random.default_rng(11)
    for count in range(1, 20):
        numbers = rng.uniform(0.01, 3, count).astype(np.float32)
        for x in (numbers, np.resize(rng.permutation(SPECIAL), count), np.where(rng.random(count) < 0.2, 90, numbers)):
            got, wanted = results(name, x.astype(np.float32))
            assert got.tolist() == wanted.tolist(), count


#: With errors of a few units in the last of 53 bits.
IN_F64 = {
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "log": np.log,
    "log_plus_one": np.log1p,
    "tanh": np.tanh,
    "logistic": lambda v: 1 / (1 + np.exp(-v)),
}


@pytest.mark.parametrize("kind", functions.KINDS)
def test_what_llvm_makes_says_what_it_leaves(kind: int) -> None:
    left: list[int] = []

    @ctypes.CFUNCTYPE(ctypes.c_uint32, *[ctypes.c_int64] * 3)
    def otherwise(*operands: int) -> int:
        left.append(operands[2])
        return 7

    address = ctypes.cast(otherwise, ctypes.c_void_p).value
    assert address is not None
    made = functions.address(kind, address)
    if made == address:
        pytest.skip("the processor lacks the instructions")
    run = ctypes.CFUNCTYPE(ctypes.c_uint32, *[ctypes.c_int64] * 3)(made)
    name = next(n for n in NAMES if (r := lookup(f"stablehlo.{n}")) is not None and r.traits.compiled == kind)
    order = np.arange(1 << 23, dtype=np.uint32) * np.uint32(0x9E3779B1) & np.uint32((1 << 23) - 1)
    x = (order + np.uint32(0x3F800000)).view(np.float32)  # all numbers from 1 to 2
    got, few, wide = np.empty_like(x), 1 << 16, 61
    wanted = by_numpy(name, x[:few])
    for i in [*range(0, few, wide), *range(few, x.size, 4096)]:
        n, before = min(wide if i < few else 4096, x.size - i), len(left)
        stopped = run(x[i:].ctypes.data, got[i:].ctypes.data, n)
        assert stopped == (7 if len(left) > before else 0)
        if not stopped and i + n <= few:
            assert got[i : i + n].view(np.uint32).tolist() == wanted[i : i + n].tolist()
    assert 0 < len(left) < 64  # some of 2**23 results are near halfway
    with np.errstate(over="ignore"):
        exact = IN_F64[name](x.astype(np.float64)).view(np.int64)
    halfway = np.flatnonzero(np.abs((exact & (1 << 29) - 1) - (1 << 28)) < 1 << 7)
    assert halfway.size
    small = [-90.0, -100.0] if name in ("exponential", "logistic") else []  # of which the results are subnormal
    for v in np.concatenate([x[halfway], np.array(small, np.float32)]):
        assert run(np.array([v]).ctypes.data, got.ctypes.data, 1) == 7, v


@pytest.mark.exhaustive
@pytest.mark.usefixtures("stops")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first", [0x3E800000, 0x3F800000, 0x41000000, 0xBF000000])
def test_all_numbers_of_an_exponent(name: str, first: int) -> None:
    got, wanted = results(name, (np.arange(1 << 21, dtype=np.uint32) * 4 + first).view(np.float32))
    assert (got == wanted).all()
