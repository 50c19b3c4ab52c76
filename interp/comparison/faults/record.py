"""The record of a fault model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ...oracle.case import OpCase, Operands

Codes = np.ndarray
#: Computes a fault's codes from a case and its operands; None if the fault does not apply to the case.
Compute = Callable[[OpCase, Operands], "Codes | None"]

#: Failures that a fault with many variants (mistaken formats and biases) has to explain: there are some twenty guesses,
#: each of which predicts a wrong zero or NaN somewhere.
MANY = 4


@dataclasses.dataclass(frozen=True)
class Fault:
    """A wrong way to compute."""

    identifier: str  #: links the fault to reports and to tables of causes
    #: For people. `{result}` stands for the result's element type, `{to_integers}` for the conversion of floats to
    #: integers.
    sentence: str
    compute: Compute
    least: int = 1  #: the number of failures it must explain to be named

    def describe(self, case: OpCase, to_integers: str = "toward zero") -> str:
        """The sentence for a case."""
        usual = "ties to even" if "even" in to_integers else to_integers
        return self.sentence.format(result=case.result, to_integers=usual)
