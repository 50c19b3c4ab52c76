"""Sums from left to right as text for LLVM: many elements at once, with the bits of adding one after the other.

The rule. While a sum stays between two powers of two, all that it can be are multiples of one unit, and adding x to any
of them adds the same multiple: x rounded to one. Only for x halfway between two multiples does it matter what it is
added to. So all elements of a block are added to the sum before them, side by side. By how many units each moves it are
whole numbers, and the sum of these does not depend on their order. The result is right if no element is halfway, and
every sum in between stays within the powers of two. All moves up, and all moves down, bound the sums; where that is not
enough, the sums are made from the moves, up to the first that is not right. There some elements are added one after the
other.

An addition waits for the one before, 0.8 ns here. 10^6 f32 between 0 and 1 take 0.2 ms by blocks, and with a normal
distribution, whose sum often passes powers of two, 0.5.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import speed
from ..amortised import Amortised
from . import code
from .vectors import Lanes, Vectors
from .writer import Writer

#: Vectors of a block, and how many elements are added one after the other where one fails: twice as many each time
#: that the next one fails early too, at most so many.
_VECTORS, _FEW, _MOST = 8, 16, 512


#: Adds the elements of a row, which are together in memory, to a number, and gives the sum; None where that is NaN:
#: which NaN it is depends on how it is made.
Add = Callable[[Any, np.ndarray], Any]


@dataclasses.dataclass(frozen=True)
class _Format:
    """How the sums of a type are held: in f32 or f64, of whose fraction the type has the first bits.

    fraction, held: bits of the fraction that the type has, and what holds it.
    least: the least exponent, as its field has it, of sums whose unit is the type's and half of it a normal number.
    """

    fraction: int
    held: int
    least: int

    @property
    def is_double(self) -> bool:
        return self.held == 52

    @property
    def bits(self) -> int:
        return 64 if self.is_double else 32

    @property
    def infinite(self) -> int:
        """The field of the exponent of infinities and NaN."""
        return (1 << (self.bits - 1 - self.held)) - 1


_FORMATS = {
    "f64": _Format(52, 52, 54),
    "f32": _Format(23, 23, 25),
    "bf16": _Format(7, 23, 9),
    "f16": _Format(10, 23, 113),
}


class _Some(Lanes):
    """So many numbers side by side: elements of a type in memory, and sums that are rounded to a type."""

    def __init__(self, to: Writer, source: str, target: str, count: int) -> None:
        super().__init__(to, count)
        self._source, self._target, self._format = source, target, _FORMATS[target]
        self.numbers = self.doubles if self._format.is_double else self.floats
        self.held = self.integers(self._format.bits)

    def elements(self, at: str) -> str:
        """The elements from a place in the row on."""
        if self._source in ("f32", "f64"):
            return self.numbers.load(self._place(self.numbers, at), align=1)
        codes = self.halves if self._source == "f16" else self.integers(16)
        loaded = codes.load(self._place(codes, at), align=1)
        if self._source == "f16":
            return self.floats.convert("fpext", codes, loaded)
        return self.floats.bits(self.words, self.words.op("shl", self.words.convert("zext", codes, loaded), 16))

    def _place(self, kind: Vectors, at: str) -> str:
        return self.to.at("%source", at, kind.element)

    def sum(self, x: str, y: str) -> str:
        """x + y, both of the type, rounded to it."""
        total = self.numbers.op("fadd", x, y)
        if self._target == "f16":
            return self.floats.convert("fpext", self.halves, self.halves.convert("fptrunc", self.floats, total))
        if self._target != "bf16":
            return total
        held = self.words.bits(self.floats, total)
        odd = self.words.op("and", self.words.op("lshr", held, 16), 1)
        near = self.words.op("and", self.words.op("add", self.words.op("add", held, 0x7FFF), odd), 0xFFFF0000)
        return self.floats.bits(self.words, near)

    def place(self, number: str) -> str:
        """The place of a number among those of the type, which are a unit apart; below zero they go backwards."""
        held, beyond = self.held.bits(self.numbers, number), self._format.held - self._format.fraction
        return self.held.op("ashr", held, beyond) if beyond else held

    def number(self, place: str) -> str:
        """The number at a place."""
        beyond = self._format.held - self._format.fraction
        return self.numbers.bits(self.held, self.held.op("shl", place, beyond) if beyond else place)


class _Sum:
    """The function `run`, which adds a row of so many elements to a total.

    It gives 0, or 1 where the sum is NaN: it leaves the total then, since which NaN that is depends on how it is made.
    """

    def __init__(self, source: str, target: str) -> None:
        self._to, self._format = Writer("ptr source", "ptr total", "i64 n"), _FORMATS[target]
        self._count = 512 // self._format.bits
        self._one, self._many = (_Some(self._to, source, target, n) for n in (1, self._count))
        self._edge = 1 << self._format.fraction  #: how many units it is from one power of two to the next
        to = self._to
        self._total, self._at, self._run = to.room(self._one.numbers.kind), to.room("i64"), to.room("i64")

    def text(self) -> str:
        to, one = self._to, self._one
        one.numbers.store(one.numbers.load("%total"), self._total)
        to.store("i64 0", self._at)
        to.store(f"i64 {_FEW}", self._run)
        to.go("head")
        self._choose()
        self._add_block()
        self._add_parts()
        self._add_single()
        to.block("done")
        total = one.numbers.load(self._total)
        to.branch(self._is(one.numbers.compare("uno", total, total)), "nan", "number", is_rare=True)
        to.block("nan")
        to.end("i64 1")
        to.block("number")
        one.numbers.store(total, "%total")
        to.end("i64 0")
        return to.text()

    def _is(self, truth: str) -> str:
        """A single truth value."""
        return self._to.value(f"extractelement <1 x i1> {truth}, i64 0")

    def _repeat(self, kind: Vectors, one: str) -> str:
        return self._to.shuffle(kind.element, 1, one, "poison", [0] * self._count)

    def _choose(self) -> None:
        """Block `head`: a block, if there is one left, and the sum has the unit of a normal number."""
        to, one = self._to, self._one
        to.block("head")
        self._before = one.numbers.load(self._total)
        self._first = to.load("i64", self._at)
        self._block = self._count * _VECTORS
        left = to.subtract("%n", self._first)
        to.branch(to.value(f"icmp sge i64 {left}, {self._block}"), "look", "rest")
        to.block("rest")
        to.store(f"i64 {left}", self._run)
        to.go("single")
        to.block("look")
        held = one.held.bits(one.numbers, self._before)
        exponent = one.held.op("and", one.held.op("lshr", held, self._format.held), self._format.infinite)
        above = one.held.op("sub", exponent, self._format.least)
        is_plain = one.held.compare("ult", above, self._format.infinite - self._format.least)
        half = one.held.op("shl", one.held.op("sub", exponent, self._format.fraction + 1), self._format.held)
        self._half = one.numbers.bits(one.held, half)
        place = one.place(self._before)
        self._odd = one.held.op("and", place, 1)
        self._place = one.held.op("sub", place, self._odd)
        self._even = one.number(self._place)
        self._low = one.held.op("and", self._place, self._edge - 1)
        to.branch(self._is(is_plain), "block", "single")

    def _moves(self, at: str, before: tuple[str, str, str]) -> tuple[str, str]:
        """By how many units the elements of a vector move the sum, and which are halfway."""
        many, (total, place, half) = self._many, before
        x = many.elements(at)
        after = many.sum(x=total, y=x)
        rest = many.numbers.call("fabs", many.numbers.op("fsub", x, many.numbers.op("fsub", after, total)))
        return many.held.op("sub", many.place(after), place), many.numbers.compare("oeq", rest, half)

    def _repeated(self) -> tuple[str, str, str]:
        """The sum before a block, its place and half a unit, in vectors."""
        numbers, held = self._many.numbers, self._many.held
        return self._repeat(numbers, self._even), self._repeat(held, self._place), self._repeat(numbers, self._half)

    def _add_block(self) -> None:
        """Block `block`: all elements at once, if all moves up and all moves down stay within the powers of two."""
        to, one, held, truths = self._to, self._one, self._many.held, self._many.truths
        to.block("block")
        before = self._repeated()
        moves = sizes = every = halfway = "zeroinitializer"
        for v in range(_VECTORS):
            move, is_halfway = self._moves(to.add(self._first, v * self._count), before)
            size = to.call(held.kind, f"abs.{held.suffix}", f"{held.kind} {move}", "i1 false")
            moves, sizes = held.op("add", moves, move), held.op("add", sizes, size)
            every, halfway = held.op("or", every, size), truths.op("or", halfway, is_halfway)
        moved, size, every = self._all("add", moves), self._all("add", sizes), self._all("or", every)
        up, down = (one.held.op("lshr", one.held.op(how, size, moved), 1) for how in ("add", "sub"))
        no_halfway = to.value(f"insertelement <1 x i1> poison, i1 {truths.reduce('or', halfway)}, i64 0")
        no_halfway = one.truths.op("xor", no_halfway, 1)
        odd = one.held.op("and", one.held.op("or", every, self._odd), 1)
        tests = (
            one.held.compare("ult", every, self._edge),
            one.held.compare("slt", one.held.op("add", self._low, up), self._edge),
            one.held.compare("slt", down, one.held.call("smax", self._low, 1)),
            one.truths.op("or", no_halfway, one.held.compare("eq", odd, 0)),
        )
        is_right = functools.reduce(functools.partial(one.truths.op, "and"), tests)
        to.branch(self._is(is_right), "whole", "parts")
        to.block("whole")
        self._go_on(one.held.op("add", self._odd, moved), to.add(self._first, self._block))
        to.store(f"i64 {_FEW}", self._run)
        to.go("head")

    def _all(self, how: str, x: str) -> str:
        """All elements of a vector in one."""
        held = self._one.held
        return self._to.value(
            f"insertelement {held.kind} poison, {held.element} {self._many.held.reduce(how, x)}, i64 0"
        )

    def _go_on(self, moved: str, at: str) -> None:
        """The sum has moved by so many units, and goes on from an element."""
        one = self._one
        one.numbers.store(one.number(one.held.op("add", self._place, moved)), self._total)
        self._to.store(f"i64 {at}", self._at)

    def _add_parts(self) -> None:
        """Block `parts`: the moves up to each element, as far as these and each move alone stay within the powers."""
        to, one, many, n = self._to, self._one, self._many, self._count
        held = many.held
        to.block("parts")
        before = self._repeated()
        low = self._repeat(held, one.held.call("smax", one.held.op("sub", self._low, 1), 0))
        moved = to.room(one.held.kind)
        one.held.store(self._odd, moved)
        with to.loop("part", "0", str(self._block), n) as v:
            move, is_halfway = self._moves(to.add(self._first, v), before)
            sums = move
            for by in [1 << i for i in range(n.bit_length() - 1)]:
                sums = held.op("add", sums, self._shifted("zeroinitializer", sums, by))
            start = self._repeat(held, one.held.load(moved))
            sums = held.op("add", sums, start)
            odd = held.compare("ne", held.op("and", self._shifted(start, sums, 1), 1), 0)
            wrong = many.truths.op("and", is_halfway, odd)
            wrong = many.truths.op("or", wrong, held.compare("uge", held.op("add", move, low), self._edge - 1))
            wrong = many.truths.op("or", wrong, held.compare("uge", held.op("add", sums, low), self._edge - 1))
            mask = to.value(f"bitcast {many.truths.kind} {wrong} to i{n}")
            to.branch(to.value(f"icmp ne i{n} {mask}, 0"), "stop", "part.right")
            to.block("stop")
            right = to.value(f"zext i{n} {to.call(f'i{n}', f'cttz.i{n}', f'i{n} {mask}', 'i1 true')} to i64")
            last = to.value(f"extractelement {held.kind} {self._shifted(start, sums, 1)}, i64 {right}")
            done = to.add(v, right)
            self._go_on(
                to.value(f"insertelement {one.held.kind} poison, {held.element} {last}, i64 0"),
                to.add(self._first, done),
            )
            is_far = to.value(f"icmp sge i64 {done}, {_FEW}")
            run = to.load("i64", self._run)
            to.store("i64 " + to.value(f"select i1 {is_far}, i64 {_FEW}, i64 {run}"), self._run)
            to.go("single")
            to.block("part.right")
            end = to.value(f"extractelement {held.kind} {sums}, i64 {n - 1}")
            to.store(f"{held.element} {end}", moved)
        self._go_on(one.held.load(moved), to.add(self._first, self._block))
        to.go("head")

    def _shifted(self, low: str, x: str, by: int) -> str:
        """Elements moved up by some places, below which are the last ones of another vector."""
        n = self._count
        return self._to.shuffle(self._many.held.element, n, low, x, [n - by + i for i in range(n)])

    def _add_single(self) -> None:
        """Block `single`: some elements, one after the other."""
        to, one = self._to, self._one
        to.block("single")
        first, run = to.load("i64", self._at), to.load("i64", self._run)
        stop = to.smaller(to.add(first, run), "%n")
        with to.loop("element", first, stop) as j:
            one.numbers.store(one.sum(one.numbers.load(self._total), one.elements(j)), self._total)
        to.store(f"i64 {stop}", self._at)
        to.store(f"i64 {to.smaller(to.multiply(run, 2), _MOST)}", self._run)
        to.branch(to.value(f"icmp slt i64 {stop}, %n"), "head", "done")


def text(source: str, target: str) -> str:
    """The function for elements of a type, and sums that are rounded to a type, which holds all elements."""
    return _Sum(source, target).text()


@functools.cache
def address(source: str, target: str) -> int:
    """Where the function is, for LLVM's own code; 0 where LLVM does not take it."""
    try:
        if "f16" in (source, target) and not code.has_halves():
            return 0
        return code.address(text(source, target))
    except (ImportError, RuntimeError):
        return 0


@functools.cache
def _kept(source: str, target: str) -> Amortised[tuple[Callable[..., int] | None]]:
    def make() -> tuple[Callable[..., int] | None]:
        return (code.compiled(text(source, target), 3) if address(source, target) else None,)

    def worth() -> int:
        return speed.tuning().ordered_worth if target in ("f32", "f64") else speed.tuning().ordered_halves_worth

    return Amortised(make, worth)


def adding(steps: int, source: str, target: str) -> Add | None:
    """What adds up a row of so many elements of a type, each sum rounded to the target; both are as for `text`.

    None where it is not there for so many, or no such type.
    """
    if target not in _FORMATS or not speed.current().compiled or steps < speed.tuning().ordered_from:
        return None
    kept = _kept(source, target)
    run = (kept.value or kept.get(steps) or (None,))[0]
    return None if run is None else functools.partial(_add, run, _FORMATS[target].is_double)


def _add(run: Callable[..., int], is_double: bool, start: Any, row: np.ndarray) -> Any:
    total = np.array(start, np.float64 if is_double else np.float32)
    return None if run(row.ctypes.data, total.ctypes.data, len(row)) else total
