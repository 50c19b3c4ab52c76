"""The operands of products: no position of k, row, column or batch can be dropped without a changed result."""

from collections.abc import Iterator

import numpy as np
import pytest

from minihlo.interp.conform.cases.case import PRODUCT_OPS, Case
from minihlo.interp.conform.cases.cases import cases
from minihlo.interp.conform.cases.forms import forms
from minihlo.interp.conform.cases.row_data import arrays
from minihlo.interp.conform.rows import RowPart
from minihlo.interp.judging.sums.exact_sums import slack_of
from minihlo.interp.oracle.formats import FORMATS, Format
from minihlo.interp.oracle.rounding import Exact, encode
from minihlo.interp.oracle.sums import exact_sums

from ..thinned import thinned

PRODUCTS = [c for c in cases(2) if c.is_product]


def parts(case: Case, level: int) -> Iterator[RowPart]:
    """The case in each form; those at level 2 that have other shapes than at level 1 are among them."""
    for form in forms(case, level):
        yield RowPart(case, form, arrays(case, form, 0))


def terms_of(part: RowPart) -> np.ndarray:
    """The products of each result, exact in f64."""
    x, y = (FORMATS[t].decode(c) for t, c in zip(part.case.operands, part.terms, strict=True))
    with np.errstate(all="ignore"):
        return x * y


def integers(terms: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers as Python's integers, and the exponent of their unit."""
    fraction, exponent = np.frexp(terms)
    unit = int(exponent.min()) - 53
    whole = np.ldexp(fraction, 53).astype(np.int64).astype(object)
    return whole << (exponent - 53 - unit).astype(object), unit


def nearest(whole: np.ndarray, unit: int) -> Exact:
    """Integers times a power of two as f64, and what is left over."""
    flat = whole.reshape(-1).tolist()
    values = [float(n) for n in flat]  # rounded correctly
    sides = [(n > int(v)) - (n < int(v)) for n, v in zip(flat, values, strict=True)]
    return Exact(np.ldexp(np.array(values), unit).reshape(whole.shape), np.array(sides, np.int8).reshape(whole.shape))


def without_each(terms: np.ndarray) -> Exact:
    """The exact sum of each row without each of its terms."""
    largest = np.abs(terms).sum(axis=1).max()
    fraction, exponent = np.frexp(terms)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    lowest = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)
    if largest <= lowest[terms != 0].min(initial=np.inf) * 2.0**53:  # every sum of some of them is exact in f64
        return Exact.of(terms.sum(axis=1, keepdims=True) - terms)
    scaled, unit = integers(terms)
    return nearest(scaled.sum(axis=1, keepdims=True) - scaled, unit)


def matters(part: RowPart) -> np.ndarray:
    """Which positions of k change the code of some result when their product is left out."""
    terms = terms_of(part)
    fmt = FORMATS[part.case.result]
    finite = np.isfinite(terms).all(axis=1)
    right = encode(fmt, exact_sums(terms[finite]))[0]
    found = np.zeros(terms.shape[1], bool)
    for at in np.array_split(np.arange(len(right)), max(1, len(right) * terms.shape[1] // 60_000)):
        rows = terms[finite][at]
        if found.all():
            break
        others = encode(fmt, without_each(rows))[0]
        found |= (others != right[at, None]).any(axis=0)
    return found


def results(part: RowPart) -> np.ndarray:
    """The exact results, rounded once: codes in the shape of the result, in which batches come first."""
    with np.errstate(all="ignore"):
        return encode(FORMATS[part.case.result], exact_sums(terms_of(part)))[0].reshape(part.shape)


def lost(codes: np.ndarray, axis: int, fmt: Format, k: int) -> list[int]:
    """The indices along an axis whose results are zeros alone, or, of long sums, those of the index before."""
    rows = np.moveaxis(codes, axis, 0).reshape(codes.shape[axis], -1)
    size = np.where(fmt.is_nan(rows), 1, rows & fmt.ones) if fmt.has_zero else np.ones_like(rows)
    zero = (size == 0).all(axis=1)
    alike = (rows[1:] == rows[:-1]).all(axis=1) if k >= 64 else np.zeros(len(rows) - 1, bool)
    return sorted({*np.flatnonzero(zero).tolist(), *(np.flatnonzero(alike) + 1).tolist()})


#: Every third: their operands are designed in the same ways.
SOME = thinned(PRODUCTS, lambda case: PRODUCTS.index(case) % 3 == 0)


@pytest.mark.parametrize("case", SOME, ids=lambda c: c.signature)
def test_every_position_of_k_matters(case: Case) -> None:
    for part in parts(case, 1):
        found = matters(part)
        assert found.all(), (part.form, np.flatnonzero(~found))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: c.signature)
def test_every_position_of_k_matters_in_every_form(case: Case) -> None:
    for part in parts(case, 2):
        found = matters(part)
        assert found.all(), (part.form, np.flatnonzero(~found))


def shown(part: RowPart) -> dict[str, np.ndarray]:
    """Which positions of k are seen in some result, whatever the order in which f32 sums it, when a product is wrong.

    The tester takes sums for those of an order within a bound, and for exact where all sums of terms have 24 bits.
    """
    terms, fmt = terms_of(part), FORMATS[part.case.result]
    x, y = (FORMATS[t].decode(c) for t, c in zip(part.case.operands, part.terms, strict=True))
    k = terms.shape[1]
    found = {fault: np.zeros(k, bool) for fault in ("dropped", "doubled", "swapped")}
    for row, left, right in zip(terms, x, y, strict=True):
        if not np.isfinite(row).all() or not row.any():
            continue
        whole, unit = integers(row[None])
        lowest = min(int(n) & -int(n) for n in whole[0] if n)
        size, total = float(np.abs(row).sum()), float(sum(whole[0].tolist()) * 2.0**unit)
        slack = 0.0 if sum(map(abs, whole[0].tolist())) < lowest << 24 else float(slack_of(k, 24, np.array(size)))
        low, high = (fmt.rank(encode(fmt, Exact.of(np.array([total + s])))[0])[0] for s in (-slack, slack))
        exchanged = np.zeros(k)
        exchanged[1:] = left[1:] * right[:-1] + left[:-1] * right[1:] - row[1:] - row[:-1]
        exchanged[0] = exchanged[min(1, k - 1)]
        for fault, change in (("dropped", -row), ("doubled", row), ("swapped", exchanged)):
            rank = fmt.rank(encode(fmt, Exact.of(total + change))[0])
            found[fault] |= (rank < low) | (rank > high)
        if all(f.all() for f in found.values()):
            break
    return found


@pytest.mark.parametrize("name", ["dot_general.f8E4M3FN.f32", "dot_general.f8E5M2.f16", "dot_general.f16.f32"])
@pytest.mark.parametrize("form", ["length-17", "length-1000", "length-4096"])
def test_every_position_matters_in_any_order(name: str, form: str) -> None:
    case = next(c for c in PRODUCTS if c.signature == name)
    for fault, at in shown(RowPart(case, form, arrays(case, form, 0))).items():
        assert at.all(), (fault, np.flatnonzero(~at))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "case",
    [c for c in PRODUCTS if FORMATS[c.operands[0]].is_signed and c.operands[0][:2] != "f4"],
    ids=lambda c: c.signature,
)
def test_every_position_matters_in_products(case: Case) -> None:
    """Not of f4, whose neighbours are often equal, nor of unsigned terms: doubled they stay above a tie."""
    for form in ("length-33", "length-129"):
        for fault, at in shown(RowPart(case, form, arrays(case, form, 0))).items():
            assert at.all(), (form, fault, np.flatnonzero(~at))


