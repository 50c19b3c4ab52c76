"""The function calls that a case in one form consists of, and their names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...backends.operation import Operation, result_shape
from ...oracle.formats import code_dtype
from ..cases import data
from ..repeats import AnyPart
from ..tester import Spec


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """One call: an operation on arrays of codes."""

    operation: Operation
    operands: tuple[np.ndarray, ...]  #: contiguous; codes of i1 are uint8
    shape: tuple[int, ...]  #: of the result
    start: int  #: the index of its first result among those of the part

    @property
    def size(self) -> int:
        """The number of results."""
        return int(np.prod(self.shape))


def calls(part: AnyPart) -> list[Call]:
    """The calls that give the results of a part, in order."""
    found: list[Call] = []

    def record(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        shape = result_shape(operation, [np.shape(x) for x in arrays])
        start = found[-1].start + found[-1].size if found else 0
        found.append(Call(operation, tuple(map(plain, arrays)), shape, start))
        return np.zeros(shape, code_dtype(operation.result))

    part.operate(record)
    return found


def plain(array: np.ndarray) -> np.ndarray:
    """Codes as unsigned integers, contiguous and little-endian."""
    codes = np.array(array, order="C", ndmin=0)
    codes = codes.view(np.uint8) if codes.dtype == bool else codes
    return codes.astype(codes.dtype.newbyteorder("<"), copy=False)


def name(spec: Spec, level: int, call: int, count: int) -> str:
    """The name of a call, which is also the name of a file: `add.f8E4M3FN.array`, `add.f8E4M3FN.broadcast.4`.

    Args:
        spec: the case, its form, and the part of its operands.
        level: of the cases; it decides the number of parts.
        call: its index among the calls of the part.
        count: the number of calls of the part.
    """
    words = [spec.case.signature, spec.form]
    if data.parts(spec.case, spec.form, level) > 1:
        words.append(str(spec.part))
    if count > 1:
        words.append(str(call))
    return ".".join(words)
