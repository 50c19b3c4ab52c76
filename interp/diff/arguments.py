"""The arguments of a program that is examined op by op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.types import TensorType, Type
from ..errors import InputError
from ..values.values import check_input
from .source import Source


def fit_arguments(source: Source, arrays: Sequence[Any], partitions: bool = False) -> tuple[list[Any], Source]:
    """The values of the arguments, and the program specialized to their sizes.

    With `partitions` a program for several partitions is accepted too, with the gathered arguments.

    Raises InputError for arguments that do not fit the program, and for a program for several devices.
    """
    function = source.function
    types = function.argument_types
    if len(arrays) != len(types):
        takes = ", ".join(map(str, types)) or "none"
        raise InputError(f"{source.file}: @{function.name}: expected {len(types)} inputs ({takes}), got {len(arrays)}")
    for name in ("replicas", "partitions")[: 1 if partitions else 2]:
        count = int(source.program.attributes.get(f"mhlo.num_{name}", 1))
        if count > 1:
            raise InputError(f"{source.file}: expected a program without {name}, got {count}")
    values = [check_input(a, t, f"input {i}") for i, (a, t) in enumerate(zip(arrays, types, strict=True))]
    known: list[Type] = [
        TensorType(v.shape, t.element) if isinstance(t, TensorType) else t for v, t in zip(values, types, strict=True)
    ]
    return values, source.refine(known)
