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
from ..op import Call, Run, op
from ..require import require, require_dimensions, require_shape
from ..traits import OpTraits, Shapes
from ..types import TensorType
from .contraction import Contraction
from .dot_algorithm import Algorithm

Dimensions = tuple[int, ...]

_SIDES = ("lhs", "rhs")


def terms(shapes: Shapes, attributes: Mapping[str, Any], name: str = "dot_dimension_numbers") -> int:
    """How many products are summed for each element, by the dimension numbers in an attribute of that name."""
    numbers = attributes.get(name) or {}
    return math.prod(shapes[0][d] for d in numbers.get("lhs_contracting_dimensions", ()))


@op("dot_general", values="numbers", operands=2, traits=OpTraits(is_pure=True, is_bilinear=True, terms=terms))
def dot_general(call: Call) -> Run:
    """Sums of products of two tensors over their contracting dimensions, for each index of the others.

    Minifloats are summed as the policy's `accumulate` says, wider floats by the host, integers modulo 2**bits of the
    result. `algorithm` wins over the policy. The operands and the result may be of any types. `precision_config` is not
    used: nothing is computed less precisely than it asks.

    (C1), (C2), (C3), (C4), (C5), (C6), (C7), (C8), (C9), (C10), (C11), (C12), (C21), (C22), (C23), (C24)
    """
    numbers = call.structure("dot_dimension_numbers")
    batching, contracting = (
        [tuple(int(d) for d in numbers.get(f"{side}_{kind}_dimensions", ())) for side in _SIDES]
        for kind in ("batching", "contracting")
    )
    precision = call.attributes.get("precision_config")
    count = 0 if precision is None else len(precision)
    require(count in (0, 2), f"expected a precision_config for each of the 2 operands, got {count}")  # (C11)
    algorithm, asked = _algorithm(call), [str(p) for p in precision or ()]
    is_default = algorithm is None or all(p == "DEFAULT" for p in asked)  # (C21)
    require(is_default, f"expected a precision_config of DEFAULT beside an algorithm, got {', '.join(asked)}")
    return _contract(call, batching, contracting, algorithm)


_DOT = OpTraits(is_pure=True, is_bilinear=True, terms=lambda shapes, _: shapes[0][-1])


@op("dot", values="numbers", operands=2, traits=_DOT, has_section=False)
def dot(call: Call) -> Run:
    """The inner product of vectors, or the product of matrices and vectors; the older form of dot_general."""
    ranks = [len(call.tensor(i).shape) for i in range(2)]
    require({*ranks} <= {1, 2}, f"expected operands of rank 1 or 2, got {ranks[0]} and {ranks[1]}")
    return _contract(call, [(), ()], [(ranks[0] - 1,), (0,)], None)


def _algorithm(call: Call) -> Algorithm | None:
    if call.attributes.get("algorithm") is None:
        return None
    attribute, types = call.structure("algorithm"), (call.tensor(0), call.tensor(1), call.result())
    is_real = not any(t.element.is_complex for t in types)
    require(is_real, "algorithm is not supported for complex numbers (leave it out)")
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
        named = batch + contract  # (C3), (C4), (C5), (C6), (C7), (C8)
        require_dimensions(f"batching and contracting dimensions of {side}", named, len(t.shape))
        free.append(tuple(d for d in range(len(t.shape)) if d not in named))
    shapes = [t.shape for t in operands]
    for kind, (xs, ys) in (("batching", batching), ("contracting", contracting)):
        same = f"lhs has {len(xs)} {kind} dimensions and rhs {len(ys)} (expected the same number)"
        require(len(xs) == len(ys), same)  # (C1), (C2)
        for x, y in zip(xs, ys, strict=True):  # (C9), (C10)
            m, n = shapes[0][x], shapes[1][y]
            same = f"{kind} dimension {x} of lhs has size {m} and {y} of rhs {n} (expected the same)"
            require(m == n or None in (m, n), same)
    sizes = [shapes[0][d] for d in batching[0] + free[0]] + [shapes[1][d] for d in free[1]]
    require_shape(call, tuple(sizes))  # (C12)
    return free
