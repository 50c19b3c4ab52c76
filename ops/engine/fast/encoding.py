"""Rounding f32 to a minifloat by arithmetic on its bits. It is compared with the table of all cases before use."""

from __future__ import annotations

import functools

import numpy as np

from ...cast import code_table
from ...policy import Policy
from ...types import ELEMENT_TYPES, ElementType

#: The arguments of `loops.encode`: see there.
Numbers = tuple[int, ...]
_NEVER = 1 << 31


@functools.cache
def encoding(target: ElementType, policy: Policy) -> tuple[Numbers | None, np.ndarray]:
    """The numbers that make `loops.encode` round f32 to a minifloat, or None where it cannot; and the table.

    The table has the code of each bfloat16. Rounding f32 to odd to bfloat16 loses nothing that matters to the format.
    """
    table = code_table(ELEMENT_TYPES["bf16"], target, policy)
    return fitting(target, table), table


def fitting(target: ElementType, table: np.ndarray) -> Numbers | None:
    """The numbers for a table of the codes of all bfloat16, which may clip them too; None where there are none."""
    numbers = _numbers(target, table)
    if numbers is None:
        return None
    with np.errstate(all="ignore"):
        codes = _encoded(np.arange(1 << 16, dtype=np.uint32) << np.uint32(16), numbers)
    return numbers if (codes == table.view(np.uint8)).all() else None


def _numbers(target: ElementType, table: np.ndarray) -> Numbers | None:
    fmt, codes = target.format, table.view(np.uint8)
    if not (fmt.has_zero and fmt.is_signed):
        return None
    shift, smallest, over = 23 - fmt.mantissa_bits, 128 - fmt.bias, int(codes[0x7F7F])
    return (
        shift,
        ((1 << (shift - 1)) - 1 - ((127 - fmt.bias) << 23)) % (1 << 32),
        smallest << 23,
        (smallest + shift) << 23,
        min(fmt.max_code, over),  # nothing is larger
        over,
        int(codes[0x7FC0]),  # of NaN
        _NEVER if fmt.has_negative_zero else 0,
        32 - fmt.bits,
        fmt.sign_bit,
    )


def _encoded(bits: np.ndarray, numbers: Numbers) -> np.ndarray:
    """What `loops.encode` does, in numpy."""
    shift, add, low, magic, last, over, nan, unsigned, sign_shift, sign_bit = map(np.uint32, numbers)
    size, sign = bits & np.uint32(0x7FFFFFFF), (bits >> sign_shift) & sign_bit
    normal = (size + add + ((size >> shift) & np.uint32(1))) >> shift
    subnormal = (size.view(np.float32) + magic.view(np.float32)).view(np.uint32) - magic
    code = np.where(size >= low, normal, subnormal)
    code = np.where(code > last, over, code)
    sign = np.where(code == unsigned, np.uint32(0), sign)
    return np.where(size > np.uint32(0x7F800000), nan, code) | sign
