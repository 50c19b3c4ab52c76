"""Convolutions against a plain loop of exact sums, and the reference interpreter."""

import dataclasses
import itertools
import tracemalloc
from fractions import Fraction
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import load
from minihlo.interp.errors import ExecutionError
from minihlo.ops.op import OpError
from minihlo.ops.policy import Policy
from minihlo.ops.products import convolution
from minihlo.ops.types import ELEMENT_TYPES

from .. import oracle
from ..run_op import bind, codes, from_codes, run, tensor
from . import reference
from .convolutions import SEED, Convolution, Shape, by_formula, convolve, integers, order, random_convolution


@pytest.mark.parametrize("empty", [False, True])
def test_any_convolution(empty: bool) -> None:
    rng = np.random.default_rng(SEED)
    for number in range(300):
        c = dilated(rng) if number % 2 and not empty else random_convolution(rng, empty)
        x, y = integers(rng, c)
        expected = by_formula(c, x.astype(object), y.astype(object))
        assert convolve(c, x, y, "i32").tolist() == expected.tolist(), c
        rest = {k: v for k, v in c.attributes.items() if k != "padding"}
        padding = np.array(c.padding, np.int32).reshape(-1, 2)
        dynamic = run(
            "dynamic_conv", *c.ordered(x, y), padding, result=tensor("i32", *order(c.result, c.result_order)), **rest
        )
        assert dynamic.transpose(c.result_order).tolist() == expected.tolist(), c


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(SEED)
    for block in (1, 30, 200):
        monkeypatch.setattr(convolution, "_BLOCK", block)
        for _ in range(20):
            c = random_convolution(rng)
            x, y = integers(rng, c)
            assert convolve(c, x, y, "i32").tolist() == by_formula(c, x.astype(object), y.astype(object)).tolist(), c


def batch_first(c: Convolution) -> Shape:
    """Results of batch, spatial, feature: with some other orders the reference interpreter aborts."""
    return (0, len(c.lhs) - 1, *range(1, len(c.lhs) - 1))


#: Two operand types and that of the result.
TRIPLES = [(name, name, name) for name in oracle.MINIFLOATS if name != "f8E8M0FNU"]
TRIPLES += [("f8E4M3FN", "f8E5M2", "f8E4M3FN"), ("f8E5M2", "f8E4M3FNUZ", "bf16"), ("f4E2M1FN", "f6E3M2FN", "f32"),
            ("f8E3M4", "f8E3M4", "f16"), ("f8E5M2FNUZ", "f8E5M2", "f64")]  # fmt: skip


