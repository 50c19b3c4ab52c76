"""The LAPACK routines that JAX's programs for CPUs call by name: `lapack_sgetrf_ffi` and others, of all four types.

As JAX uses them: batched, row numbers of pivots from 1, and a last result `info` that is 0 where all went well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..blas import one_thread
from ..op import Call, Run, kernel_of
from ..programs import xla_targets
from ..programs.custom_call import bound_target
from ..require import require
from ..types import TensorType

Arrays = tuple[np.ndarray, ...]

#: Computes the first results of a use from its operands; `info` and others follow.
Routine = Callable[..., Arrays]


class Use:
    """A use of a routine: its call, what it is asked for, and the kernels of other ops that it is made of."""

    def __init__(self, call: Call, attributes: dict[str, Any]) -> None:
        self.call, self.attributes = call, attributes

    def kernel(self, name: str, *shapes: tuple[int, ...], **attributes: Any) -> Run:
        """The kernel of an op on operands of shapes, with a result of the last shape."""
        types = tuple([TensorType(s, self.call.tensor().element) for s in shapes])
        return kernel_of(self.call.like(name, types, types[-1:], **attributes))


def _options(call: Call) -> dict[str, Any]:
    return dict(call.configuration) if isinstance(call.configuration, dict) else {}


def binder(
    function: Routine, operands: int = 1, options: Callable[[Call], dict[str, Any]] = _options
) -> Callable[[Call], Run]:
    """Return what binds a call of a routine; `options` reads the flags of the call under LAPACK's names."""

    def bind(call: Call) -> Run:
        require(len(call.operands) == operands, f"expected {operands} operands, got {len(call.operands)}")
        use = Use(call, options(call))
        for i in range(operands):
            require(call.tensor(i).shape != () or i > 0, f"the operand is {call.tensor(i)} (expected matrices)")

        @one_thread()
        def kernel(*values: np.ndarray) -> Any:
            outputs = [np.asarray(x) for x in function(use, *values)]
            for i in range(len(outputs), len(call.results)):
                outputs.append(_rest(call.result(i), outputs))
            results = tuple(x.astype(call.result(i).element.dtype, copy=False) for i, x in enumerate(outputs))
            return results if len(results) != 1 else results[0]

        return kernel

    return bind


def _rest(t: TensorType, outputs: Sequence[np.ndarray]) -> np.ndarray:
    """`info`: 1 where there is a NaN. Zeros for what was not asked for."""
    shape = tuple(n for n in t.shape if n is not None)
    if len(shape) < len(t.shape):  # of any number of matrices
        shape = outputs[0].shape[: len(t.shape)]
    if t.element.dtype != np.int32:  # a workspace
        return np.zeros(shape, t.element.dtype)
    bad = np.isnan(outputs[0]).reshape(*shape, -1).any(-1) if outputs[0].size else np.zeros(shape, bool)
    return np.asarray(bad, np.int32)


def _flag(attributes: dict[str, Any], name: str, letter: str) -> bool:
    return int(attributes.get(name, 0)) == ord(letter)


def _getrf(_: Use, a: np.ndarray) -> Arrays:
    lu, pivots, _order = xla_targets.lu(a)
    steps = min(a.shape[-2:])
    singular = np.diagonal(lu, axis1=-2, axis2=-1)[..., :steps] == 0
    first = singular.argmax(-1) + 1 if steps else 0
    return lu, np.asarray(pivots + 1), np.where(singular.any(-1), first, 0)


def _ormqr(use: Use, a: np.ndarray, taus: np.ndarray, c: np.ndarray) -> Arrays:
    m, k = a.shape[-2:]
    square = np.concatenate([a, np.zeros((*a.shape[:-1], m - k), a.dtype)], -1)
    q = xla_targets.wide(xla_targets.householder_product(xla_targets.wide(square), xla_targets.wide(taus)))
    q = q.mT.conj() if use.attributes.get("transpose") else q
    wide = xla_targets.wide(c)
    return (np.matmul(q, wide) if use.attributes.get("left", True) else np.matmul(wide, q),)


