"""Emulated products of minifloats: the interpreter's bits, and those of sums in Python's integers."""

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
from tests.emulated import check, codes, run
from tests.ops import test_quantized_products as quantized
from tests.ops.quantized_oracle import i8
from tests.thinned import rotated, thinned

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
    return codes(np.random.default_rng(seed), name, shape, finite)


def _dot(lhs: str, rhs: str, result: str, x: tuple[int, ...], y: tuple[int, ...]) -> str:
    a, b, c = (f"tensor<{'x'.join(map(str, s))}x{t}>" for s, t in ((x, lhs), (y, rhs), ((x[0], x[1], y[2]), result)))
    return (
        f"func.func @main(%x: {a}, %y: {b}) -> {c} {{\n"
        "%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] "
        f": ({a}, {b}) -> {c}\nreturn %r : {c}\n}}"
    )


@pytest.mark.parametrize(
    ("name", "policy"),
    thinned(
        itertools.product(_WITHOUT_SIX, _POLICIES),
        lambda name, policy: (_WITHOUT_SIX.index(name) + _POLICIES.index(policy)) % 10 == 0,
    ),
    ids=lambda v: v if isinstance(v, str) else f"{v.rounding}-{v.overflow}-{v.accumulate}",
)
def test_dots(name: str, policy: Policy) -> None:
    other = _WITHOUT_SIX[(_WITHOUT_SIX.index(name) + 3) % len(_WITHOUT_SIX)]
    length = 5 if "f8E8M0FNU" in (name, other) else 40
    for finite in (False, True):
        x, y = _codes(name, (2, 3, length), 0, finite), _codes(other, (2, length, 4), 1, finite)
        check(_dot(name, other, name, x.shape, y.shape), [x, y], policy)


def test_draws_for_sums_of_more_bits_than_f64_has() -> None:
    x, y = (np.random.default_rng(i).integers(1, 12, (1, 60, 60), np.uint8) for i in range(2))
    x[..., 0], y[:, 0], dtype = 0x7B, 0x7B, FORMATS["f8E5M2"].dtype
    dot = _dot("f8E5M2", "f8E5M2", "f64", x.shape, y.shape)
    check(dot, [x.view(dtype), y.view(dtype)], Policy(rounding="stochastic"))


@pytest.mark.parametrize("shape", [(1, 1, 0, 1), (0, 2, 3, 2), (1, 0, 3, 2), (1, 1, 1, 1)])
def test_dots_of_few_elements(shape: tuple[int, int, int, int]) -> None:
    batch, rows, length, columns = shape
    x, y = _codes("f8E5M2", (batch, rows, length), 0), _codes("f8E4M3FN", (batch, length, columns), 1)
    for result in ("f8E4M3FN", "f32", "bf16", "f64", "i8", "i1"):
        check(_dot("f8E5M2", "f8E4M3FN", result, x.shape, y.shape), [x, y])


@pytest.mark.parametrize("name", ["f4E2M1FN", "f8E4M3FN"])
def test_sums_in_f32_begin_with_zero(name: str) -> None:
    x = np.full((1, 3, 1), FORMATS[name].sign_bit, np.uint8).view(FORMATS[name].dtype)  # -0
    check(_dot(name, name, name, x.shape, (1, 1, 3)), [x, abs(x).reshape(1, 1, 3)], Policy(accumulate="f32"))


@pytest.mark.parametrize("result", ["f8E4M3FNUZ", "f16", "bf16", "f32"])
@pytest.mark.parametrize("name", ["f4E2M1FN", "f8E4M3FNUZ", "f8E5M2FNUZ"])
def test_sums_are_exact(name: str, result: str) -> None:
    """Against Python's fractions: one rounding of the exact sum."""
    x, y = _codes(name, (1, 4, 200), 5, finite=True), _codes(name, (1, 200, 3), 6, finite=True)
    (found,) = run(emulate_text(_dot(name, name, result, x.shape, y.shape)), x, y)
    fmt = FORMATS[result]
    bits = found.view(fmt.code_dtype)
    for i, j in itertools.product(range(4), range(3)):
        pairs = zip(x[0, i].astype(float), y[0, :, j].astype(float), strict=True)
        total = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
        assert bits[0, i, j] == round_number(exact(total), fmt, Policy())


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
    c = f"tensor<{'x'.join(map(str, _sizes(x.shape, y.shape, window, batches)))}x{name}>"
    text = f"""func.func @main(%x: {a}, %y: {b}) -> {c} {{
      %r = stablehlo.convolution(%x, %y) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{{window}}}
        {{feature_group_count = {features} : i64, batch_group_count = {batches} : i64}} : ({a}, {b}) -> {c}
      return %r : {c} }}"""
    check(text, [x, y])


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


