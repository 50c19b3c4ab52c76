"""Operations on vectors, as lines of a function for LLVM."""

from __future__ import annotations

import numpy as np

from .writer import Writer

#: How LLVM's own functions call a type in their names.
_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}


class Vectors:
    """Vectors of so many elements of one type. An operand is a value, or a number that all its elements are."""

    def __init__(self, to: Writer, kind: str, count: int) -> None:
        self._to, self._count, self.element = to, count, kind
        self._is_float = kind in _SUFFIXES
        self.kind, self.suffix = f"<{count} x {kind}>", f"v{count}{_SUFFIXES.get(kind, kind)}"

    def constant(self, *numbers: float) -> str:
        """A vector of these numbers, or of one."""
        numbers = numbers * self._count if len(numbers) == 1 else numbers
        return f"<{', '.join([f'{self.element} {self._number(v)}' for v in numbers])}>"

    def _number(self, v: float) -> str:
        return f"0x{np.float64(v).view(np.uint64):016X}" if self._is_float else str(int(v))

    def _operand(self, x: str | float) -> str:
        return x if isinstance(x, str) else self.constant(x)

    def repeated(self, value: str) -> str:
        """A vector of one value."""
        return self._to.splat(self.element, self._count, value)

    def op(self, name: str, x: str | float, y: str | float) -> str:
        return self._to.value(f"{name} {self.kind} {self._operand(x)}, {self._operand(y)}")

    def negative(self, x: str) -> str:
        return self._to.value(f"fneg {self.kind} {x}")

    def compare(self, how: str, x: str | float, y: str | float) -> str:
        """Truth values."""
        name = "fcmp" if self._is_float else "icmp"
        return self._to.value(f"{name} {how} {self.kind} {self._operand(x)}, {self._operand(y)}")

    def choose(self, where: str, x: str | float, y: str | float) -> str:
        """By truth values: x where they are set, y elsewhere."""
        truths = f"<{self._count} x i1>"
        return self._to.value(
            f"select {truths} {where}, {self.kind} {self._operand(x)}, {self.kind} {self._operand(y)}"
        )

    def convert(self, how: str, other: Vectors, x: str | float) -> str:
        """Vectors of this type of others, by an instruction."""
        return self._to.value(f"{how} {other.kind} {other._operand(x)} to {self.kind}")

    def bits(self, other: Vectors, x: str | float) -> str:
        """The vector that has the bits of another one."""
        return self.convert("bitcast", other, x)

    def call(self, name: str, *operands: str | float, of: Vectors | None = None) -> str:
        """One of LLVM's own functions that has a form for each type; its operands are of this one or another."""
        of = of or self
        return self._to.call(self.kind, f"{name}.{of.suffix}", *(f"{of.kind} {of._operand(x)}" for x in operands))

    def reduce(self, name: str, x: str) -> str:
        """All elements of a vector in one."""
        return self._to.call(self.element, f"vector.reduce.{name}.{self.suffix}", f"{self.kind} {x}")

    def load(self, place: str, align: int = 0) -> str:
        return self._to.load(self.kind, place, align)

    def store(self, x: str | float, place: str, align: int = 0) -> None:
        self._to.store(f"{self.kind} {self._operand(x)}", place, align)


class Lanes:
    """The vectors of so many elements of every type, in a function."""

    def __init__(self, to: Writer, count: int) -> None:
        self.to, self.count = to, count
        self.truths, self.words, self.longs = (self.integers(bits) for bits in (1, 32, 64))
        self.halves, self.floats, self.doubles = (Vectors(to, kind, count) for kind in _SUFFIXES)

    def integers(self, bits: int) -> Vectors:
        return Vectors(self.to, f"i{bits}", self.count)
