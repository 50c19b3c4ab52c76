"""Linear algebra: cholesky and triangular_solve.

Both are computed in f64, or in complex<f64>, and rounded once to the element type.
"""

from __future__ import annotations

import numpy as np

from ..blas import one_thread
from ..cast import cast
from ..op import Accuracy, Call, Run, op
from ..require import require, require_element, require_shape
from ..types import ELEMENT_TYPES, ElementType, TensorType

_HOST = Accuracy("computed in f64 by the host's linear algebra and rounded once")

#: Systems of up to this many unknowns are solved row by row, larger ones by halves: most is then matrix products.
#: No tuning: it decides in which order numbers are summed.
_ROWS = 32


def _wide(element: ElementType) -> ElementType:
    return ELEMENT_TYPES["complex<f64>" if element.is_complex else "f64"]


def _widening(call: Call, element: ElementType) -> Run:
    """A function that converts numbers to f64 or complex<f64>."""
    return lambda x: cast(x, element, _wide(element), call.policy)


def _rounding(call: Call) -> Run:
    """A function that rounds results to their type."""
    element = call.result().element
    policy = call.policy.for_results(element)
    return lambda x: cast(x, _wide(element), element, policy, call.random.draws(policy))


def _is_square(t: TensorType) -> bool:
    m, n = t.shape[-2:]
    return m == n or None in (m, n)


@op("cholesky", "float complex", values="numbers", accuracy=_HOST, operands=1)
def cholesky(call: Call) -> Run:
    """The triangular matrix L with L L* = the operand, or U with U* U = the operand if `lower` is false.

    Only the triangle of that side is read, and the other is zero in the result. A matrix that is not positive definite
    gives NaN throughout. (As XLA on CPU does.)

    (C1) the result has the operand's type. (C2) at least rank 2. (C3) square matrices.
    """
    t = call.tensor()
    require_element(call)
    require(len(t.shape) >= 2, f"the operand is {t} (expected of rank 2 or more)")
    require(_is_square(t), f"the operand is {t} (expected square matrices)")
    require_shape(call, t.shape)
    upper = not call.attributes.get("lower", False)
    widened, rounded = _widening(call, t.element), _rounding(call)

    @one_thread()
    def kernel(a: np.ndarray) -> np.ndarray:
        return rounded(_factor(widened(a), upper))

    return kernel


def _factor(a: np.ndarray, upper: bool) -> np.ndarray:
    if not a.size:  # of which there may be many
        return a
    try:
        factor = np.linalg.cholesky(a, upper=upper)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.full_like(a, np.nan)
        return np.stack([_factor(matrix, upper) for matrix in a])
    # The host does not see every NaN.
    is_bad = np.isnan(factor).any((-2, -1), keepdims=True)
    return np.where(is_bad, np.nan, factor) if is_bad.any() else factor


@op("triangular_solve", "float complex", values="numbers", accuracy=_HOST, operands=2)
def triangular_solve(call: Call) -> Run:
    """The x of op(a) x = b, or of x op(a) = b if `left_side` is false, for triangular a, by substitution.

    Only one triangle of a is read, and with `unit_diagonal` not its diagonal, which counts as ones. A zero on the
    diagonal divides: what depends on it is infinite or NaN.

    (C1) one element type. (C2) one rank, at least 2. (C3) square matrices a, as many of them as in b, of the size of
    b's rows or columns. (C4) the result has the type of b.
    """
    a, b = call.tensor(), call.tensor(1)
    require_element(call, b)
    require(2 <= len(a.shape) == len(b.shape), f"a and b are {a} and {b} (expected of one rank, 2 or more)")
    on_left, lower, unit = (bool(call.attribute(name)) for name in ("left_side", "lower", "unit_diagonal"))
    side = b.shape[-2 if on_left else -1]
    expected = TensorType((*b.shape[:-2], side, side), a.element)
    size = "x".join(map(str, expected.shape))
    require(_is_square(a) and a.agrees(expected), f"a is {a} and b {b} (expected {size})")
    require_shape(call, b.shape)
    transpose = call.attribute("transpose_a")
    kinds = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    require(transpose in kinds, f"transpose_a is {transpose} (expected one of {', '.join(kinds)})")
    # x op(a) = b is op(a)ᵀ xᵀ = bᵀ; and an upper triangle read backwards is a lower one.
    is_flipped = (transpose != "NO_TRANSPOSE") == on_left
    backwards = lower == is_flipped
    widened, rounded = _widening(call, a.element), _rounding(call)

    @one_thread()
    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = widened(x), widened(y)
        if transpose == "ADJOINT":
            x = x.conj()
        if is_flipped:
            x = x.swapaxes(-2, -1)
        if not on_left:
            y = y.swapaxes(-2, -1)
        if backwards:
            x, y = x[..., ::-1, ::-1], y[..., ::-1, :]
        result = y.copy()
        _substitute(x, result, unit)
        result = result[..., ::-1, :] if backwards else result
        return rounded(np.ascontiguousarray(result if on_left else result.swapaxes(-2, -1)))

    return kernel


def _substitute(a: np.ndarray, b: np.ndarray, unit: bool) -> None:
    """Solve a x = b for lower triangular a, writing x over b."""
    n = a.shape[-1]
    if n > _ROWS:
        half = n // 2
        _substitute(a[..., :half, :half], b[..., :half, :], unit)
        b[..., half:, :] -= a[..., half:, :half] @ b[..., :half, :]
        _substitute(a[..., half:, half:], b[..., half:, :], unit)
        return
    for i in range(n):
        row = b[..., i : i + 1, :]
        if i:
            row -= a[..., i : i + 1, :i] @ b[..., :i, :]
        if not unit:
            row /= a[..., i : i + 1, i : i + 1]