@pytest.mark.parametrize(
    ("types", "policy"),
    rotated(
        [
            ("f8E4M3FN", "f8E4M3FN", "f32"),
            ("f8E5M2", "f8E5M2", "bf16"),
            ("f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3FNUZ"),
            ("f16", "f16", "f16"),
        ],
        [Policy(accumulate="h100"), Policy.target("mi300"), Policy(accumulate="step=4,bits=9,keep=f32")],
        every=2,
    ),
)
def test_dots_of_chips(types: tuple[str, str, str], policy: Policy) -> None:
    lhs, rhs, result = types
    for finite in (False, True):
        shapes = enumerate(((1, 3, 37), (1, 37, 4)))
        if lhs == "f16":
            x, y = (np.random.default_rng(i).standard_normal(s).astype(np.float16) for i, s in shapes)
        else:
            x, y = (_codes(t, s, i, finite) for t, (i, s) in zip((lhs, rhs), shapes, strict=True))
        text = _dot(lhs, rhs, result, x.shape, y.shape)
        try:
            interp.load(text).plan(policy=policy)
        except interp.ProgramError:
            pytest.skip("the chip does not multiply these types")
        check(text, [x, y], policy)


@pytest.mark.parametrize(
    ("name", "dots"), rotated(["f4E2M1FN", "f8E3M4", "f8E4M3FN", "f8E5M2", "f8E5M2FNUZ"], ["int8", "f64"])
)
def test_dots_by_other_means(name: str, dots: str) -> None:
    """Digits in bytes, and none, give the same bits; the exact sums are the interpreter's."""
    for finite, result in ((False, name), (True, name), (True, "f32"), (True, "f64")):
        x, y = _codes(name, (1, 3, 70), 3, finite), _codes(name, (1, 70, 5), 4, finite)
        text = _dot(name, name, result, x.shape, y.shape)
        assert run(emulate_text(text, dots=dots), x, y)[0].tobytes() == interp.load(text)(x, y)[0].tobytes()


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f6E3M2FN"])
def test_signs_of_zeros_rounded_down(name: str) -> None:
    """A zero sum is -0 but where all products are +0 (IEEE 754 section 6.3); rounded otherwise it is +0."""
    minus = FORMATS[name].sign_bit
    rows = [([0, 0], [0, 0]), ([minus, 0], [0, 0]), ([minus, minus], [minus, minus]), ([8, 8 | minus], [8, 8])]
    text = _dot(name, name, "f32", (4, 1, 2), (4, 2, 1))
    x, y = (np.array([row[i] for row in rows], np.uint8) for i in range(2))
    for rounding, expected in (("down", [0, 1, 0, 1]), ("nearest_even", [0, 0, 0, 0])):
        (found,) = run(
            emulate_text(text, Policy(rounding=rounding), codes=True),
            x.view(np.uint8).reshape(4, 1, 2),
            y.view(np.uint8).reshape(4, 2, 1),
        )
        assert found.reshape(-1).view(np.uint32).tolist() == [sign << 31 for sign in expected]


@pytest.mark.parametrize(
    ("config", "x", "y", "result"),
    [
        ("ab,bc->ca", (3, 4), (4, 5), "5x3x"),
        ("aab,bc->ca", (3, 3, 4), (4, 5), "5x3x"),
        ("ab,bc->c", (3, 4), (4, 5), "5x"),
        ("a...,a...->...", (3, 4), (3, 4), "4x"),
    ],
)
def test_einsum(config: str, x: tuple[int, ...], y: tuple[int, ...], result: str) -> None:
    a, b, c = (
        f"tensor<{'x'.join(map(str, x))}xf8E5M2>",
        f"tensor<{'x'.join(map(str, y))}xf8E5M2>",
        f"tensor<{result}f8E5M2>",
    )
    text = f"""func.func @main(%x: {a}, %y: {b}) -> {c} {{
      %r = "stablehlo.einsum"(%x, %y) <{{einsum_config = "{config}"}}> : ({a}, {b}) -> {c}
      return %r : {c} }}"""
    check(text, [_codes("f8E5M2", x, 2), _codes("f8E5M2", y, 3)])


_ALGORITHM = (
    "algorithm = <lhs_precision_type = {0}, rhs_precision_type = {0}, accumulation_type = f32, "
    "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = {1}, "
    "allow_imprecise_accumulation = false>"
)


@pytest.mark.parametrize("policy", [Policy(), Policy(accumulate="h100"), Policy(accumulate="step=4,bits=9,keep=f32")])
@pytest.mark.parametrize(("precision", "products"), [("f8E4M3FN", 1), ("tf32", 1), ("bf16", 3)])
def test_algorithms(precision: str, products: int, policy: Policy) -> None:
    """Of few terms, which f32 holds in any order."""
    x, y = _codes("f8E4M3FN", (1, 3, 4), 5, finite=True), _codes("f8E4M3FN", (1, 4, 4), 6, finite=True)
    text = _dot("f8E4M3FN", "f8E4M3FN", "f32", x.shape, y.shape)
    check(text.replace("[2] x [1] ", f"[2] x [1], {_ALGORITHM.format(precision, products)} "), [x, y], policy)


