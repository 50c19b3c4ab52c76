"""Products of tensors: dot_general and the older dot.

How their sums are rounded is said, and done, in `contraction.py`; under an `algorithm`, in `dot_algorithm.py`. Here the
operands become matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..accumulators.selection import check_accumulator
from ..op import BY_POLICY, Call, OpError, Run, op
from ..traits import OpTraits, Shapes
from ..types import TensorType
from .contraction import Contraction
from .dot_algorithm import Algorithm

Dimensions = tuple[int, ...]

_SIDES = ("lhs", "rhs")


def _terms(shapes: Shapes, attributes: Mapping[str, Any]) -> int:
    numbers = attributes.get("dot_dimension_numbers") or {}
    return math.prod(shapes[0][d] for d in numbers.get("lhs_contracting_dimensions", ()))


@op(
    "dot_general",
    values="numbers",
    accuracy=BY_POLICY,
    operands=2,
    traits=OpTraits(is_pure=True, is_bilinear=True, terms=_terms),
)
def dot_general(call: Call) -> Run:
    """Sums of products of two tensors over their contracting dimensions, for each index of the others.

    Minifloats are summed as the policy's `accumulate` says, wider floats by the host, integers modulo 2**bits of the
    result. `algorithm` wins over the policy. The operands and the result may be of any types. `precision_config` is not
    used: nothing is computed less precisely than it asks.

    (C1), (C2), (C3), (C4), (C5), (C6), (C7), (C8), (C9), (C10), (C11), (C12), (C21), (C22), (C23), (C24)
    """
    numbers = call.attribute("dot_dimension_numbers")
    if not isinstance(numbers, Mapping):
        raise OpError(f"expected dot_dimension_numbers to be a structure, got {numbers!r}")
    batching, contracting = (
        [tuple(int(d) for d in numbers.get(f"{side}_{kind}_dimensions", ())) for side in _SIDES]
        for kind in ("batching", "contracting")
    )
    precision = call.attributes.get("precision_config")
    if precision is not None and len(precision) not in (0, 2):
        raise OpError(f"expected a precision_config for each of the 2 operands, got {len(precision)}")  # (C11)
    algorithm = _algorithm(call)
    if algorithm is not None and any(p != "DEFAULT" for p in precision or ()):
        raise OpError(
            f"expected a precision_config of DEFAULT beside an algorithm, got {', '.join(map(str, precision or ()))}"
        )  # (C21)
    return _contract(call, batching, contracting, algorithm)


@op(
    "dot",
    values="numbers",
    accuracy=BY_POLICY,
    operands=2,
    traits=OpTraits(is_pure=True, is_bilinear=True, terms=lambda shapes, _: shapes[0][-1]),
    has_section=False,
)
def dot(call: Call) -> Run:
    """The inner product of vectors, or the product of matrices and vectors; the older form of dot_general."""
    ranks = [len(call.tensor(i).shape) for i in range(2)]
    if not all(1 <= rank <= 2 for rank in ranks):
        raise OpError(f"expected operands of rank 1 or 2, got {ranks[0]} and {ranks[1]}")
    return _contract(call, [(), ()], [(ranks[0] - 1,), (0,)], None)


def _algorithm(call: Call) -> Algorithm | None:
    attribute = call.attributes.get("algorithm")
    if attribute is None:
        return None
    if not isinstance(attribute, Mapping):
        raise OpError(f"expected algorithm to be a structure, got {attribute!r}")
    if any(t.element.is_complex for t in (call.tensor(0), call.tensor(1), call.result())):
        raise OpError("algorithm is not supported for complex numbers (leave it out)")
    return Algorithm.of(attribute)


def _contract(
    call: Call, batching: list[Dimensions], contracting: list[Dimensions], algorithm: Algorithm | None
) -> Run:
    operands = [call.tensor(0), call.tensor(1)]
    x_free, y_free = free_dimensions(call, operands, batching, contracting)
    (x_batch, y_batch), (x_sum, y_sum) = batching, contracting
    contraction = Contraction.of(call)
    if algorithm is None:
        check_accumulator(call)

    to_x, to_y = to_matrices(x_batch, x_free, x_sum), to_matrices(y_batch, y_sum, y_free)

    def kernel(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        x, y = to_x(lhs), to_y(rhs)
        sums = contraction.matmul(x, y) if algorithm is None else algorithm.matmul(contraction, x, y)
        return sums.reshape([*(lhs.shape[d] for d in (*x_batch, *x_free)), *(rhs.shape[d] for d in y_free)])

    return kernel


def to_matrices(batch: Dimensions, rows: Dimensions, columns: Dimensions) -> Callable[[np.ndarray], np.ndarray]:
    """A function that brings a tensor to an array of (batch, rows, columns), each of several of its dimensions.

    The order of the dimensions alone decides the memory layout of the matrices, on which the order of BLAS's sums may
    depend: by rows, or by columns where these come first in the tensor.
    """
    by_rows, by_columns = (*batch, *rows, *columns), (*batch, *columns, *rows)
    is_by_columns = by_columns == tuple(range(len(by_columns))) and bool(rows and columns)
    order, last = (by_columns, rows) if is_by_columns else (by_rows, columns)
    first, second, is_plain = len(batch), len(order) - len(last), order == tuple(range(len(order)))

    def bring(x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x if is_plain else x.transpose(order))
        shape = x.shape if order else ()
        x = x.reshape(math.prod(shape[:first]), math.prod(shape[first:second]), math.prod(shape[second:]))
        return x.swapaxes(1, 2) if is_by_columns else x

    return bring


def free_dimensions(
    call: Call,
    operands: list[TensorType],
    batching: list[Dimensions],
    contracting: list[Dimensions],
) -> list[Dimensions]:
    """The dimensions of each operand that are neither. Raises OpError where a constraint does not hold."""
    free = []
    for side, t, batch, contract in zip(_SIDES, operands, batching, contracting, strict=True):
        rank = len(t.shape)
        for kind, dims in (("batching", batch), ("contracting", contract)):  # (C5), (C6), (C7), (C8)
            if bad := [d for d in dims if not 0 <= d < rank]:
                raise OpError(
                    f"expected {side}_{kind}_dimensions from 0 to {rank - 1}, as {side} has rank {rank}, got {bad[0]}"
                )
        named = batch + contract
        if len(set(named)) != len(named):  # (C3), (C4)
            raise OpError(f"expected distinct batching and contracting dimensions of {side}, got {named}")
        free.append(tuple(d for d in range(rank) if d not in named))
    shapes = [t.shape for t in operands]
    for kind, (xs, ys) in (("batching", batching), ("contracting", contracting)):
        if len(xs) != len(ys):  # (C1), (C2)
            raise OpError(f"lhs has {len(xs)} {kind} dimensions and rhs {len(ys)} (expected the same number)")
        for x, y in zip(xs, ys, strict=True):  # (C9), (C10)
            if not _agree(shapes[0][x], shapes[1][y]):
                raise OpError(
                    f"{kind} dimension {x} of lhs has size {shapes[0][x]} and {y} of rhs {shapes[1][y]} "
                    "(expected the same)"
                )
    sizes = [shapes[0][d] for d in batching[0] + free[0]] + [shapes[1][d] for d in free[1]]
    result, expected = call.result(), TensorType(tuple(sizes), call.result().element)
    if not result.admits(expected.shape):  # (C12)
        raise OpError(f"result is {result} (its shape must be {expected})")
    if expected.is_static and not result.is_static:
        call.reserve(expected)
    return free


def _agree(a: Any, b: Any) -> bool:
    """Whether two sizes may be the same; None is unknown."""
    return a is None or b is None or a == b
