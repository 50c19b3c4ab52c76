"""Products of matrices of the host's floats, in parts that the shape alone determines.

The rule. BLAS runs on one thread (`blas.py`). A product of more than 2**24 terms is cut into parts of about so many:
some matrices of a batch, or some rows of one, which our own threads share. The parts do not depend on how many threads
there are, so neither do the bits of sums that are rounded.

Measured on two cores with eight busy processes: a training step of a small language model takes 956 ms with the two
threads of OpenBLAS, 93 ms in this way. On a quiet machine 512**3 takes 5 to 12 % longer than by those two threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..blas import one_thread
from .blocks import empty, for_each
from .speed import tuning

#: The terms of a part, and what its rows are a multiple of: BLAS lays out the other operand anew for each part. BLAS
#: takes a product of the third number of terms on one thread by itself, and of two vectors the fourth. No tuning: other
#: parts can round otherwise.
PART, _ROWS, ALONE, _ALONE_VECTORS = 1 << 24, 256, 1 << 18, 10_000
#: An array, as numpy converts a number in each call.
_ZERO = {t: np.zeros((), t) for t in (np.dtype(np.float32), np.dtype(np.float64))}


def of_vector(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`product` of a matrix and a vector of up to 2**18 terms, f32 or f64, either first, both longer than 1.

    It is the same call of BLAS, without much around it: 8×8 takes 0.8 µs, and 2.1 by `np.matmul`. The operands lie in
    memory without gaps, in either order.
    """
    result = x.dot(y)
    return np.add(result, _ZERO[result.dtype], result)


def product_of(
    batch: int, rows: int, length: int, columns: int, dtype: np.dtype
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """`product` of these sizes, all above 0, of f32 or f64. A batch of one takes and gives matrices instead.

    What the sizes decide is decided here: 16×64×256 takes 6.0 µs, and 7.9 by `product`; 32×64×192 8.9 and 11.8.
    """
    zero, terms = _ZERO[dtype], batch * rows * length * columns
    if terms > PART:
        if batch > 1:
            return product
        return lambda x, y: product(x[None], y[None])[0]
    has_vectors = rows == 1 or columns == 1
    # It makes the same call of BLAS with less around it; products with vectors are other calls.
    is_dot = batch == 1 and length > 1 and not has_vectors
    shape = (rows, columns) if batch == 1 else (batch, rows, columns)

    def of_vectors(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        result = np.matmul(_for_vectors(x), _for_vectors(y))
        return np.add(result, zero, result)

    def alone(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        result = x.dot(y) if is_dot and x.flags.forc and y.flags.forc else np.matmul(x, y)
        return np.add(result, zero, result)

    def on_one_thread(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        result = make(shape, dtype)
        with one_thread():
            if is_dot and x.flags.forc and y.flags.forc:
                x.dot(y, result)
            elif has_vectors:
                np.matmul(_for_vectors(x), _for_vectors(y), out=result)
            else:
                np.matmul(x, y, out=result)
        return np.add(result, zero, result)

    if is_alone(rows, columns, terms):
        return of_vectors if has_vectors else alone
    make = empty if math.prod(shape) * dtype.itemsize >= tuning().aligned_bytes else np.empty
    return on_one_thread


def product(x: np.ndarray, y: np.ndarray, is_threaded: bool = True) -> np.ndarray:
    """`np.matmul` of (batch, M, K) and (batch, K, N), by several threads if that pays and is wanted.

    No sum is -0, as some BLAS have it where a sum of one product is not started from +0.
    """
    batch, rows, length = x.shape
    columns = y.shape[-1]
    terms = batch * rows * length * columns
    if rows == 1 or columns == 1:
        x, y = _for_vectors(x), _for_vectors(y)
    if is_alone(rows, columns, terms):
        result = np.matmul(x, y)
        result += 0
        return result
    each = rows * length * columns
    if terms <= PART or (each > PART and batch == 1 and rows <= _ROWS):
        result = empty((batch, rows, columns), np.result_type(x, y))
        with one_thread():
            np.matmul(x, y, out=result)
        result += 0
        return result
    result = empty((batch, rows, columns), np.result_type(x, y))
    if each <= PART:
        count = PART // each
        parts = [(slice(i, i + count), slice(None)) for i in range(0, batch, count)]
    else:
        step = max(PART // (length * columns) // _ROWS, 1) * _ROWS
        parts = [(slice(i, i + 1), slice(j, j + step)) for i in range(batch) for j in range(0, rows, step)]
        y = np.ascontiguousarray(y)  # else each part would bring its columns together again

    def work(part: tuple[slice, slice]) -> None:
        np.matmul(x[part], y[part[0]], out=result[part])
        result[part] += 0

    with one_thread():
        for_each(parts, work, terms // tuning().product_terms if is_threaded else 0)
    return result


def is_alone(rows: int, columns: int, terms: int) -> bool:
    """Whether BLAS takes one thread for a product by itself."""
    return terms <= (_ALONE_VECTORS if rows == columns == 1 else ALONE)


def as_whole(x: np.ndarray, dimensions: Sequence[int]) -> np.ndarray:
    """An operand of a product with vectors, laid out if it repeats elements along one of its matrices' dimensions.

    BLAS adds in one order if rows lie in memory without gaps, and in another if columns do: it has to be given what it
    is given of an operand that repeats nothing.
    """
    is_repeated = 0 in x.strides and any(x.strides[d] == 0 for d in dimensions)
    return np.ascontiguousarray(x) if is_repeated else x


def laid(x: np.ndarray, is_swapped: bool) -> np.ndarray:
    """Matrices in row-major order, or in the other one if `is_swapped`; they are copied where they lie otherwise.

    So the bits of a product do not depend on how its operands came to lie. Larger ones than `ALONE` are not copied.
    """
    if is_swapped:
        turned = x.swapaxes(-1, -2)
        return x if turned.flags.c_contiguous else np.ascontiguousarray(turned).swapaxes(-1, -2)
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


def _for_vectors(x: np.ndarray) -> np.ndarray:
    """An operand of a product with vectors, as BLAS takes it: its rows or its columns lie in memory without gaps.

    Others numpy multiplies by loops of its own, and BLAS adds vectors with gaps in another order. Both give other bits.
    """
    (*_, rows, columns), (*_, to_row, to_column), size = x.shape, x.strides, x.itemsize
    if rows == 1 or columns == 1:
        is_laid = rows == columns or (to_column if rows == 1 else to_row) == size
    elif to_column == size:
        is_laid = to_row >= columns * size and to_row % size == 0
    else:
        is_laid = to_row == size and to_column >= rows * size and to_column % size == 0
    if is_laid:
        return x
    return np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2) if 0 < abs(to_row) < abs(to_column) else x.copy()