@pytest.mark.parametrize(("shape", "outputs", "groups"), [((3, 29, 31, 24), 40, 1), ((2, 40, 40, 16), 64, 2)])
def test_windows_of_floats_are_never_held_together(shape: tuple[int, ...], outputs: int, groups: int) -> None:
    """The matrix of all windows is given to BLAS in parts."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(shape, np.float32)
    w = rng.standard_normal((3, 3, shape[3] // groups, outputs), np.float32)
    result = (*shape[:3], outputs)
    text = f"""
    func.func @main(%x: {tensor("f32", *shape)}, %w: {tensor("f32", *w.shape)}) -> {tensor("f32", *result)} {{
      %r = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
        : ({tensor("f32", *shape)}, {tensor("f32", *w.shape)}) -> {tensor("f32", *result)}
      return %r : {tensor("f32", *result)}
    }}"""
    program = load(text, without="threads")  # two threads would hold two parts
    program(x, w)  # what is imported and planned is not counted
    tracemalloc.start()
    (parts,) = program(x, w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    windows = 9 * x.nbytes
    assert peak - parts.nbytes < windows
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = np.zeros(result)
    for i, j, g in itertools.product(range(3), range(3), range(groups)):
        some, inputs = slice(g * outputs // groups, (g + 1) * outputs // groups), w.shape[2]
        here = padded[:, i : i + shape[1], j : j + shape[2], g * inputs : (g + 1) * inputs]
        wanted[..., some] += here @ w[i, j, :, some].astype(np.float64)
    np.testing.assert_allclose(parts, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("types", TRIPLES, ids="-".join)
@pytest.mark.parametrize("rounding", ["nearest_even", "toward_zero"])
def test_minifloats_are_exact(types: tuple[str, str, str], rounding: str) -> None:
    """Sums of all finite codes, as fractions, rounded once."""
    rng = np.random.default_rng(SEED)
    c = Convolution((1, 2, 9, 7), (3, 2, 3, 2), (0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2), (1, 1), ((1, 0), (1, 1)),
                    (1, 1), (2, 1), (False, False))  # fmt: skip
    sides = []
    for name, shape in zip(types, (c.lhs, c.rhs), strict=False):
        fmt = oracle.FORMATS[name]
        finite = [k for k in range(1 << fmt.bits) if np.isfinite(float(oracle.decode(fmt, k)))]
        chosen = rng.choice(finite, shape)
        values = np.empty(shape, object)
        for at in np.ndindex(shape):
            values[at] = Fraction(oracle.decode(fmt, int(chosen[at])))
        sides.append((from_codes(chosen, name), values))
    (x, exact_x), (y, exact_y) = sides
    actual = convolve(c, x, y, types[2], Policy(rounding=rounding))
    fmt = oracle.FORMATS[types[2]]
    expected = [oracle.encode(fmt, Fraction(v), rounding) for v in by_formula(c, exact_x, exact_y).ravel()]
    assert codes(actual).ravel().tolist() == expected


def test_element_sums_against_the_reference_interpreter() -> None:
    """Rounded at every step: the order of spatial dimensions and features shows."""
    rng, cases = np.random.default_rng(SEED + 3), []
    for name in ("f8E4M3FN", "f8E5M2", "f8E3M4", "f8E4M3FNUZ"):
        while len(cases) % 8 or not cases or cases[-1][0] != name:
            c = random_convolution(rng, spatial=2)
            c.result_order = batch_first(c)
            if all(c.result):
                pair = [rng.integers(0x28, 0x48, s) + 128 * rng.integers(0, 2, s) for s in (c.lhs, c.rhs)]
                cases.append((name, c, [v.astype(np.uint8) for v in pair]))
    programs = [(c.text(n, n, n, wrap=True), c.ordered(*pair)) for n, c, pair in cases]
    for (name, c, (x, y)), (expected,) in zip(cases, reference.evaluate(programs), strict=True):
        actual = convolve(c, from_codes(x, name), from_codes(y, name), name, Policy(accumulate="element"))
        pairs = zip(codes(actual).ravel().tolist(), expected.transpose(c.result_order).ravel().tolist(), strict=True)
        assert all(oracle.same(oracle.FORMATS[name], a, b) for a, b in pairs), (name, c)


ROW = Convolution((1, 1, 4), (1, 1, 2), (0, 1, 2), (0, 1, 2), (0, 1, 2), (1,), ((1, 0),), (1,), (1,), (False,))


def test_accumulation_in_f32() -> None:
    x = np.array([57344, 2.0**-16, -57344, 0]).astype(ml_dtypes.float8_e5m2).reshape(ROW.lhs)
    wide = dataclasses.replace(ROW, rhs=(1, 1, 3), padding=((0, 0),))
    y = np.array([57344, 1, 57344]).astype(ml_dtypes.float8_e5m2).reshape(wide.rhs)
    assert convolve(wide, x, y, "f32").ravel()[0] == 2.0**-16
    assert convolve(wide, x, y, "f32", Policy(accumulate="f32")).ravel()[0] == 0


def test_padding_of_a_type_without_zero() -> None:
    """What zero becomes in f8E8M0FNU is NaN, and so are sums with it."""
    x, y = (from_codes(np.full(shape, 127), "f8E8M0FNU") for shape in (ROW.lhs, ROW.rhs))
    assert codes(convolve(ROW, x, y, "f8E8M0FNU")).ravel().tolist() == [0xFF, 128, 128, 128]


def test_special_values_meet_padding() -> None:
    """Infinity times the zero of padding is NaN, as the specification has it."""
    x = np.array([1, 2, np.inf, 3]).astype(ml_dtypes.float8_e5m2).reshape(ROW.lhs)
    y = np.array([np.inf, 1]).astype(ml_dtypes.float8_e5m2).reshape(ROW.rhs)
    actual = convolve(ROW, x, y, "f8E5M2").astype(float).ravel()
    np.testing.assert_array_equal(actual, [np.nan, np.inf, np.inf, np.inf])


@pytest.mark.parametrize("element", ["i4", "ui4", "i8", "ui8", "i16", "ui32", "i64", "ui64"])
def test_integers_wrap(element: str) -> None:
    rng = np.random.default_rng(SEED)
    c = random_convolution(rng, spatial=2)
    t = ELEMENT_TYPES[element]
    x, y = (from_codes(rng.integers(0, 1 << 63, s, np.uint64), element) for s in (c.lhs, c.rhs))
    exact = by_formula(c, *(np.array([int(v) for v in a.ravel()], object).reshape(a.shape) for a in (x, y)))
    actual = codes(convolve(c, x, y, element)).astype(object)
    assert (actual % (1 << t.bits)).tolist() == (exact % (1 << t.bits)).tolist()


def test_other_types() -> None:
    rng = np.random.default_rng(SEED)
    c = dataclasses.replace(ROW, reversal=(True,))
    x, y = integers(rng, c)
    exact = by_formula(c, x.astype(object), y.astype(object))
    for element in ("f16", "bf16", "f32", "f64", "complex<f32>", "complex<f64>"):
        dtype = ELEMENT_TYPES[element].dtype
        actual = convolve(c, x.astype(dtype), y.astype(dtype), element)
        assert actual.astype(complex).tolist() == exact.tolist()
    assert convolve(c, x.astype(np.int8), y.astype(np.int8), "i32").tolist() == exact.tolist()
    assert convolve(c, x.astype(ml_dtypes.float8_e4m3fn), y.astype(np.float32), "f32").tolist() == exact.tolist()
    bits = np.array([[[True, False, False, True]]]), np.array([[[False, True]]])
    assert convolve(c, *bits, "i1").ravel().tolist() == [False, True, False, False]
    assert convolve(ROW, *bits, "i1").ravel().tolist() == [True, False, False, True]


def test_jax_layers() -> None:
    """A strided convolution, its two gradients, and a depthwise one, run from JAX's lowering."""

    def loss(x: jax.Array, y: jax.Array, groups: int) -> jax.Array:
        z = jax.lax.conv_general_dilated(x, y, (2, 1), "SAME", rhs_dilation=(1, 2), feature_group_count=groups,
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))  # fmt: skip
        return (z * z).sum()

    rng = np.random.default_rng(SEED)
    x = rng.integers(-2, 3, (2, 6, 5, 4)).astype(np.float32)
    for groups, inputs, outputs in ((1, 4, 3), (4, 1, 8)):
        y = rng.integers(-2, 3, (3, 2, inputs, outputs)).astype(np.float32)
        function = jax.jit(jax.value_and_grad(lambda x, y, g=groups: loss(x, y, g), argnums=(0, 1)))
        actual = load(function.lower(x, y).as_text())(x, y)
        for mine, expected in zip(actual, jax.tree.leaves(function(x, y)), strict=True):
            np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window_strides": (1, 1)}, "must have 1 numbers"),
        ({"padding": np.zeros((2, 2), int)}, "must have 2 numbers"),
        ({"lhs_dilation": (0,)}, "expected positive"),
        ({"rhs_dilation": (-1,)}, "expected positive"),
        ({"window_strides": (0,)}, "expected positive"),
        ({"window_reversal": (True, True)}, "must have 1 numbers"),
        ({"feature_group_count": 0}, "expected positive"),
        ({"feature_group_count": 2, "batch_group_count": 2}, "expected one group count to be 1"),
        ({"feature_group_count": 2}, "input features"),
        ({"batch_group_count": 2}, "multiple of batch_group_count"),
        ({"precision_config": ("DEFAULT",)}, "precision_config"),
        ({"input_batch_dimension": 1}, "without repetition"),
        ({"kernel_spatial_dimensions": (3,)}, "from 0 to 2, got"),
        ({"output_spatial_dimensions": ()}, "must be 1"),
        ({"output_spatial_dimensions": None}, "got none for output_spatial"),
    ],
)
def test_errors(change: dict[str, Any], message: str) -> None:
    types = [tensor("f32", *ROW.lhs), tensor("f32", *ROW.rhs)]
    attributes = ROW.attributes
    for name, value in change.items():
        within = attributes["dimension_numbers"] if name in attributes["dimension_numbers"] else attributes
        within[name] = value
        if value is None:
            del within[name]
    bind("convolution", list(types), tensor("f32", *ROW.result), **ROW.attributes)
    with pytest.raises(OpError, match=message):
        bind("convolution", list(types), tensor("f32", *ROW.result), **attributes)


