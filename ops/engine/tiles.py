"""Exact products of codes by the matrix tiles of a processor, where numba is installed and the system grants them.

Each code is an integer times a power of two that is common to all. Integers of up to 32 bits are split into bytes,
which `fast.tiles` multiplies much faster than BLAS: 512**3 products of f8E4M3FN take 0.7 ms on one core, and 3.8 ms in
f64. Nothing is rounded before the end, so the results are the same as those of every other exact method.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from . import compiled_cache
from .blocks import empty, for_each
from .speed import tuning

#: How a process asks Linux for the tiles: the number of the system call on x86-64, the request, and the state.
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
_LINE = 64
#: The number of parts of a large product. There are more parts than threads, so that an interrupted thread delays
#: the others little.
_PARTS = 8

#: The kinds of results, and the limits of the digits of one operand and of both together, as in `fast.tiles`.
F64, NEAREST, ODD, I32, CODES = range(5)
MOST, BOTH = 4, 7
#: The number of columns up to which no 32-bit sum can overflow: each column adds at most four products of digits.
LONGEST = 1 << 14
_TYPES = (np.float64, np.float32, np.float32, np.int32, np.uint8)


def digits_of(largest: int) -> int:
    """The number of signed base-256 digits that hold every integer of up to this magnitude."""
    count = 1
    while largest > 127 * (256**count - 1) // 255:
        count += 1
    return count


def digits(values: np.ndarray, count: int) -> np.ndarray:
    """The signed base-256 digits of integers, as bytes: a row for each digit, the lowest first.

    Integers that need more than `count` digits give zeros.
    """
    rest, rows = values.astype(np.int64), np.zeros((count, *values.shape), np.uint8)
    for i in range(count):
        low = ((rest + 128) & 255) - 128
        rows[i] = low & 255
        rest = (rest - low) >> 8
    return np.where(rest == 0, rows, 0).astype(np.uint8)


class NoTilesError(Exception):
    """The processor has no tiles, or the system does not grant them."""


class Tiles:
    """The compiled functions of `fast.tiles`.

    Raises NoTilesError where there are no tiles, and the errors of numba where it cannot compile.
    """

    def __init__(self, digest: Callable[[str], str]) -> None:
        if not (sys.platform == "linux" and sys.maxsize > 1 << 32 and _is_granted()):
            raise NoTilesError("the system grants no tiles")
        llvm = importlib.import_module("llvmlite.binding")
        features = llvm.get_host_cpu_features()
        if not (features.get("amx-tile") and features.get("amx-int8") and features.get("avx512vbmi")):
            raise NoTilesError("the processor has no tiles of bytes")
        llvm.initialize_native_asmparser()
        numba = importlib.import_module("numba")
        module = importlib.import_module(".fast.tiles", __package__)
        name, (pack, multiply) = f"tiles-{digest(str(module.__file__))}", module.signatures()
        make = functools.partial(compiled_cache.compiled, numba, nogil=True, error_model="numpy")
        self._pack: Any = make(module.pack, pack, f"pack-{name}")
        self._multiply: Any = make(module.multiply, multiply, f"multiply-{name}")
        self._blocks = module.blocks
        self._configuration = np.zeros(64, np.uint8)
        self._configuration[0] = 1  # the one palette there is
        self._configuration[16:32:2], self._configuration[48:56] = module.WIDTH, module.LINES
        if not self._works():
            raise RuntimeError("the tiles give wrong sums")

    def _works(self) -> bool:
        codes = np.arange(256, dtype=np.uint8)
        x, y = np.resize(codes, (1, 20, 70)), np.resize(codes[::-1], (1, 70, 20))
        values = codes.astype(np.int64) * 300 - 9000
        count = digits_of(1 << 17)
        words = digits(values, count)
        result = self.product(x, y, (words, count), (words, count), F64, 1.0)
        return bool((result == (values[x] @ values[y])).all())

    def product(
        self,
        x: np.ndarray,
        y: np.ndarray,
        x_digits: tuple[np.ndarray, int],
        y_digits: tuple[np.ndarray, int],
        kind: int,
        scale: float,
        how: np.ndarray | None = None,
    ) -> np.ndarray:
        """The exact product of codes (batch, M, K) and (batch, K, N), times a power of two.

        Args:
            x: codes of shape (batch, M, K), one byte each.
            y: codes of shape (batch, K, N), one byte each.
            x_digits: the digits of every code of x, as `digits` gives them, and their number.
            y_digits: those of y.
            kind: `F64`: sums must have at most 53 bits. `NEAREST`: f32, rounded to nearest even. `ODD`: f32, rounded
                to odd. `I32`: 32-bit integers. `CODES`: minifloats, rounded by `fast.loops.encode`. For `ODD` and
                `CODES` the scaled sums must be zero or normal numbers of f32.
            scale: the power of two.
            how: how `encode` rounds.

        Returns:
            An array of shape (batch, M, N).
        """
        (batch, lines, length), columns = x.shape, y.shape[-1]
        down, depth = -(-lines // 16), -(-length // 64)
        (x_words, x_count), (y_words, y_count) = x_digits, y_digits
        terms = batch * lines * columns * length * x_count * y_count
        packed = [self._packed(x, x_words, x_count, True), self._packed(y.swapaxes(1, 2), y_words, y_count, False)]
        result = empty((batch, lines, columns), np.dtype(_TYPES[kind]))
        out = result.view(np.uint8).reshape(-1)
        groups = batch * -(-down // self._blocks(x_count, y_count)[0])
        how = np.zeros(10, np.int64) if how is None else how
        work_size = terms // tuning().tile_terms
        step = _step(groups, work_size)

        def work(first: int) -> None:
            last = min(first + step, groups)
            shapes = np.array((lines, columns, depth, x_count, y_count, first, last, tuning().tile_tries), np.int64)
            scratch = _aligned(6 << 10).view(np.int32).reshape(6, 256)
            kind_of = (kind, how, self._configuration, scratch, out)
            self._multiply(*packed, shapes, scale, *kind_of)

        for_each(range(0, groups, step), work, work_size)
        return result

    def _packed(self, x: np.ndarray, words: np.ndarray, count: int, is_first: bool) -> np.ndarray:
        batch, lines, length = x.shape
        across, size = -(-lines // 16), -(-length // 64) * count
        blocks = batch * across
        tiles = _aligned(blocks * size << 10).view(np.uint32)
        step = _step(blocks, x.size)

        def work(first: int) -> None:
            last = min(first + step, blocks)
            self._pack(x, words, count, not is_first, first, last, tiles[first * size << 8 : last * size << 8])

        for_each(range(0, blocks, step), work, x.size)
        return tiles


def _step(count: int, size: int) -> int:
    """The number of blocks in each part of a product of `count` blocks. A small product is one part."""
    return max(count if size <= tuning().block else count // _PARTS, 1)


def _aligned(size: int) -> np.ndarray:
    """An array of bytes aligned to a cache line. A tile whose rows cross cache lines takes twice the time."""
    room = np.empty(size + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + size]


def _is_granted() -> bool:
    """Ask the system for the tiles; whether it lets this process use them."""
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return False
    import platform

    return platform.machine() == "x86_64" and call(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0


def fits(count: int, others: int, length: int) -> bool:
    """Whether operands with these numbers of digits, and sums of `length` products, are within the limits."""
    return count <= MOST and others <= MOST and count + others <= BOTH and 0 < length <= LONGEST


__all__ = ["CODES", "F64", "I32", "NEAREST", "ODD", "NoTilesError", "Tiles", "digits", "digits_of", "fits"]
