"""Integer expressions of generated source: their text, and the least and the greatest value that they can have."""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
from collections.abc import Callable, Mapping

from ....ops.types import ElementType, Kind, TensorType, Type

#: The least and the greatest number that an expression may be.
Range = tuple[float, float]

ALL: Range = (-math.inf, math.inf)
#: How strongly operators bind.
CHOICE, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, SIGN, ATOM = range(13)


def range_of(element: ElementType) -> Range:
    """The range of a type of integers; of booleans False and True."""
    if element.kind is Kind.BOOL:
        return False, True
    if element.kind is Kind.UNSIGNED:
        return 0, (1 << element.bits) - 1
    return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1


def known_range(t: Type | None) -> Range:
    """The range of a single number of a type, of which more than that is known only if it is an integer or boolean."""
    if not isinstance(t, TensorType) or not (t.element.is_integer or t.element.kind is Kind.BOOL):
        return ALL
    return range_of(t.element)


class Unknown(Exception):
    """An expression has something in it of which nothing is known."""


@dataclasses.dataclass
class Part:
    text: str
    level: int
    low: float
    high: float
    added: tuple[str, int] | None = None  #: a text, and the constant that is added to it

    def within(self, level: int) -> str:
        """The text as a part of an expression of that level."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def constant(self) -> int | None:
        return int(self.low) if self.low == self.high else None

    @property
    def is_known(self) -> bool:
        return -math.inf < self.low <= self.high < math.inf


def constant_part(value: int) -> Part:
    return Part(str(value), ATOM if value >= 0 else SIGN, value, value)


def boolean_part(text: str, level: int) -> Part:
    return Part(text, level, False, True)


def integer_part(part: Part) -> Part:
    """A boolean as an integer."""
    if not isinstance(part.low, bool):
        return part
    return constant_part(int(part.low)) if part.low == part.high else Part(f"+{part.within(SIGN)}", SIGN, 0, 1)


def truth_part(value: bool) -> Part:
    return Part(str(value), ATOM, value, value)


BINARY: Mapping[type, tuple[str, int, Callable[[int, int], int]]] = {
    ast.Add: ("+", SUM, operator.add),
    ast.Sub: ("-", SUM, operator.sub),
    ast.Mult: ("*", PRODUCT, operator.mul),
    ast.FloorDiv: ("//", PRODUCT, operator.floordiv),
    ast.Mod: ("%", PRODUCT, operator.mod),
    ast.LShift: ("<<", SHIFT, operator.lshift),
    ast.RShift: (">>", SHIFT, operator.rshift),
    ast.BitAnd: ("&", BIT_AND, operator.and_),
    ast.BitOr: ("|", BIT_OR, operator.or_),
    ast.BitXor: ("^", BIT_XOR, operator.xor),
}
KEEPS_LOW_BITS = (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
COMPARED: Mapping[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def is_mask(mask: int, part: Part) -> bool:
    """Whether ones in all lower places keep a number as it is."""
    return mask & (mask + 1) == 0 and 0 <= part.low <= part.high <= mask


def sign_of(op: ast.cmpop) -> str:
    if type(op) not in COMPARED:
        raise Unknown
    return COMPARED[type(op)]


def outcome(op: ast.cmpop, x: Part, y: Part) -> bool | None:
    """What a comparison gives if it can give one thing only."""
    before, after = x.high < y.low, x.low > y.high
    is_same = x.constant is not None and x.constant == y.constant
    if isinstance(op, ast.Lt | ast.GtE):
        found = True if before else False if x.low >= y.high else None
        return found if isinstance(op, ast.Lt) or found is None else not found
    if isinstance(op, ast.LtE | ast.Gt):
        found = True if x.high <= y.low else False if after else None
        return found if isinstance(op, ast.LtE) or found is None else not found
    if isinstance(op, ast.Eq | ast.NotEq) and (before or after or is_same):
        return is_same == isinstance(op, ast.Eq)
    return None


def bounds(op: ast.operator, x: Part, y: Part) -> Range:
    """The range of an operation on integers."""
    if isinstance(op, ast.Add):
        return x.low + y.low, x.high + y.high
    if isinstance(op, ast.Sub):
        return x.low - y.high, x.high - y.low
    if isinstance(op, ast.BitAnd) and (x.low >= 0 or y.low >= 0):
        return 0, min(p.high for p in (x, y) if p.low >= 0)
    if isinstance(op, ast.Mod) and y.low > 0:
        return 0, min(y.high - 1, x.high) if x.low >= 0 else y.high - 1
    if not (x.is_known and y.is_known):
        return ALL
    a, b, c, d = (int(v) for v in (x.low, x.high, y.low, y.high))
    if isinstance(op, ast.Mult):
        ends = [a * c, a * d, b * c, b * d]
        return min(ends), max(ends)
    if isinstance(op, ast.FloorDiv) and c > 0:
        ends = [a // c, a // d, b // c, b // d]
        return min(ends), max(ends)
    if isinstance(op, ast.RShift | ast.LShift) and 0 <= c <= d <= 64:
        shift = BINARY[type(op)][2]
        ends = [shift(p, q) for p in (a, b) for q in (c, d)]
        return min(ends), max(ends)
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor):
        bits = max(v.bit_length() if v >= 0 else (~v).bit_length() for v in (a, b, c, d))
        return (0 if min(a, c) >= 0 else -(1 << bits)), (1 << bits) - 1
    return ALL
