"""Predictions of many records at once are those of each alone."""

import dataclasses

import numpy as np

from minihlo.interp.probing.designs import Dots
from minihlo.interp.probing.dots import Signature
from minihlo.interp.probing.predict import predict_by
from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.accumulators.sums import dots
from minihlo.ops.cast import cast
from minihlo.ops.minifloat.formats import FORMATS
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, type_of_dtype

from ..random_records import random_record


def _codes(rng: np.random.Generator, name: str, n: int, k: int) -> np.ndarray:
    """Any codes at all, finite ones alone in half of the dots; most are zero in some dots, in others few."""
    fmt = FORMATS[name]
    codes = rng.integers(0, 1 << fmt.bits, (n, k))
    finite = rng.integers(0, fmt.max_code + 1, (n, k)) | rng.integers(0, 2, (n, k)) * fmt.sign_bit
    codes = np.where(np.arange(n)[:, None] % 2, codes, np.where(finite == fmt.sign_bit, 0, finite))
    return (codes * (rng.random((n, k)) < rng.choice([0.02, 0.1, 0.6, 1.0], (n, 1)))).astype(fmt.code_dtype)


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
    alone, f32 = {}, ELEMENT_TYPES["f32"]
    for record in records:
        sums = dots(record, x, y, *types)
        with np.errstate(all="ignore"):
            alone[record] = cast(sums, type_of_dtype(sums.dtype), f32, Policy()).tobytes()
    for some in (*groups, records):
        together = predict_by(some, Dots(x, y), Signature(*types, "f32", k))
        for i, record in enumerate(some):
            assert together[i].tobytes() == alone[record], record.to_text()
