"""Enclosures hold the results of legal evaluations, which are computed here by other means, and not those of faults."""

from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.enclose import Allowed, Enclosure, enclose
from minihlo.interp.parse import parser

NAMES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


def enclosure(text: str, *arrays: np.ndarray, **allowed: bool) -> Enclosure:
    (found,) = enclose(parser.parse(text), arrays, Allowed(**allowed))  # type: ignore[arg-type]
    return found


def sample(seed: int, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 6, shape)).astype(dtype)


@pytest.mark.parametrize("name", NAMES)
def test_sums_in_any_order_and_grouping(name: str) -> None:
    dtype, length = NAMES[name], 37
    x = sample(1, (length, 50), dtype)
    found = enclosure(
        f"""func.func @main(%x: tensor<{length}x50x{name}>) -> tensor<50x{name}> {{
          %z = stablehlo.constant dense<0.0> : tensor<{name}>
          %r = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
            : (tensor<{length}x50x{name}>, tensor<{name}>) -> tensor<50x{name}>
          return %r : tensor<50x{name}>
        }}""",
        x,
    )
    rng = np.random.default_rng(2)
    for _ in range(300):
        parts = list(x[rng.permutation(length)])
        wide = np.float32 if rng.integers(2) else dtype  # partial sums may be kept wider
        while len(parts) > 1:
            i = int(rng.integers(len(parts) - 1)) if rng.integers(2) else 0
            parts[i : i + 2] = [(parts[i].astype(wide) + parts[i + 1].astype(wide)).astype(wide)]
        assert found.admits(parts[0].astype(dtype)).all()
    dropped = x[1:].astype(np.float64).sum(0).astype(dtype)
    assert not found.admits(dropped).all()


def test_sums_of_which_a_step_overflows() -> None:
    """Numbers wider than f16 sum to 160, and those of f16 to infinity or NaN; no other number is right."""
    text = """func.func @main(%x: tensor<5x2xf16>) -> tensor<2xf16> {
      %z = stablehlo.constant dense<0.0> : tensor<f16>
      %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<5x2xf16>, tensor<f16>) -> tensor<2xf16>
      %r = stablehlo.reverse %s, dims = [0] : tensor<2xf16>
      return %r : tensor<2xf16>
    }"""
    found = enclosure(text, np.array([[6e4, 1], [6e4, 1], [-6e4, 1], [-6e4, 1], [160, 1]], np.float16))
    given = [np.array([5, x], np.float16) for x in (160, np.inf, -np.inf, np.nan, -2e3, 7e3, 65504)]
    assert [found.admits(x).all() for x in given] == [True] * 4 + [False] * 3
    assert not found.admits(np.full(2, np.inf, np.float16))[0]


def test_products_are_contracted() -> None:
    x, y, z = (sample(s, (400,), np.float32) for s in (1, 2, 3))
    z = (-x * y).astype(np.float32) * np.float32(1 + 2**-20)  # what is left shows every rounding
    t = "tensor<400xf32>"
    text = f"""func.func @main(%x: {t}, %y: {t}, %z: {t}) -> {t} {{
      %p = stablehlo.multiply %x, %y : {t}
      %s = stablehlo.add %p, %z : {t}
      return %s : {t}
    }}"""
    found, separate = enclosure(text, x, y, z), enclosure(text, x, y, z, wide=False)
    exact = [
        float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in zip(x, y, z, strict=True)
    ]
    fused = np.array(exact).astype(np.float32)
    assert (fused != found.value).any()
    assert found.admits(fused).all()
    assert not separate.admits(fused).all()


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_chains_in_f32(name: str) -> None:
    dtype, t = NAMES[name], f"tensor<500x{name}>"
    x, y = sample(4, (500,), dtype), sample(5, (500,), dtype)
    found = enclosure(
        f"""func.func @main(%x: {t}, %y: {t}) -> {t} {{
          %a = stablehlo.add %x, %y : {t}
          %b = stablehlo.multiply %a, %y : {t}
          %c = stablehlo.subtract %b, %x : {t}
          return %c : {t}
        }}""",
        x, y,
    )  # fmt: skip
    a, b = x.astype(np.float32), y.astype(np.float32)
    for rounds in range(8):  # after which operations the type is rounded to
        v = a + b
        v = v.astype(dtype).astype(np.float32) if rounds & 1 else v
        v = v * b
        v = v.astype(dtype).astype(np.float32) if rounds & 2 else v
        assert found.admits((v - a).astype(dtype)).all()


