"""Sums have a set of right results: of each order and each type that is at least as wide as the operands'.

`explain` tries models, in all a few hundred: a type to accumulate in and an order. One that gives every result of a
case is the explanation. Where none does, a result is right if it is as near to the exact sum as some order in f32 is;
and of results of 16 bits a few if they are as near as some order in their own type.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np

from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact, encode
from ...oracle.sums import exact_products, exact_sums
from .accumulation import Held, held, holds, orders, types

Results = tuple[np.ndarray, np.ndarray]  #: codes, and what is left open about them


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

    @functools.cached_property
    def exact(self) -> Exact:
        """The exact sums, or products."""
        return exact_sums(self.terms) if self.body == "add" else exact_products(self.terms)

    @functools.cached_property
    def results(self) -> Results:
        """The exact results, rounded once."""
        return encode(FORMATS[self.result], self.exact)


@dataclasses.dataclass(frozen=True)
class Model:
    """A way to form the sums of a problem, and the results of it."""

    identifier: str
    sentence: str
    results: Results


def models(problem: Problem) -> Iterator[Model]:
    """The models of a problem, the likeliest first. Those that form the same sums have the same object as results."""
    yield Model("exact", "exact, rounded once", problem.results)
    result = FORMATS[problem.result]
    known: dict[tuple[str, bytes], Results] = {}

    def rounded(sums: np.ndarray, via: str = "") -> Results:
        key = via, sums.tobytes()
        if key not in known:
            narrow = FORMATS.get(via)
            through = sums if narrow is None else narrow.decode(encode(narrow, Exact.of(sums))[0])
            known[key] = encode(result, Exact.of(through))
        return known[key]

    for how in _held(problem):
        terms = how.type.load(problem.terms)
        for order in orders(problem.terms.shape[1]):
            sums = how.type.exact(order.fold(terms, how.type.combine))
            way = how.in_order(order)
            yield Model(way.identifier, way.sentence, rounded(sums))
            for via in ("f16", problem.element):
                # The sum is rounded to another type before it becomes the result's.
                if via not in (how.type.name, problem.result) and holds(FORMATS[via], FORMATS[problem.element]):
                    identifier, sentence = f"{way.identifier}/then-{via}", f"{way.sentence}, then rounded to {via}"
                    yield Model(identifier, sentence, rounded(sums, via))


def _held(problem: Problem) -> Iterator[Held]:
    """How sums are held in each type; where it has no room for products these are rounded first, or not."""
    for t in types(FORMATS[problem.element], problem.body):
        values = t.exact(t.load(problem.terms))
        is_cut = problem.is_dot and bool(((values != problem.terms) & np.isfinite(problem.terms)).any())
        yield from held(t, is_cut, problem.element != "f8E8M0FNU")


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The model that explains most results, in words and by identifier, and which results nothing explains."""

    sentence: str
    identifier: str  #: empty where results are not explained
    unexplained: np.ndarray


def explain(problem: Problem, got: np.ndarray, matches: Callable[[np.ndarray, Results], np.ndarray]) -> Explanation:
    """The model of a backend's results. `matches(got, results)` says which are what a model gives."""
    best, identifier, most = "", "", -1
    tame = np.ones(len(got), bool) if not problem.is_wild.size else ~problem.is_wild
    any_model = np.zeros(len(got), bool)
    left = np.ones(len(got), bool)
    hits: dict[int, tuple[Results, np.ndarray]] = {}  #: of results by their object, which is kept
    with np.errstate(all="ignore"):
        is_exact = matches(got, problem.results)  # of which nobody can say that it is wrong, whatever the others are
        for model in models(problem):
            if id(model.results) not in hits:
                hits[id(model.results)] = model.results, matches(got, model.results)
            _, hit = hits[id(model.results)]
            any_model |= hit
            count = int((hit & tame).sum())
            if count > most:
                best, identifier, most, left = model.sentence, model.identifier, count, ~hit & tame
            if hit[tame].all() and any_model.all():
                return Explanation(model.sentence, model.identifier, ~hit & tame)
        bounded = _within("f32", problem, got)
        unexplained = (left | (~tame & ~any_model)) & ~bounded & ~(~tame & any_model) & ~is_exact
        if not unexplained.any() and left.any():
            best, identifier = "accumulated in f32, in an order of its own", "accumulated/f32/unknown-order"
        elif unexplained.mean() <= _FEW and FORMATS[problem.result].bits == 16:
            # Units that sum small blocks in a wider type, and the blocks in the result's, are like that.
            unexplained &= ~_within(problem.result, problem, got)
            best += f", and a few accumulated in {problem.result} in another order"
            identifier += f"/few-{problem.result}"
    if unexplained.any():
        return Explanation(f"none ({best} explains most)", "", unexplained)
    return Explanation(best, identifier, unexplained)


#: What part of results may be explained by the bound of the result's own type alone.
_FEW = 0.1


def _within(name: str, problem: Problem, got: np.ndarray) -> np.ndarray:
    """Which results some order of sums in a type may have."""
    k, error = problem.terms.shape[1], 2.0 ** -(FORMATS[name].mantissa_bits + 1)
    if problem.body != "add" or not holds(FORMATS[name], FORMATS[problem.element]):
        return np.zeros(len(got), bool)
    sums = problem.exact.value
    relative = k * error / (1 - k * error) if k * error < 0.5 else 1.0
    slack = relative * np.abs(problem.terms).sum(axis=1)
    fmt = FORMATS[problem.result]
    low, high = (encode(fmt, Exact.of(s))[0] for s in (sums - slack, sums + slack))
    rank, nan = fmt.rank, fmt.is_nan(got) | fmt.is_nan(low) | fmt.is_nan(high)
    return ~nan & ~fmt.is_none(got) & (rank(low) <= rank(got)) & (rank(got) <= rank(high))
