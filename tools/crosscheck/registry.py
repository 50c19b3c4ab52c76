"""Reasons for differences, by name: those of single ops and those of whole programs are declared alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container
from typing import Generic, TypeVar

#: The kinds of divergence.
ERROR, OPEN, ACCURACY = "error", "open", "accuracy"

KINDS = {
    ERROR: "the peer is wrong",
    OPEN: "the format or the specification leaves it open",
    ACCURACY: "less accurate, which StableHLO permits",
}

Model = TypeVar("Model")


@dataclasses.dataclass(frozen=True)
class Cause(Generic[Model]):
    """One reason for differences of some peers. `title` and `why` are for the page."""

    name: str
    peers: tuple[str, ...]
    kind: str
    title: str
    why: str
    model: Model


class Causes(dict[str, Cause[Model]]):
    """Causes by name, in the order in which they are tried."""

    def __init__(self, others: Container[str] = ()) -> None:
        super().__init__()
        self._others = others

    def declare(self, name: str, peers: str, kind: str, title: str, why: str) -> Callable[[Model], Model]:
        """Declares the decorated model. Raises ValueError where the name is taken, here or among the others."""

        def declared(model: Model) -> Model:
            if name in self or name in self._others:
                raise ValueError(f"there are two causes {name!r}")
            self[name] = Cause(name, tuple(peers.split()), kind, title, why, model)
            return model

        return declared
