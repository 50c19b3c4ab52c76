"""The C++ reference interpreter that jaxlib has in it, as a judge: it runs in a child process, since it can abort."""

import functools
from collections.abc import Sequence

import numpy as np

from minihlo.interp.backends import Backend, backend


@functools.cache
def _interpreter() -> Backend:
    return backend("reference")


def evaluate(cases: Sequence[tuple[str, Sequence[np.ndarray]]]) -> list[list[np.ndarray]]:
    """The results of each program on its arrays, of types that numpy has itself."""
    return [_interpreter().evaluate(program, arrays) for program, arrays in cases]
