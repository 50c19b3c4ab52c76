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
        self._errors: dict[str, BackendError | None] = {}  #: of the probes of types
        self._deaths: dict[str, int] = {}  #: of parts, for each type that is in doubt since its probe died

    def reason_to_skip(self, part: AnyPart) -> BackendError | None:
        """The reason why a part is skipped: the backend does not take one of its types."""
        found = self.reason_to_skip_types((*_types(part), *part.types))
        if found is None or part.case.op == "type":
            return found
        return BackendError("refused", str(found))

    def reason_to_skip_types(self, types: Sequence[str]) -> BackendError | None:
        """The reason why some types are skipped, None if each is taken or still in doubt."""
        elements = [t for t in types if t in FORMATS]
        for element in elements:
            if element not in self._errors:
                self._errors[element] = error = self._probe_twice(element)
                if error is not None and error.how != "refused":
                    self._deaths[element] = 0
        return next((e for t in elements if (e := self._errors[t]) is not None and t not in self._deaths), None)

    def is_doubtful(self, part: AnyPart) -> bool:
        """Whether the backend has died of a type of a part that is still in doubt."""
        return any(t in self._deaths for t in _types(part))

    def blame_type(self, part: AnyPart, error: BackendError) -> BackendError:
        """The error of a part, attributed to its type while no part of the type has a result."""
        doubt = next((t for t in _types(part) if t in self._deaths), None)
        if part.case.op == "type" or error.how == "refused" or doubt is None:
            return self.reason_to_skip(part) or error
        return BackendError("refused", str(self._errors[doubt]))

    def count(self, part: AnyPart, died: bool) -> None:
        """Counts a death or a result of a part's types: a type with many deaths is skipped, one with a result is
        normal.
        """
        for element in self._deaths.keys() & _types(part):
            self._deaths[element] += 1
            if not died:
                self._errors[element] = None
            if not died or self._deaths[element] >= _DEATHS:
                del self._deaths[element]

    def shows_death(self, part: AnyPart) -> str:
        """The command that shows how the backend dies of one of a part's types; empty if it does not."""
        errors = ((t, self._errors.get(t)) for t in _types(part))
        died = next((t for t, error in errors if error is not None and error.how != "refused"), None)
        return outcome.command(Case("type", (died,), died), "array", self._settings) if died else ""

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


def _types(part: AnyPart) -> tuple[str, ...]:
    """The element types of a case."""
    return *part.case.operands, part.case.result


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
