"""A backend as the tester sees it: its interface, and the element types that it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends import BackendError, kind_of
from ..errors import InputError
from ..oracle.formats import FORMATS
from .cases.case import Case
from .elementwise import Part
from .part import or_raise
from .repeats import AnyPart
from .verdicts import outcome
from .verdicts.outcome import Settings

#: Number of parts of a type that must die, with no result from any, before the remaining ones are skipped.
_DEATHS = 4


class Types:
    """The types that a backend lacks, and those that may kill it."""

    def __init__(self, evaluate: Callable[[Part], object], settings: Settings) -> None:
        """`evaluate` runs one part, and raises BackendError."""
        self._evaluate, self._settings = evaluate, settings
        self._lacks: dict[str, BackendError | None] = {}  #: why a type is skipped, None if it is not
        self._doubts: dict[str, tuple[BackendError, int]] = {}  #: types whose probe died, and parts since

    def reason_to_skip(self, part: AnyPart) -> BackendError | None:
        """The reason why a part is skipped: the backend does not take one of its types."""
        found = self.reason_to_skip_types((*part.case.operands, part.case.result, *part.types))
        if found is None or part.case.op == "type":
            return found
        return BackendError("refused", str(found))

    def reason_to_skip_types(self, types: Sequence[str]) -> BackendError | None:
        """The reason why some types are skipped, None if each is taken or still in doubt."""
        elements = [t for t in types if t in FORMATS]
        for element in elements:
            if element not in self._lacks:
                self._lacks[element] = error = self._probe_twice(element)
                if error is not None and error.how != "refused":
                    self._lacks[element], self._doubts[element] = None, (error, 0)
        return next((r for t in elements if (r := self._lacks[t]) is not None), None)

    def is_doubtful(self, part: AnyPart) -> bool:
        """Whether the backend has died of a type of a part that is still in doubt."""
        return any(t in self._doubts for t in (*part.case.operands, part.case.result))

    def blame_type(self, part: AnyPart, error: BackendError) -> BackendError:
        """The error of a part, attributed to its type while no part of the type has a result."""
        doubts = [self._doubts[t][0] for t in (*part.case.operands, part.case.result) if t in self._doubts]
        if part.case.op == "type" or error.how == "refused" or not doubts:
            return self.reason_to_skip(part) or error
        return BackendError("refused", str(doubts[0]))

    def count(self, part: AnyPart, died: bool) -> None:
        """Counts a death or a result of a part's types: a type with many deaths is skipped, one with a result is
        normal.
        """
        for element in {t for t in (*part.case.operands, part.case.result) if t in self._doubts}:
            error, deaths = self._doubts[element]
            if not died:
                del self._doubts[element]
            elif deaths + 1 >= _DEATHS:
                del self._doubts[element]
                self._lacks[element] = error
            else:
                self._doubts[element] = error, deaths + 1

    def shows_death(self, part: AnyPart) -> str:
        """The command that shows how the backend dies of one of a part's types; empty if it does not."""
        types = [t for t in (*part.case.operands, part.case.result) if t in FORMATS]
        dead = {t for t, lacks in self._lacks.items() if lacks is not None and lacks.how != "refused"}
        died = [t for t in types if t in dead or t in self._doubts]
        return outcome.command(Case("type", (died[0],), died[0]), "array", self._settings) if died else ""

    def _probe_twice(self, element: str) -> BackendError | None:
        """The error of the backend on a type, if it repeats: a process may die for another reason."""
        error = self._probe(element)
        return error if error is None or error.how == "refused" else self._probe(element)

    def _probe(self, element: str) -> BackendError | None:
        """The error of the backend on a program that takes a type and returns it."""
        codes = np.array([1, 2], FORMATS[element].code_dtype)
        try:
            self._evaluate(Part(Case("type", (element,), element), "array", (codes,)))
        except BackendError as error:
            or_raise(error)
            how = {"refused": "has no", "died": "dies of", "slow": "hangs on"}.get(error.how, error.how)
            return BackendError(error.how, f"the backend {how} {element} (type.{element}): {error}")
        return None


def to_integers(name: str, target: str) -> tuple[str, ...]:
    """The ways a backend may round floats to an integer type: by its own specification, or by StableHLO's."""
    try:
        own = () if name.partition(":")[0] == "minihlo" else kind_of(name).conversions
    except InputError:  # an object has no name that leads to its specification
        own = ()
    return (*(c.rounding for c in own if target in c.targets), "toward zero")


def takes(backend: Any) -> str:
    """`programs` or `operations`."""
    return getattr(backend, "takes", "programs")
