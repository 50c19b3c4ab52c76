"""Discrete Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import Accuracy, Call, OpError, Run, op
from ..require import require, require_shape
from ..types import ELEMENT_TYPES, ElementType

_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


@op(
    "fft",
    "f32 f64 complex",
    values="numbers",
    operands=1,
    accuracy=Accuracy("computed in f64 by the host's transform and rounded once"),
)
def fft(call: Call) -> Run:
    """The discrete Fourier transform over the last one to three dimensions, or its inverse.

    `RFFT` is that of real numbers, with the half of the last dimension left out that mirrors the other; `IRFFT` undoes
    it, and `IFFT` undoes `FFT`: both inverses divide by the number of elements transform. Between complex tensors
    only the number of lengths counts.

    (C1) no more lengths than dimensions. (C2) the element types fit the kind. (C3) one to three lengths. (C4) they are
    the last dimensions of the real tensor. (C5) the result has the operand's shape, but for the halved last dimension.
    """
    kind, lengths, t, result = call.attribute("fft_type"), call.integers("fft_length"), call.tensor(), call.result()
    if kind not in _KINDS:
        raise OpError(f"expected an fft_type of {', '.join(_KINDS)}, got {kind!r}")
    require(1 <= len(lengths) <= 3, f"fft_length {list(lengths)} has {len(lengths)} elements (expected one to three)")
    require(len(lengths) <= len(t.shape), f"fft_length {list(lengths)} has more elements than {t} has dimensions")
    elements = _result_type(kind, t.element)
    require(result.element == elements, f"{kind} of {t} gives elements of {result.element} (expected {elements})")
    before, last = t.shape[: -len(lengths)], t.shape[-len(lengths) :]
    match kind:
        case "RFFT":
            expected, shape = lengths, (*t.shape[:-1], _half(last[-1]))
        case "IRFFT":
            expected, shape = (*lengths[:-1], _half(lengths[-1])), (*before, *lengths)
        case _:
            expected, shape = last, t.shape
    fits = all(m is None or m == n for m, n in zip(last, expected, strict=True))
    require(fits, f"fft_length {list(lengths)} does not fit {t} (expected last dimensions {list(expected)})")
    require_shape(call, shape)
    return _kernel(kind, lengths, result.element)


def _kernel(kind: str, lengths: tuple[int, ...], element: ElementType) -> Run:
    axes, is_inverse = tuple(range(-len(lengths), 0)), kind == "IRFFT"
    wide = np.dtype(np.float64 if kind == "RFFT" else np.complex128)
    transform: Any = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[kind]

    def kernel(x: np.ndarray) -> np.ndarray:
        before, last = x.shape[: -len(lengths)], x.shape[-len(lengths) :]
        last = lengths if is_inverse else last
        if not x.size:
            half = (*last[:-1], _half(last[-1]) or 0)
            return np.zeros((*before, *(half if kind == "RFFT" else last)), element.dtype)
        return transform(x.astype(wide), last, axes).astype(element.dtype)

    return kernel


def _half(n: int | None) -> int | None:
    """The number of elements of a transform of `n` real ones that do not mirror others."""
    return n // 2 + 1 if n else n


def _result_type(kind: str, element: ElementType) -> ElementType:
    """(C2) The element type of the result. Raises OpError where the kind does not take `element`."""
    if element.is_complex == (kind == "RFFT"):
        raise OpError(
            f"{kind} does not take {element} (takes {'f32 and f64' if element.is_complex else 'complex types'})"
        )
    if kind == "RFFT":
        return ELEMENT_TYPES[f"complex<{element.name}>"]
    return element.part if kind == "IRFFT" else element
