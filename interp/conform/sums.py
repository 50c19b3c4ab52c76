"""Sums have a set of right results: of each order and each type that is at least as wide as the operands'.

`explain` tries models, in all a few hundred: a type to accumulate in and an order. One that gives every result of a
case is the explanation. Where none does, a result is right if it is as near to the exact sum as some order in f32 is;
and of results of 16 bits a few if they are as near as some order in their own type.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from .exact import evaluate
from .formats import FORMATS, Format, all_codes
from .rounding import Exact, encode

Values = np.ndarray  #: [outputs, terms]
Combine = Callable[[Values, Values], Values]


@dataclasses.dataclass(frozen=True)
class Problem:
    """Sums or products: for each output the exact terms, in f64, and what they come from."""

    element: str  #: of the operands
    result: str
    body: str  #: add, multiply
    terms: np.ndarray  #: f64 [outputs, terms]
    is_dot: bool = False  #: the terms are products of two numbers of the element type
    #: Outputs some order of whose terms may overflow: any model may explain each by itself.
    is_wild: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, bool))


@dataclasses.dataclass(frozen=True)
class Type:
    """A type to accumulate in: how terms become values of it, how two are combined, and what they are as f64."""

    name: str
    load: Callable[[np.ndarray], Values]
    combine: Combine
    exact: Callable[[Values], np.ndarray]


# -- types -------------------------------------------------------------------------------------------------------------


def types(problem: Problem) -> list[Type]:
    """What may be accumulated in: wide types first, then the element's own."""
    element = FORMATS[problem.element]
    names = [n for n in ("f32", "f64", "f16", "bf16") if _holds(FORMATS[n], element) and n != problem.element]
    return [*(_wide(n, problem.body) for n in names), _narrow(element, problem.body)]


def _holds(wide: Format, narrow: Format) -> bool:
    numbers = narrow.decode(all_codes(narrow.name))
    back = wide.decode(encode(wide, Exact.of(numbers))[0])
    return bool(((back == numbers) | np.isnan(numbers)).all())


_HOST = {"f64": np.float64, "f32": np.float32, "f16": np.float16}
_NUMPY = {"add": np.add, "multiply": np.multiply}


def _wide(name: str, body: str) -> Type:
    if name == "bf16":
        return Type(name, _to_bf16, lambda x, y: _to_bf16(_NUMPY[body](x, y)), lambda x: x.astype(np.float64))
    kind = _HOST[name]  # f16 in numpy is computed in f32, whose 24 bits suffice for one rounding of these two
    return Type(name, lambda x: x.astype(kind), _NUMPY[body], lambda x: x.astype(np.float64))


def _to_bf16(x: np.ndarray) -> np.ndarray:
    """Rounds f64 or f32 to bf16, kept in f32; a sum of two bf16 in f32 has one rounding more, which 24 bits allow."""
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


def _fused(fmt: Format) -> Type:
    """Products are kept exact and each sum is rounded once, as multiply-add units do; values are f64."""
    smallest = fmt.min_exponent - fmt.mantissa_bits

    def rounded(x: Values) -> Values:
        unit = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1 - fmt.mantissa_bits, smallest))
        found = np.rint(x / unit) * unit
        return np.where(np.abs(found) > fmt.max, np.copysign(np.inf if fmt.has_infinity else np.nan, found), found)

    # The first operand is a sum so far, or the first product, which is added to zero.
    return Type(fmt.name, lambda x: x, lambda x, y: rounded(rounded(x) + y), lambda x: x)


# -- orders ------------------------------------------------------------------------------------------------------------


def _in_order(x: Values, combine: Combine) -> Values:
    total = x[:, 0]
    for i in range(1, x.shape[1]):
        total = combine(total, x[:, i])
    return total


def _reverse(x: Values, combine: Combine) -> Values:
    return _in_order(x[:, ::-1], combine)


def _pairwise(x: Values, combine: Combine) -> Values:
    while x.shape[1] > 1:
        odd = x[:, -1:] if x.shape[1] % 2 else x[:, :0]
        n = x.shape[1] // 2 * 2
        x = np.concatenate([combine(x[:, 0:n:2], x[:, 1:n:2]), odd], axis=1)
    return x[:, 0]