def test_errors_of_shapes() -> None:
    lhs, rhs = tensor("f32", *ROW.lhs), tensor("f32", *ROW.rhs)
    for operands, result, message in (
        ([lhs, tensor("f32", 1, 1)], lhs, "one rank"),
        ([tensor("f32", 1), tensor("f32", 1)], tensor("f32", 1), "one rank"),
        ([lhs, rhs], tensor("f32", 1, 1, 5), "expected a result of shape"),
        ([lhs, tensor("f32", 1, 2, 2)], tensor("f32", *ROW.result), "input features"),
    ):
        with pytest.raises(OpError, match=message):
            bind("convolution", operands, result, **ROW.attributes)
    with pytest.raises(OpError, match="padding is"):
        bind("dynamic_conv", [lhs, rhs, tensor("i32", 3, 2)], lhs, **ROW.attributes)
    program = """func.func @main(%x: tensor<1x1x4xf32>, %y: tensor<1x1x2xf32>, %p: tensor<1x2xi32>)
        -> tensor<1x1x4xf32> {
      %r = "stablehlo.dynamic_conv"(%x, %y, %p) {dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>,
        feature_group_count = 1 : i64, batch_group_count = 1 : i64}
        : (tensor<1x1x4xf32>, tensor<1x1x2xf32>, tensor<1x2xi32>) -> tensor<1x1x4xf32>
      return %r : tensor<1x1x4xf32> }"""
    x, y = (np.ones(s, np.float32) for s in (ROW.lhs, ROW.rhs))
    assert load(program)(x, y, np.array([[1, 0]], np.int32))[0].ravel().tolist() == [1, 2, 2, 2]
    with pytest.raises(ExecutionError, match=r"2:.*dynamic_conv: expected a result of shape"):
        load(program)(x, y, np.array([[1, 1]], np.int32))


