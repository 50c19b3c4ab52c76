"""The custom calls of XLA's and JAX's programs: linear algebra, and marks that change no value.

The factorizations are the host's (LAPACK by numpy, by scipy where numpy has none), computed in f64 or complex<f64> and
rounded once. One that does not converge gives NaN throughout.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..blas import look_again, one_thread
from ..op import Call, OpError, Run
from ..require import identity
from .custom_call import Target, bound_target, target

Arrays = tuple[np.ndarray, ...]

#: So many matrices for each of their rows are factored one by one, others step by step, all at once. The last bits of
#: f64 differ.
#: tuning: LU of 64 2×2 f32 takes 62 µs step by step, 258 µs one by one, of one 316×316 15.8 and 0.7 ms.
_FEW = 4


for _name in (
    "Sharding", "annotate_device_placement", "LayoutConstraint", "xla.sdy.FuncResultSharding", "MoveToHost",
    "MoveToDevice",
):  # fmt: skip
    target(_name)(identity)


@bound_target("InspectSharding")
def _inspect(call: Call) -> Run:
    """The operand, or nothing: the host is told how it lies on the devices."""
    return identity if call.results else lambda _: ()


@target("dce_sink")
def _sink(*_: Any) -> None:
    """Keeps its operands from being left out of a program."""


def _linear(name: str) -> Callable[[Target], Target]:
    """Makes the decorated function, while BLAS has one thread, what `custom_call @name` calls."""
    return lambda function: target(name)(one_thread()(function))


def real_type(dtype: np.dtype) -> np.dtype:
    """The type of a complex type's parts; any other type itself."""
    return np.real(np.zeros(0, dtype)).dtype


def wide(a: np.ndarray) -> np.ndarray:
    """The matrices in double precision."""
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def _or_nan(function: Callable[..., Arrays], shapes: list[tuple[int, ...]], *arguments: Any) -> Arrays:
    """What `function` gives; NaN of the shapes where it does not converge."""
    try:
        return function(*arguments)
    except (np.linalg.LinAlgError, ValueError):
        return tuple(np.full(shape, np.nan) for shape in shapes)


def each(a: np.ndarray, function: Callable[[np.ndarray], Arrays]) -> Arrays:
    """The results of a function of one matrix for each of many."""
    batch = a.shape[:-2]
    if not batch:
        return function(a)
    rows = [function(m) for m in a.reshape(-1, *a.shape[-2:])]
    return tuple(np.stack(parts).reshape(*batch, *parts[0].shape) for parts in zip(*rows, strict=True))


@_linear("Qr")
def qr(a: np.ndarray) -> Arrays:
    """Householder's factors: R above the diagonal, the reflectors below it, and their scales."""
    m, n = a.shape[-2:]
    if not a.size:
        return a, np.zeros((*a.shape[:-2], min(m, n)), a.dtype)
    h, tau = np.linalg.qr(wide(a), "raw")
    return h.mT.astype(a.dtype), tau.astype(a.dtype)


@_linear("ProductOfElementaryHouseholderReflectors")
def householder_product(a: np.ndarray, taus: np.ndarray) -> np.ndarray:
    """The columns of the product of reflectors that `Qr` gives."""
    (m, n), k = a.shape[-2:], taus.shape[-1]
    v = np.tril(wide(a)[..., :k], -1) + np.eye(m, k)
    adjoint, scales = v.mT.conj(), wide(taus)[..., None]
    # I - V T V*, by the UT transform (Joffrain et al., 2006): the inverse of T is that of the scales, and V* V above.
    t = np.linalg.solve(np.eye(k) + scales * np.triu(adjoint @ v, 1), scales * np.eye(k))
    return (np.eye(m, n) - v @ t @ adjoint[..., :n]).astype(a.dtype)


@_linear("minihlo.geqp3")
def pivoted_qr(a: np.ndarray, pivots: np.ndarray) -> Arrays:
    """As `Qr`, of a matrix whose columns are put in order on the way."""
    if not a.size:
        order = np.broadcast_to(np.arange(1, a.shape[-1] + 1, dtype=pivots.dtype), pivots.shape)
        return a, order.copy(), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    r, order, tau = each(wide(a), lambda m: _lapack("geqp3", m)[:3])
    return r.astype(a.dtype), order.astype(pivots.dtype), tau.astype(a.dtype)


