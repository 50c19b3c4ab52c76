"""Kernels that numba compiles, where it is installed (`pip install minihlo[fast]`): lookups, rounding, sums by steps.

The rule. Once some millions of elements have gone through numpy's way of doing these, numba is imported and the kernels
are compiled, each for the types it meets, and kept for other processes (`compiled_cache`). So nothing small ever waits
for a compiler. The kernels do the same as numpy and give the same bits; each runs on one thread and lets others run
meanwhile (`blocks.for_each`). What runs whole groups of ops is in `fast`: compiled for the first time it takes some
seconds, from the cache half a second.

Measured on one busy core, numpy and compiled, ns an element: lookup of a byte 1.6 and 0.5, of two joined bytes 2.1 and
0.9, f32 rounded to a minifloat 2.3 and 0.8, f64 4.7 and 2.4, sums of rows of f32 1.9 and 0.6. Programs on 10**6 bytes
gain 1.5 to 2.1 times (gelu, silu, add, row sum).
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import compiled_cache, speed
from .amortised import Amortised
from .fast.patches import lay_patches
from .fast.scattering import add_at, add_down
from .tiles import Tiles

#: Keeps nothing.
_NONE = np.empty((0, 0), np.uint8)


def _look_up(codes: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """`out[i] = table[codes[i]]`, of unsigned integers; the table has an entry for every code."""
    for i in range(codes.size):
        out[i] = table[codes[i]]


def _look_up_pairs(high: np.ndarray, low: np.ndarray, width: Any, table: np.ndarray, out: np.ndarray) -> None:
    """The same for matrices of codes that are joined; the second has `width` bits. The table's size is a power of 2."""
    mask = np.uintp(table.size - 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = table[((np.uintp(high[i, j]) << width) | np.uintp(low[i, j])) & mask]


def _look_up_lines(codes: np.ndarray, tables: np.ndarray, strip: Any, out: np.ndarray) -> None:
    """The same for a matrix of bytes and a table of 256 for each row, or for each column, one behind the other.

    `strip` is 0 for rows, else how many columns are taken together, so that their tables stay in the cache.
    """
    rows, columns = out.shape
    if strip == 0:
        for i in range(rows):
            for j in range(columns):
                out[i, j] = tables[(np.uintp(i) << np.uintp(8)) | np.uintp(codes[i, j])]
    else:
        for first in range(0, columns, strip):
            last = min(first + strip, columns)
            for i in range(rows):
                here, there = codes[i, first:last], out[i, first:last]
                at = np.uintp(first) << np.uintp(8)
                for j in range(there.size):
                    there[j] = tables[at | np.uintp(here[j])]
                    at += np.uintp(256)


def _add_rows(totals: np.ndarray, rows: np.ndarray) -> None:
    """Adds up each row into its total, from left to right; eight side by side, as each sum waits for the one before."""
    count, width = rows.shape
    first = 0
    while first + 8 <= count:
        t0, t1, t2, t3 = totals[first], totals[first + 1], totals[first + 2], totals[first + 3]
        t4, t5, t6, t7 = totals[first + 4], totals[first + 5], totals[first + 6], totals[first + 7]
        part = rows[first : first + 8]
        for j in range(width):
            t0, t1, t2, t3 = t0 + part[0, j], t1 + part[1, j], t2 + part[2, j], t3 + part[3, j]
            t4, t5, t6, t7 = t4 + part[4, j], t5 + part[5, j], t6 + part[6, j], t7 + part[7, j]
        totals[first], totals[first + 1], totals[first + 2], totals[first + 3] = t0, t1, t2, t3
        totals[first + 4], totals[first + 5], totals[first + 6], totals[first + 7] = t4, t5, t6, t7
        first += 8
    for i in range(first, count):
        t = totals[i]
        for j in range(width):
            t = t + rows[i, j]
        totals[i] = t


def _round(bits: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """f32 by its bits, rounded to odd to bfloat16 and from there by a table; see `minifloat.cast`."""
    for i in range(bits.size):
        u = np.uint64(bits[i])
        out[i] = table[(u | ((u & np.uint64(0xFFFF)) + np.uint64(0xFFFF))) >> np.uint64(16)]


def _round_wide(x: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """f64, rounded to odd to bfloat16 by way of the nearest f32, and from there by a table."""
    for i in range(x.size):
        nearest = np.float32(x[i])
        u, back = np.uint64(np.float32(nearest).view(np.uint32)), np.float64(nearest)
        if back != x[i] and u & np.uint64(0xFFFF) == 0:
            # It ends on a number of bfloat16, which it is not: the last bit is set of the one towards zero.
            if abs(back) > abs(x[i]):
                u -= np.uint64(1)
            u |= np.uint64(1)
        out[i] = table[(u | ((u & np.uint64(0xFFFF)) + np.uint64(0xFFFF))) >> np.uint64(16)]


def _transitions(totals: np.ndarray, rows: np.ndarray, table: np.ndarray, kept: np.ndarray) -> None:
    """Each total, a code, is replaced by what the table has for it and the next element of its column, in turn.

    Eight columns go side by side, as each lookup waits for the one before. The totals after each step are kept if there
    is room for as many.
    """
    steps, width = rows.shape
    is_kept = kept.shape[0] == steps
    first = 0
    while first + 8 <= width:
        t0, t1, t2, t3 = totals[first], totals[first + 1], totals[first + 2], totals[first + 3]
        t4, t5, t6, t7 = totals[first + 4], totals[first + 5], totals[first + 6], totals[first + 7]
        part = rows[:, first : first + 8]
        for i in range(steps):
            t0, t1 = table[t0, part[i, 0]], table[t1, part[i, 1]]
            t2, t3 = table[t2, part[i, 2]], table[t3, part[i, 3]]
            t4, t5 = table[t4, part[i, 4]], table[t5, part[i, 5]]
            t6, t7 = table[t6, part[i, 6]], table[t7, part[i, 7]]
            if is_kept:
                kept[i, first], kept[i, first + 1], kept[i, first + 2], kept[i, first + 3] = t0, t1, t2, t3
                kept[i, first + 4], kept[i, first + 5], kept[i, first + 6], kept[i, first + 7] = t4, t5, t6, t7
        totals[first], totals[first + 1], totals[first + 2], totals[first + 3] = t0, t1, t2, t3
        totals[first + 4], totals[first + 5], totals[first + 6], totals[first + 7] = t4, t5, t6, t7
        first += 8
    for j in range(first, width):
        t = totals[j]
        for i in range(steps):
            t = table[t, rows[i, j]]
            if is_kept:
                kept[i, j] = t
        totals[j] = t


class Kernels:
    """The compiled functions. Arrays are of unsigned integers and contiguous unless something else is said."""

    def __init__(self) -> None:
        numba = importlib.import_module("numba")
        if numba.config.DISABLE_JIT:  # functions would stay Python, and take a thousand times as long as numpy
            raise RuntimeError("numba compiles nothing, as NUMBA_DISABLE_JIT says")
        types = numba.types

        def array(dtype: np.dtype, dimensions: int = 1, layout: str = "C", is_read: bool = True) -> Any:
            return types.Array(getattr(types, f"uint{8 * dtype.itemsize}"), dimensions, layout, readonly=is_read)

        byte, word = np.dtype(np.uint8), np.dtype(np.uint32)
        codes, matrix = array(byte), array(byte, 2, "A")
        self._look_up = _Compiled(_look_up, lambda c, t: (array(c), array(t), array(t, 1, "C", False)))
        self._look_up_pairs = _Compiled(
            _look_up_pairs, lambda t: (matrix, matrix, types.uintp, array(t), array(t, 2, "C", False))
        )
        self._look_up_lines = _Compiled(
            _look_up_lines, lambda t: (array(byte, 2), array(t), types.intp, array(t, 2, "C", False))
        )
        octets = importlib.import_module(".fast.octets", __package__)
        #: Whether bytes are looked up by the processor's permutations, several times as fast.
        self.has_octets: bool = octets.KNOWN
        self._look_up_octets = _Compiled(octets.look_up_octets, octets.signature, _digest(str(octets.__file__)))
        self._look_up_quads = _Compiled(octets.look_up_quads, octets.signature_of_quads, _digest(str(octets.__file__)))
        floats, places = (types.Array(t, d, "C", readonly=True) for t, d in ((types.float32, 2), (types.int64, 1)))
        sums = [types.Array(types.float32, d, "C") for d in (1, 2)]
        self._add_rows = _Compiled(_add_rows, lambda: (sums[0], floats))
        self._add_at = _Compiled(add_at, lambda: (sums[1], places, floats))
        self._add_down = _Compiled(add_down, lambda: (sums[0], floats, types.intp, types.intp))
        self._round = _Compiled(_round, lambda: (array(word), codes, array(byte, 1, "C", False)))
        self._round_wide = _Compiled(
            _round_wide, lambda: (types.Array(types.float64, 1, "C", readonly=True), codes, array(byte, 1, "C", False))
        )
        totals, kept = array(byte, 1, "C", False), array(byte, 2, "A", False)
        self._transitions = _Compiled(_transitions, lambda: (totals, matrix, array(byte, 2), kept))
        grid, ends = types.Array(types.int64, 2, "C"), types.UniTuple(types.int64, 2)
        base = types.Array(types.int64, 1, "C")
        self._lay_patches = _Compiled(
            lay_patches, lambda w: (array(w), array(w, 1, "C", False), grid, grid, base, ends, ends)
        )

    @functools.cached_property
    def machine(self) -> Callable[..., int] | None:
        """What runs programs for whole groups, see `fast.machine`; None where it cannot be compiled."""
        with _lock:
            try:
                return _machine()
            except Exception:  # of a numba that lacks something: it raises what it likes
                return None

    @functools.cached_property
    def tiles(self) -> Tiles | None:
        """What multiplies by the processor's tiles; None where there are none, or they cannot be compiled."""
        with _lock:
            try:
                return Tiles(_digest)
            except Exception:  # of a numba that lacks something: it raises what it likes
                return None

    @functools.cached_property
    def halves(self) -> tuple[Callable[..., None], Callable[..., None]] | None:
        """`widen` and `narrow` of `fast.halves`; None where the processor does not convert f16."""
        with _lock:
            try:
                numba, module = importlib.import_module("numba"), importlib.import_module(".fast.halves", __package__)
                name, (widen, narrow) = f"halves-{_digest(str(module.__file__))}", module.signatures()
                make = functools.partial(compiled_cache.compiled, numba, nogil=True, error_model="numpy")
                return make(module.widen, widen, f"widen-{name}"), make(module.narrow, narrow, f"narrow-{name}")
            except Exception:  # of a numba that lacks something: it raises what it likes
                return None

    def look_up(self, codes: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
        """`out = table[codes]` of arrays with one axis; the table has an entry for every code."""
        if self.has_octets and table.itemsize == codes.itemsize == 1:
            self._look_up_octets()(codes.reshape(1, -1), table, 0, out.reshape(1, -1))
            return
        if self.has_octets and (table.itemsize, codes.itemsize) == (4, 1):
            self._look_up_quads()(codes, table, out)
            return
        self._look_up(codes.dtype, table.dtype)(codes, table, out)

    def look_up_pairs(self, high: np.ndarray, low: np.ndarray, width: int, table: np.ndarray, out: np.ndarray) -> None:
        """`out = table[high << width | low]` of arrays of one shape; the codes are bytes and lie in any way."""
        is_flat = high.flags.c_contiguous and low.flags.c_contiguous
        shape = (1, out.size) if is_flat else (-1, out.shape[-1])
        run = self._look_up_pairs(table.dtype)
        run(high.reshape(shape), low.reshape(shape), width, table, out.reshape(shape))

    def look_up_lines(self, codes: np.ndarray, tables: np.ndarray, by_column: bool, out: np.ndarray) -> None:
        """`out[i, j] = tables[i, codes[i, j]]`, or `tables[j, codes[i, j]]`; a table has 256 entries."""
        if self.has_octets and tables.itemsize == 1 and not by_column:
            self._look_up_octets()(codes, tables.reshape(-1), 256, out)
            return
        strip = speed.tuning().columns_strip // tables.itemsize if by_column else 0
        self._look_up_lines(tables.dtype)(codes, tables.reshape(-1), strip, out)

    def add_rows(self, totals: np.ndarray, rows: np.ndarray) -> None:
        """Adds the elements of each row of f32, in order, to the row's total."""
        self._add_rows()(totals, rows)

    def add_down(self, totals: np.ndarray, rows: np.ndarray, first: int, last: int) -> None:
        """Adds rows of f32, in order, to the totals of some columns."""
        self._add_down()(totals, rows, first, last)

    def add_at(self, rows: np.ndarray, targets: np.ndarray, updates: np.ndarray) -> None:
        """Adds rows of f32, in order, to those of a matrix whose numbers are given, int64."""
        self._add_at()(rows, targets, updates)

    def round(self, x: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
        """The codes of f32, which are given as their bits, by a table of those of bfloat16."""
        self._round()(x, table, out)

    def round_wide(self, x: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
        """The same of f64, which are given as they are."""
        self._round_wide()(x, table, out)

    def lay_patches(self, source: np.ndarray, out: np.ndarray, *numbers: Any) -> None:
        """Windows of `source`, unsigned integers one behind the other, as `fast.patches` says."""
        words = out.view(source.dtype).reshape(-1)
        self._lay_patches(source.dtype)(source, words, *numbers)

    def transitions(
        self, totals: np.ndarray, rows: np.ndarray, table: np.ndarray, kept: np.ndarray | None = None
    ) -> None:
        """Runs the totals along the rows by a transition table, in place; `kept` gets the totals after each step.

        See `transitions.TransitionTable.along` for shapes; `table` has 65,536 bytes.
        """
        self._transitions()(totals, rows, table.reshape(256, 256), _NONE if kept is None else kept)


def kernels(size: int) -> Kernels | None:
    """The kernels, if an array of so many elements is for them."""
    return None if size < speed.tuning().compiled_from else _loaded(size)


def machine(size: int) -> Callable[..., int] | None:
    """What runs programs for groups (`fast.machine.run`), once it is worth loading; one has so many elements."""
    compiled = _loaded(size)
    return None if compiled is None else compiled.machine


def tiles(terms: int) -> Tiles | None:
    """What multiplies codes by the processor's tiles, once it is worth loading; for a product of so many terms."""
    if terms < speed.tuning().tile_from:
        return None
    compiled = _loaded(terms // speed.tuning().product_terms)
    return None if compiled is None else compiled.tiles


def _loaded(size: int) -> Kernels | None:
    if not speed.current().compiled or not is_available():
        return None
    made = _made.value or _made.get(size)
    return made[0] if made else None


_lock = threading.RLock()


@functools.cache
def is_available() -> bool:
    """Whether numba is installed; it is not imported for that."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def _imported() -> tuple[Kernels | None]:
    try:
        return (Kernels(),)
    except Exception:  # of a numba that does not fit this Python or numpy: it raises what it likes
        return (None,)


def _kernels() -> tuple[Kernels | None]:
    with _lock:
        return _imported()


#: The kernels, once so many elements would have been for them; None in their place where numba does not work.
_made = Amortised(_kernels, lambda: speed.tuning().compiled_worth)


def _machine() -> Callable[..., int]:
    numba = importlib.import_module("numba")
    module = importlib.import_module(".fast.machine", __package__)
    if not module.knows_arrays():
        raise RuntimeError("the elements of an array are not where the machine looks for them")
    name = f"machine-{_digest(str(module.__file__))}"
    return compiled_cache.compiled(numba, module.run, module.signature(), name, nogil=True, error_model="numpy")


@functools.cache
def compiled_module(name: str) -> Callable[..., None] | None:
    """The function `run` of a module, compiled for its `signature()`; None where it cannot be compiled."""
    with _lock:
        try:
            numba, module = importlib.import_module("numba"), importlib.import_module(name)
            parts = "".join(_digest(str(file)) for file in (module.__file__, Path(__file__).parent / "fast" / "run.py"))
            folder = f"{name.rpartition('.')[2]}-{parts}"
            return compiled_cache.compiled(
                numba, module.run, module.signature(), folder, nogil=True, error_model="numpy"
            )
        except Exception:  # of a numba that lacks something: it raises what it likes
            return None


def compiled_function(kind: int) -> int | None:
    """The address of a function of the machine by its opcode; None where it cannot be compiled."""
    module = importlib.import_module(".fast.functions", __package__)
    with _lock:
        try:
            return module.compiled(kind, _digest(str(module.__file__))).address
        except Exception:  # of a numba that lacks something: it raises what it likes
            return None


def _digest(file: str) -> str:
    """A name that differs where any file in this one's folder does: numba itself looks at the one file only."""
    sources = sorted(Path(file).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


class _Compiled:
    """A function compiled for some types as soon as they are asked for, and kept on disk if that can be done.

    mark: what names the sources of the functions that it calls.
    """

    def __init__(
        self, function: Callable[..., None], signature: Callable[..., tuple[Any, ...]], mark: str = ""
    ) -> None:
        self._function, self._signature, self._mark = function, signature, mark
        self._found: dict[tuple[np.dtype, ...], Callable[..., None]] = {}

    def __call__(self, *dtypes: np.dtype) -> Callable[..., None]:
        return self._found.get(dtypes) or self._compile(dtypes)

    def _compile(self, dtypes: tuple[np.dtype, ...]) -> Callable[..., None]:
        numba = importlib.import_module("numba")
        name = "-".join(filter(None, [self._function.__name__.lstrip("_"), self._mark, *(d.name for d in dtypes)]))
        with _lock:
            function = compiled_cache.compiled(numba, self._function, self._signature(*dtypes), name, nogil=True)
            self._found[dtypes] = function
        return function
