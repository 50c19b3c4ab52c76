"""Rules of linear algebra and Fourier transforms: bounds by the condition of the problem.

Substitution, blocked substitution and products with an inverse of the diagonal blocks solve a triangular system T x = b
with an error of at most c * n * u * |T^-1| |T| |T^-1| |b|; a Cholesky factor has one of at most
|L| * tril(|L^-1| * c * n * u * |L| |L^T| * |L^-T|), to first order (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd edition, sections 8.2, 8.3 and 10.3). Where such a bound is no small part of the result, elements are
undecided.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.types import ElementType
from ..program import Operation
from .evaluate import Evaluator, rule
from .values import Enclosure, largest, least_normal, to_f64

#: The roundings of each term of a sum: those of the product, the sum and a division, twice.
_ROUNDINGS = 6
#: Routines of LAPACK.
_ROUTINES = ("potrf", "trsm", "getrf", "syevd", "heevd", "gesdd", "gesvd")
#: The largest relative bound of which the first order says enough.
_FIRST_ORDER = 0.1


def _values(e: Evaluator, x: Enclosure) -> tuple[np.ndarray, np.ndarray]:
    """Return the interpreter's numbers, and how far others may be from them, or seem to be where subnormal numbers are
    taken as zero on the way.
    """
    low, high, _ = x.bounds()
    value, part = to_f64(x.value, x.element), x.element.part
    parts = [part(high - value) for part in (np.real, np.imag)], [part(value - low) for part in (np.real, np.imag)]
    lost = 2 * max(value.shape, default=1) * least_normal(part) if e.allowed.flushes(part) else 0.0
    return value, np.hypot(*np.maximum(*parts)) * (low != high) * (1 + 1e-15) + lost


def _slack(element: ElementType, n: int) -> float:
    """Return the relative error of sums of n terms, each of which is rounded a few times."""
    return _ROUNDINGS * (n + 1) * 2.0**-element.part.format.precision * (2 if element.is_complex else 1)


def _around(
    e: Evaluator, operation: Operation, operands: Sequence[Any], error: np.ndarray, known: np.ndarray | bool = True
) -> list[Enclosure]:
    """Return the interpreter's result with an error; undecided where nothing is known of it."""
    (own,) = e.nominal(operation, operands)
    value = to_f64(own.value, own.element)
    return [e.around(operation, operands, value, error, known & ~np.isnan(error) & np.isfinite(value), own.value)]