@pytest.mark.parametrize("chip", ["h100", "b200", "mi300", "v100"])
def test_products_as_chips_sum_them(chip: str) -> None:
    name, gives = {"mi300": ("f8E4M3FNUZ", "f32"), "v100": ("f16", "f16")}.get(chip, ("f8E4M3FN", "f32"))
    dtype = {"f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f16": np.float16}.get(name, ml_dtypes.float8_e4m3fn)
    x, y = sample(6, (20, 256), dtype), sample(7, (256, 20), dtype)
    text = f"""func.func @main(%x: tensor<20x256x{name}>, %y: tensor<256x20x{name}>) -> tensor<20x20x{gives}> {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<20x256x{name}>, tensor<256x20x{name}>) -> tensor<20x20x{gives}>
      return %0 : tensor<20x20x{gives}>
    }}"""
    found = enclosure(text, x, y)
    theirs = np.asarray(interp.load(text)(x, y, policy=interp.Policy.target(chip))[0])
    assert (theirs != found.value).any()
    assert found.admits(theirs).all()
    assert not found.admits((x[:, 6:].astype(np.float32) @ y[6:].astype(np.float32)).astype(theirs.dtype)).all()


@pytest.mark.parametrize("precision", ["DEFAULT", "HIGHEST"])
def test_products_of_narrowed_operands(precision: str) -> None:
    text = f"""func.func @main(%x: tensor<9x64xf32>, %y: tensor<64x9xf32>) -> tensor<9x9xf32> {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [{precision}, {precision}]
        : (tensor<9x64xf32>, tensor<64x9xf32>) -> tensor<9x9xf32>
      return %0 : tensor<9x9xf32>
    }}"""
    x, y = sample(8, (9, 64), np.float32), sample(9, (64, 9), np.float32)
    found = enclosure(text, x, y)
    tf32 = [(v.view(np.int32) & ~0x1FFF).view(np.float32) for v in (x, y)]  # a matrix unit cuts off 13 bits
    for a, b in (tf32, [v.astype(ml_dtypes.bfloat16).astype(np.float32) for v in (x, y)]):
        assert found.admits(a @ b).all() == (precision == "DEFAULT")
    assert not found.admits(x[:, 1:] @ y[1:]).all()


