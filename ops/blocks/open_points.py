"""Points that the MX specification leaves open, or implementations do otherwise: a case of each, and their results.

A case is a block of 32 numbers: the first, and the one that all others are. The result of an implementation is the code
of the scale and the code of the first element. Tests compute ours, and torchao's where it is installed. Those of
microxcaling and PTX are read from the source and the manual.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

TORCHAO = "torchao 0.18"
MICROXCALING = "microxcaling"
PTX = "NVIDIA PTX cvt"

#: The code of the scale and, where an implementation gives one, of the first element.
Given = tuple[int, int | None]


@dataclasses.dataclass(frozen=True)
class BlockPoint:
    """One question, and one case of it."""

    identifier: str
    question: str
    specification: str  #: what OCP MX 1.0 says
    ours: str
    name: str  #: of the block format
    rule: str
    first: int  #: numbers as codes of f32
    rest: int
    given: Given  #: by us
    others: Mapping[str, Given]


_ONE = 0x3F800000

BLOCK_POINTS: tuple[BlockPoint, ...] = (
    BlockPoint(
        "scale-rule",
        "which scale a block of 449 has",
        "the largest power of two up to amax, over that of the elements",
        "as the specification; other rules by name",
        "mxfp8_e4m3", "floor", 0x43E08000, 0x43E08000, (0x7F, 0x7E),
        {TORCHAO: (0x7F, 0x7E), MICROXCALING: (0x7F, 0x7E), PTX: (0x80, 0x76)},
    ),
    BlockPoint(
        "scale-rceil",
        "whether amax / largest is rounded before it is rounded up (amax just above 448 * 2^-127)",
        "no such rule",
        "no: the exact quotient is rounded up",
        "mxfp8_e4m3", "rceil", 0x04600001, 0x04600001, (0x01, 0x76),
        {TORCHAO: (0x00, 0x00)},
    ),
    BlockPoint(
        "block-with-nan",
        "a block with NaN",
        "left to the implementation",
        "the scale is NaN, and so is every element that can be",
        "mxfp8_e4m3", "floor", 0x7FC00000, _ONE, (0xFF, 0x7F),
        {TORCHAO: (0xFF, 0x7F), MICROXCALING: (0xFF, None), PTX: (0xFF, 0x7F)},
    ),
    BlockPoint(
        "block-with-infinity",
        "a block with an infinity",
        "left to the implementation",
        "as a block with NaN",
        "mxfp8_e4m3", "floor", 0x7F800000, _ONE, (0xFF, 0x7F),
        {TORCHAO: (0xF7, 0x7E), MICROXCALING: (0xFF, None), PTX: (0xFE, 0x7E)},
    ),
    BlockPoint(
        "block-of-zeros",
        "a block of zeros",
        "log2 of zero is not defined",
        "the smallest scale",
        "mxfp8_e4m3", "floor", 0, 0, (0x00, 0x00),
        {TORCHAO: (0x00, 0x00), MICROXCALING: (0x00, 0x00), PTX: (0x00, 0x00)},
    ),
    BlockPoint(
        "negative-zero",
        "-0 in a block",
        "not said",
        "-0, where the elements have it",
        "mxfp8_e4m3", "floor", 0x80000000, _ONE, (0x77, 0x80),
        {TORCHAO: (0x77, 0x80), PTX: (0x77, 0x80)},
    ),
    BlockPoint(
        "smallest-scale",
        "what the scale of code 0 is worth (a block of 2^-126)",
        "2^-127",
        "2^-127, so the elements are 2",
        "mxfp8_e4m3", "floor", 0x00800000, 0x00800000, (0x00, 0x40),
        {TORCHAO: (0x00, 0x38), MICROXCALING: (0x00, 0x40)},
    ),
    BlockPoint(
        "subnormal-block",
        "a block of subnormal f32 (2^-130)",
        "not said",
        "as any other: nothing is flushed",
        "mxfp8_e4m3", "floor", 0x00080000, 0x00080000, (0x00, 0x20),
        {TORCHAO: (0x00, 0x18), MICROXCALING: (0x00, 0x20)},
    ),
    BlockPoint(
        "beyond-the-largest-element",
        "an element that rounds beyond the largest (480, scale 1)",
        "the largest element",
        "the largest element; `overflow` says otherwise",
        "mxfp8_e4m3", "floor", 0x43F00000, 0x43F00000, (0x7F, 0x7E),
        {TORCHAO: (0x7F, 0x7E), MICROXCALING: (0x7F, 0x7E), PTX: (0x7F, 0x7E)},
    ),
)  # fmt: skip