@rule("triangular_solve")
def triangular_solve(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The solution of triangular systems."""
    a, b = operands
    if any(x.since is not None for x in operands) or 0 in a.value.shape or 0 in b.value.shape:
        return None
    attributes = operation.attributes
    on_left, lower, unit = (bool(attributes.get(name)) for name in ("left_side", "lower", "unit_diagonal"))
    (t, t_off), (y, y_off) = _values(e, a), _values(e, b)
    if attributes.get("transpose_a") in ("TRANSPOSE", "ADJOINT"):
        t, t_off, lower = t.swapaxes(-2, -1), t_off.swapaxes(-2, -1), not lower
        t = t.conj() if attributes["transpose_a"] == "ADJOINT" else t
    if not on_left:
        t, t_off, y, y_off, lower = (*(v.swapaxes(-2, -1) for v in (t, t_off, y, y_off)), not lower)
    triangle = (np.tril if lower else np.triu)(np.ones(t.shape))
    t, t_off, n = np.where(triangle == 1, t, 0), t_off * triangle, t.shape[-1]
    if unit:
        t, t_off = np.where(np.eye(n) == 1, 1.0, t), np.where(np.eye(n) == 1, 0.0, t_off)
    inverse = _inverse(t)
    if inverse is None:
        return None
    size, back = np.abs(t), np.abs(inverse)
    growth = back @ (_slack(b.element, n) * size + t_off)
    error = (growth @ back @ np.abs(y) + back @ y_off) * (1 + 2 * _FIRST_ORDER)
    error = np.where(np.isfinite(error), error, np.nan)
    # Rows and columns that are divided by the diagonal, as before a block of it is inverted, may overflow.
    diagonal = np.abs(np.diagonal(t, axis1=-2, axis2=-1))
    scaled = np.maximum(size / diagonal[..., None], size / diagonal[..., None, :]).max((-2, -1), keepdims=True)
    known = (growth.sum(-1, keepdims=True) < _FIRST_ORDER) & (scaled <= largest(b.element.part))
    known = np.broadcast_to(known, error.shape)
    if not on_left:
        error, known = error.swapaxes(-2, -1), known.swapaxes(-2, -1)
    return _around(e, operation, operands, error, known)


@rule("cholesky")
def cholesky(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The triangular factor of matrices that are positive definite, whatever lies within their bounds."""
    (a,) = operands
    if a.since is not None or 0 in a.value.shape:
        return None
    value, off = _values(e, a)
    lower, n = bool(operation.attributes.get("lower")), value.shape[-1]
    if not lower:
        value, off = value.conj().swapaxes(-2, -1), off.swapaxes(-2, -1)
    half = np.tril(value, -1)
    whole = half + half.conj().swapaxes(-2, -1) + np.real(value) * np.eye(n)
    off = np.maximum(np.tril(off), np.tril(off).swapaxes(-2, -1))
    try:
        factor = np.linalg.cholesky(whole)
    except np.linalg.LinAlgError:
        return None
    inverse = _inverse(factor)
    if inverse is None:
        return None
    size, back = np.abs(factor), np.abs(inverse)
    relative = np.tril(back @ (_slack(a.element, n) * size @ size.swapaxes(-2, -1) + off) @ back.swapaxes(-2, -1))
    error = size @ relative * (1 + 2 * _FIRST_ORDER)
    known = np.broadcast_to(relative.sum((-2, -1), keepdims=True) < _FIRST_ORDER, error.shape)
    given = np.tril(np.ones((n, n))) == 1
    if not lower:
        error, known, given = error.swapaxes(-2, -1), known.swapaxes(-2, -1), given.T
    # The specification leaves the other triangle open.
    return _around(e, operation, operands, np.where(given, error, np.inf), known | ~given)


@rule("custom_call")
def lapack(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The routines of LAPACK: those that are operations of StableHLO as well, LU, eigenvalues and singular values."""
    name = re.fullmatch(rf"lapack_[sdcz]({'|'.join(_ROUTINES)})_ffi", str(operation.attributes["call_target_name"]))
    given = operation.attributes.get("mhlo.backend_config")
    if name is None or not isinstance(given, dict):
        return None
    if name[1] not in ("potrf", "trsm"):
        (a,) = operands
        if a.since is not None or 0 in a.value.shape:
            return None
        return _factors(e, operation, a) if name[1] == "getrf" else _values_alone(e, operation, a)
    side, diagonal, uplo, way = (chr(int(given.get(key, 0))) for key in ("side", "diag", "uplo", "trans_x"))
    attributes: dict[str, Any] = {"lower": uplo == "L"}
    if name[1] == "trsm":
        attributes |= {"left_side": side == "L", "unit_diagonal": diagonal == "U"}
        attributes["transpose_a"] = {"T": "TRANSPOSE", "C": "ADJOINT"}.get(way, "NO_TRANSPOSE")
    found = cholesky if name[1] == "potrf" else triangular_solve
    same = dataclasses.replace(
        operation, name=f"stablehlo.{found.__name__}", attributes=attributes, results=operation.results[:1]
    )
    results = found(e, e.remember(operation, lambda: same), operands)
    return None if results is None else [*results, *e.nominal(operation, operands)[1:]]


def _factors(e: Evaluator, operation: Operation, a: Enclosure) -> list[Enclosure] | None:
    """Return L and U, which have an error of at most |L| F and F |U| with F = |L^-1| (c * n * u * |L| |U|) |U^-1|, to
    first order (Higham, section 9.11), where no other row may be the pivot, which has the largest magnitude.
    """
    both, pivots, info = e.nominal(operation, [a])
    value, (m, n) = to_f64(both.value, both.element), a.value.shape[-2:]
    if m != n:
        return None
    lower, upper = np.tril(value, -1) + np.eye(n), np.triu(value)
    inverses = _inverse(lower), _inverse(upper)
    if inverses[0] is None or inverses[1] is None:
        return None
    off = _values(e, a)[1].copy()
    for rows, order in zip(off.reshape(-1, n, n), pivots.value.reshape(-1, n) - 1, strict=True):
        for i, pivot in enumerate(order):
            rows[[i, pivot]] = rows[[pivot, i]]
    change = _slack(a.element, n) * np.abs(lower) @ np.abs(upper) + off
    change = np.abs(inverses[0]) @ change @ np.abs(inverses[1])
    error = np.tril(np.abs(lower) @ np.tril(change, -1), -1) + np.triu(change) @ np.abs(upper)
    error = error * (1 + 2 * _FIRST_ORDER)
    known = change.sum((-2, -1)) < _FIRST_ORDER
    known &= (np.tril(np.abs(np.real(value)) + np.abs(np.imag(value)) + error, -1) < 1).all((-2, -1))
    found = e.around(operation, [a], value, error, known[..., None, None], both.value)
    since = e.since(operation, np.broadcast_to(~known[..., None], pivots.value.shape))
    return [found, dataclasses.replace(pivots, since=since), info]


def _values_alone(e: Evaluator, operation: Operation, a: Enclosure) -> list[Enclosure]:
    """Return eigenvalues of Hermitian matrices, or singular values, which change by at most the norm of an error (Weyl,
    section 8.1 of Golub and Van Loan, Matrix Computations, 4th edition); the signs of vectors are free.
    """
    (_, own, *_, info), found = e.nominal(operation, [a]), e.undecide(operation, [a])
    value, off = _values(e, a)
    norms = [np.sqrt(np.sum(np.abs(x) ** 2, axis=(-2, -1)))[..., None] for x in (value, off)]
    error = _slack(a.element, max(a.value.shape[-2:])) * norms[0] + norms[1] * (1 + 2 * _FIRST_ORDER)
    center = to_f64(own.value, own.element)
    found[1] = e.around(operation, [a], center, np.broadcast_to(error, center.shape), value=own.value, index=1)
    return [*found[:-1], info]


def _inverse(triangles: np.ndarray) -> np.ndarray | None:
    """Return the inverses of triangular matrices; None where one has none."""
    try:
        inverse = np.linalg.inv(triangles)
    except np.linalg.LinAlgError:
        return None
    return inverse if np.isfinite(inverse).all() else None


@rule("fft")
def fft(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A Fourier transform: within an error that grows with the logarithm of its length, and the sum of the radii."""
    (x,) = operands
    if x.since is not None:
        return None
    (own,) = e.nominal(operation, operands)
    lengths = [int(n) for n in np.ravel(operation.attributes["fft_length"])]
    kind = str(operation.attributes["fft_type"])
    axes, terms = tuple(range(-len(lengths), 0)), int(np.prod(lengths))
    value, off = _values(e, x)
    size = np.sqrt(np.sum(np.abs(value) ** 2, axis=axes, keepdims=True)) * np.sqrt(terms)
    error = 8 * 2.0**-own.element.part.format.precision * (np.log2(max(terms, 2)) + 2) * size
    # Each element has the weight of its root of one, and twice that where the half that is not given is its conjugate.
    error = error + np.sum(off, axis=axes, keepdims=True) * (2 if kind == "IRFFT" else 1) / (
        terms if kind in ("IFFT", "IRFFT") else 1
    )
    (found,) = _around(e, operation, operands, np.broadcast_to(error, own.value.shape))
    # Sums, and products with roots of one, may overflow before they are divided.
    most = np.sum(np.abs(value) + off, axis=axes, keepdims=True) * 4 > largest(own.element.part)
    return [dataclasses.replace(found, beyond=np.broadcast_to(most, own.value.shape) if most.any() else None)]