def _halves(x: Values, combine: Combine) -> Values:
    """The first half with the second, over and over, as vectors are reduced."""
    while x.shape[1] > 1:
        half = 1 << (x.shape[1] - 1).bit_length() - 1
        low, high = x[:, :half], x[:, half:]
        x = np.concatenate([combine(low[:, : high.shape[1]], high), low[:, high.shape[1] :]], axis=1)
    return x[:, 0]


def _windows(n: int) -> Callable[[Values, Combine], Values]:
    def order(x: Values, combine: Combine) -> Values:
        sums = [_in_order(x[:, i : i + n], combine) for i in range(0, x.shape[1], n)]
        return _in_order(np.stack(sums, axis=1), combine)

    return order


def _centred(n: int) -> Callable[[Values, Combine], Values]:
    """Windows that begin before the first term by as much as the last goes beyond the end."""

    def order(x: Values, combine: Combine) -> Values:
        while x.shape[1] > n:
            k = x.shape[1]
            first = n - (-k % n) // 2
            starts = [0, *range(first, k, n)]
            sums = [_in_order(x[:, a:b], combine) for a, b in zip(starts, [*starts[1:], k], strict=True)]
            x = np.stack(sums, axis=1)
        return _in_order(x, combine)

    return order


def _lanes(n: int, join: Callable[[Values, Combine], Values]) -> Callable[[Values, Combine], Values]:
    """A vector of n sums, joined, and then what remains one by one."""

    def order(x: Values, combine: Combine) -> Values:
        whole = x.shape[1] // n * n
        if not whole:
            return _in_order(x, combine)
        lanes = x[:, :n]
        for i in range(n, whole, n):
            lanes = combine(lanes, x[:, i : i + n])
        total = join(lanes, combine)
        for i in range(whole, x.shape[1]):
            total = combine(total, x[:, i])
        return total

    return order


def _orders(n: int) -> Iterator[tuple[str, Callable[[Values, Combine], Values]]]:
    yield "in order", _in_order
    if n > 2:
        yield "in reverse", _reverse
        yield "pairwise", _pairwise
        yield "in halves", _halves
    for size in (2, 4, 8, 16, 32, 64, 128, 256, 512):
        if size < n:
            yield f"in windows of {size}", _windows(size)
            if n % size:
                yield f"in centred windows of {size}", _centred(size)
    for size in (2, 4, 8, 16, 32, 64):
        if size < n:
            yield f"in {size} lanes", _lanes(size, _halves)
            yield f"in {size} lanes, joined in order", _lanes(size, _in_order)


# -- models ------------------------------------------------------------------------------------------------------------

Results = tuple[np.ndarray, np.ndarray]  #: codes, and what is left open about them


def exact(problem: Problem) -> Results:
    """The exact results, rounded once."""
    return encode(FORMATS[problem.result], exact_sums(problem))


def exact_sums(problem: Problem) -> Exact:
    values, sides = [], []
    for row in problem.terms.tolist():
        value, side = (_exact_sum if problem.body == "add" else _exact_product)(row)
        values.append(value)
        sides.append(side)
    return Exact(np.array(values), np.array(sides, np.int8))


def _exact_sum(row: list[float]) -> tuple[float, int]:
    if not all(map(math.isfinite, row)):
        with np.errstate(all="ignore"):
            return float(np.sum(np.array(row))), 0
    total = math.fsum(row)
    rest = math.fsum([*row, -total])
    return total if total else math.fsum([0.0, *row]), (rest > 0) - (rest < 0)


def _exact_product(row: list[float]) -> tuple[float, int]:
    if not all(map(math.isfinite, row)) or 0.0 in row:
        with np.errstate(all="ignore"):
            return float(np.prod(np.array(row))), 0
    product = math.prod(map(Fraction, row))
    try:
        nearest = float(product)
    except OverflowError:
        return math.copysign(math.inf, product), 0
    rest = product - Fraction(nearest)
    return nearest, (rest > 0) - (rest < 0)


