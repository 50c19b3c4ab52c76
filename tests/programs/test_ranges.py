"""Expressions of integers are simplified without another value; lines written into others give what they gave."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo.interp.compile.source.inlining import inlined
from minihlo.interp.compile.source.intervals import Range, range_of
from minihlo.interp.compile.source.lines import Line
from minihlo.interp.compile.source.ranges import Expression, Place, simplified
from minihlo.ops.types import ELEMENT_TYPES, ElementType

I32, UI8, I8, BOOL = (ELEMENT_TYPES[name] for name in ("i32", "ui8", "i8", "i1"))


def in_type(text: str, element: ElementType) -> str:
    """An expression brought into the range of a type, as operations write it."""
    half, mask = 1 << (element.bits - 1), (1 << element.bits) - 1
    return f"({text} + {half} & {mask}) - {half}" if range_of(element)[0] < 0 else f"{text} & {mask}"


class Random:
    """Random expressions of integers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one_of(self, *values: str) -> str:
        return values[self.rng.integers(len(values))]

    def integer(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.15:
            return self.one_of("v1", "v2", "v3", "(5)", "(0)", "(-7)", "(1)", "(255)")
        x, y = self.integer(depth - 1), self.integer(depth - 1)
        kind = self.rng.integers(9)
        if kind < 3:
            return f"({x}) {self.one_of('+', '-', '*', '&', '|', '^')} ({y})"
        if kind == 3:
            return f"({x}) {self.one_of('%', '//', '>>')} {self.one_of('3', '7', '31')}"
        if kind == 4:
            return f"({x}) if {self.boolean(depth - 1)} else ({y})"
        if kind == 5:
            return f"{self.one_of('min', 'max')}({x}, {y})"
        if kind == 6:
            return f"{self.one_of('-', '~', '+')}({x})"
        if kind == 7:
            return f"+({self.boolean(depth - 1)})"
        return f"abs({x}) << {self.one_of('0', '1', '9')}"

    def boolean(self, depth: int) -> str:
        x, y = self.integer(max(depth - 1, 0)), self.integer(max(depth - 1, 0))
        if depth == 0 or self.rng.random() < 0.6:
            sign = self.one_of("<", "<=", ">", ">=", "==", "!=")
            return f"(({x}) {sign} ({y}))" if self.rng.random() < 0.8 else f"(0 <= ({x}) {sign} 31)"
        p, q = self.boolean(depth - 1), self.boolean(depth - 1)
        kind = self.rng.integers(4)
        return (f"(not {p})", f"({p} and {q})", f"({p} or {q})", f"(({p}) {self.one_of('==', '!=')} False)")[kind]

    def range(self) -> tuple[int, int]:
        low, high = sorted(int(v) for v in self.rng.choice([-(1 << 31), -9, -1, 0, 0, 1, 2, 8, 96, (1 << 31) - 1], 2))
        return low, high

    def within(self, low: int, high: int) -> int:
        near = [low, high, *(v for v in (-1, 0, 1, 2) if low <= v <= high)]
        return int(near[self.rng.integers(len(near))] if self.rng.random() < 0.6 else self.rng.integers(low, high + 1))


@pytest.mark.parametrize("seed", range(12))
def test_simplified_expressions_have_the_same_values(seed):
    random, differs = Random(seed), 0
    for _ in range(120):
        is_boolean = random.rng.random() < 0.2
        text = random.boolean(3) if is_boolean else random.integer(3)
        element = BOOL if is_boolean else (I32, UI8, I8)[random.rng.integers(3)]
        wraps = not is_boolean
        whole = in_type(f"({text})", element) if wraps else text
        ranges: dict[str, Range] = {name: random.range() for name in ("v1", "v2", "v3")}
        given = simplified(whole, element, ranges)
        differs += given.text != whole
        for _ in range(12):
            values = {name: random.within(*r) for name, r in ranges.items()}  # type: ignore[arg-type]
            expected, found = eval(whole, {}, values), eval(given.text, {}, values)
            assert (type(found), found) == (type(expected), expected), (whole, given, values)
            assert given.range[0] <= found <= given.range[1], (whole, given, values)
            if given.test is not None:
                assert bool(eval(given.test, {}, values)) == bool(expected)
            if given.low is not None:
                others = dict(values)
                for name, place in given.places.items():  # only the bits of its type are asked for
                    others[name] += (random.rng.integers(-2, 3).item() << element.bits) * (place is Place.LOW_BITS)
                low = eval(given.low, {}, others)
                assert (low - expected) % (1 << element.bits) == 0, (whole, given, values)
                assert eval(given.text, {}, others) == expected
    assert differs > 60


@pytest.mark.parametrize(
    ("text", "element", "ranges", "simple", "low", "high"),
    [
        ("(v1 + 2147483648 & 4294967295) - 2147483648", I32, {"v1": (0, 9)}, "v1", 0, 9),
        ("(v1 + (1) + 2147483648 & 4294967295) - 2147483648", I32, {"v1": (0, 9)}, "v1 + 1", 1, 10),
        ("(v1 + (8) + 128 & 255) - 128", I8, {"v1": (-128, 127)}, "(v1 + 136 & 255) - 128", -128, 127),
        ("v1 if 0 <= v1 <= 7 else 0 if v1 < 0 else 7", I32, {"v1": (0, 7)}, "v1", 0, 7),
        ("v1 if 0 <= v1 <= 7 else 0 if v1 < 0 else 7", I32, {"v1": (0, 9)}, "v1 if v1 <= 7 else 7", 0, 9),
        ("(v1 % (97) if v1 >= 0 else -(-v1 % (97)))", I32, {}, "v1 % 97 if v1 >= 0 else -(-v1 % 97)", -96, 96),
        ("v1 != False", BOOL, {"v1": (False, True)}, "v1", False, True),
        ("v1 < (0)", BOOL, {"v1": (0, 5)}, "False", False, False),
        ("(v1 > 0) - (v1 < 0)", I32, {"v1": (0, 5)}, "+(v1 > 0)", 0, 1),
        ("k1(v1) + v2", I32, {"v2": (0, 5)}, "k1(v1) + v2", -(1 << 31), (1 << 31) - 1),
    ],
)
def test_expressions_that_loops_have(text, element, ranges, simple, low, high):
    given = simplified(text, element, ranges)
    assert (given.text, given.range) == (simple, (low, high))


def lines(*texts: str) -> list[Line]:
    """Lines, indented by a space a level; those of one name and an expression without a call give numbers."""
    made = []
    for text in texts:
        depth, text = len(text) - len(text.lstrip()), text.strip()
        left, _, right = text.partition(" = ")
        names = tuple(left.split(", ")) if right else ()
        is_number = len(names) == 1 and "(" not in right
        expression = Expression(right, (0, 1)) if is_number else None
        made.append(Line(text, None, depth, names, expression=expression))
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("v1 = v0 + 1", "v2 = k(v1)"), ["v2 = k((v0 + 1))"]),
        (("v1 = v0 + 1", "v2 = k(v1, v1)"), ["v1 = v0 + 1", "v2 = k(v1, v1)"]),
        (("v1 = v0 + 1", "v2 = v1 * 2", "k(v0)"), ["k(v0)"]),  # nothing takes what they give
        (("v1 = v0 + 1", "v0, v3 = 1, 2", "k(v1)"), ["v1 = v0 + 1", "v0, v3 = 1, 2", "k(v1)"]),  # v0 is another one
        (("v1 = v0 + 1", "while True:", " k(v1)"), ["v1 = v0 + 1", "while True:", "k(v1)"]),  # else again each turn
        (("if v0:", " v1 = v0 + 1", " k(v1)"), ["if v0:", "k((v0 + 1))"]),
        (("v10 = v1 - 1", "v2 = v10 - v11", "k(v2)"), ["k(((v1 - 1) - v11))"]),
    ],
)
def test_numbers_are_written_where_they_are_used(before, after):
    assert [line.text for line in inlined(lines(*before)) if line is not None] == after
