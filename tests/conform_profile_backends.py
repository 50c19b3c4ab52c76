"""Backends with choices and faults of their own, for tests of profiles: minihlo, but for what each does otherwise."""

from collections.abc import Sequence

import numpy as np

from minihlo.interp.backends import BackendError, Minihlo
from minihlo.ops.policy import Policy

Arrays = Sequence[np.ndarray]


def saturating(text: str, arrays: Arrays) -> list[np.ndarray]:
    """What is beyond the largest number is that number."""
    return Minihlo("minihlo", Policy(overflow="saturate")).evaluate(text, arrays)


def without_f64(text: str, arrays: Arrays) -> list[np.ndarray]:
    """There is no f64, and subtraction is an addition."""
    if "f64" in text:
        raise BackendError("refused", "unsupported type: f64")
    return Minihlo("minihlo", Policy()).evaluate(text.replace("stablehlo.subtract", "stablehlo.add"), arrays)


def wrong_addition(text: str, arrays: Arrays) -> list[np.ndarray]:
    """An addition is a subtraction."""
    return Minihlo("minihlo", Policy()).evaluate(text.replace("stablehlo.add", "stablehlo.subtract"), arrays)