@_linear("LuDecomposition")
def lu(a: np.ndarray) -> Arrays:
    """Both factors in one matrix, the row that each step swapped with its own, and the order of the rows."""
    lu = wide(a)
    m, n = a.shape[-2:]
    steps = min(m, n)
    if _are_few(a):
        lu, pivots, order = each(lu, _lu_by_lapack)
        return lu.astype(a.dtype, order="C"), pivots, order
    lu = lu.reshape(math.prod(a.shape[:-2]), m, n)
    every = np.arange(len(lu))
    pivots = np.zeros((len(lu), steps), np.int32)
    order = np.tile(np.arange(m, dtype=np.int32), (len(lu), 1))
    for i in range(steps):
        column = np.abs(np.real(lu[:, i:, i])) + np.abs(np.imag(lu[:, i:, i]))
        pivot = i + np.argmax(np.where(np.isnan(column), -1, column), axis=1)
        pivots[:, i] = pivot
        for rows in (lu, order):
            rows[every, i], rows[every, pivot] = rows[every, pivot], rows[every, i].copy()
        scale = lu[:, i, i]
        lu[:, i + 1 :, i] /= np.where(scale == 0, 1, scale)[:, None]
        lu[:, i + 1 :, i + 1 :] -= lu[:, i + 1 :, i, None] * lu[:, i, None, i + 1 :]
    batch = a.shape[:-2]
    return lu.reshape(a.shape).astype(a.dtype), pivots.reshape(*batch, steps), order.reshape(*batch, m)


def _lu_by_lapack(a: np.ndarray) -> Arrays:
    """The same as `lu` of one matrix."""
    lu, pivots, _ = _lapack("getrf", a)
    order = np.arange(len(a), dtype=np.int32)
    for i, pivot in enumerate(pivots.tolist()):
        order[i], order[pivot] = order[pivot], order[i]
    return lu, pivots.astype(np.int32), order


@_linear("minihlo.eigh")
def eigh(a: np.ndarray, lower: bool = True) -> Arrays:
    """The eigenvectors and eigenvalues of a Hermitian matrix, of which one triangle is read."""

    w, v = _or_nan(np.linalg.eigh, [a.shape[:-1], a.shape], wide(a), "L" if lower else "U")
    return v.astype(a.dtype), w.astype(real_type(a.dtype))


@_linear("minihlo.eig")
def eig(a: np.ndarray, left: bool = False, right: bool = False) -> Arrays:
    """The eigenvalues, and the left and the right eigenvectors that are asked for."""
    dtype = np.result_type(a.dtype, np.complex64)

    def decompose() -> Arrays:
        w, vr = np.linalg.eig(wide(a))
        if not left:
            return w, vr, vr
        vl = np.linalg.inv(vr).mT.conj()
        return w, vl / np.linalg.norm(vl, axis=-2, keepdims=True), vr

    w, vl, vr = _or_nan(decompose, [a.shape[:-1], a.shape, a.shape])
    return tuple(x.astype(dtype) for x in (w, *[vl] * left, *[vr] * right))


@_linear("minihlo.svd")
def svd(a: np.ndarray, full_matrices: bool = False, compute_uv: bool = True) -> Arrays:
    """The singular values, and the matrices of both sides where they are asked for."""
    m, n = a.shape[-2:]
    k, batch = min(m, n), a.shape[:-2]
    if not compute_uv:
        (s,) = _or_nan(lambda: (np.linalg.svd(wide(a), compute_uv=False),), [(*batch, k)])
        return (s.astype(real_type(a.dtype)),)
    shapes = [(*batch, m, m if full_matrices else k), (*batch, k), (*batch, n if full_matrices else k, n)]
    u, s, vt = _or_nan(np.linalg.svd, shapes, wide(a), full_matrices)
    return s.astype(real_type(a.dtype)), u.astype(a.dtype), vt.astype(a.dtype)


@_linear("minihlo.hessenberg")
def hessenberg(a: np.ndarray) -> Arrays:
    """The form with zeros below the first subdiagonal, where the reflectors are kept, and their scales."""
    h, tau = each(wide(a), lambda m: _lapack("gehrd", m)[:2])
    return h.astype(a.dtype), tau.astype(a.dtype)


@_linear("minihlo.schur")
def schur(a: np.ndarray, compute_schur_vectors: bool = True) -> Arrays:
    """Schur's triangular form, and its vectors where they are asked for."""
    scipy = _scipy("scipy.linalg")
    t, z = _or_nan(lambda: each(wide(a), lambda m: scipy.schur(m)), [a.shape, a.shape])
    return (t.astype(a.dtype), *[z.astype(a.dtype)] * compute_schur_vectors)


@_linear("minihlo.tridiagonal")
def tridiagonal(a: np.ndarray, lower: bool = True) -> Arrays:
    """A Hermitian matrix in tridiagonal form: its reflectors, diagonal, subdiagonal, and their scales."""
    name = "hetrd" if a.dtype.kind == "c" else "sytrd"
    c, d, e, tau = each(wide(a), lambda m: _lapack(name, m, lower=int(lower))[:4])
    real = real_type(a.dtype)
    return c.astype(a.dtype), d.astype(real), e.astype(real), tau.astype(a.dtype)


