"""The records of judging: verdicts, grades of elements, diagnoses, faults and choices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Codes = np.ndarray
#: Computes a fault's codes from an `OpCase` and its operands; None if the fault does not apply to the case.
Compute = Callable[..., "Codes | None"]
#: Failures that a fault with many variants (mistaken formats and biases) has to explain: there are some twenty guesses,
#: each of which predicts a wrong zero or NaN somewhere.
MANY = 4

PASS, DIVERGENT, ACCURACY, UNSUPPORTED, FAIL, CRASH = "PASS", "DIVERGENT", "ACCURACY", "UNSUPPORTED", "FAIL", "CRASH"
#: The meanings of the verdicts, the most important first.
MEANINGS = {
    FAIL: "a result is wrong",
    CRASH: "the backend died, or gave no answer in time",
    ACCURACY: "not correctly rounded, where that is not required, but near the exact value",
    DIVERGENT: "the format or the specification leaves it open, and the choice is known",
    PASS: "every result is right",
    UNSUPPORTED: "the backend does not have it",
}

#: From best to worst. A case has the worst verdict of its elements; a cell of the grid the worst of its cases.
VERDICTS = (UNSUPPORTED, PASS, DIVERGENT, ACCURACY, FAIL, CRASH)

#: The grade of an element, from best to worst, and its verdict.
SAME, OPEN, NEAR, WRONG = range(4)
OF_GRADES = (PASS, DIVERGENT, ACCURACY, FAIL)


def worst(verdicts: Sequence[str]) -> str:
    """The worst of some verdicts: UNSUPPORTED if there is no other."""
    return max(verdicts, key=VERDICTS.index)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """An explanation of results: a sentence for people, and the identifiers of the causes that it names."""

    sentence: str = ""
    causes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sentence)

    def __str__(self) -> str:
        return self.sentence

    @property
    def identifier(self) -> str:
        """The identifier of the only cause."""
        (identifier,) = self.causes
        return identifier

    def join(self, other: Diagnosis, between: str = "; ") -> Diagnosis:
        """This diagnosis followed by another."""
        sentence = between.join(filter(None, (self.sentence, other.sentence)))
        return Diagnosis(sentence, (*self.causes, *(c for c in other.causes if c not in self.causes)))


NONE = Diagnosis()


@dataclasses.dataclass(frozen=True)
class Fault:
    """A wrong way to compute."""

    identifier: str  #: links the fault to reports and to tables of causes
    #: For people. `{result}` stands for the result's element type, `{to_integers}` for the conversion of floats to
    #: integers.
    sentence: str
    #: What a backend with the fault gives for a case, as codes; None if the fault does not apply to the case. The
    #: arguments are an `OpCase` and its operands, or a part of a case on blocks.
    compute: Compute
    least: int = 1  #: the number of failures it must explain to be named

    def diagnosis(self, result: str = "", to_integers: str = "toward zero") -> Diagnosis:
        """The fault in a case with results of that type."""
        usual = "ties to even" if "even" in to_integers else to_integers
        return Diagnosis(self.sentence.format(result=result, to_integers=usual), (self.identifier,))


@dataclasses.dataclass(frozen=True)
class Choice:
    """A result that an implementation may give at an open point."""

    identifier: str
    sentence: str
    #: Of the format, the results and the expected results: tests single results for this choice.
    fits: Callable[[Any, np.ndarray, np.ndarray], np.ndarray] = lambda _, got, __: np.zeros(got.shape, bool)
    #: What a backend with the choice gives for a part of a case on blocks, as a fault's; and its open point.
    compute: Compute = lambda _: None
    point: str = ""
