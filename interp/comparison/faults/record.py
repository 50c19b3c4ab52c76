"""What a fault model is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ...oracle.case import OpCase, Operands

Codes = np.ndarray
#: From a case and its operands to the codes that come of a fault; None where the fault makes no sense for the case.
Compute = Callable[[OpCase, Operands], "Codes | None"]

#: How many failures a fault has to explain of which there are many variants (formats and biases taken for others): some
#: twenty guesses, each of which gives a wrong zero or NaN somewhere.
MANY = 4


@dataclasses.dataclass(frozen=True)
class Fault:
    """A wrong way to compute."""

    identifier: str  #: links the fault to reports and to tables of causes
    #: For people; `{result}` stands for the result's element type, `{to_integers}` for how floats become integers.
    sentence: str
    compute: Compute
    least: int = 1  #: how many failures it has to explain to be named

    def words(self, case: OpCase, to_integers: str = "toward zero") -> str:
        """The sentence about a case."""
        usual = "ties to even" if "even" in to_integers else to_integers
        return self.sentence.format(result=case.result, to_integers=usual)
