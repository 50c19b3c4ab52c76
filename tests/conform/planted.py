"""What backends with planted faults share: they compute by a function of the test, and the tester runs on them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minihlo.interp.backends import Minihlo
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.conform.cases.cases import cases
from minihlo.interp.conform.cases.forms import forms
from minihlo.interp.conform.result import CaseResult
from minihlo.interp.conform.support import takes
from minihlo.interp.conform.tester import Spec, Tester
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.ops.policy import Policy

Arrays = Sequence[np.ndarray]
#: Gets the text of a program and its arguments, and gives its results.
Run = Callable[[str, Arrays], list[np.ndarray]]

OURS = Minihlo("minihlo", Policy())


class Programs:
    """Takes programs, and is wrong as a function is."""

    takes, name, seconds, packages = "programs", "planted", 60.0, ()

    def __init__(self, evaluate: Run) -> None:
        self.evaluate = evaluate

    def close(self) -> None:
        pass


class Operations:
    """Takes single operations; its kinds compute them."""

    takes, name, seconds = "operations", "planted", 60.0

    def close(self) -> None:
        pass


def evaluate(text: str, arrays: Arrays = ()) -> list[np.ndarray]:
    """minihlo's results of a program."""
    return [np.array(r) for r in OURS.evaluate(text, arrays)]


def case_of(signature: str) -> Case:
    return next(c for c in cases(2) if c.signature == signature)


def run(subject: Any, signature: str, only: Sequence[str] = (), level: int = 1, **settings: Any) -> list[CaseResult]:
    """The results of a case in all forms of a level, or only in some, judged together."""
    case = case_of(signature)
    names = [f for f in forms(case, level, takes(subject)) if not only or f in only]
    return Tester(subject, Settings(**{"backend": "planted", **settings})).run([Spec(case, f) for f in names])
