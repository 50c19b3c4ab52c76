"""Dots of few products in little room: the steps of zeros that change nothing are left out.

A step of zeros changes a sum: the sum is aligned to its own exponent, cut and rounded again. A second such step does
not, nor does one before the first product. So of each run of them one is kept, and dots of different lengths begin
with zeros. The same holds for groups and for chunks. Products of zero take part in nothing, so those of a step move
together, but where their place counts: in trees, and where even and odd ones are summed apart.

Packed dots do not say how many steps a record makes of them. So the same dots as records of several layouts take them
stand side by side, and the sums of many records are computed at once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ops.accumulators.forms import MANTISSA
from ...ops.accumulators.operands import ABSENT, Operand, operand
from ...ops.accumulators.record import Accumulator
from ...ops.accumulators.steps import Chunk, Step, chunks_of
from ...ops.accumulators.sums import Numbers, accumulate, finish
from ...ops.minifloat.formats import FORMATS

#: Packed dots that are kept at a time, and the products of some of them; sums that are formed at a time.
_KEPT, _PRODUCTS, _SUMS = 16, 1 << 16, 1 << 13
#: A distance that no exponents have, and a power of two that no product reaches.
_FAR = 1 << 13


@dataclasses.dataclass(frozen=True)
class Layout:
    """The facts of a record that say where products lie: records that agree in them share packed dots."""

    steps: Accumulator  #: step, take, group and outer; the rest are defaults
    tree: bool
    even_odd: bool

    @classmethod
    def of(cls, record: Accumulator) -> Layout:
        c = "after" if record.c == "after" else "aligned"
        return _layout(record.step, record.take, c, record.group, record.outer, record.tree, record.even_odd)

    @property
    def packed_alike(self) -> Hashable:
        """What layouts have to agree in to be packed side by side."""
        return self.steps.c, self.tree and (self.steps.step,), self.even_odd, self.steps.outer > 0


@functools.lru_cache(maxsize=1 << 12)
def _layout(step: int, take: str, c: str, group: int, outer: int, tree: bool, even_odd: bool) -> Layout:
    return Layout(Accumulator(step, take, c=c, group=group, outer=outer), tree, even_odd)


class Sparse:
    """The products of dots that are not zero."""

    def __init__(self, x: np.ndarray, y: np.ndarray, x_type: str, y_type: str) -> None:
        """The codes of dots, [n, k] each, and their types."""
        self.count, self.k = x.shape
        self.row, self.at = np.nonzero(_is_not_zero(x, y, x_type, y_type))
        self._sides = ((x[self.row, self.at], x_type), (y[self.row, self.at], y_type))
        self._products: dict[bool, Operand] = {}

    def products(self, record: Accumulator) -> Operand:
        """Their values and exponents."""
        is_flushed = "operands" in record.flush
        if is_flushed not in self._products:
            x, y = (operand(codes, name, record) for codes, name in self._sides)
            with np.errstate(all="ignore"):
                self._products[is_flushed] = Operand(x.values * y.values, x.exponents + y.exponents)
        return self._products[is_flushed]


@dataclasses.dataclass
class Packed:
    """Dots whose products are packed for the records of some layouts."""

    sparse: Sparse
    shape: tuple[int, int, int]  #: places, layouts, dots
    where: np.ndarray  #: of each product, for each layout: its index in an array of that shape
    chunks: list[Chunk]
    _products: dict[bool, Operand] = dataclasses.field(default_factory=dict)

    def sums(self, records: Sequence[Accumulator], layouts: Sequence[int]) -> np.ndarray:
        """The sums of records of one `_kind` as `sums.dots` returns them, [records, dots].

        `layouts` has the number of each record's layout.
        """
        first, size = records[0], max(_SUMS // max(self.shape[2], 1), 1)
        products = self._operand(first)
        one = Operand(np.ones((self.shape[0], 1, 1)), np.zeros((self.shape[0], 1, 1), np.int16))
        results = []
        for i in range(0, len(records), size):
            some, at, part = records[i : i + size], list(layouts[i : i + size]), products
            if len(set(at)) == 1:
                part = products[:, at[0] : at[0] + 1]
            elif at != list(range(self.shape[1])):
                part = Operand(*(np.take(v, at, axis=1) for v in (products.values, products.exponents)))
            total = accumulate(
                first, part, one, None, (len(some), self.shape[2]), chunks=self.chunks, numbers=_numbers(some)
            )
            results.append(finish(first, total))
        return results[0] if len(results) == 1 else np.concatenate(results)

    def _operand(self, record: Accumulator) -> Operand:
        is_flushed = "operands" in record.flush
        if is_flushed not in self._products:
            found = self.sparse.products(record)
            sides = np.zeros(self.shape), np.full(self.shape, ABSENT, np.int16)
            for side, part in zip(sides, (found.values, found.exponents), strict=True):
                side.reshape(-1)[self.where] = part  # of each layout the same
            self._products[is_flushed] = Operand(*sides)
        return self._products[is_flushed]


def pack(layouts: Sequence[Layout], sparse: Sparse) -> Packed:
    """Pack dots for layouts that are packed alike.

    The sums of records without `inner` are the same bit for bit.
    """
    n, tree, even_odd = sparse.count, layouts[0].tree, layouts[0].even_odd
    if not len(sparse.row):
        return Packed(sparse, (0, len(layouts), n), np.zeros((len(layouts), 0), int), [])
    # The products in the order in which each layout takes them.
    found, orders, rows = [], [], []
    for i, layout in enumerate(layouts):
        k = _places(layout.steps, sparse.k)
        order = np.arange(len(sparse.row)) if k.rank is None else np.lexsort((k.rank[sparse.at], sparse.row))
        found.append(k.facts[:, sparse.at[order]])
        orders.append(order)
        rows.append(sparse.row[order] + i * n)
    facts, row, order = np.concatenate(found, axis=1), np.concatenate(rows), np.array(orders)
    step, group, chunk, offset = facts[:4]
    if tree:
        place, width = offset, layouts[0].steps.step or sparse.k
    else:
        place = _count_before(row, step, offset % 2 if even_odd else np.zeros_like(step))
        place = 2 * place + offset % 2 if even_odd else place
        width = int(place.max()) + 1
    steps = _Level(row, group, step, *facts[4:6])
    groups = _Level(row, chunk, group, *facts[6:8])
    chunks = _Level(row, np.zeros_like(chunk), chunk, np.zeros_like(chunk), facts[8])
    place += ((chunks.place * groups.most + groups.place) * steps.most + steps.place) * width
    places = chunks.most * groups.most * steps.most * width
    where = np.empty(order.shape, int)
    np.put_along_axis(where, order, (place * (len(layouts) * n) + row).reshape(order.shape), 1)
    ranges: list[Step] = [range(i, i + width) for i in range(0, places, width)]
    together = [ranges[i : i + steps.most] for i in range(0, len(ranges), steps.most)]
    every = [together[i : i + groups.most] for i in range(0, len(together), groups.most)]
    return Packed(sparse, (places, len(layouts), n), where, every)


class _Level:
    """Where the steps of a group that have products come to lie, or the groups of a chunk, or the chunks.

    The arguments are of the products, in order: their dots, their groups, their steps, the first step of their group
    and the number of its steps.
    """

    def __init__(
        self, row: np.ndarray, parent: np.ndarray, child: np.ndarray, first: np.ndarray, count: np.ndarray
    ) -> None:
        is_new = _changes(row, child)
        which = np.cumsum(is_new) - 1  # of the steps that have products, for each product
        row, parent, child, first, count = (v[is_new] for v in (row, parent, child, first, count))
        begins = _changes(row, parent)
        # One step of zeros is kept of those between two steps.
        skips = np.zeros(len(child), bool)
        skips[1:] = child[1:] > child[:-1] + 1
        skips[begins] = False
        place = _from_start(np.arange(len(child)) + np.cumsum(skips), begins)
        ends = np.append(begins[1:], True)
        length = place[ends] + 1 + (child[ends] - first[ends] < count[ends] - 1)
        self.most = int(length.max())
        self.place = (place + self.most - length[np.cumsum(begins) - 1])[which]


def _changes(*keys: np.ndarray) -> np.ndarray:
    """Where one of the keys differs from the one before."""
    changes = np.ones(len(keys[0]), bool)
    changes[1:] = False
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    return changes


def _from_start(counts: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Counts that begin from zero where a group begins."""
    return counts - counts[begins][np.cumsum(begins) - 1]


