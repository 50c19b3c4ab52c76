"""fft: the defining sums in extended precision, exact small cases, and XLA on CPU."""

import functools

import jax
import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.types import TensorType

from ..run_op import bind, run, tensor

RNG = np.random.default_rng(3)
REAL = {"complex<f32>": "f32", "complex<f64>": "f64"}
COMPLEX = pytest.mark.parametrize("element", REAL)


def fft(kind: str, x: np.ndarray, shape: tuple[int, ...], *lengths: int) -> np.ndarray:
    single = x.dtype in (np.float32, np.complex64)
    element = ("f32" if single else "f64") if kind == "IRFFT" else ("complex<f32>" if single else "complex<f64>")
    return run("fft", x, result=tensor(element, *shape), fft_type=kind, fft_length=lengths)


def random(dtype: str, *shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype)


@functools.cache
def roots(n: int, sign: int) -> np.ndarray:
    """exp(sign 2 pi i j k / n) for all j and k."""
    turns = np.outer(np.arange(n), np.arange(n)) % n
    angle = turns.astype(np.longdouble) * (2 * np.arctan2(np.longdouble(0), np.longdouble(-1)) / n)
    return np.cos(angle) + 1j * sign * np.sin(angle)


def transform(x: np.ndarray, axes: int, sign: int) -> np.ndarray:
    """The sums over the last axes, each written out."""
    x = x.astype(np.clongdouble)
    for axis in range(-axes, 0):
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ roots(x.shape[axis], sign), -1, axis)
    return x


def close(result: np.ndarray, expected: np.ndarray, total: float) -> bool:
    """Rounded once from f64: half a unit of each part, and a little of the sum of all that went in."""
    parts = (
        [(result.real, expected.real), (result.imag, expected.imag)]
        if np.iscomplexobj(result)
        else [(result, expected)]
    )
    half = np.finfo(result.dtype).eps / 2 if result.dtype.char in "fF" else 0
    return all((np.abs(f - e) <= half * np.abs(e) + 1e-15 * total).all() for f, e in parts)


SHAPES = [
    ((1,), 1),
    ((2,), 1),
    ((7,), 1),
    ((60,), 1),
    ((3, 8), 1),
    ((4, 6), 2),
    ((2, 5, 3), 2),
    ((2, 3, 4, 5), 3),
    ((97,), 1),
]