def models(problem: Problem) -> Iterator[tuple[str, Results]]:
    """Each model's name and results, the likeliest first."""
    yield "exact, rounded once", exact(problem)
    result = FORMATS[problem.result]
    for t, how in _accumulations(problem):
        terms = t.load(problem.terms)
        for order, combine in _orders(problem.terms.shape[1]):
            sums = t.exact(combine(terms, t.combine))
            where = f"{how} in {t.name} {order}"
            yield where, encode(result, Exact.of(sums))
            for via in ("f16", problem.element):
                # The sum is rounded to another type before it becomes the result's.
                if via not in (t.name, problem.result):
                    narrow = FORMATS[via]
                    through = narrow.decode(encode(narrow, Exact.of(sums))[0])
                    if _holds(narrow, FORMATS[problem.element]):
                        yield f"{where}, then rounded to {via}", encode(result, Exact.of(through))


def _accumulations(problem: Problem) -> Iterator[tuple[Type, str]]:
    """The types to accumulate in, in words; where they have no room for products these are rounded first, or not."""
    for t in types(problem):
        values = t.exact(t.load(problem.terms))
        is_cut = problem.is_dot and bool(((values != problem.terms) & np.isfinite(problem.terms)).any())
        yield t, "products and sums rounded" if is_cut else "accumulated"
        if is_cut and problem.element != "f8E8M0FNU":
            yield _fused(FORMATS[t.name]), "exact products accumulated"


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The model that explains most, what it gives, and which results nothing explains."""

    model: str
    unexplained: np.ndarray


def explain(problem: Problem, got: np.ndarray, matches: Callable[[np.ndarray, Results], np.ndarray]) -> Explanation:
    """The model of a backend's results. `matches(got, results)` says which are what a model gives."""
    best, most = "", -1
    tame = np.ones(len(got), bool) if not problem.is_wild.size else ~problem.is_wild
    any_model = np.zeros(len(got), bool)
    left = np.ones(len(got), bool)
    with np.errstate(all="ignore"):
        for name, results in models(problem):
            hit = matches(got, results)
            any_model |= hit
            count = int((hit & tame).sum())
            if count > most:
                best, most, left = name, count, ~hit & tame
            if hit[tame].all() and any_model.all():
                return Explanation(name, ~hit & tame)
        bounded = _within("f32", problem, got)
        unexplained = (left | (~tame & ~any_model)) & ~bounded & ~(~tame & any_model)
        if not unexplained.any() and left.any():
            best = "accumulated in f32, in an order of its own"
        elif unexplained.mean() <= _FEW and FORMATS[problem.result].bits == 16:
            # Units that sum small blocks in a wider type, and the blocks in the result's, are like that.
            unexplained &= ~_within(problem.result, problem, got)
            best += f", and a few accumulated in {problem.result} in another order"
    return Explanation(best if not unexplained.any() else f"none ({best} explains most)", unexplained)


#: What part of results may be explained by the bound of the result's own type alone.
_FEW = 0.1


def _within(name: str, problem: Problem, got: np.ndarray) -> np.ndarray:
    """Which results some order of sums in a type may have."""
    k, error = problem.terms.shape[1], 2.0 ** -(FORMATS[name].mantissa_bits + 1)
    if problem.body != "add" or not _holds(FORMATS[name], FORMATS[problem.element]):
        return np.zeros(len(got), bool)
    sums = exact_sums(problem).value
    relative = k * error / (1 - k * error) if k * error < 0.5 else 1.0
    slack = relative * np.abs(problem.terms).sum(axis=1)
    fmt = FORMATS[problem.result]
    low, high = (encode(fmt, Exact.of(s))[0] for s in (sums - slack, sums + slack))
    rank, nan = fmt.rank, fmt.is_nan(got) | fmt.is_nan(low) | fmt.is_nan(high)
    return ~nan & (rank(low) <= rank(got)) & (rank(got) <= rank(high))
