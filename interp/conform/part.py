"""A part of a run: one case in one form on some operands, as part of a program, as calls, and its results as codes."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..backends import BackendError
from ..backends.operation import Operation
from ..backends.programs import Builder, decode
from ..oracle.formats import bits, code_dtype
from .cases.case import Case

Call = Callable[[Operation, list[np.ndarray]], np.ndarray]
#: Words for the results of cases with several: elements, and two levels of scales.
_WORDS = ("", "scale ", "scale of the tensor ")


@dataclasses.dataclass(frozen=True, eq=False)
class BasePart(abc.ABC):
    """One case in one form on some operands, as arrays of codes."""

    case: Case
    form: str
    arrays: tuple[np.ndarray, ...]

    @property
    def result_type(self) -> str:
        """The element type of the result."""
        return self.case.result

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""

    @functools.cached_property
    def outputs(self) -> list[tuple[str, tuple[int, ...]]]:
        """The element type and the shape of each result."""
        return [(self.result_type, self.shape)]

    @property
    def types(self) -> tuple[str, ...]:
        """All element types."""
        return *self.case.operands, *(t for t, _ in self.outputs)

    @property
    def size(self) -> int:
        """The number of codes in all results."""
        return sum(math.prod(shape) for _, shape in self.outputs)

    @abc.abstractmethod
    def emit(self, builder: Builder) -> None:
        """Adds the case to a program, as its next results."""

    @abc.abstractmethod
    def operate(self, call: Call) -> Sequence[np.ndarray]:
        """The results of a backend that computes single operations."""

    def collect(self, found: Sequence[np.ndarray]) -> np.ndarray:
        """The codes of all results of a backend, in one dimension. Raises BackendError if they are none."""
        signature, outputs = self.case.signature, zip(found, self.outputs, strict=True)
        return self.concatenate([_check_output(np.asarray(x), t, shape, signature) for x, (t, shape) in outputs])

    def concatenate(self, results: Sequence[np.ndarray]) -> np.ndarray:
        """The codes of all results as one array."""
        (codes,) = results
        return codes

    def result_of_calls(self, call: Call) -> np.ndarray | BackendError:
        """The codes of the results by calls of operations, or the error of one of them."""
        try:
            return self.collect(self.operate(call))
        except BackendError as error:
            return or_raise(error)

    @abc.abstractmethod
    def contributing(self, i: int) -> list[list[int]]:
        """For each operand the codes that go into the result at an index."""

    def kind_at(self, i: int) -> tuple[str, str]:
        """The element type of the result at an index, and a word for results that are no elements."""
        ends = np.cumsum([math.prod(shape) for _, shape in self.outputs])
        output = int(np.searchsorted(ends, i, side="right"))
        return self.outputs[output][0] if output else self.case.result, _WORDS[output]


def or_raise(error: BackendError) -> BackendError:
    """Raises the error of a backend that cannot be started: it is no result."""
    if error.how == "absent":
        raise error
    return error


def _check_output(found: np.ndarray, element: str, shape: tuple[int, ...], signature: str) -> np.ndarray:
    """One result, as codes."""
    if found.shape != shape:
        shapes = f"expected shape {list(shape)}, got {list(found.shape)}"
        raise BackendError("died", f"the result of {signature}: {shapes}")
    found = found.reshape(-1)
    if found.dtype.kind == "f" and bits(element) == 6:
        return decode(found, element)
    kind = code_dtype(element)
    if found.dtype.kind in "iu" and found.itemsize == kind.itemsize:
        return found.view(kind)
    codes = found.astype(kind) if found.dtype.kind in "biu" else None
    if codes is None or (codes != found).any():
        raise BackendError("died", f"the results of {signature}: expected {kind}, got {found.dtype}")
    return codes
