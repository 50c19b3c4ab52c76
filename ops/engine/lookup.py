"""Lookup tables of functions of codes, and fast lookups in them.

numpy takes 0.45 ns for a lookup, whatever the size of the entry. So from a table of 256 entries one of all pairs is
made, which gives two neighbours at a time (0.25 ns an element). Large arrays are processed in parts, so that the
indices stay in the cache, by several threads.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence

import numpy as np

from ..types import ElementType, Kind
from .amortised import Amortised
from .blocks import block, blocks, empty, for_each
from .compiled import Kernels, kernels
from .speed import current, tuning


class Table:
    """A function of codes of 8 or 16 bits. `entries` has its result for each code that can occur."""

    def __init__(self, entries: np.ndarray) -> None:
        entries.setflags(write=False)
        self.entries = entries
        self._bits = entries.view(f"u{entries.itemsize}") if entries.itemsize <= 8 else entries
        self._pairs = Amortised(self._of_pairs, lambda: tuning().pairs_from, nbytes=lambda pairs: pairs.nbytes)

    def at(self, codes: np.ndarray) -> np.ndarray:
        """The results for an array of codes: unsigned integers of one byte, or two, as many as the table has."""
        size = codes.size
        if size <= current().tuning.lookup_few:
            # Of an array of rank 0 `take` would give a scalar, which other kernels do not take.
            return self.entries.take(codes) if codes.ndim else self.entries[codes, ...]
        if not codes.flags.c_contiguous:
            if codes.flags.f_contiguous:
                return self.at(codes.T).T
            if size <= block(size):
                codes = np.ascontiguousarray(codes)
        result = empty(codes.shape, self.entries.dtype)
        table, bits = self._bits, result.view(self._bits.dtype)
        if codes.flags.c_contiguous:
            codes, bits = codes.reshape(-1), bits.reshape(-1)
            compiled = kernels(size) if len(table) == 1 << 8 * codes.itemsize and table.dtype.kind == "u" else None
            if compiled is not None:
                return self._at_compiled(compiled, codes, bits, result)
            if len(table) == 256 and table.itemsize <= tuning().pairs_entry_bytes and size % 2 == 0:
                pairs = self._pairs.get(size)
                if pairs is not None:
                    table, codes, bits = pairs, codes.view(np.uint16), bits.view(pairs.dtype)

        def work(part: tuple[slice, ...]) -> None:
            # Codes are within the table; of numpy's ways to make sure of it this one is the quickest.
            table.take(codes[part], None, bits[part], "wrap")

        if size <= block(size):
            table.take(codes, None, bits, "wrap")
        else:
            for_each(list(blocks(codes.shape, block(codes.size))), work, size)
        return result

    def _at_compiled(self, compiled: Kernels, codes: np.ndarray, bits: np.ndarray, result: np.ndarray) -> np.ndarray:
        is_quick = compiled.has_octets and codes.itemsize == bits.itemsize == 1
        weight = codes.size // (tuning().octets if is_quick else 1)
        if weight <= tuning().block:
            compiled.look_up(codes, self._bits, bits)
            return result

        def work(part: tuple[slice, ...]) -> None:
            compiled.look_up(codes[part], self._bits, bits[part])

        for_each(list(blocks(codes.shape, block(codes.size))), work, weight)
        return result

    def at_joined(self, parts: Sequence[np.ndarray], widths: Sequence[int]) -> np.ndarray:
        """The results for codes joined from those of several arrays, which broadcast together.

        The first array has the highest bits of the joined code. `widths`: the number of bits of each array's codes.
        """
        shape = parts[0].shape
        if any(p.shape != shape for p in parts):
            shape = np.broadcast_shapes(*(p.shape for p in parts))
        size = 1
        for n in shape:
            size *= n
        if size <= current().tuning.lookup_few:
            index = joined(parts, widths)
            return self.entries.take(index) if shape else self.entries[index, ...]
        if len(parts) == 2 and (rows := self._rows_of(*parts)) is not None:
            return rows
        join = _joined_pair if len(parts) == 2 else joined
        result = empty(shape, self.entries.dtype)
        bits = result.view(self._bits.dtype)
        compiled = kernels(size) if len(parts) == 2 and bits.dtype.kind == "u" else None
        if size <= block(size) and compiled is None:
            self._bits.take(join(parts, widths), None, bits, "wrap")
            return result
        parts = [np.broadcast_to(p, shape) for p in parts]

        def work(part: tuple[slice, ...]) -> None:
            if compiled is not None:
                compiled.look_up_pairs(parts[0][part], parts[1][part], widths[1], self._bits, bits[part])
            else:
                self._bits.take(join([p[part] for p in parts], widths), None, bits[part], "wrap")

        for_each(list(blocks(shape, block(size))), work, size)
        return result

    def _rows_of(self, high: np.ndarray, low: np.ndarray) -> np.ndarray | None:
        """The results where one part is every code of a byte in order and the other has one code for all these.

        They lie together in the table, or in what it is with its parts the other way round; None in other cases.
        """
        if len(self.entries) != 1 << 16:
            return None
        if _is_every(low, high):
            return self.entries.reshape(256, 256).take(high[..., 0], axis=0)
        return self._turned.take(low[..., 0], axis=0) if _is_every(high, low) else None

    @functools.cached_property
    def _turned(self) -> np.ndarray:
        return np.ascontiguousarray(self.entries.reshape(256, 256).T)

    def _of_pairs(self) -> np.ndarray:
        """The results of two neighbours at a time."""
        # The code of two neighbours has the first in its low bits, and so has what is written for them, or both the
        # other way round.
        wide = self._bits.astype(f"u{2 * self._bits.itemsize}")
        return ((wide << (8 * self._bits.itemsize))[:, None] | wide).reshape(-1)


_EVERY = np.arange(256, dtype=np.uint8)


def _is_every(x: np.ndarray, other: np.ndarray) -> bool:
    is_row = x.size == 256 == x.shape[-1] and other.shape[-1:] == (1,) and x.ndim <= other.ndim
    return is_row and np.array_equal(x.reshape(-1), _EVERY)


def of_pairs(
    shape: tuple[int, ...],
    operands: Sequence[tuple[tuple[int, ...], np.dtype]],
    entries: Callable[[], np.ndarray | None],
    otherwise: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """What looks up pairs of codes of one byte, of two arrays of some shapes and types that broadcast to a small shape.

    The first has the high byte. The indices are put together in place, which takes a third of the time that making new
    arrays for them would. `entries` gives the table, and None as long as there is none: then, and for arrays of other
    shapes, it is done `otherwise`.
    """
    first, second = (s for s, _ in operands)
    free: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # what no thread is using

    def scratch() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        index = np.zeros(shape, np.intp)
        octets = index.view(np.uint8).reshape(*shape, index.itemsize)
        places = (1, 0) if sys.byteorder == "little" else (-2, -1)
        high, low = (octets[..., p].view(t) for p, (_, t) in zip(places, operands, strict=True))
        return index, high, low

    def look_up(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        table = entries()
        if table is None or x.shape != first or y.shape != second:
            return otherwise(x, y)
        try:
            mine = free.pop()
        except IndexError:
            mine = scratch()
        index, high, low = mine
        high[...] = x
        low[...] = y
        result = table[index]
        free.append(mine)
        return result

    return look_up


def all_of(element: ElementType, bits: int) -> np.ndarray:
    """The element of every code of so many bits."""
    codes = np.arange(1 << bits).astype(f"u{element.dtype.itemsize}")
    if element.kind is Kind.BOOL:
        return codes != 0
    if element.is_float:
        codes &= (1 << element.bits) - 1
    return codes.view(element.dtype)


def joined(parts: Sequence[np.ndarray], widths: Sequence[int]) -> np.ndarray:
    """Codes of up to 16 bits of arrays of bytes that broadcast together; the first has the highest bits."""
    first, *others = parts
    if not others:
        return first
    index = first.astype(np.uint16)
    for part, width in zip(others, widths[1:], strict=True):
        index <<= width
        if part.shape[-1:] == (1,):
            part = part.astype(np.uint16)  # numpy takes twice as long to widen what it repeats
        index = index | part if part.shape != index.shape else np.bitwise_or(index, part, out=index)
    return index


def _joined_pair(parts: Sequence[np.ndarray], widths: Sequence[int]) -> np.ndarray:
    """The same of two arrays, in two thirds of the time where they are large."""
    first, second = parts
    index = np.asarray(np.multiply(first, np.uint16(1 << widths[1]), dtype=np.uint16))  # widens and shifts in one call
    if second.size < first.size:
        second = second.astype(np.uint16)
    same = second.ndim <= first.ndim and np.broadcast_shapes(second.shape, first.shape) == first.shape
    return np.bitwise_or(index, second, out=index) if same else index | second
