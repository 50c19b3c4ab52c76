"""Packed dots: the sums are those of the dots as they are, whatever the record."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from minihlo.interp.probing.packing import Layout, Sparse, pack, sums
from minihlo.ops.accumulators.record import EXACT, Accumulator
from minihlo.ops.accumulators.sums import dots
from minihlo.ops.minifloat.formats import FORMATS

from ..random_records import random_record


def _codes(rng: np.random.Generator, name: str, n: int, k: int) -> np.ndarray:
    """Any codes at all, finite ones alone in half of the dots; most are zero in some dots, in others few."""
    fmt = FORMATS[name]
    codes = rng.integers(0, 1 << fmt.bits, (n, k))
    finite = rng.integers(0, fmt.max_code + 1, (n, k)) | rng.integers(0, 2, (n, k)) * fmt.sign_bit
    codes = np.where(np.arange(n)[:, None] % 2, codes, np.where(finite == fmt.sign_bit, 0, finite))
    return (codes * (rng.random((n, k)) < rng.choice([0.02, 0.1, 0.6, 1.0], (n, 1)))).astype(fmt.code_dtype)


def _sums(
    records: Sequence[Accumulator], x: np.ndarray, y: np.ndarray, types: tuple[str, str]
) -> dict[int, np.ndarray]:
    every = sums(records, Sparse(x, y, *types), {})
    return {i: row for at, rows in every for i, row in zip(at, rows, strict=True)}


def _agrees(record: Accumulator, seed: int, types: tuple[str, str], n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (_codes(rng, name, n, k) for name in types)
    expected = dots(record, x, y, *types)
    got = _sums([record], x, y, types)[0]
    np.testing.assert_array_equal(got.view(FORMATS[record.storage.name].code_dtype), expected.view(got.dtype).view(
        FORMATS[record.storage.name].code_dtype), err_msg=record.to_text())  # fmt: skip


@pytest.mark.parametrize("types", [("f8E4M3FN", "f8E4M3FN"), ("f8E5M2", "f8E4M3FNUZ"), ("f16", "f4E2M1FN")])
def test_packed_dots_give_the_same_sums(types: tuple[str, str]) -> None:
    for seed in range(60):
        _agrees(random_record(seed + 1000), seed, types, 40, int(np.random.default_rng(seed).integers(1, 150)))


@pytest.mark.parametrize(
    "record",
    [
        Accumulator(0, keep=EXACT),
        Accumulator(4, bits=3, keep="f16", overflow="largest", drop="nearest_even"),
        Accumulator(2, bits=3, keep="f32", drop="nearest_even"),
        Accumulator(2, bits=6, keep="f32:4", c="after", group=8, outer=24, rounding="up"),
        Accumulator(6, tree=True, c="after", keep="bf16", rounding="down"),
    ],
)
def test_records_with_long_runs_of_zeros(record: Accumulator) -> None:
    _agrees(record, 7, ("f8E4M3FN", "f8E4M3FN"), 2000, 60)


def test_dots_of_zeros_and_of_no_products() -> None:
    record = Accumulator(3, bits=5, outer=6)
    for shape in ((4, 9), (4, 0), (0, 9)):
        x = np.zeros(shape, np.uint8)
        got = _sums([record], x, x, ("f8E5M2", "f8E5M2"))[0]
        np.testing.assert_array_equal(got, np.zeros(shape[:1], np.float32))


def test_packed_dots_take_little_room() -> None:
    x = np.zeros((2, 500), np.uint8)
    x[0, [0, 499]] = x[1, [7, 8]] = 1
    record = Accumulator(4, bits=9)
    assert pack([Layout.of(record)], Sparse(x, x, "f8E5M2", "f8E5M2")).shape == (3, 1, 2)  # two steps, one of zeros


def test_many_records_at_once_are_as_each_alone() -> None:
    """Records of some kinds: those of a kind differ in their numbers, or in the steps they take, or in both."""
    rng = np.random.default_rng(3)
    types, k = ("f8E5M2", "f8E4M3FN"), 48
    x, y = (_codes(rng, name, 30, k) for name in types)
    groups: list[list[Accumulator]] = []
    limited = Accumulator(0, bits=9, normalise=True, product_limit=4)
    for record in (limited, *(random_record(seed + 3000) for seed in range(40))):
        fields = {
            "bits": [None if record.bits is None else b for b in (0, 3, 9, 17, 33)],
            "least": [None, -150, -9, 2, 20],
            "product_limit": [None, -3, 5, 12, 40],
            "keep": [record.keep.partition(":")[0] + b for b in ("", ":3", ":5", ":6", ":7")],
            "step": [record.step * n for n in (1, 2, 3, 4, 6)],
            "outer": [record.outer * n for n in (1, 2, 3, 4, 6)],
            **{f: [None if getattr(record, f) is None else b for b in (4, 9, 16, 23, 31)]
               for f in ("sum_bits", "c_bits", "c_reach")},
        }  # fmt: skip
        groups.append([])
        for _ in range(10):
            some = {f: v[rng.integers(5)] for f, v in fields.items() if rng.random() < 0.4}
            try:
                groups[-1].append(dataclasses.replace(record, **some))
            except ValueError:
                continue
    records = [record for group in groups for record in group]
    assert len(records) > 200
    alone = {record: dots(record, x, y, *types).tobytes() for record in records}
    for some in (*groups, records):
        together = _sums(some, x, y, types)
        for i, record in enumerate(some):
            assert together[i].tobytes() == alone[record], record.to_text()