def _count_before(row: np.ndarray, step: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """How many products of the same dot, step and kind come before each."""
    begins = _changes(row, step)
    result = np.zeros(len(row), int)
    for n in (0, 1):
        is_kind = kind == n
        before = np.cumsum(is_kind) - is_kind
        result[is_kind] = _from_start(before, begins)[is_kind]
    return result


@dataclasses.dataclass(frozen=True)
class _Places:
    """Positions as steps take them."""

    #: The place of each position in the order in which steps take them; None: they take them as they are.
    rank: np.ndarray | None
    #: Of each position: its step, group, chunk, and offset in the step; the first step of its group and the number of
    #: its steps; the first group of its chunk and the number of its groups; the number of chunks.
    facts: np.ndarray


@functools.lru_cache(maxsize=1 << 10)
def _places(steps: Accumulator, k: int) -> _Places:
    chunks = chunks_of(steps, k)
    groups = [group for chunk in chunks for group in chunk]
    every = [step for group in groups for step in group]
    lengths = np.array([len(step) for step in every])
    step = np.repeat(np.arange(len(every)), lengths)
    group = np.repeat(np.arange(len(groups)), [len(g) for g in groups])[step]
    chunk = np.repeat(np.arange(len(chunks)), [len(c) for c in chunks])[group]
    offset = np.arange(k) - (np.cumsum(lengths) - lengths)[step]
    order = np.array([p for s in every for p in s])
    rank = np.empty(k, int)
    rank[order] = np.arange(k)

    def bounds(counts: list[int], at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        of = np.array(counts)
        return (np.cumsum(of) - of)[at], of[at]

    first_step, steps_of = bounds([len(g) for g in groups], group)
    first_group, groups_of = bounds([len(c) for c in chunks], chunk)
    count = np.full(k, len(chunks))
    facts = np.stack([step, group, chunk, offset, first_step, steps_of, first_group, groups_of, count])[:, rank]
    return _Places(None if (order == np.arange(k)).all() else rank, facts)


def sums(
    records: Sequence[Accumulator], sparse: Sparse, cache: dict[tuple[Layout, ...], Packed]
) -> Iterator[tuple[list[int], np.ndarray]]:
    """The sums of dots as each record forms them: the numbers of some records, and their sums, [records, dots].

    `cache` holds packed dots by their layouts; new ones are added.
    """
    classes: dict[object, dict[Layout, list[int]]] = {}
    for i, record in enumerate(records):
        layout = Layout.of(record)
        classes.setdefault(layout.packed_alike, {}).setdefault(layout, []).append(i)
    size = min(_SUMS // max(sparse.count, 1), _PRODUCTS // max(len(sparse.row), 1))
    size = max(size, 1)
    for by_layout in classes.values():
        # Those with as many steps in a group and a chunk need the least room together.
        every = sorted(by_layout, key=lambda v: (v.steps.outer // max(v.steps.step, 1), v.steps.group))
        for layouts in (tuple(every[i : i + size]) for i in range(0, len(every), size)):
            if layouts not in cache:
                if len(cache) >= _KEPT:
                    cache.clear()
                cache[layouts] = pack(layouts, sparse)
            kinds: dict[object, list[tuple[int, int]]] = {}
            for n, layout in enumerate(layouts):
                for i in by_layout[layout]:
                    kinds.setdefault(_kind(records[i]), []).append((i, n))
            for some in kinds.values():
                yield [i for i, _ in some], cache[layouts].sums([records[i] for i, _ in some], [n for _, n in some])


def _is_not_zero(x: np.ndarray, y: np.ndarray, x_type: str, y_type: str) -> np.ndarray:
    """Whether products are not zero: zero by infinity or NaN is NaN."""
    zeros, finite = [], []
    for codes, name in ((x, x_type), (y, y_type)):
        fmt = FORMATS["f32" if name == "tf32" else name]
        magnitude = codes & fmt.code_dtype.type(fmt.sign_bit - 1)
        is_zero = magnitude == 0
        if not fmt.has_negative_zero:
            is_zero &= codes != fmt.sign_bit
        zeros.append(is_zero)
        finite.append((magnitude <= fmt.max_code) & (is_zero | (magnitude != 0)))
    return ~((zeros[0] & finite[1]) | (finite[0] & zeros[1]))


def _kind(record: Accumulator) -> Hashable:
    """The fields in which records agree that are computed together: all but their numbers, and where products lie."""
    return (
        record.bits is None, record.normalise, record.drop, record.even_odd, record.tree and (record.step,),
        record.inner, record.c, record.join, record.keep.partition(":")[0], record.form.mantissa_bits >= MANTISSA,
        record.rounding, record.flush, record.overflow, record.nan, record.outer > 0,
    )  # fmt: skip


def _numbers(records: Sequence[Accumulator]) -> Numbers:
    """The numbers of records of one `_kind`, [records, 1]."""
    rows = [Numbers.of(r) for r in records]

    def column(name: str, absent: int | None = None) -> Any:
        found = [getattr(row, name) for row in rows]
        if all(x == found[0] for x in found):
            return found[0]
        return np.array([absent if x is None else x for x in found], np.int16)[:, None]

    form, fractions = rows[0].form, np.array([row.form.mantissa_bits for row in rows])
    if (fractions != fractions[0]).any():
        form = form._replace(mantissa_bits=fractions[:, None])
    return Numbers(
        column("bits"), column("sum_bits"), column("c_bits"), column("c_reach", _FAR), column("least"),
        column("product_limit", _FAR), form,
    )  # fmt: skip