ONE = "func.func @main(%x: tensor<300xf32>) -> tensor<300x{t}> {{\n{body}\n return %r : tensor<300x{t}>\n}}"
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exponential": np.exp, "tanh": np.tanh, "sine": np.sin, "cosine": np.cos,
    "logistic": lambda v: 1 / (1 + np.exp(-v)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_intervals(name: str) -> None:
    """A function of a sum, which may be rounded or not: both within, and off by much outside."""
    body = f""" %s = stablehlo.add %x, %x : tensor<300xf32>
      %t = stablehlo.multiply %s, %x : tensor<300xf32>
      %r = stablehlo.{name} %t : tensor<300xf32>"""
    x = sample(8, (300,), np.float32).clip(-3, 3)
    found = enclosure(ONE.format(t="f32", body=body), x)
    exact = FUNCTIONS[name](2 * x.astype(np.float64) ** 2)
    for step in (-1, 0, 1):
        theirs = exact.astype(np.float32)
        theirs = np.nextafter(theirs, np.float32(step * np.inf)) if step else theirs
        assert found.admits(theirs).all()
    assert not found.admits((exact * 1.001 + 1e-3).astype(np.float32)).any()


def test_quotients_by_a_reciprocal_that_is_subnormal() -> None:
    body = """ %c = stablehlo.constant dense<2.5e38> : tensor<300xf32>
      %r = stablehlo.divide %x, %c : tensor<300xf32>"""
    x = np.full(300, 1e38, np.float32)
    for reciprocal in (np.float32(0), 1 / np.float32(2.5e38)):
        assert enclosure(ONE.format(t="f32", body=body), x).admits(x * reciprocal).all()


def test_quotients_of_flushed_numbers_are_nan() -> None:
    body = " %r = stablehlo.divide %x, %x : tensor<300xf32>"
    found = enclosure(ONE.format(t="f32", body=body), np.full(300, 1e-45, np.float32))
    assert found.admits(np.full(300, np.nan, np.float32)).all()
    assert (
        not enclosure(ONE.format(t="f32", body=body), np.ones(300, np.float32)).admits(np.float32([np.nan] * 300)).any()
    )


@pytest.mark.parametrize("combine", ["add", "multiply"])
def test_what_is_nan_in_any_order(combine: str) -> None:
    body = f""" %z = stablehlo.constant dense<0.0> : tensor<f32>
      %e = stablehlo.exponential %x : tensor<300xf32>
      %s = stablehlo.reduce(%e init: %z) applies stablehlo.{combine} across dimensions = [0]
        : (tensor<300xf32>, tensor<f32>) -> tensor<f32>
      %r = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<300xf32>"""
    found = enclosure(ONE.format(t="f32", body=body), np.where(np.arange(300) == 7, np.nan, np.float32(1)))
    assert [found.admits(np.full(300, x, np.float32)).any() for x in (np.nan, 1)] == [True, False]


def test_bits_of_nan_are_open_unless_it_is_moved() -> None:
    text = ONE.format(
        t="i32", body="%y = BODY\n%r = stablehlo.bitcast_convert %y : (tensor<300xf32>) -> tensor<300xi32>"
    )
    x = np.where(np.arange(300) < 9, np.nan, np.float32(2))
    for body, count in (("reverse %x, dims = [0]", 0), ("negate %x", 9)):
        assert enclosure(text.replace("BODY", f"stablehlo.{body} : tensor<300xf32>"), x).undecided.sum() == count


def test_what_is_not_decided() -> None:
    """Both outcomes of a comparison that hangs on a rounding are allowed, also where it ends a loop."""
    body = """ %c = stablehlo.constant dense<0x3F800002> : tensor<300xf32>
      %p = stablehlo.multiply %x, %x : tensor<300xf32>
      %q = stablehlo.compare GT, %p, %c : (tensor<300xf32>, tensor<300xf32>) -> tensor<300xi1>
      %r = stablehlo.select %q, %x, %c : tensor<300xi1>, tensor<300xf32>"""
    x = np.full(300, 1 + 2.0**-23, np.float32)
    found = enclosure(ONE.format(t="f32", body=body), x)
    assert found.admits(x).all()
    assert found.admits(np.full(300, 1 + 2.0**-22, np.float32)).all()
    assert not found.admits(np.full(300, 2.0, np.float32)).any()
    loop = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %r = stablehlo.while(%v = %x) : tensor<f32>
        cond { %c = stablehlo.constant dense<0.3> : tensor<f32>
          %g = stablehlo.compare LT, %v, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %g : tensor<i1> }
        do { %d = stablehlo.constant dense<0.1> : tensor<f32>
          %n = stablehlo.add %v, %d : tensor<f32>
          stablehlo.return %n : tensor<f32> }
      return %r : tensor<f32>
    }"""
    found = enclosure(loop, np.float32(0.1))
    assert [found.admits(np.float32(x)).item() for x in (0.2, 0.3, 0.4, 0.5)] == [False, True, True, False]
    assert not found.undecided.any()


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_dots_by_the_steps_of_the_specification(name: str) -> None:
    x, y = sample(5, (4, 16), NAMES[name]), sample(6, (16, 3), NAMES[name])
    found = enclosure(
        f"""func.func @main(%x: tensor<4x16x{name}>, %y: tensor<16x3x{name}>) -> tensor<4x3x{name}> {{
          %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
            : (tensor<4x16x{name}>, tensor<16x3x{name}>) -> tensor<4x3x{name}>
          return %0 : tensor<4x3x{name}> }}""", x, y)  # fmt: skip
    steps = np.zeros((4, 3), NAMES[name])
    for k in range(16):
        steps = steps + x[:, k : k + 1] * y[k]
    assert found.admits(steps).all()
    assert not found.admits(np.zeros_like(steps)).any()


def test_a_search_by_integers_is_decided() -> None:
    """The half of a sum of chosen integers, as in a binary search, picks one element."""
    text = """func.func @main(%x: tensor<8xf32>, %y: tensor<f32>) -> tensor<1xf32> {
      %lo = stablehlo.constant dense<2> : tensor<i32>
      %hi = stablehlo.constant dense<7> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %z = stablehlo.add %y, %y : tensor<f32>
      %c = stablehlo.compare LT, %z, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %a = stablehlo.select %c, %lo, %hi : tensor<i1>, tensor<i32>
      %s = stablehlo.add %a, %lo : tensor<i32>
      %m = stablehlo.divide %s, %two : tensor<i32>
      %r = stablehlo.dynamic_slice %x, %m, sizes = [1] : (tensor<8xf32>, tensor<i32>) -> tensor<1xf32>
      return %r : tensor<1xf32>
    }"""
    x = np.arange(8, dtype=np.float32)
    for y, choices in ((3.0, [4]), (-1.0, [2])):  # 9 / 2 and 4 / 2
        found = enclosure(text, x, np.float32(y))
        assert [i for i in range(8) if found.admits(x[i : i + 1]).all()] == choices
        assert not found.undecided.any()
