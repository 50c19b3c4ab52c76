"""Dots of blocks that share scales, against sums of fractions; as JAX's functions lower to them, on our platform."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.accumulators import units
from minihlo.ops.accumulators.sums import dots
from minihlo.ops.blas import one_thread
from minihlo.ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from minihlo.ops.types import ELEMENT_TYPES

from .. import oracle
from ..run_op import codes as bits_of
from ..run_op import from_codes

NAMES = tuple(n for n, f in BLOCK_FORMATS.items() if len(f.block) == 1 and f.scale_format.has_dtype)
E8M0 = ml_dtypes.float8_e8m0fnu


def program(lhs, rhs, lhs_scales, rhs_scales, result: str) -> interp.LoadedProgram:
    """The custom call on (b, m, k) and (b, n, k)."""
    types = [_type(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    b, m, n = lhs.shape[0], lhs.shape[1], rhs.shape[1]
    config = '{\\"scaled_dot_backend_config\\": {\\"lhs_batch_dimensions\\": [0], \\"rhs_batch_dimensions\\": [0]}}'
    return interp.load(f"""func.func @main(%a: {types[0]}, %b: {types[1]}, %c: {types[2]}, %d: {types[3]})
        -> tensor<{b}x{m}x{n}x{result}> {{
      %r = stablehlo.custom_call @__op$block_scaled_dot(%a, %b, %c, %d) {{backend_config = "{config}"}}
        : ({", ".join(types)}) -> tensor<{b}x{m}x{n}x{result}>
      return %r : tensor<{b}x{m}x{n}x{result}>
    }}""")


def _type(x: np.ndarray) -> str:
    element = next(t for t in ELEMENT_TYPES.values() if t.dtype == x.dtype)
    return f"tensor<{'x'.join(map(str, x.shape))}x{element.name}>"


def numbers(x: np.ndarray) -> list[Fraction]:
    if x.dtype == np.int8:
        return [Fraction(int(v)) for v in x.ravel()]
    name = next(t.name for t in ELEMENT_TYPES.values() if t.dtype == x.dtype)
    return [Fraction(oracle.decode(oracle.FORMATS[name], int(c))) for c in bits_of(x).ravel()]


def extreme(fmt: BlockFormat, count: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Finite elements, and scales from the smallest to the largest."""
    if fmt.element_format is None:
        elements = rng.integers(-127, 128, (count, 1, k)).astype(np.int8)
    else:
        magnitude = rng.integers(0, fmt.element_format.max_code + 1, (count, 1, k))
        sign = rng.integers(0, 2, magnitude.shape) * fmt.element_format.sign_bit
        elements = from_codes(magnitude | sign, fmt.element)
    scale = fmt.scale_format
    shape = (count, 1, k // fmt.size)
    low, high = (1, scale.max_code) if scale.has_zero else (0, scale.max_code)
    codes = rng.integers(low, high + 1, shape)
    ends = rng.choice([low, high], shape)
    return elements, from_codes(np.where(rng.random(shape) < 0.3, ends, codes), fmt.scale)


def check(name: str, count: int, seed: int) -> None:
    fmt = BLOCK_FORMATS[name]
    rng = np.random.default_rng(seed)
    k = 3 * fmt.size if fmt.size <= 32 else fmt.size
    (a, sa), (b, sb) = (extreme(fmt, count, k, rng) for _ in range(2))
    b[: count // 4] = a[: count // 4]
    b[: count // 4, :, ::2] = -b[: count // 4, :, ::2]  # sums that cancel
    result = "f32" if seed % 2 else "bf16"
    found = bits_of(np.asarray(program(a, b, sa, sb, result)(a, b, sa, sb)[0])).ravel().tolist()
    out = oracle.FORMATS[result]
    # As integers: elements in units of 2**-20, scales of 2**-150.
    values = [
        np.array([int(n * 2**power) for n in numbers(v)], object).reshape(count, -1)
        for v, power in ((a, 20), (b, 20), (sa, 150), (sb, 150))
    ]
    for i, got in enumerate(found):
        x, y, s, t = (v[i] for v in values)
        sums = (x * y).reshape(-1, fmt.size).sum(axis=1)
        exact = Fraction(int((sums * s * t).sum()), 2 ** (2 * 20 + 2 * 150))
        want = oracle.encode(out, exact)
        assert got == want, (name, i, hex(got), hex(want))


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_exact(name: str) -> None:
    for seed in (1, 2):
        check(name, 40, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES[::2])
def test_many_sums_are_exact(name: str) -> None:
    for seed in range(10, 20):
        check(name, 1000, seed)


def test_a_product_beyond_the_range_of_f32_comes_back() -> None:
    a, b = np.full((1, 1, 32), 448, ml_dtypes.float8_e4m3fn), np.full((1, 1, 32), 1, ml_dtypes.float8_e4m3fn)
    high, low = (np.full((1, 1, 1), c, np.uint8).view(E8M0) for c in (254, 0))
    assert np.asarray(program(a, b, high, low, "f32")(a, b, high, low)[0]).item() == 448 * 32


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp8_e5m2", "nvfp4", "deepseek_1x128"])
@pytest.mark.parametrize("result", ["f32", "bf16"])
def test_sums_in_f32(name: str, result: str) -> None:
    """Scaled numbers in f32, the host's product in f32, and one rounding; other bits than the exact sums."""
    rng = np.random.default_rng(11)
    x, y = (rng.standard_normal((1, n, 512)).astype(np.float32) * np.float32(0.1) for n in (40, 30))
    (a, s), (b, t) = (interp.quantize(v, name)[:2] for v in (x, y))
    size = BLOCK_FORMATS[name].size
    sides = [np.asarray(v, np.float32) * np.repeat(np.asarray(w, np.float32), size, 2) for v, w in ((a, s), (b, t))]
    found = np.asarray(program(a, b, s, t, result)(a, b, s, t, policy=interp.Policy(accumulate="f32"))[0])
    with one_thread():  # some BLAS sum in another order by several
        want = interp.cast(np.matmul(sides[0], sides[1].transpose(0, 2, 1)), result)
    assert found.tobytes() == np.asarray(want).tobytes()
    exact = np.asarray(program(a, b, s, t, result)(a, b, s, t)[0])
    assert (found != exact).any() or result == "bf16" or name == "nvfp4"  # whose sums are exact in f32 here
    assert np.allclose(np.asarray(found, float), np.asarray(exact, float), rtol=1e-2, atol=1e-3)


def test_a_scaled_number_beyond_f32_is_infinite_in_f32() -> None:
    a, b = np.full((1, 1, 32), 448, ml_dtypes.float8_e4m3fn), np.full((1, 1, 32), 1, ml_dtypes.float8_e4m3fn)
    high, low = (np.full((1, 1, 1), c, np.uint8).view(E8M0) for c in (254, 0))
    found = program(a, b, high, low, "f32")(a, b, high, low, policy=interp.Policy(accumulate="f32"))[0]
    assert np.isinf(np.asarray(found)).all()


def test_nan_and_infinity() -> None:
    a = np.ones((4, 1, 32), ml_dtypes.float8_e5m2)
    b, scales = a.copy(), np.ones((4, 1, 1), E8M0)
    a[0, 0, 3], a[1, 0, 5], b[1, 0, 5] = np.inf, np.inf, 0
    scaled = scales.copy()
    scaled[2] = np.nan
    found = np.asarray(program(a, b, scaled, scales, "f32")(a, b, scaled, scales)[0]).ravel()
    assert np.array_equal(found, [np.inf, np.nan, np.nan, 32], equal_nan=True)


def _operands(seed: int = 0) -> tuple:
    rng = np.random.default_rng(seed)
    a, b = (jnp.asarray(rng.standard_normal(s), jnp.float8_e4m3fn) for s in ((2, 4, 64), (2, 5, 64)))
    s, t = (jnp.asarray(rng.integers(100, 150, n).astype(np.uint8).view(E8M0)) for n in ((2, 4, 2), (2, 5, 2)))
    x, y = (np.asarray(v, float) * np.repeat(np.asarray(w, float), 32, 2) for v, w in ((a, s), (b, t)))
    return (a, b, s, t), np.einsum("bmk,bnk->bmn", x, y)  # exact: the sums have less than 53 bits


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_scaled_matmul_of_jax(dtype) -> None:
    operands, want = _operands()
    want = interp.cast(want, np.dtype(dtype).name)
    there = [jax.device_put(v, jax.devices("minihlo")[0]) for v in operands]

    def f(*v):
        return jax.nn.scaled_matmul(*v, preferred_element_type=dtype)

    for found in (interp.jit(f)(*operands), jax.jit(f)(*there)):
        assert np.asarray(found).tobytes() == want.tobytes()
    batched = jax.vmap(f)(*(v[None] for v in there))[0]
    assert np.asarray(batched).tobytes() == want.tobytes()


def test_scaled_dot_of_jax_and_its_decomposition() -> None:
    (a, b, s, t), want = _operands(1)
    numbers = (((2,), (2,)), ((0,), (0,)))

    def f(a, b, s, t):
        return jax.lax.scaled_dot(
            a, b, lhs_scale=s, rhs_scale=t, dimension_numbers=numbers, preferred_element_type=jnp.float32
        )

    want = interp.cast(want, "f32").tobytes()
    assert np.asarray(interp.jit(f)(a, b, s, t)).tobytes() == want
    loaded = interp.load(jax.jit(f).lower(a, b, s, t))
    assert np.asarray(loaded(*map(np.asarray, (a, b, s, t)))[0]).tobytes() == want
    high, low = (np.full((1, 1, 1), c, np.uint8).view(E8M0) for c in (254, 0))
    x, y = np.full((1, 1, 32), 448, a.dtype), np.full((1, 1, 32), 1, a.dtype)
    assert interp.jit(f)(x, y, high, low).item() == 448 * 32
    with interp.policy(accumulate="element"):  # 448 * 2**127 is infinite in bf16
        assert np.isinf(interp.jit(f)(x, y, high, low).item())


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_scaled_dot_general_of_jax(mode: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (jnp.asarray(rng.standard_normal(s), jnp.float32) for s in ((2, 32, 64), (2, 64, 32)))
    scale = (jnp.float32(4 / (6 * 448)),) if mode == "nvfp4" else ()
    config = jax.nn.get_scaled_dot_general_config(mode, *scale)

    def f(a, b):
        return jax.nn.scaled_dot_general(a, b, (((2,), (1,)), ((0,), (0,))), configs=[config] * 3)

    there = [jax.device_put(v, jax.devices("minihlo")[0]) for v in (a, b)]
    found = jax.jit(f)(*there)
    assert np.abs(np.asarray(found) - np.asarray(a @ b)).max() < (1.5 if mode == "mxfp8" else 6)
    assert np.asarray(interp.jit(f)(a, b)).tobytes() == np.asarray(found).tobytes()
    slopes = jax.jit(jax.grad(lambda a, b: f(a, b).sum(), (0, 1)))(*there)
    wanted = jax.grad(lambda a, b: (a @ b).sum(), (0, 1))(a, b)
    for slope, want in zip(slopes, wanted, strict=True):
        assert np.abs(np.asarray(slope) - np.asarray(want)).max() < 3


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((1, 2, 64), (1, 3, 64), (1, 2, 3), (1, 3, 2)), "expected scales of lhs with dimension 2 that fits 64, got 3"),
        (((1, 2, 64), (1, 3, 64), (1, 2, 2), (1, 2, 2)), "expected scales of rhs with dimension 1 that fits 3, got 2"),
    ],
)
def test_scales_that_do_not_fit(shapes, message: str) -> None:
    a, b = (np.ones(s, ml_dtypes.float8_e4m3fn) for s in shapes[:2])
    s, t = (np.ones(n, E8M0) for n in shapes[2:])
    with pytest.raises(interp.ProgramError, match=message):
        program(a, b, s, t, "f32")(a, b, s, t)


@pytest.mark.parametrize(("name", "unit"), [("mxfp8_e4m3", "b200.tcgen05"), ("nvfp4", "b200.tcgen05")])
def test_a_chip_sums_as_its_instruction_does(name: str, unit: str) -> None:
    """As the function that sums by a record gives for each sum by itself."""
    fmt = BLOCK_FORMATS[name]
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 128), (2, 4, 128)))
    a, sa = interp.quantize(x, name)[:2]
    b, sb = interp.quantize(y, name)[:2]
    found = np.asarray(program(a, b, sa, sb, "f32")(a, b, sa, sb, policy=interp.Policy(accumulate=unit))[0])
    record = units.find(unit, fmt.element, fmt.element, "f32", (fmt.scale, fmt.size)).record
    for i, m, n in np.ndindex(2, 3, 4):
        options = {"scale_type": fmt.scale, "block": fmt.size}
        want = dots(record, bits_of(a[i, m]), bits_of(b[i, n]), fmt.element, fmt.element,
                    a_scales=bits_of(sa[i, m]), b_scales=bits_of(sb[i, n]), **options)  # fmt: skip
        assert found[i, m, n].tobytes() == np.asarray(want).tobytes()
    with pytest.raises(interp.ProgramError, match="accumulate"):
        program(a, b, sa, sb, "f32")(a, b, sa, sb, policy=interp.Policy(accumulate="h100"))


def test_the_platform_is_exact_until_a_policy_says_otherwise() -> None:
    """Its sums of minifloats are in f32 by default; dots of blocks are so where somebody chooses it."""
    operands = np.full((1, 1, 32), 448, ml_dtypes.float8_e4m3fn), np.full((1, 1, 32), 1, ml_dtypes.float8_e4m3fn)
    scales = [np.full((1, 1, 1), c, np.uint8).view(E8M0) for c in (254, 0)]
    there = [jax.device_put(v, jax.devices("minihlo")[0]) for v in (*operands, *scales)]

    def f(*v):
        return jax.nn.scaled_matmul(*v, preferred_element_type=jnp.float32)

    assert jax.jit(f)(*there).item() == 448 * 32
    with interp.policy(rounding="up"):
        assert jax.jit(f)(*there).item() == 448 * 32
    with interp.policy(accumulate="f32"):
        assert np.isinf(jax.jit(f)(*there).item())
    with interp.policy(accumulate="exact"):
        assert jax.jit(f)(*there).item() == 448 * 32
