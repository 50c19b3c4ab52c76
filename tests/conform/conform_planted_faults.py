"""Ways in which single operations are wrong, to be planted in a backend."""

from collections.abc import Callable

import numpy as np

from minihlo.interp.oracle.formats import FORMATS, integers

from .conform_planted import Fault

FN, E5M2, FNUZ = FORMATS["f8E4M3FN"], FORMATS["f8E5M2"], FORMATS["f8E4M3FNUZ"]


def numbers(operation, arrays) -> list[np.ndarray]:
    return [FORMATS[t].decode(np.asarray(x)) for t, x in zip(operation.operands, arrays, strict=True)]


Ties = Callable[[np.ndarray, np.ndarray], np.ndarray]


def nearest(element: str, exact: np.ndarray, ties: Ties) -> tuple[np.ndarray, np.ndarray]:
    """Codes of numbers by looking for the neighbours among all; `ties` chooses of the two, as codes' sizes.

    The second result says which numbers are before the number that would come after the largest; only these count.
    """
    fmt = FORMATS[element]
    table = fmt.decode(np.arange(fmt.max_code + 1).astype(fmt.code_dtype))
    table = np.append(table, 2 * table[-1] - table[-2])
    inside = np.abs(exact) <= table[-1]
    size = np.where(inside, np.abs(exact), 0)
    above = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    low, high = size - table[above - 1], table[above] - size
    found = np.where(low < high, above - 1, np.where(high < low, above, ties(above - 1, above)))
    found = np.where(table[above] == size, above, np.where(size == 0, 0, found))
    found = np.where((found > fmt.max_code) & (not fmt.has_infinity), fmt.nan_code, found)
    return (found | np.where(np.signbit(exact), fmt.sign_bit, 0)).astype(np.uint8), inside


def rounding(ties: Ties, op: Callable[..., np.ndarray]) -> Fault:
    def fault(operation, arrays, codes):
        with np.errstate(all="ignore"):
            found, inside = nearest(operation.result, op(*numbers(operation, arrays)), ties)
        return np.where(inside, found, codes)

    return fault


def toward_zero(operation, arrays, codes):
    (x,) = numbers(operation, arrays)
    fmt = FORMATS[operation.result]
    value = fmt.decode(codes)
    return np.where(np.isfinite(value) & (np.abs(value) > np.abs(x)), codes - 1, codes).astype(np.uint8)


def flush_results(operation, _arrays, codes):
    fmt = FORMATS[operation.result]
    return np.where(fmt.is_subnormal(codes), codes & fmt.sign_bit, codes).astype(np.uint8)


def flush_operands(operation, arrays, codes):
    x, y = numbers(operation, arrays)
    fmt = FORMATS[operation.result]
    x, y = (np.where(np.abs(v) < 2.0**fmt.min_exponent, np.copysign(0, v), v) for v in (x, y))
    involved = ((x == 0) | (y == 0)) & ~np.isnan(x) & ~np.isnan(y)
    zero = np.where(np.signbit(x) != np.signbit(y), fmt.sign_bit, 0)
    return np.where(involved, np.where(np.isinf(x) | np.isinf(y), fmt.nan_code, zero), codes).astype(np.uint8)


def saturated(sign: int, largest: int) -> Fault:
    def fault(operation, arrays, codes):
        x, y = numbers(operation, arrays)
        with np.errstate(all="ignore"):
            product = x * y
        fmt = FORMATS[operation.result]
        overflows = ~np.isfinite(fmt.decode(codes)) & ~np.isnan(product) & (np.sign(product) == sign)
        return np.where(overflows, largest, codes).astype(np.uint8)

    return fault


def as_format(other: str) -> Fault:
    """Operands and results are read and written as of another format, by f64 (the products are exact there)."""

    def fault(_operation, arrays, _codes):
        (x,) = arrays
        return FORMATS[other].decode(x).astype(np.float32).view(np.uint32)

    return fault


def at(where: Callable[[int], object], change: Callable[[np.ndarray], np.ndarray] = lambda c: c ^ 4) -> Fault:
    """Results at some places are changed."""

    def fault(_operation, _arrays, codes):
        codes = codes.copy()
        flat = codes.reshape(-1)
        places = where(flat.size)
        flat[places] = change(flat[places])
        return codes

    return fault


def of_codes(change: Callable[[np.ndarray], np.ndarray]) -> Fault:
    return lambda _operation, _arrays, codes: np.asarray(change(codes.astype(np.int64))).astype(codes.dtype)


def where_operand(code: int, result: int) -> Fault:
    return lambda _operation, arrays, codes: np.where(arrays[0] == code, result, codes).astype(codes.dtype)


def flips(share: float) -> Fault:
    random = np.random.default_rng(7)
    return lambda _operation, _arrays, codes: np.where(random.random(codes.shape) < share, codes ^ 1, codes)


def one_call_in(n: int) -> Fault:
    """Now and then all results of a call are wrong."""
    calls = []

    def fault(_operation, _arrays, codes):
        calls.append(1)
        return codes ^ 1 if len(calls) % n == 1 else codes

    return fault


def wrapped_integers(operation, arrays, codes):
    """f8 to i8 by way of i4."""
    (x,) = numbers(operation, arrays)
    low = np.abs(x) < 128
    whole = np.trunc(np.where(low, x, 0)).astype(np.int64)
    return np.where(low, ((whole + 8) % 16 - 8) & 0xFF, codes).astype(np.uint8)


def rounded_to_integers(operation, arrays, codes):
    (x,) = numbers(operation, arrays)
    low = np.abs(x) < 127
    return np.where(low, np.rint(np.where(low, x, 0)).astype(np.int64) & 0xFF, codes).astype(np.uint8)


def through_f16(operation, arrays, codes):
    """i32 to f8E5M2 by way of f16, whose rounding makes ties."""
    x = integers(arrays[0], operation.operands[0])
    with np.errstate(over="ignore"):
        half = x.astype(np.float64).astype(np.float16).astype(np.float64)
    even, inside = nearest("f8E5M2", half, lambda low, high: np.where(low % 2, high, low))
    return np.where(inside, even, codes)


def without_a_product(operation, arrays, _codes):
    """The last term of each sum is left out."""
    x, y = arrays
    return right_of(operation, [x[:, :-1], y[:-1]])


def right_of(operation, arrays):
    from .conform_planted import right

    return right(operation, arrays)