def _trsm(use: Use, a: np.ndarray, b: np.ndarray) -> Arrays:
    given = use.attributes
    trans = chr(int(given.get("trans_x", ord("N"))))
    solve = use.kernel(
        "triangular_solve",
        a.shape,
        b.shape,
        left_side=_flag(given, "side", "L"),
        lower=_flag(given, "uplo", "L"),
        unit_diagonal=_flag(given, "diag", "U"),
        transpose_a={"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}.get(trans, trans),
    )
    return (solve(a, b),)


def _gtsv(_: Use, below: np.ndarray, diagonal: np.ndarray, above: np.ndarray, b: np.ndarray) -> Arrays:
    """Tridiagonal systems. The first element of `below` and the last of `above` are not read."""
    x = xla_targets.tridiagonal_solve(below, diagonal, above, b)
    return below, diagonal, above, x, nan_flags(x.max(-1, initial=0))


def geev(use: Use, a: np.ndarray) -> Arrays:
    left, right = _flag(use.attributes, "compute_left", "V"), _flag(use.attributes, "compute_right", "V")
    w, *sides = xla_targets.eig(a, left, right)
    vectors = [sides.pop(0) if asked else np.zeros(a.shape, w.dtype) for asked in (left, right)]
    return (w, *vectors) if a.dtype.kind == "c" else (w.real, w.imag, *vectors)


def _singular(use: Use, a: np.ndarray) -> Arrays:
    """The operand, which LAPACK overwrites, singular values, and both matrices of vectors."""
    mode = chr(int(use.attributes.get("mode", ord("A"))))
    if mode == "N":
        (s,) = xla_targets.svd(a, compute_uv=False)
        return a, s, *(_rest(use.call.result(i), (a,)) for i in (2, 3)), nan_flags(s)
    s, u, vt = xla_targets.svd(a, full_matrices=mode == "A")
    return a, s, u, vt, nan_flags(s)


def nan_flags(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.isnan(x).any(-1), np.int32)


def _gehrd(use: Use, a: np.ndarray) -> Arrays:
    low, high, size = int(use.attributes.get("low", 1)), int(use.attributes.get("high", a.shape[-1])), a.shape[-1]
    require((low, high) == (1, size), f"rows {low} to {high} of {size} (expected all)")
    return xla_targets.hessenberg(a)


def _gees(_: Use, a: np.ndarray) -> Arrays:
    t, z = xla_targets.schur(a, True)
    diagonal = xla_targets.wide(np.diagonal(t, axis1=-2, axis2=-1))
    counted = np.zeros(a.shape[:-2], np.int32)
    if a.dtype.kind == "c":
        return t, z, diagonal, counted, nan_flags(diagonal)
    # Of a real matrix two neighbours may be a pair of conjugates, which stand in a block of two rows.
    below, above = (np.diagonal(t, offset, -2, -1).astype(np.float64) for offset in (-1, 1))
    pairs = np.where(below != 0, np.sqrt(np.abs(below)) * np.sqrt(np.abs(above)), 0)
    imaginary = np.zeros(diagonal.shape)
    imaginary[..., :-1] += pairs
    imaginary[..., 1:] -= pairs
    return t, z, diagonal, imaginary, counted, nan_flags(diagonal)


#: What computes each routine, how many operands it has, and its name for complex types if that is another.
ROUTINES: dict[str, tuple[Routine, int, str]] = {
    "getrf": (_getrf, 1, ""),
    "potrf": (lambda use, a: (use.kernel("cholesky", a.shape, lower=_flag(use.attributes, "uplo", "L"))(a),), 1, ""),
    "geqrf": (lambda _, a: xla_targets.qr(a), 1, ""),
    "geqp3": (lambda _, a, pivots: xla_targets.pivoted_qr(a, pivots), 2, ""),
    "orgqr": (lambda _, a, taus: (xla_targets.householder_product(a, taus),), 2, "ungqr"),
    "ormqr": (_ormqr, 3, "unmqr"),
    "trsm": (_trsm, 2, ""),
    "gtsv": (_gtsv, 4, ""),
    "syevd": (lambda use, a: xla_targets.eigh(a, _flag(use.attributes, "uplo", "L")), 1, "heevd"),
    "geev": (geev, 1, ""),
    "gesdd": (_singular, 1, ""),
    "gesvd": (_singular, 1, ""),
    "gehrd": (_gehrd, 1, ""),
    "gees": (_gees, 1, ""),
    "sytrd": (lambda use, a: xla_targets.tridiagonal(a, _flag(use.attributes, "uplo", "L")), 1, "hetrd"),
}
for _name, (_function, _operands, _complex) in ROUTINES.items():
    for _letter in "sdcz":
        _full = _name if _letter in "sd" else _complex or _name
        bound_target(f"lapack_{_letter}{_full}_ffi")(binder(_function, _operands))
