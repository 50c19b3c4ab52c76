"""`accumulate` = `exact` and `reproducible` for f16, bf16, f32, f64 and complex operands, against fractions."""

import itertools
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.cli import main
from minihlo.ops.policy import Policy

from .. import oracle
from ..run_op import codes

EXACT, REPRODUCIBLE = Policy(accumulate="exact"), Policy(accumulate="reproducible")
#: Type, significant bits, exponent of the smallest number, exponent of the largest.
TYPES = {
    "f16": (np.dtype(np.float16), 11, -24, 15),
    "bf16": (np.dtype(ml_dtypes.bfloat16), 8, -133, 127),
    "f32": (np.dtype(np.float32), 24, -149, 127),
    "f64": (np.dtype(np.float64), 53, -1074, 1023),
}


def program(shape: tuple[int, int, int], name: str, result: str | None = None) -> interp.LoadedProgram:
    (m, k, n), result = shape, result or name
    x, y, r = f"tensor<{m}x{k}x{name}>", f"tensor<{k}x{n}x{name}>", f"tensor<{m}x{n}x{result}>"
    body = f"%r = stablehlo.dot %x, %y : ({x}, {y}) -> {r}\n return %r : {r}"
    return interp.load(f"func.func @main(%x: {x}, %y: {y}) -> {r} {{ {body} }}")


def product(x: np.ndarray, y: np.ndarray, name: str, result: str | None = None, policy: Policy = EXACT) -> np.ndarray:
    return program((*x.shape, y.shape[1]), name, result)(x, y, policy=policy)[0]


def wanted(x: np.ndarray, y: np.ndarray, result: str) -> list[int]:
    """The codes of the exact sums, each rounded once."""
    a, b = ([[Fraction(float(v)) for v in row] for row in m] for m in (x, y.T))
    sums = [sum((p * q for p, q in zip(row, column, strict=True)), Fraction(0)) for row in a for column in b]
    return [oracle.encode(oracle.FORMATS[result], v) for v in sums]


def _codes(x: np.ndarray) -> list[int]:
    return codes(x).ravel().tolist()


def spread(name: str, shape: tuple[int, int], seed: int, share: float = 1.0) -> np.ndarray:
    """Numbers of all exponents of a type, or of a share of them in the middle."""
    dtype, precision, least, top = TYPES[name]
    rng = np.random.default_rng(seed)
    half, middle = (top - least) * share / 2, (top + least + precision) / 2
    exponents = rng.integers(int(middle - half), int(min(middle + half, top)) + 1, shape)
    return (np.ldexp(rng.uniform(0.5, 1, shape), exponents) * rng.choice([-1, 1], shape)).astype(dtype)


