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
from .fast import lookups, row_sums
from .fast.patches import lay_patches
from .native import row_sums as native_sums
from .tiles import Tiles

#: Keeps nothing.
_NONE = np.empty((0, 0), np.uint8)


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
        self._look_up = _Compiled(lookups.look_up, lambda c, t: (array(c), array(t), array(t, 1, "C", False)))
        self._look_up_pairs = _Compiled(
            lookups.look_up_pairs, lambda t: (matrix, matrix, types.uintp, array(t), array(t, 2, "C", False))
        )
        self._look_up_lines = _Compiled(
            lookups.look_up_lines, lambda t: (array(byte, 2), array(t), types.intp, array(t, 2, "C", False))
        )
        octets = importlib.import_module(".fast.octets", __package__)
        #: Whether bytes are looked up by the processor's permutations, several times as fast.
        self.has_octets: bool = octets.KNOWN
        self._look_up_octets = _Compiled(octets.look_up_octets, octets.signature, _digest(str(octets.__file__)))
        self._look_up_quads = _Compiled(octets.look_up_quads, octets.signature_of_quads, _digest(str(octets.__file__)))
        floats, places = (types.Array(t, d, "C", readonly=True) for t, d in ((types.float32, 2), (types.int64, 1)))
        sums = [types.Array(types.float32, d, "C") for d in (1, 2)]
        self._add_rows = _Compiled(row_sums.add_rows, lambda: (sums[0], floats))
        self._add_at = _Compiled(row_sums.add_at, lambda: (sums[1], places, floats))
        self._add_down = _Compiled(row_sums.add_down, lambda: (sums[0], floats, types.intp, types.intp))
        self._round = _Compiled(lookups.round_f32, lambda: (array(word), codes, array(byte, 1, "C", False)))
        self._round_wide = _Compiled(
            lookups.round_f64,
            lambda: (types.Array(types.float64, 1, "C", readonly=True), codes, array(byte, 1, "C", False)),
        )
        totals, kept = array(byte, 1, "C", False), array(byte, 2, "A", False)
        self._transitions = _Compiled(lookups.transitions, lambda: (totals, matrix, array(byte, 2), kept))
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

    @functools.cached_property
    def scatters(self) -> tuple[Callable[..., None], Callable[..., bool]] | None:
        """`add_halves` and `put_extremes` of `fast.scatters`; None where they cannot be compiled."""
        with _lock:
            try:
                name = f"{__package__}.fast.scatters"
                numba, module = importlib.import_module("numba"), importlib.import_module(name)
                mark, (adds, extremes) = f"scatters-{_digest(str(module.__file__))}", module.signatures()
                make = functools.partial(compiled_cache.compiled, numba, nogil=True, error_model="numpy")
                return make(module.add_halves, adds, f"add-{mark}"), make(module.put_extremes, extremes, f"put-{mark}")
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
        codes = np.ascontiguousarray(codes)  # which may be repeated
        if self.has_octets and tables.itemsize == 1 and not by_column:
            self._look_up_octets()(codes, tables.reshape(-1), 256, out)
            return
        strip = speed.tuning().columns_strip // tables.itemsize if by_column else 0
        self._look_up_lines(tables.dtype)(codes, tables.reshape(-1), strip, out)

    def add_rows(self, totals: np.ndarray, rows: np.ndarray) -> None:
        """Adds the elements of each row of f32, in order, to the row's total."""
        add = native_sums.adding(rows.size, "f32")
        if add is None:
            self._add_rows()(totals, rows)
        else:
            add(totals, rows)

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
    """The address of a function of the machine by its opcode; None where it cannot be compiled.

    What LLVM makes of text does most blocks where it can, and leaves the others to what numba has compiled.
    """
    module = importlib.import_module(".fast.functions", __package__)
    native = importlib.import_module(".native.functions", __package__)
    with _lock:
        try:
            return native.address(kind, module.compiled(kind, _digest(str(module.__file__))).address)
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
        name = "-".join(filter(None, [self._function.__name__, self._mark, *(d.name for d in dtypes)]))
        with _lock:
            function = compiled_cache.compiled(numba, self._function, self._signature(*dtypes), name, nogil=True)
            self._found[dtypes] = function
        return function