@pytest.mark.parametrize(
    ("shapes", "numbers", "sizes"),
    [
        (((7, 4), (3, 4, 5), (7, 5)), "[] [] [1] [1] [0] [0]", [-1, 3, 9]),
        (((4, 7), (7, 5), (3, 4, 5)), "[] [] [1] [0] [1] []", [2, 0, 4]),
        (((2, 7, 4), (3, 2, 4, 5), (2, 7, 5)), "[0] [1] [2] [2] [1] [0]", [[1, 2, 3], [4, 0, 9]]),
    ],
)
def test_ragged_dots(shapes: tuple[tuple[int, ...], ...], numbers: str, sizes: list[object]) -> None:
    """Of groups of rows, of groups that are sums of their own, and of batches with groups of their own."""
    names = [f"{side}_{kind}" for kind in ("batching", "contracting") for side in ("lhs", "rhs")]
    pairs = zip([*names, "lhs_ragged", "rhs_group"], numbers.split(), strict=True)
    fields = ", ".join(f"{name}_dimensions = {value}" for name, value in pairs)
    groups = np.array(sizes, np.int8)
    a, b, c = (f"tensor<{'x'.join(map(str, s))}xf8E4M3FN>" for s in shapes)
    s = f"tensor<{'x'.join(map(str, groups.shape))}xi8>"
    text = f"""func.func @main(%x: {a}, %y: {b}, %s: {s}) -> {c} {{
      %r = "chlo.ragged_dot"(%x, %y, %s) <{{ragged_dot_dimension_numbers = #chlo.ragged_dot<{fields}>}}>
        : ({a}, {b}, {s}) -> {c}
      return %r : {c} }}"""
    check(text, [*(_codes("f8E4M3FN", shape, i) for i, shape in enumerate(shapes[:2])), groups])


def test_a_convolution_whose_padding_is_a_constant() -> None:
    a, b, c = "tensor<1x4x4x2xf8E5M2>", "tensor<3x3x2x2xf8E5M2>", "tensor<1x4x4x2xf8E5M2>"
    numbers = "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"
    text = f"""func.func @main(%x: {a}, %y: {b}) -> {c} {{
      %p = stablehlo.constant dense<1> : tensor<2x2xi32>
      %r = "stablehlo.dynamic_conv"(%x, %y, %p) <{{dimension_numbers = {numbers}, feature_group_count = 1 : i64,
        batch_group_count = 1 : i64}}> : ({a}, {b}, tensor<2x2xi32>) -> {c}
      return %r : {c} }}"""
    check(text, [_codes("f8E5M2", (1, 4, 4, 2), 1), _codes("f8E5M2", (3, 3, 2, 2), 2)])


@pytest.mark.parametrize("types", [*quantized.DOTS, *quantized.OTHER_DOTS])
def test_quantized_dots(types: tuple[str, str, str]) -> None:
    """Against Python's fractions."""
    x, y = i8(3, 3, 4), i8(4, 4, 5)
    (found,) = run(emulate_text(quantized.dot(*types)), x, y)
    assert found.tolist() == quantized.exact_dot(x, y, *types)


@pytest.mark.parametrize("types", quantized.CONVOLUTIONS)
def test_quantized_convolutions(types: tuple[str, str, str]) -> None:
    check(quantized.convolution(types, 1), [i8(5, 2, 5, 6, 2), i8(6, 3, 2, 2, 4)])


@pytest.mark.parametrize(
    "name",
    ["i8:f32, 0.1:-30", "u8:f32, 0.1:128", "i16:f32, 0.1:7", "i32:f32, 0.1:3", "i4:f32, 0.1", "i8:f32:1, {0.1, 0.7}"],
)
def test_numbers_near_the_middle_are_quantized(name: str) -> None:
    """Compilers multiply by the reciprocal of a constant divisor, which would give other integers."""
    rng = np.random.default_rng(1)
    x = ((rng.integers(-150, 150, (30_000, 2)) + 0.5) * 0.1).astype(np.float32)
    q, f = f"tensor<30000x2x!quant.uniform<{name}>>", "tensor<30000x2xf32>"
    text = f"""func.func @main(%x: {f}) -> ({q}, {f}) {{
      %q = stablehlo.uniform_quantize %x : ({f}) -> {q}
      %y = stablehlo.uniform_dequantize %q : ({q}) -> {f}
      return %q, %y : {q}, {f} }}"""
    check(text, [np.nextafter(x, x + rng.integers(-1, 2, x.shape).astype(np.float32))])


@pytest.mark.parametrize(
    ("op", "name"),
    [
        *((op, name) for op in ("add", "multiply", "maximum") for name in ("i8:f32, 0.1:-30", "i16:f32, 0.001:3")),
        ("add", "i8:f32:1, {0.1:3, 0.25, 0.7:-5}"),
    ],
)
def test_operations_on_quantized_types(op: str, name: str) -> None:
    q = f"tensor<999x3x!quant.uniform<{name}>>"
    text = f"""func.func @main(%x: {q}, %y: {q}) -> {q} {{
      %r = stablehlo.{op} %x, %y : {q}
      return %r : {q} }}"""
    storage, rng = f"int{name[1:].split(':')[0]}", np.random.default_rng(2)
    check(text, [rng.integers(0, 1 << 16, (999, 3)).astype(storage) for _ in range(2)])
