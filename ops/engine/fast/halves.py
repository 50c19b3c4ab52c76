"""Arrays of f16 and bf16 as f32 and back, compiled: the loops of the machine on whole arrays.

It is imported only where numba is in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .instructions import HAS_HALVES, choose, float_to_half, numba, shift, wide_vectors
from .loops import of_f16, to_bf16, to_f16

_u16, _u32, _f32 = np.uint16, np.uint32, np.float32


def widen(codes, is_f16, out):
    """The words of f32 that are the numbers of codes."""
    wide_vectors()
    if is_f16:
        for i in range(codes.size):
            out[i] = of_f16(_u32(codes[i]))
    else:
        for i in range(codes.size):
            out[i] = _u32(codes[i]) << _u32(16)


def narrow(words, is_f16, out):
    """The codes next to the numbers of f32 that are words, to nearest even."""
    wide_vectors()
    if not is_f16:
        for i in range(words.size):
            out[i] = _u16(shift(to_bf16(words[i]), _u32(16)))
        return
    most = _u32(0)
    for i in range(words.size):
        size = _u32(words[i] & _u32(0x7FFFFFFF))
        most = choose(size > most, size, most)
    if most > _u32(0x7F800000):
        for i in range(words.size):
            out[i] = _u16(to_f16(words[i]))
    else:
        for i in range(words.size):
            out[i] = _u16(float_to_half(_u32(words[i]).view(_f32)))


def signatures() -> tuple[Any, Any]:
    """The types of what `widen` and `narrow` take. None is compiled where processors do not convert f16 themselves."""
    if not HAS_HALVES:
        raise RuntimeError("the processor does not convert f16")
    t = numba.types
    codes, words = (t.Array(of, 1, "C", readonly=True) for of in (t.uint16, t.uint32))
    return t.void(codes, t.boolean, t.Array(t.uint32, 1, "C")), t.void(words, t.boolean, t.Array(t.uint16, 1, "C"))
