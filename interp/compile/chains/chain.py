"""Chains of operations over the same rows, while they are found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ...program import Value
from ..leaf import Axes, Shape

#: A shape and how many of its dimensions number the rows.
Space = tuple[Shape, int]
#: An operand that is no single number, and the dimensions of a space that its own lie along.
Term = tuple[Value, Axes]


@dataclasses.dataclass(eq=False)
class Chain:
    """Operations over the same rows that are to be one program."""

    space: Space
    section: int  #: operations are never moved from one section of a region to another
    members: list[int] = dataclasses.field(default_factory=list)  #: their places in the region
    needs: set[Chain] = dataclasses.field(default_factory=set)  #: the chains that others lead to it from
    joined: Chain | None = None  #: what this one has become part of

    def whole(self) -> Chain:
        """The chain that this one is part of, or itself."""
        chain = self
        while chain.joined is not None:
            chain = chain.joined
        return chain

    def all_needs(self) -> set[Chain]:
        """The chains that it needs, and all that these need."""
        return closure(self.needs)


def closure(chains: Iterable[Chain]) -> set[Chain]:
    """Chains and all that they need."""
    seen, stack = set[Chain](), list(chains)
    while stack:
        chain = stack.pop().whole()
        if chain not in seen:
            seen.add(chain)
            stack += chain.needs
    return seen