@COMPLEX
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_sums(element: str, shape: tuple[int, ...], axes: int) -> None:
    lengths, last = shape[-axes:], shape[-1]
    half = (*shape[:-1], last // 2 + 1)
    x = random("F" if element == "complex<f32>" else "D", *shape)
    total, size = np.abs(x).sum(), np.prod(lengths)
    assert close(fft("FFT", x, shape, *lengths), transform(x, axes, -1), total)
    assert close(fft("IFFT", x, shape, *lengths), transform(x, axes, 1) / size, total)
    real = x.real.copy()
    spectrum = transform(real, axes, -1)[..., : half[-1]]
    assert close(fft("RFFT", real, half, *lengths), spectrum, total)
    # IRFFT undoes it: its operand is rounded, so what it should give is computed from the rounded one.
    rounded = spectrum.astype(x.dtype)
    mirrored = rounded[..., 1 : (last + 1) // 2]
    for axis in range(-axes, -1):
        mirrored = np.roll(np.flip(mirrored, axis), 1, axis)
    whole = np.concatenate((rounded, np.flip(mirrored, -1).conj()), -1)
    assert close(fft("IRFFT", rounded, shape, *lengths), (transform(whole, axes, 1) / size).real, total)


@COMPLEX
def test_exact_cases(element: str) -> None:
    dtype = "F" if element == "complex<f32>" else "D"
    assert fft("FFT", np.array([0, 1, 2, 3], dtype), (4,), 4).tolist() == [6, -2 + 2j, -2, -2 - 2j]
    assert fft("IFFT", np.array([6, -2 + 2j, -2, -2 - 2j], dtype), (4,), 4).tolist() == [0, 1, 2, 3]
    assert fft("RFFT", np.array([0, 1, 2, 3], dtype.lower()), (3,), 4).tolist() == [6, -2 + 2j, -2]
    assert fft("IRFFT", np.array([6, -2 + 2j, -2], dtype), (4,), 4).tolist() == [0, 1, 2, 3]
    assert fft("IRFFT", np.array([3, 0], dtype), (3,), 3).tolist() == [1, 1, 1]
    impulse = np.zeros((2, 2, 2), dtype)
    impulse[0, 0, 0] = 1
    assert (fft("FFT", impulse, (2, 2, 2), 2, 2, 2) == 1).all()


def test_f32_is_rounded_once_from_f64() -> None:
    """In f32 these would cancel to nothing: 2**24 + 1 - 2**24."""
    x = np.array([2**24, 1, -(2**24), 0], np.complex64)
    assert fft("FFT", x, (4,), 4)[0] == 1


def test_nan_and_infinity_spread() -> None:
    assert np.isnan(fft("FFT", np.array([np.nan, 1], "F"), (2,), 2)).all()
    assert not np.isfinite(fft("FFT", np.array([[np.inf, 1], [1, 1]], "F"), (2, 2), 2)[0]).any()


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("lengths", [(6,), (4, 6), (3, 4, 6)], ids=str)
def test_xla_gives_the_same(kind: str, lengths: tuple[int, ...]) -> None:
    shape = (2, 3, 4, 6)
    if kind == "RFFT":
        x, expected_shape = random("F", *shape).real.copy(), (2, 3, 4, 4)
    elif kind == "IRFFT":
        spectrum = np.fft.rfftn(RNG.standard_normal(shape), axes=range(-len(lengths), 0))
        x, expected_shape = spectrum.astype(np.complex64), shape
    else:
        x, expected_shape = random("F", *shape), shape
    expected = jax.lax.fft(x, getattr(jax.lax.FftType, kind), lengths)
    np.testing.assert_allclose(fft(kind, x, expected_shape, *lengths), expected, rtol=1e-5, atol=1e-5)


@COMPLEX
def test_nothing(element: str) -> None:
    dtype = "F" if element == "complex<f32>" else "D"
    for kind in ("FFT", "IFFT"):
        for shape in ((0,), (3, 0), (0, 3)):
            fft(kind, np.empty(shape, dtype), shape, shape[-1])
        fft(kind, np.empty((2, 0, 4), dtype), (2, 0, 4), 0, 4)
    fft("RFFT", np.empty(0, dtype.lower()), (0,), 0)
    fft("RFFT", np.empty((0, 4), dtype.lower()), (0, 3), 4)
    fft("IRFFT", np.empty((2, 0), dtype), (2, 0), 0)
    fft("IRFFT", np.empty((0, 3), dtype), (0, 5), 5)


C4, R4 = tensor("complex<f32>", 4), tensor("f32", 4)


@pytest.mark.parametrize(
    ("kind", "lengths", "operand", "result", "message"),
    [
        ("FFT", (), C4, C4, "one to three"),
        ("FFT", (1, 1, 1, 1), tensor("complex<f32>", 1, 1, 1, 1), tensor("complex<f32>", 1, 1, 1, 1), "one to three"),
        ("FFT", (4, 4), C4, C4, "more elements than"),
        ("FFT", (4,), R4, R4, "does not take f32"),
        ("FFT", (4,), C4, tensor("complex<f64>", 4), "expected complex<f32>"),
        ("FFT", (4,), C4, tensor("complex<f32>", 5), "shape"),
        ("RFFT", (4,), C4, C4, "does not take complex<f32>"),
        ("RFFT", (4,), R4, tensor("complex<f32>", 4), "shape"),
        ("RFFT", (3,), R4, tensor("complex<f32>", 3), "does not fit"),
        ("IRFFT", (4,), tensor("complex<f32>", 3), tensor("f64", 4), "expected f32"),
        ("IRFFT", (4,), C4, R4, "does not fit"),
        ("IRFFT", (5,), tensor("complex<f32>", 3), R4, "shape"),
        ("DFT", (4,), C4, C4, "expected an fft_type"),
        ("RFFT", (4,), tensor("f16", 4), tensor("complex<f32>", 3), "expected an element type of"),
    ],
)
def test_errors(kind: str, lengths: tuple[int, ...], operand: TensorType, result: TensorType, message: str) -> None:
    with pytest.raises(OpError, match=message):
        bind("fft", [operand], result, fft_type=kind, fft_length=lengths)
