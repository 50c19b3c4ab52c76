"""Elementary functions: roots, exponentials and logarithms, those of angles, and powers."""

from __future__ import annotations

import numpy as np

from ..minifloat import functions
from ..op import CORRECTLY_ROUNDED, ROUNDED_TO_32
from .elementwise import elementwise

#: Where e to that power and the same less one are one number of f64.
_LARGE = 40


for _name, _host, _direct, _doc in (
    ("log", np.log, functions.log, "Natural logarithm."),
    ("log_plus_one", np.log1p, functions.log_plus_one, "Natural logarithm of 1 + x, accurate near zero."),
    ("tanh", np.tanh, functions.tanh, "Hyperbolic tangent."),
    ("tan", np.tan, functions.tan, "Tangent of an angle in radians."),
    ("sine", np.sin, functions.sine, "Sine of an angle in radians."),
    ("cosine", np.cos, functions.cosine, "Cosine of an angle in radians."),
):
    _expanded = "complex" if _name == "log_plus_one" else ""
    elementwise(_name, "float complex", accuracy=ROUNDED_TO_32, direct=_direct, doc=_doc, expanded=_expanded)(_host)

elementwise("sqrt", "float complex", accuracy=CORRECTLY_ROUNDED, direct=functions.sqrt, doc="Square root.")(np.sqrt)


@elementwise("rsqrt", "float complex", accuracy=ROUNDED_TO_32, direct=functions.rsqrt)
def rsqrt(x):
    """Reciprocal of the square root; of a zero, infinity with its sign."""
    return np.divide(x.dtype.type(1), np.sqrt(x))


@elementwise("cbrt", "float complex", accuracy=ROUNDED_TO_32, direct=functions.cbrt)
def cbrt(x):
    """Cube root; of a complex number the principal one."""
    if np.iscomplexobj(x):
        return np.where(x == 0, x, np.cbrt(np.abs(x)) * np.exp(1j * np.angle(x) / 3))
    return np.cbrt(x)


@elementwise("exponential", "float complex", accuracy=ROUNDED_TO_32, direct=functions.exponential)
def exponential(x):
    """e to the power of the operand."""
    result = np.exp(x)
    if np.iscomplexobj(x):  # as XLA: 0 * (cos + i sin) of an angle that is not finite is NaN
        result = np.where(np.isfinite(x.imag) | np.isnan(x.real), result, complex(np.nan, np.nan))
    return result


@elementwise("exponential_minus_one", "float complex", accuracy=ROUNDED_TO_32, direct=functions.exponential_minus_one)
def exponential_minus_one(x):
    """e to the power of the operand, less one, accurate near zero."""
    result = np.expm1(x)
    if np.iscomplexobj(x):  # the host multiplies an exponential that overflows by a sine, which may be small or zero
        overflows = ~np.isfinite(result) & (x.real > _LARGE)
        result = np.where(overflows, exponential(x), result) if overflows.any() else result
    return result


@elementwise("logistic", "float complex", accuracy=ROUNDED_TO_32, direct=functions.logistic)
def logistic(x):
    """1 / (1 + exp(-x))."""
    one = x.dtype.type(1)
    if np.iscomplexobj(x):
        result = one / (one + np.exp(-x))
        # where exp(-x) overflows, one more than it is exp(-x) itself, and the result is exp(x)
        overflows = ~np.isfinite(result) & np.isfinite(x) & (x.real < -_LARGE)
        return np.where(overflows, np.exp(x), result) if overflows.any() else result
    # exp of what is negative only, so that nothing overflows and small results keep their bits
    return np.exp(np.fmin(x, 0)) / (one + np.exp(-np.abs(x)))


@elementwise("atan2", "float complex", accuracy=ROUNDED_TO_32, operands=2, direct=functions.atan2)
def atan2(y, x):
    """The angle of the point (x, y), in radians, from -pi to pi."""
    return _complex_atan2(y, x) if np.iscomplexobj(y) else np.arctan2(y, x)


def _complex_atan2(y, x):
    """-i log(p / sqrt(x² + y²)) for p = x + iy; with m = x - iy, that is (arg(p / m) - i log(|p|² / |m|²) / 2) / 2.

    The second form keeps the digits of small parts; the first says which of the angles that differ by pi is meant.
    """
    result = -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))
    p = np.square(x.real - y.imag) + np.square(x.imag + y.real)
    difference = 4 * (x.real * y.imag - x.imag * y.real)  # |m|² - |p|²
    imaginary = np.log1p(difference / p) / 4
    square, across = np.abs(x) ** 2 - np.abs(y) ** 2, 2 * (x.real * y.real + x.imag * y.imag)
    real = np.arctan2(across, square) / 2
    real += np.pi * np.round((result.real - real) / np.pi)
    is_apart = (p > 0) & (np.abs(difference) < p)  # from the two points where the function is infinite
    imaginary = np.where(is_apart & np.isfinite(imaginary), imaginary, result.imag)
    real = np.where(is_apart & np.isfinite(real) & (across != 0), real, result.real)
    result = np.empty_like(result)
    result.real, result.imag = real, imaginary
    return result


def _power_integers(x, y):
    if x.dtype.kind == "u":
        return np.power(x, y)
    # A negative power is the integer part of the reciprocal: nothing is left but for 1 and -1.
    inverse = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)).astype(x.dtype)
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


@elementwise(
    "power",
    "integer float complex",
    accuracy=ROUNDED_TO_32,
    operands=2,
    direct=functions.power,
    integer=_power_integers,
)
def power(x, y):
    """The first operand to the power of the second; integers wrap, and negative powers are truncated."""
    return np.power(x, y)
