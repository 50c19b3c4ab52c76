"""Codes of fewer than eight bits as a little-endian stream of bits, and back."""

from __future__ import annotations

import numpy as np


def pack_bits(rows: np.ndarray, bits: int) -> np.ndarray:
    """Codes, uint8, as bytes, each row by itself."""
    if bits == 8:
        return rows
    each = np.unpackbits(rows[..., None], axis=-1, count=bits, bitorder="little")
    return np.packbits(each.reshape(len(rows), rows.shape[1] * bits), axis=1, bitorder="little")


def unpack_bits(rows: np.ndarray, bits: int, count: int) -> np.ndarray:
    """`count` codes from each row of bytes."""
    if bits == 8:
        return rows.copy()
    each = np.unpackbits(rows, axis=1, count=count * bits, bitorder="little")
    return np.packbits(each.reshape(len(rows), count, bits), axis=2, bitorder="little").reshape(len(rows), count)
