"""The operands of cases on rows: sums that distinguish models, extremes with zeros and NaN, factors near 1."""

from __future__ import annotations

import functools

import numpy as np

from ...oracle.formats import FORMATS, Format, all_codes
from ...oracle.rounding import Exact, encode
from . import product_data
from .case import Case
from .data import rng
from .forms import LENGTHS

Arrays = tuple[np.ndarray, ...]  #: of codes


def start_code(fmt: Format, body: str) -> int:
    """The initial value of a reduction: 0, 1, or the lowest or largest number of the type."""
    if body == "add":
        return 0
    if body == "multiply":
        return fmt.bias << fmt.mantissa_bits
    largest = fmt.max_code if fmt.infinity_code is None else fmt.infinity_code
    if body == "minimum":
        return largest
    return largest | fmt.sign_bit if fmt.is_signed else 0


@functools.lru_cache(64)
def arrays(case: Case, form: str, seed: int) -> Arrays:
    """The operands of a case in a form."""
    if case.is_product:
        return product_data.arrays(case, form, seed)
    k = LENGTHS[form]
    fmt, random = FORMATS[case.operands[0]], rng(seed, case.signature, form)
    if case.op == "sort":
        codes = random.choice(all_codes(fmt.name), (8, k))
        codes[0, :3] = np.array([0, fmt.sign_bit, 0], codes.dtype)[:k]
        return (codes,)
    if case.op in ("reduce", "cumulative"):
        body = dict(case.attributes)["body"]
        if body == "multiply":
            return (_near_one(fmt, k, random),)
        if body in ("maximum", "minimum"):
            return (_any(fmt, k, random, 16),)
        return (_summands(fmt, k, random, 16 if case.op == "cumulative" else 40),)
    raise ValueError(f"expected a case on rows, got {case.signature}")


def _summands(fmt: Format, k: int, random: np.random.Generator, rows: int) -> np.ndarray:
    """Rows whose sums distinguish models of accumulation. Most overflow in no order."""
    limit = fmt.max / 2
    codes = all_codes(fmt.name)
    numbers = fmt.decode(codes)
    positive = np.sort(numbers[np.isfinite(numbers) & (numbers > 0)])
    made = [_bound(_row(i % 6, positive, k, limit, random), limit, random) for i in range(rows)]
    result = encode(fmt, Exact.of(np.array(made)))[0]
    result[result == 0] = 0
    if fmt.nan_code is not None and rows > 8:
        result[-1, k // 2] = fmt.nan_code
    if fmt.infinity_code is not None and rows > 8:
        result[-2, 0] = fmt.infinity_code
    return result


def _row(kind: int, positive: np.ndarray, k: int, limit: float, random: np.random.Generator) -> np.ndarray:
    signs = random.choice([-1.0, 1.0], k)
    largest = positive[positive <= limit][-1] if (positive <= limit).any() else positive[0]
    usual = positive[(positive >= largest / 64) & (positive <= largest)]
    match kind:
        case 0:  # of all sizes and both signs
            row = random.choice(positive[positive <= largest], k) * signs
        case 1:  # of similar sizes
            row = random.choice(usual, k) * signs
        case 2:  # a large number, and many small ones that are absorbed one by one
            row = np.full(k, positive[np.searchsorted(positive, min(largest / 64, 1.0)).clip(0, len(positive) - 1)])
            row[0] = largest / 2
        case 3:  # the same with the large number at the end
            row = np.full(k, positive[np.searchsorted(positive, min(largest / 64, 1.0)).clip(0, len(positive) - 1)])
            row[-1] = largest / 2
        case 4:  # pairs that cancel
            row = random.choice(usual, k)
            row[1::2] = -row[0 : 2 * (k // 2) : 2]
            row[random.integers(k)] = positive[0]
        case _:  # positive
            row = random.choice(usual, k)
    return row


def _bound(row: np.ndarray, limit: float, random: np.random.Generator) -> np.ndarray:
    """The rows, with zeros instead of terms that would make the sum overflow."""
    order = random.permutation(len(row))
    kept = np.cumsum(np.abs(row[order])) <= limit
    part = np.zeros_like(row)
    part[order[kept]] = row[order[kept]]
    return part


def _any(fmt: Format, k: int, random: np.random.Generator, rows: int) -> np.ndarray:
    """Rows of any numbers. Some have the smallest numbers, some a single sign, and the last one has NaN."""
    codes = all_codes(fmt.name)
    rows_ = random.choice(codes[~fmt.is_nan(codes)], (rows, k))
    rows_[::4, k // 2] = 0 if not fmt.has_zero else 1
    rows_[1::4] &= np.array(fmt.ones, codes.dtype)
    rows_[2::4] |= np.array(fmt.sign_bit, codes.dtype)
    if fmt.nan == "sign":  # -0 would be one
        rows_[2::4][rows_[2::4] == fmt.sign_bit] = fmt.sign_bit | 1
    if fmt.nan_code is not None:
        rows_[1::4][fmt.is_nan(rows_[1::4])] = fmt.max_code
        rows_[-1, k // 2] = fmt.nan_code
    return rows_


def _near_one(fmt: Format, k: int, random: np.random.Generator) -> np.ndarray:
    """Factors near 1, with few exceptions, so that products stay in range."""
    numbers = fmt.decode(all_codes(fmt.name))
    near = numbers[(np.abs(numbers) >= 0.5) & (np.abs(numbers) <= 2)]
    rows = np.ones((32, k))
    for row in rows:
        few = random.permutation(k)[: min(k, 5)]
        row[few] = random.choice(near, len(few))
    return encode(fmt, Exact.of(rows))[0]
