"""Emulated products of minifloats: the interpreter's bits, and those of sums in Python's integers."""

from __future__ import annotations

import ast
import itertools
import re
from fractions import Fraction

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.emulate.program import emulate_text
from minihlo.ops.minifloat.codec import exact, round_number
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS
from minihlo.ops.policy import Policy
from tests.emulated import check, run

_WITHOUT_SIX = [name for name in MINIFLOATS if FORMATS[name].bits != 6]
_POLICIES = [
    Policy(),
    Policy(overflow="saturate"),
    Policy(rounding="toward_zero"),
    Policy(rounding="down"),
    Policy(rounding="stochastic", seed=3),
    Policy(accumulate="element"),
]


def _codes(name: str, shape: tuple[int, ...], seed: int, finite: bool = False) -> np.ndarray:
    fmt = FORMATS[name]
    codes = np.random.default_rng(seed).integers(0, 1 << fmt.bits, shape).astype(np.uint8)
    if finite:
        codes[~np.isfinite(codes.view(fmt.dtype).astype(np.float32))] = 3
    return codes.view(fmt.dtype)


def _dot(lhs: str, rhs: str, result: str, x: tuple[int, ...], y: tuple[int, ...]) -> str:
    a, b, c = (f"tensor<{'x'.join(map(str, s))}x{t}>" for s, t in ((x, lhs), (y, rhs), ((x[0], x[1], y[2]), result)))
    return (
        f"func.func @main(%x: {a}, %y: {b}) -> {c} {{\n"
        "%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] "
        f": ({a}, {b}) -> {c}\nreturn %r : {c}\n}}"
    )


@pytest.mark.parametrize("policy", _POLICIES, ids=lambda p: f"{p.rounding}-{p.overflow}-{p.accumulate}")
@pytest.mark.parametrize("name", _WITHOUT_SIX)
def test_dots(name: str, policy: Policy) -> None:
    other = _WITHOUT_SIX[(_WITHOUT_SIX.index(name) + 3) % len(_WITHOUT_SIX)]
    length = 5 if "f8E8M0FNU" in (name, other) else 40
    for finite in (False, True):
        x, y = _codes(name, (2, 3, length), 0, finite), _codes(other, (2, length, 4), 1, finite)
        check(_dot(name, other, name, x.shape, y.shape), [x, y], policy)


@pytest.mark.parametrize("shape", [(1, 1, 0, 1), (0, 2, 3, 2), (1, 0, 3, 2), (1, 1, 1, 1)])
def test_dots_of_few_elements(shape: tuple[int, int, int, int]) -> None:
    batch, rows, length, columns = shape
    x, y = _codes("f8E5M2", (batch, rows, length), 0), _codes("f8E4M3FN", (batch, length, columns), 1)
    for result in ("f8E4M3FN", "f32", "bf16"):
        check(_dot("f8E5M2", "f8E4M3FN", result, x.shape, y.shape), [x, y])


