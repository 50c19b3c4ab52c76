"""Accumulation of terms: in a type, and in an order."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...oracle.exact import evaluate
from ...oracle.formats import FORMATS, Format, all_codes
from ...oracle.rounding import Exact, encode

Values = np.ndarray  #: [outputs, terms]
Combine = Callable[[Values, Values], Values]
Fold = Callable[[Values, Combine], Values]
Sum = Callable[[np.ndarray], np.ndarray]  #: from rows of terms in f64 to sums in f64


@dataclasses.dataclass(frozen=True)
class Type:
    """A type to accumulate in: how it loads terms, combines two values and converts them to f64."""

    name: str
    load: Callable[[np.ndarray], Values]
    combine: Combine
    exact: Callable[[Values], np.ndarray]


# -- types -------------------------------------------------------------------------------------------------------------


def types(elements: Sequence[Format], body: str) -> list[Type]:
    """The types to accumulate in: wide types that hold the operands first, then the operands' own."""
    every = {e.name for e in elements}
    names = [n for n in _WIDE if all(holds(FORMATS[n], e) for e in elements) and every != {n}]
    if len(every) > 1:
        return [_wide(n, body) for n in names]
    own = _narrow(elements[0], body) if elements[0].is_minifloat else _wide(elements[0].name, body)
    return [*(_wide(n, body) for n in names), own]


@functools.cache
def holds(wide: Format, narrow: Format) -> bool:
    """Whether a format has every number of another."""
    if narrow.bits > 16:  # too many to try: f32 and f64, of which each wider one has every number
        return wide.mantissa_bits >= narrow.mantissa_bits and wide.exponent_bits >= narrow.exponent_bits
    numbers = narrow.decode(all_codes(narrow.name))
    back = wide.decode(encode(wide, Exact.of(numbers))[0])
    return bool(((back == numbers) | np.isnan(numbers)).all())


_WIDE = ("f32", "f64", "f16", "bf16")
_HOST = {"f64": np.float64, "f32": np.float32, "f16": np.float16}
_NUMPY = {"add": np.add, "multiply": np.multiply}


def _wide(name: str, body: str) -> Type:
    if name == "bf16":
        return Type(name, _to_bf16, lambda x, y: _to_bf16(_NUMPY[body](x, y)), lambda x: x.astype(np.float64))
    kind = _HOST[name]  # f16 in numpy is computed in f32, whose 24 bits suffice for one rounding of these two
    return Type(name, lambda x: x.astype(kind), _NUMPY[body], lambda x: x.astype(np.float64))


def _to_bf16(x: np.ndarray) -> np.ndarray:
    """Rounds f64 or f32 to bf16, stored in f32. A sum of two bf16 in f32 is rounded twice, which 24 bits allow."""
    fmt = FORMATS["bf16"]
    if x.dtype == np.float64:
        return fmt.decode(encode(fmt, Exact.of(x))[0]).astype(np.float32)
    u = np.ascontiguousarray(x).view(np.uint32)
    rounded = (u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32))


def _narrow(fmt: Format, body: str) -> Type:
    table = _table(fmt.name, body)
    shift = fmt.bits

    def combine(x: Values, y: Values) -> Values:
        return table[(x.astype(np.uint16) << shift) | y]

    return Type(fmt.name, lambda x: encode(fmt, Exact.of(x))[0], combine, fmt.decode)


@functools.lru_cache(32)
def _table(element: str, body: str) -> np.ndarray:
    fmt, codes = FORMATS[element], all_codes(element)
    x, y = (fmt.decode(g.ravel()) for g in np.meshgrid(codes, codes, indexing="ij"))
    return evaluate(body, fmt, x, y)[0]


def truncating_type() -> Type:
    """f32 with sums truncated toward zero; values are f64."""

    def cut(x: Values, y: Values) -> Values:
        total = x + y
        part = total - x
        error = (x - (total - part)) + (y - part)  # exact (Knuth's two-sum)
        found = total.astype(np.float32)
        size = np.abs(found.astype(np.float64)) - np.abs(total)
        is_above = (size > 0) | ((size == 0) & (error * total < 0))
        return np.where(is_above, np.nextafter(found, np.float32(0)), found).astype(np.float64)

    zero = np.zeros(1)
    return Type("f32", lambda x: cut(x, zero), cut, lambda x: x)


def flushing_type(t: Type) -> Type:
    """A type with results below the smallest normal number of f32 flushed to zero."""
    least = 2.0 ** FORMATS["f32"].min_exponent

    def flushed(x: Values) -> Values:
        return np.where(np.abs(x) < least, np.zeros((), x.dtype) * x, x)

    return Type(t.name, lambda x: flushed(t.load(x)), lambda x, y: flushed(t.combine(x, y)), t.exact)


def fused_type(fmt: Format) -> Type:
    """A type in which products are exact and each sum is rounded once, as in fused multiply-add; values are f64."""
    smallest = fmt.min_exponent - fmt.mantissa_bits

    def rounded(x: Values) -> Values:
        unit = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1 - fmt.mantissa_bits, smallest))
        found = np.rint(x / unit) * unit
        return np.where(np.abs(found) > fmt.max, np.copysign(np.inf if fmt.has_infinity else np.nan, found), found)

    # The first operand is the running sum, or the first product, which is added to zero.
    return Type(fmt.name, lambda x: x, lambda x, y: rounded(rounded(x) + y), lambda x: x)


