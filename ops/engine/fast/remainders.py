"""The machine's loop for remainders of f32: by quotients in f64 where they are whole numbers of few enough bits."""

from __future__ import annotations

import numpy as np

from .instructions import choose, inner, wide_vectors

_f32, _f64, _u32 = np.float32, np.float64, np.uint32
_SIGN = 0x80000000
#: Quotients below it, of two f32, are truncated right after they are rounded: what is below a whole number is so by
#: more than half of the last of 53 bits. The number times the divisor fits 53 bits too.
_MOST = 2.0**28


@inner
def remainders(x, bits, to, a, b, n):
    """What truncated division leaves, with the sign of the dividend; the result may take an operand's place."""
    wide_vectors()
    far = _u32(0)
    for j in range(n):
        size, by = abs(_f64(x[a, j])), abs(_f64(x[b, j]))
        far |= choose((size < by * _MOST) & (size < np.inf), _u32(0), _u32(1))  # NaN and zeros are far too
    if far:
        for j in range(n):
            x[to, j] = np.fmod(x[a, j], x[b, j])
        return
    for j in range(n):
        size, by = abs(_f64(x[a, j])), abs(_f64(x[b, j]))
        whole = np.floor(size / by)
        rest = choose(size < by, size, size - whole * by)  # by infinity too
        bits[to, j] = _f32(rest).view(_u32) | _u32(bits[a, j] & _u32(_SIGN))
