"""What the declaration of an op gives for one use of it: how its values are computed, and what may be known of that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

#: A function of a program's values: numpy arrays, tuples, None for a token. With one result it returns that value, else
#: a tuple of them. Of an op with regions it takes a tuple of functions first, one for each region.
Run = Callable[..., Any]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """How one use of an op is computed, with the facts that later stages need. It can be called as `call` is.

    call: computes the results.
    has_out: `call` takes, after the operands, an array of the result's shape and type to put its result into; the array
        may be one of the operands.
    of_codes: the same for one element of a type of up to 8 bits: takes an integer code for each operand and returns the
        code of the result. None where there is none.
    of_bfloat16: for a function of one f32 that depends on nothing but the operand rounded to odd to bfloat16: takes a
        number of elements, and returns the results for all 65,536 codes if such a table pays for so many, else None.
    """

    call: Run
    has_out: bool = False
    of_codes: Callable[..., int] | None = None
    of_bfloat16: Callable[[int], np.ndarray | None] | None = None

    def __call__(self, *values: Any) -> Any:
        return self.call(*values)
