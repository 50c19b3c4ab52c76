"""The operands of products: dense matrices in which every position of k, every row and every column matters.

Rows of the left matrix and columns of the right one are of several kinds: numbers of like sizes, of all sizes, one
large number among small ones, subnormal numbers, the largest ones, and pairs that cancel. In a pair two positions of k
have the same number on the right and opposite numbers on the left, so that a sum of thousands of products equals that
of the few unpaired ones, and a dropped product changes it. Partners are at random positions, so that no lane, half or
tile contains both. Formats without sign have sums just above a rounding boundary instead of pairs. Two sums are above
a tie of the result by less than f32 resolves there, if the formats have such numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import math

import numpy as np

from ...oracle.formats import FORMATS, Format, all_codes
from ...oracle.rounding import Exact, encode
from .case import Case
from .data import rng
from .forms import LENGTHS

Arrays = tuple[np.ndarray, ...]  #: of codes

#: Rows and columns of dot_general for some lengths of k: few are multiples of 8, and some exceed a tile of 128.
_SHAPES = {
    1: (33, 31), 3: (7, 130), 7: (15, 9), 8: (131, 17), 9: (9, 15), 15: (17, 10), 16: (16, 16), 17: (18, 133),
    31: (5, 33), 33: (31, 5), 64: (21, 13), 127: (9, 11), 128: (16, 16), 129: (11, 9), 1000: (13, 11), 4096: (9, 7),
}  # fmt: skip
#: Rows and columns in the other forms; in rank-3 for each batch.
_OF_FORMS = {"constant": (13, 11), "transposed": (10, 11), "reversed": (11, 10), "rank-3": (9, 7)}
BATCHES = 3
#: A convolution's window and features for each k, with as many batches as kinds of rows, and its outputs.
_WINDOWS = {
    **{n: (n, 1) for n in (1, 7, 17, 31, 127)}, 3: (3, 1), 8: (2, 4), 9: (3, 3), 15: (5, 3), 16: (2, 8), 33: (3, 11),
    64: (4, 16), 128: (4, 32), 129: (3, 43), 1000: (5, 200), 4096: (8, 512),
}  # fmt: skip
_OUTPUTS = 7
#: Positions along the one dimension of a convolution.
_PLACES = 2
#: Wide formats are tested with numbers of these sizes, except for rows meant to overflow or to be subnormal.
_LOW, _HIGH = 2.0**-12, 2.0**8
_F32_BITS = 24

_LEFT = ("paired", "like", "all", "paired-top", "large", "positive", "small", "top", "sparse")
_RIGHT = ("paired", "all-paired", "like", "positive-paired", "all", "small", "like-paired")
_UNSIGNED = ("boundary", "all", "like", "large", "all", "small", "like", "all", "like")


@functools.lru_cache(64)
def arrays(case: Case, form: str, seed: int) -> Arrays:
    """The operands of a case of dot_general or convolution in a form.

    Returns:
        the codes: for dot_general [m, k] and [k, n], in the form rank-3 [batches, m, k] and [batches, k, n]; for
        convolution [batch, width, features] and [window, features, outputs].
    """
    k, random = LENGTHS[form], rng(seed, case.signature, form)
    if case.op == "convolution":
        return _of_convolution(case, k, random)
    m, n = _OF_FORMS.get(form) or _SHAPES[k]
    if form != "rank-3":
        return _of_dot(case, k, m, n, random)
    parts = [_of_dot(case, k, m, n, random) for _ in range(BATCHES)]
    return np.stack([x for x, _ in parts]), np.stack([y for _, y in parts])


def _of_dot(case: Case, k: int, m: int, n: int, random: np.random.Generator) -> Arrays:
    pools, partners = _pools(case, k), _partners(k, random)
    if not pools[0].fmt.is_signed:
        left, right = _boundary(case.result, k, random)
        x = [left, *(_row(pools[0], _UNSIGNED[i % 9], k, partners, random) for i in range(1, m))]
        y = [*right[:n], *(_row(pools[1], _UNSIGNED[1 + i % 8], k, partners, random) for i in range(2, n))]
    else:
        x = [_row(pools[0], _LEFT[i % len(_LEFT)], k, partners, random) for i in range(m)]
        y = [_row(pools[1], _RIGHT[i % len(_RIGHT)], k, partners, random, is_right=True) for i in range(n)]
        rows, columns = _above_a_tie(case, k)
        x, y = [*_cancelling(pools[0], partners, 1), *rows, *x], columns + y
    return _codes(pools[0].fmt, np.array(x)), np.ascontiguousarray(_codes(pools[1].fmt, np.array(y)).T)


def _of_convolution(case: Case, k: int, random: np.random.Generator) -> Arrays:
    window, features = _WINDOWS[k]
    pools, partners = _pools(case, k), _partners(features, random)
    width = window + _PLACES - 1
    if not pools[0].fmt.is_signed:
        left, right = _boundary(case.result, k, random)
        kinds, columns = _UNSIGNED[1:], _UNSIGNED[1 : 1 + _OUTPUTS]
        first = np.resize(left, (width, features))
    else:
        kinds, columns, first, right = _LEFT, _RIGHT, None, []
    rows = [[_row(pools[0], kind, features, partners, random) for _ in range(width)] for kind in kinds]
    y = [[_row(pools[1], kind, features, partners, random, is_right=True) for _ in range(window)] for kind in columns]
    above, ties = _above_a_tie(case, k)
    x = [np.resize(row, (width, features)) for row in _cancelling(pools[0], partners, width)]
    x += [np.resize([*row, *row[: width * features - k]], (width, features)) for row in above]
    x += [*([] if first is None else [first]), *rows]
    y = [*ties, *right, *map(np.concatenate, y)]
    kernel = _codes(pools[1].fmt, np.array(y))
    return _codes(pools[0].fmt, np.array(x)), np.ascontiguousarray(kernel.T.reshape(window, features, -1))


def _codes(fmt: Format, numbers: np.ndarray) -> np.ndarray:
    """Codes of numbers, with NaN in the last row and an infinity in the one before, if rows can be spared."""
    codes = encode(fmt, Exact.of(numbers))[0]
    if len(codes) > 8:
        if fmt.nan_code is not None:
            codes[-1].reshape(-1)[codes[-1].size // 2] = fmt.nan_code
        if fmt.infinity_code is not None:
            codes[-2].reshape(-1)[0] = fmt.infinity_code
    return codes


# -- numbers -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Pools:
    """The positive numbers of a format that rows consist of."""

    fmt: Format
    like: np.ndarray
    all: np.ndarray
    small: np.ndarray
    top: np.ndarray


def _pools(case: Case, k: int) -> tuple[_Pools, _Pools]:
    """The numbers of both operands, chosen so that sums of most rows fit the result's format."""
    formats = [FORMATS[t] for t in case.operands]
    most = FORMATS[case.result].max
    room = most / (4 * k**0.5) if formats[0].is_signed else most / k
    sizes = [min(f.max, room**0.5, np.inf if f.is_minifloat else _HIGH) for f in formats]
    for i, other in ((0, 1), (1, 0)):  # if one format's range ends, the other covers the rest
        if sizes[i] == formats[i].max:
            sizes[other] = min(formats[other].max, room / sizes[i], np.inf if formats[other].is_minifloat else _HIGH)
    return _pool(case.operands[0], float(sizes[0])), _pool(case.operands[1], float(sizes[1]))


