"""Lookup tables: made when they pay, equal to what they tabulate, bounded in bytes."""

import numpy as np
import pytest

from minihlo.ops import tables
from minihlo.ops.elementwise.float_kernels import Function, exactly
from minihlo.ops.minifloat import arithmetic
from minihlo.ops.policy import Policy
from minihlo.ops.tables import Tabulated
from minihlo.ops.types import ELEMENT_TYPES

_FORMATS = ("f4E2M1FN", "f6E3M2FN", "f8E4M3FN")


def _sum(name):
    element = ELEMENT_TYPES[name]
    add = exactly(Function(arithmetic.add, np.add, 2, True), element, Policy())
    return element, add, Tabulated(add, [element, element], element.dtype)


def _numbers(element, *shape):
    return np.random.default_rng(1).integers(0, 1 << element.bits, shape).astype(np.uint8).view(element.dtype)


def _same(x, y):
    return x.shape == y.shape and x.dtype == y.dtype and np.array_equal(np.asarray(x), np.asarray(y), equal_nan=True)


def test_break_even():
    element = ELEMENT_TYPES["f8E4M3FN"]
    sizes = []

    def negate(x):
        sizes.append(x.size)
        return np.negative(x)

    table, few = Tabulated(negate, [ELEMENT_TYPES["bf16"]], ELEMENT_TYPES["bf16"].dtype), np.zeros(7, "u2")
    for _ in range(100):
        table(few.view(ELEMENT_TYPES["bf16"].dtype))
    assert set(sizes) == {7, 1 << 16}
    assert sizes.count(1 << 16) == 1
    assert len(sizes) <= 1 + (1 << 16) // tables.CALL_COST
    sizes.clear()
    Tabulated(negate, [element], element.dtype)(_numbers(element, 3))
    assert sizes == [256]


@pytest.mark.parametrize("name", _FORMATS)
def test_lookups_in_any_layout(name):
    element, add, table = _sum(name)
    table.table()
    x, y = _numbers(element, 300, 200), _numbers(element, 300, 200)[::-1]
    for a, b in ((x, y), (x.T, y.T), (x[:, :1], y), (x, y[0]), (x[::2, ::-3], y[:150, :67]), (x[:0], y[:0])):
        assert _same(table(a, b), add(a, b))
    for a, b in ((x[0, 0], y[0, 0]), (x[0, 0, ...], y[0, 0, ...]), (x[0, 0], y)):
        assert np.array_equal(table(a, b), add(np.asarray(a), np.asarray(b)), equal_nan=True)


@pytest.mark.parametrize("name", _FORMATS)
@pytest.mark.parametrize("target", ["f8E5M2", "bf16", "f32", "i1"])
def test_lookups_by_pairs(name, target, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 1 << 10)
    element, dtype = ELEMENT_TYPES[name], ELEMENT_TYPES[target].dtype
    table = Tabulated(lambda x: x.astype(np.float32).astype(dtype), [element], dtype)
    x = _numbers(element, 300, 200)
    for some in (x, x[:, :1], x[1], x.reshape(-1)[1:], x.reshape(-1)[3:4001], x.T, x[::-1], x[:0]):
        assert _same(table(some), some.astype(np.float32).astype(dtype))
    assert table._pairs is not None


def test_operands_of_several_widths_are_joined():
    types = [ELEMENT_TYPES[name] for name in ("i1", "ui4", "f6E2M3FN")]

    def choose(first, second, third):
        return np.where(first, second.astype(np.float32), third.astype(np.float32))

    table = Tabulated(choose, types, np.dtype(np.float32))
    values = _numbers(types[2], 500) == 0, np.arange(500).astype(np.uint8).view(types[1].dtype), _numbers(types[2], 500)
    assert len(table.table()) == 1 << 15
    assert _same(table(*values), choose(*values))


@pytest.mark.parametrize("name", _FORMATS)
@pytest.mark.parametrize("columns", [0, 1, tables.FEW_COLUMNS + 1, tables.BLOCK + 3])
def test_folds_go_from_row_to_row(name, columns):
    element, add, table = _sum(name)
    start, rows = _numbers(element, columns), _numbers(element, 9, columns)[::-1]
    totals = [start]
    for row in rows:
        totals.append(add(totals[-1], row))
    for _ in range(2):
        assert _same(table.fold(start, rows), totals[-1])
        assert _same(table.fold(start, rows[:0]), start)
        trail = np.empty(rows.shape, element.dtype)
        table.fold(start, rows, trail)
        assert _same(trail, np.stack(totals[1:]))
        table.table()


def test_memory_bound(monkeypatch):
    monkeypatch.setattr(tables, "MOST_BYTES", 100_000)
    monkeypatch.setattr(tables, "_made", type(tables._made)())
    monkeypatch.setattr(tables, "_bytes", 0)
    (_, _, first), (_, add, second) = _sum("f8E4M3FN"), _sum("f8E4M3FN")
    first.table()
    second.table()
    assert first._entries is None
    assert second._entries is not None
    x = _numbers(ELEMENT_TYPES["f8E4M3FN"], 10)
    assert _same(first(x, x), add(x, x))
    assert first._entries is None
