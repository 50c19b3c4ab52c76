"""The factorizations that JAX's programs for GPUs and TPUs call by name: cuSOLVER's, hipSOLVER's, cuSPARSE's.

Each is the twin of a routine of LAPACK, with flags of other names. In older programs the flags are bytes, of which the
triangle is read; all else follows from the shapes of the results.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..op import Call
from ..programs import random, xla_targets
from ..programs.custom_call import bound_target
from . import lapack
from .lapack import Arrays, Use


def _options(call: Call) -> dict[str, Any]:
    """The flags of a call under LAPACK's names."""
    given = call.configuration
    if isinstance(given, str):  # a structure of C: a number for the type, and then the triangle, 1 for the upper one
        return {"uplo": ord("U" if given[4:5] == "\1" else "L")}
    flags = dict(given) if isinstance(given, dict) else {}
    letters = {"uplo": "L" if flags.get("lower", True) else "U"}
    letters |= {f"compute_{side}": "V" if flags.get(side) else "N" for side in ("left", "right")}
    return {**flags, **{name: ord(letter) for name, letter in letters.items()}}


def _svd(use: Use, a: np.ndarray, is_adjoint: bool) -> Arrays:
    """The operand, the singular values, and both matrices of vectors, the second one of V where `is_adjoint` is not.

    Of matrices that lie in memory row by row the two are exchanged; those that nobody asked for are scalars.
    """
    full = any(use.call.result(i).shape[-1:] == use.call.result(i).shape[-2:-1] == (max(a.shape[-2:]),) for i in (2, 3))
    s, u, vt = xla_targets.svd(a, full_matrices=full)
    sides = [u, vt if is_adjoint else vt.mT.conj()]
    if is_adjoint and not use.call.result(2).admits(u.shape):
        sides.reverse()
    asked = [use.call.result(i).admits(side.shape) for i, side in zip((2, 3), sides, strict=True)]
    sides = [side if asked[i] else np.zeros(use.call.shape(2 + i)) for i, side in enumerate(sides)]
    return a, s, *sides, lapack.nan_flags(s)


def _geev(use: Use, a: np.ndarray) -> Arrays:
    """The operand, eigenvalues, and vectors; of a real matrix those of a pair are its real and its imaginary part."""
    *values, left, right = lapack.geev(use, a)
    w = values[0] if a.dtype.kind == "c" else values[0] + 1j * values[1]
    first = np.imag(w)[..., None, :] >= 0
    sides = [v if a.dtype.kind == "c" else np.where(first, np.real(v), -np.imag(v)) for v in (left, right)]
    return a, w, *sides, lapack.nan_flags(w)


def _permutation(use: Use, pivots: np.ndarray) -> Arrays:
    """The order of rows after each pivot was exchanged with its own row, up to the first that is no row."""
    size = use.call.shape()[-1]
    order = np.tile(np.arange(size, dtype=np.int32), (*pivots.shape[:-1], 1))
    is_row = np.logical_and.accumulate((pivots >= 0) & (pivots < size), -1)
    for i in range(min(pivots.shape[-1], size)):
        other = np.where(is_row[..., i : i + 1], pivots[..., i : i + 1], i).astype(np.int64)
        there = np.take_along_axis(order, other, -1)
        np.put_along_axis(order, other, order[..., i : i + 1].copy(), -1)
        order[..., i : i + 1] = there
    return (order,)


def _cholesky_update(_: Use, r: np.ndarray, w: np.ndarray) -> Arrays:
    """The upper factor of R'R + ww', by a rotation for each row; the rest of `w` is nothing."""
    rows, rest = xla_targets.wide(r).copy(), xla_targets.wide(w).copy()
    for k in range(len(rest)):
        if rest[k] != 0:
            length = np.hypot(rows[k, k], rest[k])
            c, s = rows[k, k] / length, rest[k] / length
            rows[k], rest = c * rows[k] + s * rest, c * rest - s * rows[k]
    return rows, rest


def _symmetric_product(use: Use, a: np.ndarray, c: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> Arrays:
    wide = xla_targets.wide(a.mT if use.attributes.get("transpose") else a)
    return (np.matmul(alpha * wide, wide.mT) + beta * xla_targets.wide(c),)


def _declare() -> None:
    gesvd, gesvdj = (functools.partial(_svd, is_adjoint=is_adjoint) for is_adjoint in (True, False))
    perturbed = lambda _, *systems: (xla_targets.tridiagonal_solve(*systems, perturb_singular=True),)  # noqa: E731
    # Of TPUs, whose flags are numbers in a text: the triangle comes first.
    eigh = lambda use, a: xla_targets.eigh(a, not str(use.call.configuration or "").startswith("0"))  # noqa: E731
    own = {name: routine[:2] for name, routine in lapack.ROUTINES.items()}
    declared: dict[str, tuple[Any, int]] = {"Eigh": (eigh, 1), "tridiagonal_solve_perturbed_ffi": (perturbed, 4)}
    for vendor in ("cu", "hip"):
        routines = {
            **{name: own[name] for name in ("potrf", "getrf", "geqrf", "orgqr", "ormqr", "syevd", "sytrd")},
            "syevj": own["syevd"], "gesvd": (gesvd, 1),
            "gesdd": (gesvd, 1), "gesvdj": (gesvdj, 1), "gesvdp": (gesvdj, 1),
            "geev": (_geev, 1), "syrk": (_symmetric_product, 4),
        }  # fmt: skip
        for name, routine in routines.items():
            declared |= {f"{vendor}solver_{name}{ffi}": routine for ffi in ("", "_ffi")}
        for name in ("getrf", "geqrf"):
            declared |= {f"{vendor}blas_{name}_batched{ffi}": own[name] for ffi in ("", "_ffi")}
        declared |= {
            f"{vendor}hybrid_eig_real": own["geev"],
            f"{vendor}hybrid_eig_comp": own["geev"],
            f"{vendor}hybrid_geqp3": own["geqp3"],
            f"{vendor}sparse_gtsv2_ffi": (lambda _, *systems: (xla_targets.tridiagonal_solve(*systems),), 4),
            f"{vendor}_tridiagonal_solve_perturbed": (perturbed, 4),
            f"{vendor}_lu_pivots_to_permutation": (_permutation, 1),
            f"{vendor}_cholesky_update_ffi": (_cholesky_update, 2),
            f"{vendor}_threefry2x32_ffi": (lambda _, k0, k1, x, y: random.threefry2x32((k0, k1), x, y), 4),
        }
    for name, (function, operands) in declared.items():
        bound_target(name)(lapack.binder(function, operands, _options))


_declare()