def cancelling(name: str, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose products cancel but for the smallest."""
    x = spread(name, (4, length), seed, 0.4)
    y = spread(name, (length, 4), seed + 1, 0.4)
    x[:, length // 2 :] = -x[:, : length - length // 2]
    y[length // 2 :] = y[: length - length // 2]
    x[:, -1] = spread(name, (4, 1), seed + 2, 0.1)[:, 0]
    return x, y


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_products_of_any_exponents(name: str, share: float) -> None:
    x, y = spread(name, (5, 37), 1, share), spread(name, (37, 6), 2, share)
    assert _codes(product(x, y, name)) == wanted(x, y, name)


@pytest.mark.parametrize("name", TYPES)
def test_products_that_cancel(name: str) -> None:
    x, y = cancelling(name, 64, 3)
    assert _codes(product(x, y, name)) == wanted(x, y, name)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("apart", [0, 4, 8, 10, 24])
def test_slices_whose_sums_are_as_large_as_can_be(apart: int, name: str) -> None:
    """Significands of ones, exponents that lie so far apart, and sums that grow to their largest and come back."""
    dtype, precision, *_ = TYPES[name]
    apart = min(apart, 12) if name == "f16" else apart
    rng = np.random.default_rng(apart)

    def large(shape: tuple[int, int]) -> np.ndarray:
        """Odd significands close to the largest."""
        whole = 2**precision - 1 - 2 * rng.integers(0, 2 ** (precision - 4), shape)
        return whole * 2.0**-precision * 2.0 ** -rng.choice([0, 0, 0, apart], shape)

    x, y = np.empty((3, 2048)), np.empty((2048, 3))
    x[:, :1024], y[:1024] = large((3, 1024)), large((1024, 3))
    order = rng.permutation(1024)
    x[:, 1024:], y[1024:] = -x[:, order], y[order]
    y[2047] = 1  # so that one of the second half does not cancel
    x, y = x.astype(dtype), y.astype(dtype)
    assert _codes(product(x, y, name)) == wanted(x, y, name)
    y[2047] = y[order[-1]]  # and all cancel
    assert not product(x, y, name).any()


@pytest.mark.parametrize(("name", "result"), [p for p in itertools.product(TYPES, TYPES) if p[0] != p[1]])
def test_results_of_another_type(name: str, result: str) -> None:
    """Subnormal results and those beyond the range among them."""
    x, y = spread(name, (6, 9), 5), spread(name, (9, 6), 6)
    assert _codes(product(x, y, name, result)) == wanted(x, y, result)


@pytest.mark.parametrize("name", TYPES)
def test_ties_to_even(name: str) -> None:
    dtype, precision, *_ = TYPES[name]
    half = 2.0**-precision
    low = 2.0 ** -min(precision + 12, 14 if name == "f16" else 60)
    x = np.array([[1, half, 0], [1, half, low], [1, half, -low], [1 + 2 * half, half, 0]]).astype(dtype)
    y = np.array([[1], [1], [low]]).astype(dtype)
    assert _codes(product(x, y, name)) == wanted(x, y, name)


@pytest.mark.parametrize("policy", [EXACT, REPRODUCIBLE], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_special__codes(name: str, policy: Policy) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[inf, 1], [inf, -inf], [nan, 1], [0, 0], [-inf, 2], [1, -1], [-0.0, 0]]).astype(TYPES[name][0])
    y = np.array([[1, 0, -2, 1], [1, 1, inf, 1]]).astype(TYPES[name][0])
    found = product(x, y, name, policy=policy).astype(np.float64)
    expected = [
        [inf, nan, nan, inf],
        [nan, nan, -inf, nan],
        [nan, nan, nan, nan],
        [0, 0, nan, 0],
        [-inf, nan, inf, -inf],
        [0, -1, -inf, 0],
        [0, 0, nan, 0],
    ]
    np.testing.assert_array_equal(found, expected)
    assert not np.signbit(found[found == 0]).any()


def test_a_negative_sum_below_the_range_is_minus_zero() -> None:
    x, y = (np.array([[v]], np.float32) for v in (-(2.0**-140), 2.0**-140))
    assert np.signbit(product(x, y, "f32")[0, 0])
    down = Policy(accumulate="exact", rounding="down")  # f32 is always to nearest
    assert product(x, y, "f32", policy=down)[0, 0] == 0


@pytest.mark.parametrize("rounding", ["down", "up", "toward_zero"])
def test_directed_rounding_of_f16_and_bf16(rounding: str) -> None:
    for name in ("f16", "bf16"):
        x, y = spread(name, (8, 16), 8, 0.1), spread(name, (16, 8), 9, 0.1)
        exact = [Fraction(float(v)) for v in product(x, y, name, "f64").reshape(-1)]
        found = product(x, y, name, policy=Policy(accumulate="exact", rounding=rounding)).astype(np.float64).reshape(-1)
        for value, got in zip(exact, map(Fraction, found.tolist()), strict=True):
            assert {"down": got <= value, "up": got >= value, "toward_zero": abs(got) <= abs(value)}[rounding]
    x, y = np.array([[1, -1]], np.float16), np.array([[1], [1]], np.float16)
    zero = product(x, y, "f16", policy=Policy(accumulate="exact", rounding=rounding))[0, 0]
    assert np.signbit(zero) == (rounding == "down")


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (3, 2, 0), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("policy", [EXACT, REPRODUCIBLE], ids=str)
def test_nothing_to_sum(policy: Policy, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    found = product(np.ones((m, k), np.float32), np.ones((k, n), np.float32), "f32", policy=policy)
    assert found.tolist() == np.full((m, n), k, np.float32).tolist()


def test_complex_products_round_each_part_once() -> None:
    parts = [spread("f32", (3, 8), s, 0.3) for s in (1, 2)], [spread("f32", (8, 3), s, 0.3) for s in (3, 4)]
    x, y = (np.array(a + 1j * b, np.complex64) for a, b in parts)
    (a, b), (c, d) = ([np.real(v), np.imag(v)] for v in (x, y))
    found = product(x, y, "complex<f32>")
    assert _codes(np.real(found)) == wanted(np.hstack([a, -b]), np.vstack([c, d]), "f32")
    assert _codes(np.imag(found)) == wanted(np.hstack([a, b]), np.vstack([d, c]), "f32")


def test_a_minifloat_beside_a_wider_float() -> None:
    x, y = spread("f32", (3, 20), 1, 0.3), spread("f16", (20, 4), 2, 0.2).astype(ml_dtypes.float8_e4m3fn)
    text = """func.func @main(%x: tensor<3x20xf32>, %y: tensor<20x4xf8E4M3FN>) -> tensor<3x4xf32> {
      %r = stablehlo.dot %x, %y : (tensor<3x20xf32>, tensor<20x4xf8E4M3FN>) -> tensor<3x4xf32>
      return %r : tensor<3x4xf32> }"""
    assert _codes(interp.load(text)(x, y, policy=EXACT)[0]) == wanted(x, y.astype(np.float64), "f32")


def test_einsum_and_convolution() -> None:
    x, y = spread("f32", (4, 12), 1, 0.4), spread("f32", (12, 5), 2, 0.4)
    text = """func.func @main(%x: tensor<4x12xf32>, %y: tensor<12x5xf32>) -> tensor<5x4xf32> {
      %r = "stablehlo.einsum"(%x, %y) {einsum_config = "ab,bc->ca"} :
        (tensor<4x12xf32>, tensor<12x5xf32>) -> tensor<5x4xf32>
      return %r : tensor<5x4xf32> }"""
    assert _codes(interp.load(text)(x, y, policy=EXACT)[0].T) == wanted(x, y, "f32")
    text = """func.func @main(%x: tensor<1x20x3xf32>, %y: tensor<4x3x2xf32>) -> tensor<1x17x2xf32> {
      %r = stablehlo.convolution(%x, %y) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :
        (tensor<1x20x3xf32>, tensor<4x3x2xf32>) -> tensor<1x17x2xf32>
      return %r : tensor<1x17x2xf32> }"""
    image, kernel = spread("f32", (20, 3), 5, 0.4), spread("f32", (12, 2), 6, 0.4)
    rows = np.array([image[i : i + 4].reshape(-1) for i in range(17)])
    found = interp.load(text)(image[None], kernel.reshape(4, 3, 2), policy=EXACT)[0]
    assert _codes(found) == wanted(rows, kernel, "f32")


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
def test_reproducible_sums_are_within_their_bound(name: str) -> None:
    x, y = spread(name, (6, 50), 1, 0.1), spread(name, (50, 6), 2, 0.1)
    found = product(x, y, name, "f64", policy=REPRODUCIBLE).reshape(-1)
    exact = [Fraction(float(v)) for v in product(x, y, name, "f64").reshape(-1)]
    largest = np.abs(x.astype(float)).max(1)[:, None] * np.abs(y.astype(float)).max(0)
    for got, value, most in zip(found, exact, largest.reshape(-1), strict=True):
        assert abs(Fraction(float(got)) - value) <= 50 * Fraction(float(most)) / 2**40


def test_default_accumulation() -> None:
    assert Policy().accumulate == "auto"
    x, y = spread("f32", (40, 300), 1, 0.02), spread("f32", (300, 40), 2, 0.02)
    host = product(x, y, "f32", policy=Policy())
    assert host.tobytes() == product(x, y, "f32", policy=Policy(accumulate="f32")).tobytes()
    a, b = (v.astype(ml_dtypes.float8_e5m2) for v in (x, y))
    found = {product(a, b, "f8E5M2", policy=Policy(accumulate=n)).tobytes() for n in ("auto", "exact", "reproducible")}
    assert len(found) == 1


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "dot.mlir").write_text("""func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<f32> {
      %r = stablehlo.dot %x, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
      return %r : tensor<f32> }""")
    inputs = ["--input", "3xf32=[1e30 1 -1e30]", "--input", "3xf32=1"]
    for accumulate, expected in (("exact", "f32=1"), ("auto", "f32=0")):
        options = [*inputs, "--accumulate", accumulate, "--expected"]
        assert main(["run", str(tmp_path / "dot.mlir"), *options, expected]) == 0
        assert main(["run", str(tmp_path / "dot.mlir"), *options, "f32=2"]) == 1


_CHILD = """
import hashlib, sys
import numpy as np, ml_dtypes
from minihlo import interp
rng = np.random.default_rng(0)
for name, dtype in (("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("f16", np.float16)):
    x, y = ((rng.normal(size=(200, 200)) * 2.0 ** rng.integers(-9, 9, (200, 200))).astype(dtype) for _ in range(2))
    t = f"tensor<200x200x{name}>"
    body = f"%r = stablehlo.dot %x, %y : ({t}, {t}) -> {t}" + chr(10) + f"return %r : {t}"
    program = interp.load(f"func.func @main(%x: {t}, %y: {t}) -> {t} {{ {body} }}")
    for accumulate in ("exact", "reproducible", "auto"):
        found = program(x, y, policy=interp.Policy(accumulate=accumulate))[0]
        print(name, accumulate, hashlib.sha256(found.tobytes()).hexdigest())
"""


def test_threads_and_processors_do_not_matter() -> None:
    """Equal bits with one thread, and with two by the kernels that OpenBLAS has for other processors."""
    found = []
    for threads, core in (("1", ""), ("2", "Prescott")):
        env = {**os.environ, "OPENBLAS_NUM_THREADS": threads} | ({"OPENBLAS_CORETYPE": core} if core else {})
        done = subprocess.run([sys.executable, "-c", _CHILD], env=env, capture_output=True, text=True, check=True)
        found.append(done.stdout.splitlines())
    promised = [[line for line in lines if "auto" not in line] for lines in found]
    assert len(promised[0]) == 6
    assert all(p == promised[0] for p in promised)
