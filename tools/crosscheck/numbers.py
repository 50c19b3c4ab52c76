"""Codes and numbers of the functions of mlir_tests/, by element types."""

from __future__ import annotations

import numpy as np

from minihlo.interp.oracle.formats import FORMATS
from minihlo.ops.cast import cast
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, ElementType, Kind

from .peers import Codes

F16, F32, E8M0 = (ELEMENT_TYPES[n] for n in ("f16", "f32", "f8E8M0FNU"))


def code_dtype(t: ElementType) -> np.dtype:
    """The numpy type of codes."""
    return t.dtype if t.kind is Kind.BOOL else np.dtype(f"u{t.dtype.itemsize}")


def is_nan(codes: Codes, t: ElementType) -> np.ndarray:
    """Tests which codes are NaN."""
    return FORMATS[t.name].is_nan(codes) if t.is_float else np.zeros(codes.shape, bool)


def value(codes: Codes, t: ElementType) -> np.ndarray:
    """The numbers, in f64; those of i1 and integers too."""
    with np.errstate(all="ignore"):  # a signalling NaN
        return np.ascontiguousarray(codes).view(t.dtype).astype(np.float64)


def convert(codes: Codes, source: ElementType, target: ElementType) -> Codes:
    """Our own conversion."""
    codes = np.ascontiguousarray(codes)
    with np.errstate(all="ignore"):
        return np.asarray(cast(codes.view(source.dtype), source, target, Policy())).view(code_dtype(target))