# -- how sums are held -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Order:
    """An order of combining terms."""

    identifier: str
    sentence: str
    fold: Fold
    #: Tried for any number of results; one of a hundred other orders matches a few results by chance.
    is_plain: bool = False


@dataclasses.dataclass(frozen=True)
class RoundedSum:
    """A way to round products and sums in a type."""

    type: Type
    identifier: str
    sentence: str

    def total(self, order: Order) -> Sum:
        """The sum in one order."""

        def total(rows: np.ndarray) -> np.ndarray:
            if not rows.shape[1]:
                return np.zeros(len(rows))
            return self.type.exact(order.fold(self.type.load(rows), self.type.combine))

        return total


def rounded_sums(t: Type, is_cut: bool, has_fused: bool = True) -> Iterator[RoundedSum]:
    """The ways to round in a type: `is_cut` if it is too narrow for products, which are then rounded or fused."""
    yield RoundedSum(t, *(("rounded", "products and sums rounded") if is_cut else ("accumulated", "accumulated")))
    if is_cut and has_fused:
        yield RoundedSum(fused_type(FORMATS[t.name]), "fused", "exact products accumulated")


# -- orders ------------------------------------------------------------------------------------------------------------


def in_order(x: Values, combine: Combine) -> Values:
    """The sums of rows from the left, step by step."""
    total = x[:, 0]
    for i in range(1, x.shape[1]):
        total = combine(total, x[:, i])
    return total


def _pairwise(x: Values, combine: Combine) -> Values:
    while x.shape[1] > 1:
        odd = x[:, -1:] if x.shape[1] % 2 else x[:, :0]
        n = x.shape[1] // 2 * 2
        x = np.concatenate([combine(x[:, 0:n:2], x[:, 1:n:2]), odd], axis=1)
    return x[:, 0]


def _halves(x: Values, combine: Combine) -> Values:
    """Adds the first half to the second, repeatedly, as vectors are reduced."""
    while x.shape[1] > 1:
        half = 1 << (x.shape[1] - 1).bit_length() - 1
        low, high = x[:, :half], x[:, half:]
        x = np.concatenate([combine(low[:, : high.shape[1]], high), low[:, high.shape[1] :]], axis=1)
    return x[:, 0]


def _in_windows(n: int, x: Values, combine: Combine) -> Values:
    """The sums of each n terms in order; the last group may be shorter."""
    whole = x.shape[1] // n * n
    sums = in_order(x[:, :whole].reshape(-1, n), combine).reshape(len(x), -1) if whole else x[:, :0]
    if whole == x.shape[1]:
        return sums
    return np.concatenate([sums, in_order(x[:, whole:], combine)[:, None]], axis=1)


def _centred_windows(n: int, x: Values, combine: Combine) -> Values:
    """Windows that begin before the first term by as much as the last extends beyond the end."""
    while x.shape[1] > n:
        first = n - (-x.shape[1] % n) // 2
        head = in_order(x[:, :first], combine)[:, None]
        x = np.concatenate([head, _in_windows(n, x[:, first:], combine)], axis=1)
    return in_order(x, combine)


def _lanes(n: int, join: Fold, x: Values, combine: Combine) -> Values:
    """Sums in n lanes of a vector, joined by `join`; remaining terms are added one by one."""
    whole = x.shape[1] // n * n
    if not whole:
        return in_order(x, combine)
    lanes = x[:, :n]
    for i in range(n, whole, n):
        lanes = combine(lanes, x[:, i : i + n])
    total = join(lanes, combine)
    for i in range(whole, x.shape[1]):
        total = combine(total, x[:, i])
    return total


def orders(counts: Sequence[int], most: int | None = None) -> Iterator[Order]:
    """The orders of combining terms, of up to `most` steps; for the sequential order eight times as many.

    Args:
        counts: the numbers of terms of the sums.
        most: the most steps of an order, None for any number.
    """
    n = max(counts)

    def is_short(steps: int) -> bool:
        return most is None or steps <= most

    if is_short(n // 8):
        yield Order("in-order", "in order", in_order, is_plain=True)
    if n > 2:
        if is_short(n):
            yield Order("reverse", "in reverse", lambda x, combine: in_order(x[:, ::-1], combine))
        yield Order("pairwise", "pairwise", _pairwise, is_plain=True)
        yield Order("halves", "in halves", _halves, is_plain=True)
    for size in (2, 4, 8, 16, 32, 64, 128, 256, 512):
        if size < n and is_short(size + n // size):
            windows = functools.partial(_in_windows, size)
            yield Order(f"windows-{size}", f"in windows of {size}", lambda x, c, of=windows: in_order(of(x, c), c))
            if any(c % size for c in counts):
                centred = functools.partial(_centred_windows, size)
                yield Order(f"centred-windows-{size}", f"in centred windows of {size}", centred)
    for size in (2, 4, 8, 16, 32, 64):
        if size < n and is_short(n // size):
            in_halves, ordered = (functools.partial(_lanes, size, join) for join in (_halves, in_order))
            yield Order(f"lanes-{size}", f"in {size} lanes", in_halves)
            yield Order(f"lanes-{size}-joined-in-order", f"in {size} lanes, joined in order", ordered, is_plain=True)