@pytest.mark.parametrize("case", SOME, ids=lambda c: c.signature)
def test_every_row_and_column_matters(case: Case) -> None:
    for part in parts(case, 1):
        found, fmt, k = results(part), FORMATS[case.result], part.terms[0].shape[1]
        for axis, n in enumerate(found.shape):
            if n > 1:
                assert lost(found, axis, fmt, k) == [], (part.form, axis)


def test_batches_differ() -> None:
    for case in PRODUCTS:
        if case.op == "dot_general":
            x, y = arrays(case, "rank-3", 0)
            assert len(np.unique(x.reshape(len(x), -1), axis=0)) == len(np.unique(y.reshape(len(y), -1), axis=0)) == 3


def test_operands_are_dense_and_of_all_kinds() -> None:
    """Not one in ten is zero; subnormal and largest numbers are there; some results overflow and most do not."""
    for element in ("f4E2M1FN", "f6E3M2FN", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f16", "bf16"):
        case = next(c for c in PRODUCTS if c.op == "dot_general" and c.operands == (element, element))
        fmt = FORMATS[element]
        for form in ("length-64", "length-1000", "length-4096"):
            part = RowPart(case, form, arrays(case, form, 0))
            for x in part.arrays:
                assert (fmt.decode(x) == 0).mean() < 0.1
                assert fmt.is_subnormal(x).any()
            assert (np.abs(fmt.decode(part.arrays[0])) >= 0.9 * fmt.max).any()
            found = FORMATS[case.result].decode(results(part).ravel())
            assert (found != 0).mean() > 0.8, (element, form)
            if element != "f4E2M1FN":
                assert np.isfinite(found).mean() > 0.5, (element, form)


def test_shapes_go_beyond_a_tile_and_are_seldom_whole_vectors() -> None:
    case = next(c for c in PRODUCTS if c.signature == "dot_general.f8E4M3FN.f32")
    shapes = [RowPart(case, f, arrays(case, f, 0)) for f in forms(case, 1)]
    k = {p.arrays[0].shape[-1] for p in shapes}
    assert {1, 4096} <= k
    assert max(p.shape[-1] for p in shapes) > 128
    assert max(p.shape[-2] for p in shapes) > 128
    assert sum(p.shape[-1] % 8 != 0 and p.shape[-2] % 8 != 0 for p in shapes) > len(shapes) / 2


def test_every_format_of_operands_is_there() -> None:
    pairs = {c.operands for c in PRODUCTS if c in cases(1)}
    assert {("f8E4M3FN", "f8E5M2"), ("f8E5M2", "f8E4M3FN"), ("f16", "f16"), ("bf16", "bf16")} <= pairs
    assert {c.op for c in PRODUCTS} == set(PRODUCT_OPS)
    for element in ("f4E2M1FN", "f6E2M3FN", "f8E5M2"):
        results = {c.result for c in PRODUCTS if c.operands == (element, element)}
        assert results == {element, "f16", "bf16", "f32"}
