"""Lookup tables: a function of elements that have at most 16 bits together, as an array of all its results.

A table is made by computing the function for every case, as soon as the elements that were computed one by one are as
many as there are cases. All tables together are bounded in bytes; the oldest is dropped, and made anew if it is needed.
"""

from __future__ import annotations

import collections
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from . import threads
from .traits import Run
from .types import ElementType, Kind

#: The most bits of an index.
MOST_BITS = 16
#: How many elements computed cost as much as the call that computes them, and moved as much as two calls of numpy.
#: tuning: `add` of minifloats by exact arithmetic takes 0.15 ms for up to 256 elements, 10 ms for all 65,536 pairs.
CALL_COST = 1 << 10
#: How many elements of a large array are computed at a time, so that intermediate results stay in the cache, and
#: threads do not meet too often.
#: tuning: exponentials of 10**6 f32 take 2.0 ms so, 3.0 with a quarter and 5.3 with four times as many.
BLOCK = 1 << 17
#: The pairs of elements of 8 bits. There is a table of them once as many elements were looked up: gelu of 10**6
#: f8E4M3FNUZ takes 0.5 ms so, 0.9 ms without.
PAIRS = 1 << 16
#: Up to so many columns a fold goes through each by itself.
#: tuning: a step then takes 0.04 µs for each column, in numpy 1.2 µs for all.
FEW_COLUMNS = 24
#: The most bytes of all tables together.
MOST_BYTES = 1 << 27


def index_bits(element: ElementType) -> int:
    """How many bits an element has in an index. More than `MOST_BITS` where there is no table."""
    # An integer below eight bits may have any bits beside its own in the byte that stores it.
    return max(element.bits, 8) if element.is_integer else element.bits


def all_codes(element: ElementType) -> np.ndarray:
    """Every element of a type of up to 16 bits, in the order of its codes: one for each index."""
    codes = np.arange(1 << index_bits(element)).astype(f"u{element.dtype.itemsize}")
    return codes != 0 if element.kind is Kind.BOOL else codes.view(element.dtype)


class Tabulated:
    """A function of arrays that broadcast together, element by element, which becomes a table once that pays.

    Args:
        compute: the function.
        elements: the types of its operands, which have at most `MOST_BITS` bits in an index together.
        result: the storage type of its result.
    """

    def __init__(self, compute: Run, elements: Sequence[ElementType], result: np.dtype) -> None:
        self._compute, self._elements, self._result = compute, elements, result
        self._bits = [index_bits(element) for element in elements]
        self._codes = [np.dtype(f"u{element.dtype.itemsize}") for element in elements]
        self._cases = 1 << sum(self._bits)
        self._computed = 0
        self._entries: np.ndarray | None = None
        self._pairs: np.ndarray | None = None

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        size = arrays[0].size if len(arrays) == 1 else np.broadcast(*arrays).size
        entries = self._entries
        if entries is None:
            entries = self._table_if_it_pays(1, size)
            if entries is None:
                return self._compute(*arrays)
        if size == 1 and not any(x.ndim for x in arrays):
            index = 0
            for x, bits in zip(arrays, self._bits, strict=True):
                index = index << bits | int.from_bytes(x.tobytes(), sys.byteorder)
            return entries[index]
        codes = [x.view(code) for x, code in zip(arrays, self._codes, strict=True)]
        if len(codes) == 1 and self._codes[0].itemsize == 1 and codes[0].flags.c_contiguous and not size % 2:
            pairs = self._pairs_if_they_pay(entries, size)
            if pairs is not None:
                return look_up(pairs, [codes[0].reshape(-1).view(np.uint16)]).view(self._result).reshape(codes[0].shape)
        if size <= BLOCK:
            return entries.take(_joined(codes, self._bits), mode="wrap")
        return look_up(entries, codes, self._bits)

    def _pairs_if_they_pay(self, entries: np.ndarray, size: int) -> np.ndarray | None:
        """The results of two neighbouring elements, as one integer, by the two bytes that store these."""
        pairs, self._computed = self._pairs, self._computed + size
        if pairs is None and self._computed >= PAIRS and entries.itemsize <= 4:
            neighbours = np.arange(PAIRS, dtype=np.uint16).view(np.uint8)
            pairs = self._pairs = entries.take(neighbours, mode="wrap").view(f"u{2 * entries.itemsize}")
            _bound(self, pairs.nbytes)
        return pairs

    def table(self) -> np.ndarray:
        """The results of all cases, made now if need be.

        An index is made of the codes of the operands, with that of the first in the highest bits.
        """
        entries = self._entries
        if entries is None:
            cases = [c.reshape(-1) for c in np.meshgrid(*map(all_codes, self._elements), indexing="ij")]
            entries = np.array(np.broadcast_to(self._compute(*cases), self._cases), self._result)
            entries.setflags(write=False)
            self._entries = entries
            _bound(self, entries.nbytes)
        return entries

    def drop(self) -> None:
        """Forget the table. It is made anew when that pays."""
        self._entries, self._pairs, self._computed = None, None, 0

    def _table_if_it_pays(self, calls: int, size: int) -> np.ndarray | None:
        """The table, if it exists or pays with so many more elements to compute, in so many calls."""
        self._computed += calls * CALL_COST + size
        return self.table() if self._computed >= self._cases else self._entries

    def fold(self, start: np.ndarray, rows: np.ndarray, trail: np.ndarray | None = None) -> np.ndarray:
        """The accumulators after the last row, where the function gives the next accumulator for one and an element.

        Args:
            start: the first accumulators, of shape (columns,).
            rows: the elements, of shape (steps, columns); both types have at most 8 bits.
            trail: of the same shape; the accumulators after each row are written there.
        """
        entries = self._table_if_it_pays(len(rows), rows.size)
        if entries is None:
            totals = start
            for i, row in enumerate(rows):
                totals = self._compute(totals, row)
                if trail is not None:
                    trail[i] = totals
            return np.array(totals, self._result)
        totals, path = start.astype(self._result).view(np.uint8), None if trail is None else trail.view(np.uint8)
        walk = _walk_columns if len(start) <= FEW_COLUMNS else _walk_rows
        for first in range(0, len(start), BLOCK):
            part = slice(first, first + BLOCK)
            walk(entries.view(np.uint8), self._bits[1], totals[part], rows.view(np.uint8)[:, part],
                 None if path is None else path[:, part])  # fmt: skip
        return totals.view(self._result)