@pytest.mark.parametrize("result", ["f8E4M3FNUZ", "f16", "bf16", "f32"])
@pytest.mark.parametrize("name", ["f4E2M1FN", "f8E4M3FNUZ", "f8E5M2FNUZ"])
def test_sums_are_exact(name: str, result: str) -> None:
    """Against Python's fractions: one rounding of the exact sum."""
    x, y = _codes(name, (1, 4, 200), 5, finite=True), _codes(name, (1, 200, 3), 6, finite=True)
    (found,) = run(emulate_text(_dot(name, name, result, x.shape, y.shape)), x, y)
    fmt = FORMATS[result]
    codes = found.view(fmt.code_dtype)
    for i, j in itertools.product(range(4), range(3)):
        pairs = zip(x[0, i].astype(float), y[0, :, j].astype(float), strict=True)
        total = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
        assert codes[0, i, j] == round_number(exact(total), fmt, Policy())


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
@pytest.mark.parametrize(
    ("window", "groups"),
    [
        ("stride = [2, 1], pad = [[1, 2], [0, 1]], rhs_dilate = [1, 2]", (1, 1)),
        ("pad = [[1, 1], [2, 0]], lhs_dilate = [2, 3], reverse = [true, false]", (1, 1)),
        ("pad = [[1, 1], [1, 1]]", (2, 1)),
        ("pad = [[0, -1], [1, 1]]", (1, 2)),
    ],
)
def test_convolutions(name: str, window: str, groups: tuple[int, int]) -> None:
    features, batches = groups
    x, y = _codes(name, (2, 5, 6, 4), 2), _codes(name, (3, 2, 4 // features, 4), 3)
    a, b = (f"tensor<{'x'.join(map(str, v.shape))}x{name}>" for v in (x, y))
    sizes = _sizes(x.shape, y.shape, window, batches)
    text = _convolution(a, b, window, groups, f"tensor<{'x'.join(map(str, sizes))}x{name}>")
    check(text, [x, y])


def _convolution(a: str, b: str, window: str, groups: tuple[int, int], result: str) -> str:
    return (
        f"func.func @main(%x: {a}, %y: {b}) -> {result} {{\n"
        "%r = stablehlo.convolution(%x, %y) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{{window}}} {{feature_group_count = {groups[0]} : i64, batch_group_count = {groups[1]} : i64}}"
        f" : ({a}, {b}) -> {result}\nreturn %r : {result}\n}}"
    )


def _sizes(x: tuple[int, ...], y: tuple[int, ...], window: str, batches: int) -> tuple[int, ...]:
    def pairs(name: str, default: list[list[int]]) -> list[list[int]]:
        match = re.search(rf"\b{name} = (\[[^a-z]*\])(?:,|$)", window)
        return ast.literal_eval(match[1]) if match else default

    pad, stride = pairs("pad", [[0, 0], [0, 0]]), pairs("stride", [1, 1])
    base, step = pairs("lhs_dilate", [1, 1]), pairs("rhs_dilate", [1, 1])
    space = []
    for i in range(2):
        size = (x[1 + i] - 1) * base[i] + 1 + sum(pad[i])
        space.append((size - ((y[i] - 1) * step[i] + 1)) // stride[i] + 1)
    return x[0] // batches, *space, y[3]


def test_einsum() -> None:
    x, y = _codes("f8E4M3FN", (3, 4), 2), _codes("f8E4M3FN", (4, 5), 3)
    a, b, c = "tensor<3x4xf8E4M3FN>", "tensor<4x5xf8E4M3FN>", "tensor<5x3xf8E4M3FN>"
    text = (
        f"func.func @main(%x: {a}, %y: {b}) -> {c} {{\n"
        f'%r = "stablehlo.einsum"(%x, %y) <{{einsum_config = "ab,bc->ca"}}> : ({a}, {b}) -> {c}\nreturn %r : {c}\n}}'
    )
    check(text, [x, y])


@pytest.mark.parametrize(
    "policy", [Policy(accumulate="h100"), Policy.target("mi300"), Policy(accumulate="step=4,bits=9,keep=f32")]
)
@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ("f8E4M3FN", "f8E4M3FN", "f32"),
        ("f8E5M2", "f8E5M2", "bf16"),
        ("f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3FNUZ"),
        ("f16", "f16", "f16"),
    ],
)
def test_dots_of_chips(lhs: str, rhs: str, result: str, policy: Policy) -> None:
    for finite in (False, True):
        if lhs == "f16":
            x, y = (
                np.random.default_rng(i).standard_normal(s).astype(np.float16)
                for i, s in enumerate(((1, 3, 37), (1, 37, 4)))
            )
        else:
            x, y = _codes(lhs, (1, 3, 37), 0, finite), _codes(rhs, (1, 37, 4), 1, finite)
        text = _dot(lhs, rhs, result, x.shape, y.shape)
        try:
            interp.load(text).plan(policy=policy)
        except interp.ProgramError:
            pytest.skip("the chip does not multiply these types")
        check(text, [x, y], policy)