def dilated(rng: np.random.Generator) -> Convolution:
    """A convolution with holes of up to six, and windows that can be narrower than they are."""
    c = random_convolution(rng)
    spatial = len(c.padding)
    dilation, strides, steps = (tuple(int(n) for n in rng.integers(1, last, spatial)) for last in (7, 5, 4))
    padding = tuple((int(a), int(b)) for a, b in rng.integers(-2, 9, (spatial, 2)))
    return dataclasses.replace(c, lhs_dilation=dilation, strides=strides, rhs_dilation=steps, padding=padding)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.float8_e5m2, np.complex64])
def test_special_values_meet_holes(dtype: Any) -> None:
    """Infinity times the zero of a hole is NaN: the products of all terms, in f64."""
    rng = np.random.default_rng(SEED + 2)
    element = {np.float32: "f32", ml_dtypes.float8_e5m2: "f8E5M2", np.complex64: "complex<f32>"}[dtype]
    found = 0
    for _ in range(60):
        c = dilated(rng)
        x, y = (v.astype(np.complex128 if element.startswith("c") else np.float64) for v in integers(rng, c))
        for v, share in ((x, 0.05), (y, 0.1)):
            v[rng.random(v.shape) < share] = np.inf
            v[rng.random(v.shape) < share / 2] = np.nan
        x, y = np.clip(np.real(x), -2, np.inf).astype(dtype), np.clip(np.real(y), -2, np.inf).astype(dtype)
        wide = np.complex128 if element.startswith("c") else np.float64
        expected = np.empty(c.result, wide)
        with np.errstate(invalid="ignore"):
            for at in np.ndindex(*c.result):
                terms = [(0 if p is None else wide(x[p])) * wide(y[q]) for p, q in c.terms(at)]
                expected[at] = np.sum(np.array(terms, wide))
        actual = convolve(c, x, y, element)
        if element.startswith("c"):  # the parts of a product with an infinity are the host's
            np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected), str(c))
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            np.testing.assert_array_equal(actual.astype(float), expected.astype(dtype).astype(float), str(c))
        found += np.isnan(expected).sum()
    assert found > 100 or element.startswith("c")


def test_holes_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The multiplications are those of elements, whatever lies between them."""
    work: list[int] = []
    matmul = convolution.Contraction.matmul

    def count(self: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        work.append(x.size * y.shape[-1])
        return matmul(self, x, y)

    monkeypatch.setattr(convolution.Contraction, "matmul", count)
    rng, counts = np.random.default_rng(SEED), []
    for holes in (1, 2, 4, 16):
        c = Convolution((1, 8, 6, 6), (3, 8, holes, holes), (0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3), (1, 1),
                        ((holes - 1, holes - 1),) * 2, (holes, holes), (1, 1), (False, False))  # fmt: skip
        work.clear()
        x, y = rng.normal(size=c.lhs).astype(np.float32), rng.normal(size=c.rhs).astype(np.float32)
        found = convolve(c, x, y, "f32")
        if holes < 16:  # the formula takes them all
            np.testing.assert_allclose(found, by_formula(c, x, y).astype(float), 1e-4, 1e-4)
        counts.append(sum(work) / np.prod(c.result))
    assert max(counts) <= 8 + 1  # one element of each feature
