"""Seeded inputs for a program without inputs, chosen so that errors show.

The first run has ordinary numbers, with results within range, and zeros and subnormals among them; the second
has codes of every kind, including NaN and infinities.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..ops.cast import array_of, cast, wrap
from ..ops.policy import Policy
from ..ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType
from .errors import InputError
from .foreign import ELIDED
from .system import memory

RUNS = ("ordinary numbers", "codes of every kind")
_F64 = ELEMENT_TYPES["f64"]
#: The share of very small numbers among the ordinary ones.
_SHARE = 1 / 8
#: The bytes for each element while it is drawn: two numbers of f64, and masks.
_DRAWN = 24


def sample(t: TensorType, run: int, rng: np.random.Generator) -> np.ndarray:
    """A value of type `t` for one of RUNS. Raises ResourceError where it is too large to be drawn."""
    shape = tuple(int(d or 0) for d in t.shape)
    nbytes = math.prod(shape) * (t.element.dtype.itemsize + _DRAWN)
    memory.check(nbytes, f"a sample of {t}", memory.used())
    array = _draw(t, shape, run, rng)
    memory.count(array)
    return array


def _draw(t: TensorType, shape: tuple[int, ...], run: int, rng: np.random.Generator) -> np.ndarray:
    return _ordinary(t.element, shape, rng) if run == 0 else _any(t.element, shape, rng)


def fill_elided(how: str, seed: int = 0) -> Callable[[TensorType], np.ndarray]:
    """Return a function that gives the constant of a type whose data a program leaves out: "zeros", or a "sample".

    Raises InputError for another word.
    """
    if how not in ELIDED:
        raise InputError(f"elided: expected one of {', '.join(ELIDED)}, got {how!r}")
    rng = np.random.Generator(np.random.Philox([seed, len(RUNS)]))
    return lambda t: sample(t, 0, rng) if how == "sample" else np.zeros([n or 0 for n in t.shape], t.element.dtype)


def _ordinary(e: ElementType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if e.kind is Kind.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if e.is_complex:
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(e.dtype)
    if e.is_float:
        numbers = rng.normal(size=shape)
        array = cast(np.asarray(numbers if e.format.is_signed else np.exp2(numbers * 8)), _F64, e, Policy())
        small = array_of(rng.choice(_small(e), size=shape).astype(e.format.code_dtype), e.format)
        return np.where(rng.random(shape) < _SHARE, small, array)
    most = min(8, 1 << (e.bits - (e.kind is Kind.SIGNED)))  # small, as they may be indices
    return wrap(np.asarray(rng.integers(0, most, shape)), e)


def _small(e: ElementType) -> list[int]:
    """Codes of zeros, of the smallest and the largest subnormal and the smallest normal number."""
    fmt = e.format
    normal = 1 << fmt.mantissa_bits
    zeros = [0, fmt.sign_bit] if fmt.has_negative_zero else [0]
    return [*zeros, 1, normal - 1, normal, fmt.sign_bit | 1]


def _any(e: ElementType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if e.kind is Kind.BOOL or not (e.is_float or e.is_complex):
        return _ordinary(e, shape, rng) if e.kind is Kind.BOOL else wrap(_bits(e, shape, rng), e)
    if e.is_complex:
        array = np.empty(shape, e.dtype)
        array.real, array.imag = _any(e.part, shape, rng), _any(e.part, shape, rng)
        return array
    return array_of(_bits(e, shape, rng), e.format)


def _bits(e: ElementType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Random codes."""
    dtype = np.dtype(f"u{e.dtype.itemsize}")
    codes = (
        rng.integers(0, 1 << e.bits, shape, dtype=np.uint64, endpoint=False)
        if e.bits < 64
        else rng.integers(0, np.iinfo(np.uint64).max, shape, dtype=np.uint64, endpoint=True)
    )
    return np.asarray(codes).astype(dtype)
