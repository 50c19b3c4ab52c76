"""Searches for the cheapest formats of operands that together keep a bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ...ops.types import TensorType
from ..program import Operation, Value
from .plan_rewrite import Rounding, Roundings, bits_of


@dataclasses.dataclass(frozen=True)
class Operand:
    """An operand of a product: the product, its number, and its options, of which None leaves it unchanged."""

    product: Operation
    index: int
    options: list[Rounding | None]

    @property
    def value(self) -> Value:
        """The value that it is."""
        return self.product.operands[self.index]

    @property
    def type(self) -> TensorType:
        """Its type."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type

    def cost(self, option: int) -> float:
        """The bits of an element with an option."""
        rounding = self.options[option]
        return bits_of(rounding.format) if rounding else float(self.type.element.bits)


class Search:
    """The search for an option of each operand; `errors` has the measured error of each tuple of options."""

    def __init__(self, operands: Sequence[Operand], evaluate: Callable[[Roundings], float], bound: float) -> None:
        self.operands, self._evaluate, self._bound = operands, evaluate, bound
        self.errors: dict[tuple[int, ...], float] = {}

    def bits(self, options: Sequence[int]) -> float:
        """The mean bits of an element of all operands."""
        total = sum(o.type.size * o.cost(n) for o, n in zip(self.operands, options, strict=True))
        return total / (sum(o.type.size for o in self.operands) or 1)

    def error(self, options: Sequence[int]) -> float:
        """The error with all operands at their options."""
        key = tuple(options)
        if key not in self.errors:
            chosen = zip(self.operands, options, strict=True)
            self.errors[key] = self._evaluate({(o.product, o.index): o.options[n] for o, n in chosen})
        return self.errors[key]

    def alone(self, i: int, option: int) -> float:
        """The error with one operand at an option and all others unchanged, which is none for itself."""
        return self.error([option if k == i else 0 for k in range(len(self.operands))]) if option else 0.0

    def _ladder(self, i: int) -> list[int]:
        """The useful options, the cheapest first: each has a smaller error than all cheaper ones."""
        operand = self.operands[i]
        kept: list[int] = []
        for n in sorted(range(len(operand.options)), key=lambda n: (operand.cost(n), self.alone(i, n))):
            if not kept or self.alone(i, n) < self.alone(i, kept[-1]):
                kept.append(n)
        return kept

    def run(self) -> list[int]:
        """The options: the cheapest that keep the bound alone, then better ones until the whole keeps it."""
        ladders = [self._ladder(i) for i in range(len(self.operands))]
        at = [
            next((k for k, n in enumerate(ladder) if self.alone(i, n) <= self._bound), len(ladder) - 1)
            for i, ladder in enumerate(ladders)
        ]

        def options() -> list[int]:
            return [ladder[k] for ladder, k in zip(ladders, at, strict=True)]

        while self.error(options()) > self._bound:
            better = [i for i, k in enumerate(at) if k + 1 < len(ladders[i])]
            if not better:
                break
            at[max(better, key=lambda i: self._worth(i, *ladders[i][at[i] : at[i] + 2]))] += 1
        # Early improvements may have become unnecessary.
        for i in sorted(range(len(at)), key=lambda i: -self.operands[i].type.size):
            for k in range(at[i]):
                before, at[i] = at[i], k
                if self.error(options()) <= self._bound:
                    break
                at[i] = before
        return options()

    def _worth(self, i: int, option: int, better: int) -> float:
        """The reduction of the squared error for each bit of a better option: errors of operands add like noise."""
        operand = self.operands[i]
        gain = self.alone(i, option) ** 2 - self.alone(i, better) ** 2
        return gain / max(operand.type.size * (operand.cost(better) - operand.cost(option)), 1e-9)
