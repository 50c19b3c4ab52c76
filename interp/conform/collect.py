"""Converts a backend's results for a part to codes, and checks that types and shapes are those of the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backends import BackendError
from ..backends.programs import decode
from ..comparison.diagnosis import Diagnosis
from ..oracle.formats import bits, code_dtype
from .block_parts import BlockPart
from .repeats import AnyPart


class OtherAxis(BackendError):
    """Scales of blocks along the other axis, as their shape shows."""

    why = Diagnosis("blocks lie along the other axis", ("wrong-axis",))

    def __init__(self) -> None:
        super().__init__("died", self.why.sentence)


def outputs(part: AnyPart) -> list[tuple[str, tuple[int, ...]]]:
    """The element type and the shape of each result of a part."""
    return part.outputs if isinstance(part, BlockPart) else [(part.result_type, part.shape)]


def collect(found: Sequence[np.ndarray], part: AnyPart) -> np.ndarray:
    """The results of a backend as codes; several results are concatenated."""
    signature = part.case.signature
    if isinstance(part, BlockPart) and part.is_across([np.shape(x) for x in found]):
        raise OtherAxis()
    codes = [_check_output(x, t, shape, signature) for x, (t, shape) in zip(found, outputs(part), strict=True)]
    return part.concatenate(codes) if isinstance(part, BlockPart) else codes[0]


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
