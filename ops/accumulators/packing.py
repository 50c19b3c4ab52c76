"""Dots of few products in little room: the steps of zeros that change nothing are left out.

A step of zeros changes a sum: the sum is aligned to its own exponent, cut and rounded again. A second such step does
not, nor does one before the first product. So of each run of them one is kept, and dots of different lengths begin
with zeros. The same holds for groups and for chunks. Products of zero take part in nothing, so those of a step move
together, but where their place counts: in trees, and where even and odd ones are summed apart.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from ..minifloat.formats import FORMATS
from .operands import Operand, operand
from .record import Accumulator
from .steps import Chunk, Step, chunks_of
from .sums import accumulate, finish


@dataclasses.dataclass(frozen=True)
class Layout:
    """The facts of a record that say where products lie: records that agree in them share packed dots."""

    steps: Accumulator  #: step, take, group and outer; the rest are defaults
    tree: bool
    even_odd: bool

    @classmethod
    def of(cls, record: Accumulator) -> Layout:
        c = "after" if record.c == "after" else "aligned"
        steps = Accumulator(record.step, record.take, c=c, group=record.group, outer=record.outer)
        return cls(steps, record.tree, record.even_odd)


@dataclasses.dataclass
class Packed:
    """Dots whose products are packed for the records of one layout."""

    x: np.ndarray  #: codes of [places, dots]
    y: np.ndarray
    chunks: list[Chunk]
    _operands: dict[bool, tuple[Operand, Operand]] = dataclasses.field(default_factory=dict)

    def sums(self, record: Accumulator, x_type: str, y_type: str) -> np.ndarray:
        """The sums as `sums.dots` returns them, [dots]."""
        is_flushed = "operands" in record.flush
        sides = self._operands.get(is_flushed)
        if sides is None:
            sides = self._operands[is_flushed] = (operand(self.x, x_type, record), operand(self.y, y_type, record))
        return finish(record, accumulate(record, *sides, None, self.x.shape[1:], chunks=self.chunks))


def packed(layout: Layout, x: np.ndarray, y: np.ndarray, x_type: str, y_type: str) -> Packed:
    """Pack the codes of dots, [n, k] each. The sums of records without `inner` are the same bit for bit."""
    counts = _is_not_zero(x, y, x_type, y_type)
    if not counts.any():
        return Packed(x[:, :0].T, y[:, :0].T, [])
    k = _places(layout.steps, x.shape[1])
    row, at = np.nonzero(counts[:, k.order])
    step, offset = k.step[at], k.offset[at]
    if layout.tree:
        place, width = offset, layout.steps.step or x.shape[1]
    else:
        place = _counted(row, step, offset % 2 if layout.even_odd else np.zeros_like(step))
        place = 2 * place + offset % 2 if layout.even_odd else place
        width = int(place.max()) + 1
    steps = _Level(row, k.group[at], step, k.first_step, k.steps)
    groups = _Level(row, k.chunk[at], k.group[at], k.first_group, k.groups)
    chunks = _Level(row, np.zeros_like(at), k.chunk[at], np.zeros(1, int), np.array([len(k.groups)]))
    where = ((chunks.place * groups.most + groups.place) * steps.most + steps.place) * width + place
    sides = []
    for codes in (x, y):
        side = np.zeros((chunks.most * groups.most * steps.most * width, len(codes)), codes.dtype)
        side[where, row] = codes[row, k.order[at]]
        sides.append(side)
    ranges: list[Step] = [range(i, i + width) for i in range(0, len(sides[0]), width)]
    together = [ranges[i : i + steps.most] for i in range(0, len(ranges), steps.most)]
    return Packed(sides[0], sides[1], [together[i : i + groups.most] for i in range(0, len(together), groups.most)])


class _Level:
    """Where the steps of a group that have products come to lie, or the groups of a chunk, or the chunks.

    The arguments are of the products, in order: their dots, their groups, their steps; and of each group its first
    step and the number of its steps.
    """

    def __init__(
        self, row: np.ndarray, parent: np.ndarray, child: np.ndarray, first: np.ndarray, count: np.ndarray
    ) -> None:
        is_new = _changes(row, child)
        which = np.cumsum(is_new) - 1  # of the steps that have products, for each product
        row, parent, child = row[is_new], parent[is_new], child[is_new]
        begins = _changes(row, parent)
        # One step of zeros is kept of those between two steps.
        skips = np.zeros(len(child), bool)
        skips[1:] = child[1:] > child[:-1] + 1
        skips[begins] = False
        place = _from_start(np.arange(len(child)) + np.cumsum(skips), begins)
        ends = np.append(begins[1:], True)
        length = place[ends] + 1 + (child[ends] - first[parent[ends]] < count[parent[ends]] - 1)
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


def _counted(row: np.ndarray, step: np.ndarray, kind: np.ndarray) -> np.ndarray:
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
    """Positions in the order in which steps take them: their step, group, chunk and offset in the step; and of each
    group its first step and the number of steps, of each chunk its first group and the number of groups."""

    order: np.ndarray
    step: np.ndarray
    group: np.ndarray
    chunk: np.ndarray
    offset: np.ndarray
    first_step: np.ndarray
    steps: np.ndarray
    first_group: np.ndarray
    groups: np.ndarray


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

    def bounds(counts: list[int]) -> tuple[np.ndarray, np.ndarray]:
        of = np.array(counts)
        return np.cumsum(of) - of, of

    return _Places(
        np.array([p for s in every for p in s]), step, group, chunk, offset,
        *bounds([len(g) for g in groups]), *bounds([len(c) for c in chunks]),
    )  # fmt: skip


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
