"""Products of tensors: dot_general and the older dot. The sums are `matmul.py`'s; here dimensions are brought to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..batch import Batch, Batched, shifted
from ..engine import gemm
from ..engine.blas_calls import Product
from ..op import BY_POLICY, Call, OpError, Run, op
from ..traits import Kernel, OpTraits, Shapes
from ..types import ElementType, TensorType
from .accumulated import check_accumulator
from .dot_algorithm import Algorithm
from .exact_matmul import Few, few_of
from .matmul import half_of, halves, is_in_order, matmul, plain_product, takes_halves

_SIDES = ("lhs", "rhs")


def _terms(shapes: Shapes, attributes: Mapping[str, Any]) -> int:
    numbers = attributes.get("dot_dimension_numbers") or {}
    return math.prod(shapes[0][d] for d in numbers.get("lhs_contracting_dimensions", ()))


def _batched(batch: Batch) -> Batched | None:
    """Many products at once: a batch of them, or a single product where sums are exact and so have no order.

    The host's BLAS gets each matrix of a batch by itself, as it gets the only one of a single use.
    """
    numbers = dict(batch.attributes["dot_dimension_numbers"])
    lists = [[[int(d) for d in numbers.get(f"{s}_{k}_dimensions", ())] for s in _SIDES] for k in _KINDS]
    is_free = [len(batch.shape(i)) > len(lists[0][i]) + len(lists[1][i]) for i in range(2)]
    swapped, shared = False, frozenset[int]()
    if not all(batch.is_stacked):
        if lists[0][0]:
            return None  # what all share would be copied for each
        if _is_exact(batch) and (batch.is_stacked[0] or not is_free[1]):
            swapped = batch.is_stacked[1]
            shared = frozenset([int(batch.is_stacked[0])])
    for kind, (name, sides) in enumerate(zip(_KINDS, lists, strict=True)):
        for i, side in enumerate(_SIDES):
            numbers[f"{side}_{name}_dimensions"] = sides[i]
            if i not in shared:
                numbers[f"{side}_{name}_dimensions"] = [0] * (kind == 0 and not shared) + shifted(sides[i])
    if swapped:
        sides = {"lhs": "rhs", "rhs": "lhs"}
        numbers = {sides[name[:3]] + name[3:]: value for name, value in numbers.items()}
    return Batched({"dot_dimension_numbers": numbers}, shared, swapped)


def _is_exact(batch: Batch) -> bool:
    """Whether each result is rounded once, or is an integer."""
    elements = [t.element for t in (*batch.operands, *batch.results)]
    if batch.attributes.get("algorithm") is not None:
        return False
    if all(e.is_minifloat for e in elements[:2]):
        return batch.policy.sums_exactly and batch.policy.rounding != "stochastic" and elements[2].is_float
    return all(e.is_integer for e in elements)


_KINDS = ("batching", "contracting")


@op(
    "dot_general",
    values="numbers",
    accuracy=BY_POLICY,
    operands=2,
    traits=OpTraits(is_pure=True, is_bilinear=True, terms=_terms, batch=_batched),
)
def dot_general(call: Call) -> Run:
    """Sums of products of two tensors over their contracting dimensions, for each index of the others.

    Minifloats are summed as the policy's `accumulate` says, wider floats by the host, integers modulo 2**bits of the
    result. `algorithm` wins over the policy. The operands and the result may be of any types. `precision_config` is not
    made use of: nothing is computed less precisely than it asks.

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
    call: Call, batching: list[tuple[int, ...]], contracting: list[tuple[int, ...]], algorithm: Algorithm | None
) -> Run:
    operands = [call.tensor(0), call.tensor(1)]
    free = _check(call, operands, batching, contracting)
    (x_batch, y_batch), (x_sum, y_sum), (x_free, y_free) = batching, contracting, free
    x_order, x_swap = _order(x_batch, x_free, x_sum)
    y_order, y_swap = _order(y_batch, y_sum, y_free)
    types = operands[0].element, operands[1].element, call.result().element
    if algorithm is None:
        check_accumulator(call)
    product = matmul if algorithm is None else algorithm.matmul
    policy, random = call.policy, call.random

    host = plain_product(*types, policy) if algorithm is None else None
    x_inner, y_inner = (*x_free, *x_sum), (*y_free, *y_sum)

    def sizes(x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> tuple[int, int, int, int, list[int]]:
        batch = [x_shape[d] for d in x_batch]
        rows, columns = [x_shape[d] for d in x_free], [y_shape[d] for d in y_free]
        length = math.prod([x_shape[d] for d in x_sum])
        return math.prod(batch), math.prod(rows), length, math.prod(columns), batch + rows + columns

    def kernel(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        b, m, k, n, result = known or sizes(lhs.shape, rhs.shape)
        if host is not None and 1 in (m, n):
            lhs, rhs = gemm.as_whole(lhs, x_inner), gemm.as_whole(rhs, y_inner)
        x, y = lhs.transpose(x_order), rhs.transpose(y_order)
        x = x.reshape(b, k, m).swapaxes(1, 2) if x_swap else x.reshape(b, m, k)
        y = y.reshape(b, n, k).swapaxes(1, 2) if y_swap else y.reshape(b, k, n)
        if m * k * n <= gemm.ALONE and types[0].bits >= 16:
            x, y = gemm.laid(x, x_swap), gemm.laid(y, y_swap)
        sums = product(x, y, *types, policy, random) if host is None else host(x, y)
        return sums.reshape(result)

    shapes = [t.shape for t in operands if t.is_static]
    known = sizes(*shapes) if len(shapes) == 2 else None  # type: ignore[arg-type]
    if known is None or 0 in known[:4]:
        return kernel
    is_there = x_order == tuple(range(len(x_order))) and y_order == tuple(range(len(y_order)))
    if host is None and algorithm is None and takes_halves(*types, policy) and _is_small(known):
        b, m, k, n, result = known
        run = _of_halves(
            gemm.product_of(b, m, k, n, np.dtype(np.float32)),
            _lay(shapes[0], x_order, x_swap, (b, m, k)),
            _lay(shapes[1], y_order, y_swap, (b, k, n)),
            types[2],
            result,
            (x_inner, y_inner) if 1 in (m, n) else None,
            (x_swap, y_swap) if m * k * n <= gemm.ALONE else None,
        )
        return Kernel(run, multiplied=Product(m, k, n, x_swap, y_swap) if b == 1 and is_there else None)
    few = few_of(*types, policy, known[2]) if algorithm is None and _is_small(known) else None
    if few is not None and math.prod(known[:4]) <= few.most:
        b, m, k, n, result = known
        return _of_few(
            few,
            gemm.product_of(b, m, k, n, np.dtype(few.dtype)),
            _lay(shapes[0], x_order, x_swap, (b, m, k)),
            _lay(shapes[1], y_order, y_swap, (b, k, n)),
            result,
            kernel,
        )
    if host is None and not (algorithm is None and takes_halves(*types, policy)):
        return kernel
    if is_in_order(known[2]):
        return Kernel(kernel, products=lambda: _products(known, shapes, (x_order, x_swap), (y_order, y_swap)))
    if host is None:
        return kernel
    b, m, k, n, result = known
    x_lay = _lay(shapes[0], x_order, x_swap, (b, m, k))
    y_lay = _lay(shapes[1], y_order, y_swap, (b, k, n))
    multiply, shape = gemm.product_of(b, m, k, n, types[0].dtype), None if result == [b, m, n][b == 1 :] else result
    has_vectors = 1 in (m, n)

    is_laid = m * k * n <= gemm.ALONE

    def of_known(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        if has_vectors:
            lhs, rhs = gemm.as_whole(lhs, x_inner), gemm.as_whole(rhs, y_inner)
        x, y = lhs if x_lay is None else x_lay(lhs), rhs if y_lay is None else y_lay(rhs)
        if is_laid:
            x, y = gemm.laid(x, x_swap), gemm.laid(y, y_swap)
        sums = multiply(x, y)
        return sums if shape is None else sums.reshape(shape)

    is_one = b == 1 and is_there and types[0].name == "f32" and m * k * n <= gemm.PART
    laid = Product(m, k, n, x_swap, y_swap) if is_one else None
    if x_batch or [len(s) for s in shapes] not in ([1, 2], [2, 1]) or 1 in shapes[0] or 1 in shapes[1]:
        return Kernel(of_known, multiplied=laid)
    if m * k * n > gemm.ALONE:
        return Kernel(of_known, multiplied=laid)
    first, second = x_sum == (0,) and len(shapes[0]) == 2, y_sum == (1,)

    def of_vector(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        if lhs.flags.c_contiguous and rhs.flags.c_contiguous:
            return gemm.of_vector(lhs.T if first else lhs, rhs.T if second else rhs)
        return of_known(lhs, rhs)

    return Kernel(of_vector, multiplied=laid)


def _is_small(sizes: tuple[int, int, int, int, list[int]]) -> bool:
    """Whether a product that `gemm.product_of` forms is one call of BLAS, in no parts."""
    b, m, k, n, _ = sizes
    return not is_in_order(k) and b * m * k * n <= gemm.PART


def _of_halves(
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray],
    x_lay: Callable[[np.ndarray], np.ndarray] | None,
    y_lay: Callable[[np.ndarray], np.ndarray] | None,
    result_type: ElementType,
    shape: list[int],
    inner: tuple[tuple[int, ...], tuple[int, ...]] | None,
    swapped: tuple[bool, bool] | None,
) -> Run:
    """The product of f16 or bf16 of known sizes: 8×64×64 takes 6 µs so, and 15 by `matmul`.

    `inner`: the dimensions of the matrices, of a product with vectors; `swapped`: whether each lies the other way
    round, where it is laid so.
    """

    def kernel(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        if inner is not None:
            lhs, rhs = gemm.as_whole(lhs, inner[0]), gemm.as_whole(rhs, inner[1])
        x, y = lhs if x_lay is None else x_lay(lhs), rhs if y_lay is None else y_lay(rhs)
        if swapped is not None:
            x, y = gemm.laid(x, swapped[0]), gemm.laid(y, swapped[1])
        return half_of(multiply(halves(x), halves(y)), result_type).reshape(shape)

    return kernel


def _of_few(
    few: Few,
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray],
    x_lay: Callable[[np.ndarray], np.ndarray] | None,
    y_lay: Callable[[np.ndarray], np.ndarray] | None,
    shape: list[int],
    otherwise: Run,
) -> Run:
    """The exact product of minifloats of known sizes: 8×64×64 takes 12 µs so, and 20 by `matmul`."""

    def kernel(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        x, y = lhs if x_lay is None else x_lay(lhs), rhs if y_lay is None else y_lay(rhs)
        result = few.rounded(multiply(few.lhs(x), few.rhs(y)))
        return otherwise(lhs, rhs) if result is None else result.reshape(shape)

    return kernel


def _products(
    sizes: tuple[int, int, int, int, list[int]],
    shapes: list[Any],
    lhs: tuple[tuple[int, ...], bool],
    rhs: tuple[tuple[int, ...], bool],
) -> list[list[tuple[int, int]]]:
    """`Kernel.products`: the positions of the operands, brought to matrices as the operands are."""
    b, m, k, n, _ = sizes
    xs, ys = (np.arange(math.prod(s)).reshape(s).transpose(o) for s, (o, _) in zip(shapes, (lhs, rhs), strict=True))
    xs = xs.reshape(b, k, m).swapaxes(1, 2) if lhs[1] else xs.reshape(b, m, k)
    ys = ys.reshape(b, n, k).swapaxes(1, 2) if rhs[1] else ys.reshape(b, k, n)
    at = np.ndindex(b, m, n)
    return [list(zip(xs[i, row].tolist(), ys[i, :, column].tolist(), strict=True)) for i, row, column in at]


def _lay(
    shape: Any, order: tuple[int, ...], is_swapped: bool, sizes: tuple[int, int, int]
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Brings an operand to matrices of these sizes, and one that is a batch of one to a matrix.

    None where the operand is there as it is; what does nothing is left out.
    """
    batch, rows, columns = sizes
    laid = (batch, columns, rows) if is_swapped else (batch, rows, columns)
    laid = laid[1:] if batch == 1 else laid
    is_moved, is_shaped = order != tuple(range(len(order))), tuple(shape[d] for d in order) != laid
    if not (is_moved or is_shaped):
        return (lambda x: x.swapaxes(-1, -2)) if is_swapped else None

    def lay(x: np.ndarray) -> np.ndarray:
        x = x.transpose(order) if is_moved else x
        x = x.reshape(laid) if is_shaped else x
        return x.swapaxes(-1, -2) if is_swapped else x

    return lay


def _order(batch: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """The order of dimensions to transpose to, and whether `first` and `second` are then the other way round.

    That is so where the tensor lies in memory like this already: a transposed matrix need not be copied.
    """
    swapped = batch + second + first
    if swapped == tuple(range(len(swapped))) and first and second:
        return swapped, True
    return batch + first + second, False


def _check(
    call: Call,
    operands: list[TensorType],
    batching: list[tuple[int, ...]],
    contracting: list[tuple[int, ...]],
) -> list[tuple[int, ...]]:
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