def _by_lapack(below: np.ndarray, diagonal: np.ndarray, above: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same as `tridiagonal_solve` of real systems, step for step, by LAPACK, one system after the other."""
    solve = _routine("gtsv", "f")
    x = np.full(b.shape, np.nan)
    for place in np.ndindex(*diagonal.shape[:-1]):
        lows, middles, highs = (wide(y[place]) for y in (below, diagonal, above))
        *_, solution, first_zero = solve(lows[1:], middles, highs[:-1], wide(b[place]))
        if not first_zero:  # else a pivot is 0
            x[place] = solution
    return x.astype(b.dtype)


@_linear("minihlo.tridiagonal_solve")
def tridiagonal_solve(
    below: np.ndarray, diagonal: np.ndarray, above: np.ndarray, b: np.ndarray, perturb_singular: bool = False
) -> np.ndarray:
    """Solutions of tridiagonal systems, by elimination with pivots from the row itself or the next one.

    The diagonals have shape `(..., n)`, `b` and the result `(..., n, k)`. The first element of `below` and the last of
    `above` are not read. The solution of a singular system is NaN throughout; with `perturb_singular` it is that of a
    system whose small pivots are as large as the type's machine precision, relative to the largest element.
    """
    dtype, size = b.dtype, diagonal.shape[-1]
    if not b.size:
        return b
    few = size > 1 and math.prod(diagonal.shape[:-1]) <= size * _FEW
    if few and b.dtype.kind != "c" and not perturb_singular:
        return _by_lapack(below, diagonal, above, b)
    below, diagonal, above = (np.moveaxis(wide(x), -1, 0) for x in (below, diagonal, above))
    x = np.moveaxis(wide(b), -2, 0).copy()
    # The upper triangle has two diagonals beside the pivots, since a row may have come from below.
    pivots, first, second = (np.zeros_like(diagonal) for _ in range(3))
    here, right = diagonal[0], above[0]
    for i in range(size - 1):
        swapped = np.abs(below[i + 1]) > np.abs(here)
        beyond = above[i + 1] if i + 2 < size else np.zeros_like(here)
        row, other = (here, right, np.zeros_like(here)), (below[i + 1], diagonal[i + 1], beyond)
        top = [np.where(swapped, n, m) for m, n in zip(row, other, strict=True)]
        low = [np.where(swapped, m, n) for m, n in zip(row, other, strict=True)]
        x[i], x[i + 1] = (np.where(swapped[..., None], *pair) for pair in ((x[i + 1], x[i]), (x[i], x[i + 1])))
        pivots[i], first[i], second[i] = top
        factor = low[0] / np.where(top[0] == 0, 1, top[0])
        here, right = (n - factor * m for m, n in zip(top[1:], low[1:], strict=True))
        x[i + 1] -= factor[..., None] * x[i]
    pivots[-1] = here
    singular = (pivots == 0).any(0)
    if perturb_singular:
        largest = np.abs([pivots, first, second]).max((0, 1))
        least = float(np.spacing(real_type(dtype).type(1))) * np.where(largest == 0, 1, largest)
        pivots = np.where(np.abs(pivots) < least, np.where(np.real(pivots) < 0, -least, least), pivots)
    else:
        pivots = np.where(pivots == 0, np.nan, pivots)
    for i in reversed(range(size)):
        for diagonal_of, at in ((first, i + 1), (second, i + 2)):
            if at < size:
                x[i] -= diagonal_of[i][..., None] * x[at]
        x[i] /= pivots[i][..., None]
    if not perturb_singular:
        x[:, singular] = np.nan
    return np.moveaxis(x, 0, -2).astype(dtype)


def _are_few(a: np.ndarray) -> bool:
    """Whether matrices are so few that LAPACK factors them one by one; it does not know every NaN."""
    size = min(a.shape[-2:])
    return math.prod(a.shape[:-2]) <= size * _FEW and bool(a.size) and bool(np.isfinite(a).all())


def _lapack(name: str, a: np.ndarray, *others: np.ndarray, **options: Any) -> Any:
    return _routine(name, a.dtype.kind)(a, *others, **options)


@functools.cache
def _routine(name: str, kind: str) -> Any:
    return getattr(_scipy("scipy.linalg.lapack"), ("z" if kind == "c" else "d") + name)


@functools.cache
def _scipy(module: str) -> Any:
    import importlib

    try:
        found = importlib.import_module(module)
        look_again()  # it may have loaded a BLAS of its own
        return found
    except ImportError:
        raise OpError(f"it needs {module}, which is not installed") from None