def look_up(entries: np.ndarray, codes: Sequence[np.ndarray], bits: Sequence[int] = (MOST_BITS,)) -> np.ndarray:
    """The entries for arrays of codes that broadcast together; an index is made of so many bits of each."""
    return in_blocks(lambda *some: entries.take(_joined(some, bits), mode="wrap"), codes, entries.dtype)


def _joined(codes: Sequence[np.ndarray], bits: Sequence[int]) -> np.ndarray:
    """The indices of codes that broadcast together."""
    index = codes[0]
    for code, width in zip(codes[1:], bits[1:], strict=True):
        index = np.multiply(index, np.uint16(1 << width), dtype=np.uint16) | code
    return index


def in_blocks(compute: Run, arrays: Sequence[np.ndarray], result: np.dtype, wide: np.dtype | None = None) -> np.ndarray:
    """`compute` of arrays that broadcast together: of large ones so many elements at a time as fit the cache.

    A large result lies in memory as the arrays do. `wide` is the type to which the arrays are converted before.
    """
    size = np.broadcast(*arrays).size
    if size <= BLOCK:
        return compute(*(arrays if wide is None else [x.astype(wide) for x in arrays]))
    rows = np.broadcast_arrays(*arrays)
    whole = next((x for x in rows if 0 not in x.strides), rows[0])
    order = sorted(range(whole.ndim), key=lambda d: -abs(whole.strides[d]))  # as it lies in memory
    rows = [x.transpose(order) for x in rows]
    found = np.empty(rows[0].shape, result)
    if all(x.flags.c_contiguous for x in rows):
        rows = [x.reshape(-1) for x in rows]
    target, step = found.reshape(rows[0].shape), max(BLOCK * len(rows[0]) // size, 1)

    def work(first: int) -> None:
        part = slice(first, first + step)
        target[part] = compute(*[x[part] if wide is None else x[part].astype(wide) for x in rows])

    threads.for_each(work, range(0, len(rows[0]), step))
    return found if order == sorted(order) else found.transpose(np.argsort(order))


def _walk_columns(
    entries: np.ndarray, width: int, totals: np.ndarray, rows: np.ndarray, trail: np.ndarray | None
) -> None:
    """Fold each column by itself, in Python; `totals` are the first accumulators, and then the last."""
    flat, count = entries.tobytes(), 1 << width
    table = [flat[i : i + count] for i in range(0, len(flat), count)]
    for column, total in enumerate(totals.tolist()):
        path = bytes(_steps(table, total, rows[:, column].tobytes()))
        totals[column] = path[-1] if path else total
        if trail is not None:
            trail[:, column] = np.frombuffer(path, np.uint8)


def _steps(table: Sequence[bytes], total: int, elements: bytes) -> Iterator[int]:
    for element in elements:
        total = table[total][element]
        yield total


def _walk_rows(entries: np.ndarray, width: int, totals: np.ndarray, rows: np.ndarray, trail: np.ndarray | None) -> None:
    """The same of many columns, row by row."""
    index, scale = np.empty(totals.shape, np.uint16), np.uint16(1 << width)
    for i, row in enumerate(rows):
        np.multiply(totals, scale, out=index)
        index |= row
        entries.take(index, None, totals, "wrap")
        if trail is not None:
            trail[i] = totals


_lock = threading.Lock()
#: What has a table, or had one, in the order of making, and the bytes of it; and the sum of these.
_made: collections.deque[tuple[weakref.ref[Tabulated], int]] = collections.deque()
_bytes = 0


def _bound(owner: Tabulated, nbytes: int) -> None:
    """Count a new table, and drop the oldest ones where all are too many bytes."""
    global _bytes
    with _lock:
        _made.append((weakref.ref(owner), nbytes))
        _bytes += nbytes
        while _bytes > MOST_BYTES and len(_made) > 1:
            oldest, size = _made.popleft()
            _bytes -= size
            table = oldest()
            if table is not None and table is not owner:
                table.drop()