@functools.lru_cache(128)
def _pool(name: str, size: float) -> _Pools:
    fmt = FORMATS[name]
    numbers = fmt.decode(all_codes(name))
    positive = np.sort(numbers[np.isfinite(numbers) & (numbers > 0)])
    if not fmt.is_signed:  # powers of two about 1
        middle = positive[(positive >= 2.0**-6) & (positive <= min(size, 2.0**6))]
        return _Pools(fmt, middle[middle <= 2], middle, positive[(positive > 2.0**-50) & (positive < 2.0**-40)], middle)
    least = positive[0] if fmt.is_minifloat else _LOW
    usual = positive[(positive >= min(least, size)) & (positive <= max(size, least))]
    like = usual[usual >= usual[-1] / 8]
    normal = 2.0**fmt.min_exponent
    small = positive[positive < normal]
    return _Pools(fmt, like, usual, small, positive[positive >= fmt.max / 4])


def _partners(k: int, random: np.random.Generator) -> np.ndarray:
    """The partner of each position; an unpaired position is its own."""
    order = random.permutation(k)
    partners = np.arange(k)
    first, second = order[: k // 2], order[k // 2 : k // 2 * 2]
    partners[first], partners[second] = second, first
    return partners


def _row(
    pools: _Pools, kind: str, k: int, partners: np.ndarray, random: np.random.Generator, is_right: bool = False
) -> np.ndarray:
    """A row of the left matrix, or a column of the right one, of a kind."""
    signs = random.choice([-1.0, 1.0], k) if pools.fmt.is_signed else np.ones(k)
    if kind == "large":
        row = random.choice(pools.all[: max(len(pools.all) // 3, 1)], k) * signs
        row[random.integers(k)] = pools.all[-1]
        return row
    pool = {"all": pools.all, "all-paired": pools.all, "small": pools.small, "top": pools.top}.get(kind, pools.like)
    if kind == "paired-top":
        pool = pools.top
    row = random.choice(pool, k) * (1.0 if kind.startswith("positive") else signs)
    if kind == "sparse":
        row = np.where(random.random(k) < 0.5, 0.0 * signs, row)
        row[random.integers(k)] = pools.top[0]
    if "paired" not in kind:
        return row
    first = np.arange(k) < partners
    row[partners[first]] = row[first] * (1.0 if is_right else -1.0)
    if not is_right:  # the few products that the sum consists of
        few = random.permutation(k)[: min(k, 3)]
        few = np.concatenate([few, partners[few]])
        row[few] = random.choice(pools.like, len(few)) * random.choice([-1.0, 1.0], len(few))
    return row


def _cancelling(pools: _Pools, partners: np.ndarray, count: int) -> list[np.ndarray]:
    """Rows of pairs that all cancel, for formats whose other rows have no zero sum."""
    if pools.fmt.is_minifloat or len(partners) < 2:
        return []
    signed = _signed_row(pools, count * len(partners), np.random.default_rng(len(partners))).reshape(count, -1)
    first = np.arange(len(partners)) < partners
    signed[:, partners[first]] = -signed[:, first]
    signed[:, partners == np.arange(len(partners))] = 0
    return [signed.reshape(-1)]


# -- sums above a boundary ---------------------------------------------------------------------------------------------


def _boundary(result: str, k: int, random: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
    """A row and two columns of powers of two, whose sums are just above a tie of the result's format.

    All terms but one are even and add up to a tie; the remaining one is 1. So a sum that omits any term rounds down.
    """
    bits = FORMATS[result].mantissa_bits
    exponent = max(1, (2 * k).bit_length() - bits)
    left = random.choice([0.25, 0.5, 1.0, 2.0, 4.0], k)  # numbers other than 1, whose products are the terms
    columns = []
    for scale in (1.0, 4.0):
        even = [-float(1 << (exponent + i)) for i in (0, bits + 1)]  # the tie is half a step above a power of two
        while len(even) < k - 1:
            largest = heapq.heappop(even) / 2
            for _ in range(2):
                heapq.heappush(even, largest)
        terms = np.array([1.0, *(-t for t in even)])[:k]
        columns.append(scale * random.permutation(terms) / left)
    return left, columns


@functools.lru_cache(64)
def _above_a_tie(case: Case, k: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two rows and a column whose sums are slightly above a tie of the result; none if formats are too narrow.

    The excess is 1/4 and 3/4 of f32's last place beside the tie, which rounds to even, down. A sum truncated to f32 is
    the tie in both rows, a sum rounded to f32 in one. All other products cancel.
    """
    left, right, result = (FORMATS[t] for t in (*case.operands, case.result))
    bits, random = result.mantissa_bits, np.random.default_rng(k)
    partners = _partners(k, random)
    first = np.flatnonzero(np.arange(k) < partners)
    if not left.is_signed or len(first) < 3 or bits > 10:
        return [], []
    most = [math.frexp(f.max)[1] - 1 for f in (left, right)]
    top = min(sum(most), math.frexp(result.max)[1] - 1)
    for least in ([f.min_exponent for f in (left, right)], [f.min_exponent - f.mantissa_bits for f in (left, right)]):
        exponent = sum(least) + _F32_BITS + 1
        if result.min_exponent + bits < exponent <= top:
            terms = [_split(exponent, most), _split(exponent - bits - 1, most), least]
            left_pool, right_pool = _pools(case, k)
            column = _signed_row(right_pool, k, random)
            column[partners[first]] = column[first]
            rows = []
            for size in (1, 3):
                row = _signed_row(left_pool, k, random)
                row[partners[first]] = -row[first]
                row[partners == np.arange(k)] = 0
                for at, (x, y) in zip(first, terms, strict=False):
                    row[at], column[at], row[partners[at]] = math.ldexp(1, x), math.ldexp(1, y), 0
                row[first[2]] *= size
                rows.append(row)
            return rows, [column]
    return [], []


def _signed_row(pools: _Pools, k: int, random: np.random.Generator) -> np.ndarray:
    return random.choice(pools.like, k) * random.choice([-1.0, 1.0], k)


def _split(exponent: int, most: list[int]) -> tuple[int, int]:
    """The exponents of two powers of two with a given product: close to each other, but at most `most`."""
    first = max(min(exponent // 2, most[0]), exponent - most[1])
    return first, exponent - first
