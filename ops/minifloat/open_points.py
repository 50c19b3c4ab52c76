"""Where a format leaves a result open: what we give, and what each known implementation gives.

The default is what JAX's storage types (ml_dtypes) give, unless that depends on the host's processor; then it is the
reading that needs no host. Tests hold every row against the implementations named in it; documentation renders it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

ML_DTYPES = "ml_dtypes 0.6.0 (x86-64)"
XLA = "XLA CPU, jaxlib 0.10.2"
ONNX = "ONNX documents"


@dataclasses.dataclass(frozen=True)
class OpenPoint:
    """One question, and one case of it: an op on codes of one type, and the code each implementation returns."""

    identifier: str  #: links the row to every other table and to reports; the sentences can be reworded at any time
    question: str
    ours: str
    formats: tuple[str, ...]  #: to which the question applies
    op: str
    operand_type: str
    operands: tuple[int, ...]  #: codes
    result_type: str
    code: int  #: ours
    others: Mapping[str, int]


_NO_NAN = ("f4E2M1FN", "f6E2M3FN", "f6E3M2FN")
_E8M0 = ("f8E8M0FNU",)
_UNSIGNED = ("f8E8M0FNU", "f8E5M3FNU")
_SIGNED_NAN = ("f8E3M4", "f8E4M3", "f8E4M3FN", "f8E5M2")

OPEN_POINTS: tuple[OpenPoint, ...] = (
    OpenPoint(
        "nan-converted", "NaN converted to a format without NaN",
        "-0", _NO_NAN,
        "convert", "f32", (0x7FC00000,), "f4E2M1FN", 0x8, {ML_DTYPES: 0x8, XLA: 0x8, ONNX: 0x7},
    ),
    OpenPoint(
        "negative-nan-converted", "NaN with its sign set, converted to a format without NaN",
        "+0", _NO_NAN,
        "convert", "f32", (0xFFC00000,), "f4E2M1FN", 0x0, {ML_DTYPES: 0x0, XLA: 0x8, ONNX: 0x7},
    ),
    OpenPoint(
        "invalid-operation", "an invalid operation (0/0) in a format without NaN",
        "-0, as NaN is converted (ml_dtypes: the host's NaN, negative on x86-64, converted)", _NO_NAN,
        "divide", "f4E2M1FN", (0x0, 0x0), "f4E2M1FN", 0x8, {ML_DTYPES: 0x0, XLA: 0x8},
    ),
    OpenPoint(
        "infinite-result", "an infinite result (1/0) in a format without infinity and NaN",
        "the largest number", _NO_NAN,
        "divide", "f4E2M1FN", (0x2, 0x0), "f4E2M1FN", 0x7, {ML_DTYPES: 0x7, XLA: 0x7},
    ),
    OpenPoint(
        "invalid-nan-sign", "the sign of the NaN of an invalid operation (0/0)",
        "positive (ml_dtypes and XLA: the host's, negative on x86-64)", _SIGNED_NAN,
        "divide", "f8E4M3FN", (0x00, 0x00), "f8E4M3FN", 0x7F, {ML_DTYPES: 0xFF, XLA: 0xFF},
    ),
    OpenPoint(
        "fnuz-nan-sign", "the sign of the NaN of an FNUZ format, whose code is that of -0",
        "negative", ("f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E5M2FNUZ"),
        "convert", "f8E4M3FNUZ", (0x80,), "f8E4M3FN", 0xFF, {ML_DTYPES: 0xFF, XLA: 0x7F},
    ),
    OpenPoint(
        "zero-result", "zero in a format without zero",
        "NaN", _E8M0,
        "convert", "f32", (0x00000000,), "f8E8M0FNU", 0xFF, {ML_DTYPES: 0xFF, XLA: 0xFF},
    ),
    OpenPoint(
        "negative-number", "a negative number in a format without sign",
        "NaN", _UNSIGNED,
        "convert", "f32", (0xBF800000,), "f8E8M0FNU", 0xFF, {ML_DTYPES: 0xFF, XLA: 0xFF},
    ),
    OpenPoint(
        "below-smallest", "a positive result below the smallest number, in a format without zero (2**-127 / 2)",
        "the smallest number", _E8M0,
        "divide", "f8E8M0FNU", (0x00, 0x80), "f8E8M0FNU", 0x00, {ML_DTYPES: 0x00, XLA: 0xFF},
    ),
    OpenPoint(
        "vanished",
        "a positive result so small that it vanishes in f32 too (up to 2**-150), in a format without zero",
        "NaN, as zero", _E8M0,
        "multiply", "f8E8M0FNU", (0x00, 0x00), "f8E8M0FNU", 0xFF, {ML_DTYPES: 0xFF, XLA: 0xFF},
    ),
    OpenPoint(
        "tie", "ties in a format of one significant bit, whose significands are all odd (3 lies between 2 and 4)",
        "the larger", _E8M0,
        "convert", "f32", (0x40400000,), "f8E8M0FNU", 0x81, {ML_DTYPES: 0x81, XLA: 0x81},
    ),
)  # fmt: skip
