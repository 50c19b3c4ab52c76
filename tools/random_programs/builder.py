"""Grows a program step by step: values to pick from, new leaves, and the rules that add ops."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from minihlo.ops.types import ELEMENT_TYPES, ElementType, TensorType

from .program import Program, Step, Value, constant
from .values import random_array

Shape = tuple[int, ...]
T = TypeVar("T")

#: Most elements of a value.
MOST = 160
MOST_DIMENSIONS = 6

ALL = tuple(t for t in ELEMENT_TYPES.values() if t.has_dtype)
FLOATS = tuple(t for t in ALL if t.is_float)
INTEGERS = tuple(t for t in ALL if t.is_integer)
NUMBERS = tuple(t for t in ALL if t.is_float or t.is_integer or t.is_complex)
I1, I32, I64 = (ELEMENT_TYPES[n] for n in ("i1", "i32", "i64"))


class Unfit(Exception):
    """A rule has nothing to work on here; another one is tried."""


Rule = Callable[["Builder"], object]
_RULES: list[tuple[float, Rule]] = []


def rule(weight: float = 1.0) -> Callable[[Rule], Rule]:
    """The decorated function adds one op or a few to a builder; it is drawn in proportion to `weight`."""

    def declare(function: Rule) -> Rule:
        _RULES.append((weight, function))
        return function

    return declare


class Builder:
    """A program in the making."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.steps: list[Step] = []
        self._arguments: dict[Value, np.ndarray] = {}
        self._pool: list[Value] = []
        self._names = 0
        # A program keeps to a few element types, so that its values meet in ops of several operands.
        self._types = [ALL[i] for i in rng.permutation(len(ALL))[: rng.integers(1, 5)]]

    # -- drawing -------------------------------------------------------------------------------------------------------

    def below(self, n: int) -> int:
        return int(self.rng.integers(0, n))

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one_of(self, things: Sequence[T]) -> T:
        return things[self.below(len(things))]

    def shape(self, low: int = 0, high: int = 4, smallest: int = 0, largest: int = 6) -> Shape:
        """A shape of `low` to `high` dimensions and not too many elements."""
        rank = self.between(low, high)
        while True:
            shape = tuple(self.between(smallest, largest) for _ in range(rank))
            if math.prod(shape) <= MOST and (0 not in shape or self.chance(0.3)):
                return shape

    def element(self, among: Sequence[ElementType] = ALL) -> ElementType:
        mine = [t for t in self._types if t in among]
        return self.one_of(mine) if mine and self.chance(0.8) else self.one_of(among)

    # -- values --------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def leaf(self, shape: Shape, t: ElementType, mood: str = "any") -> Value:
        """A new argument or constant."""
        return self.add_given(random_array(self.rng, shape, t, mood), t)

    def add_given(self, array: np.ndarray, t: ElementType) -> Value:
        """An argument or constant of this value."""
        value = Value(self.name(), TensorType(array.shape, t))
        if self.chance(0.6):
            self._arguments[value] = array
        else:
            self.steps.append(constant(value, array))
        self._pool.append(value)
        return value

    def integers(self, array: int | Iterable[int] | np.ndarray, t: ElementType = I64) -> Value:
        return self.add_given(np.asarray(array).astype(t.dtype), t)

    def value(
        self,
        among: Sequence[ElementType] = ALL,
        fits: Callable[[Value], bool] = lambda _: True,
        shape: Shape | None = None,
        mood: str = "any",
    ) -> Value:
        """A value of the program that fits, or a new leaf; of this shape if one is given."""
        result = [
            v for v in self._pool if v.type.element in among and (shape is None or v.type.shape == shape) and fits(v)
        ]
        if result and self.chance(0.75 if mood == "any" else 0.15):
            return result[-1] if self.chance(0.4) else self.one_of(result)
        for _ in range(20):
            new = Value("", TensorType(self.shape() if shape is None else shape, self.element(among)))
            if fits(new):
                return self.leaf(size(new), new.type.element, mood)
        if result:
            return self.one_of(result)
        raise Unfit

    def calm(self, among: Sequence[ElementType]) -> Value:
        """A value for a region to work on: of a float or complex type, of small integers."""
        t = self.element(among)
        return self.value([t]) if not (t.is_float or t.is_complex) else self.leaf(self.shape(), t, "small")

    def calm_like(self, v: Value) -> Value:
        """A value of the same type, for a region to work on."""
        t = v.type.element
        return self.like(v) if not (t.is_float or t.is_complex) else self.leaf(size(v), t, "small")

    def like(self, v: Value, mood: str = "any") -> Value:
        """A value of the same type."""
        return self.value([v.type.element], shape=size(v), mood=mood)

    def add(
        self,
        op: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Shape, ElementType]],
        attributes: str = "",
        regions: Sequence[str] = (),
        captures: Sequence[Value] = (),
        functions: Sequence[str] = (),
        notes: Iterable[str] = (),
    ) -> tuple[Value, ...]:
        """Adds an op. Raises Unfit where a result would be too large."""
        if any(math.prod(shape) > MOST or len(shape) > MOST_DIMENSIONS for shape, _ in results):
            raise Unfit
        values = tuple(Value(self.name(), TensorType(shape, t)) for shape, t in results)
        full = op if "." in op else f"stablehlo.{op}"
        self.steps.append(
            Step(
                full,
                tuple(operands),
                values,
                attributes,
                tuple(regions),
                tuple(dict.fromkeys(captures)),
                tuple(functions),
                frozenset(notes),
            )
        )
        self._pool += values
        return values

    def program(self) -> Program:
        used = {v for s in self.steps for v in s.inputs}
        arguments = tuple(v for v in self._arguments if v in used)
        return Program(arguments, tuple(self._arguments[v] for v in arguments), tuple(self.steps))


def size(v: Value) -> Shape:
    """The shape of a value, which has no dimension of unknown size."""
    return tuple(int(n) for n in v.type.shape if n is not None)


def array(numbers: Iterable[int]) -> str:
    """`array<i64: …>` as MLIR writes it."""
    text = ", ".join(map(str, numbers))
    return f"array<i64: {text}>" if text else "array<i64>"


def pairs(numbers: Sequence[tuple[int, int]]) -> str:
    """A dense attribute of pairs, such as padding."""
    if not numbers:
        return "dense<> : tensor<0x2xi64>"
    return f"dense<[{', '.join(f'[{a}, {b}]' for a, b in numbers)}]> : tensor<{len(numbers)}x2xi64>"


def random_program(seed: int, index: int) -> Program:
    """Program number `index` of a seed: 3 to 25 ops."""
    from . import rules_elementwise, rules_linear, rules_regions, rules_shape  # noqa: F401  they declare the rules

    b = Builder(np.random.default_rng([seed, index]))
    weights = np.array([w for w, _ in _RULES])
    goal, tries = b.between(3, 25), 0
    while sum(s.op != "stablehlo.constant" for s in b.steps) < goal and tries < 200:
        tries += 1
        draw = _RULES[int(b.rng.choice(len(_RULES), p=weights / weights.sum()))][1]
        with contextlib.suppress(Unfit):  # what a rule leaves behind then is a leaf or two
            draw(b)
    return b.program()
