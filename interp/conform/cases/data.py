"""The operands of cases: all codes if there are few enough, otherwise designed and random ones at every boundary."""

from __future__ import annotations

import functools
import itertools
import zlib

import numpy as np

from ...errors import count
from ...oracle.case import Operands
from ...oracle.formats import ALL_MINIFLOATS, FORMATS, INTEGERS, MINIFLOATS, all_codes, bits, code_dtype, integers
from .boundaries import boundaries, near
from .case import WIDE, Case
from .forms import LAYOUTS, SIZES, arrange, is_common

#: Number of operands without dimensions.
_SCALARS = 4
#: Number of constant elements in a conversion between wide types.
_CONSTANTS = 4096
#: Number of elements of one part; programs on more are split.
PART = 1 << 20


def rng(seed: int, *words: str) -> np.random.Generator:
    """Random numbers for one case, the same in every run."""
    return np.random.default_rng([seed, *(zlib.crc32(w.encode()) for w in words)])


def parts(case: Case, form: str, level: int) -> int:
    """The number of parts into which the operands of an elementwise case are divided."""
    if form == "array" and level >= 2 and case.op == "clamp" and bits(case.result) == 8:
        return (1 << 24) // PART
    if form == "rank-0":
        return _SCALARS
    if form in LAYOUTS and LAYOUTS[form].is_of_one:
        return len(case.operands)
    if form == "array" and level >= 3 and case.op == "convert" and case.operands[0] == "f32":
        return (1 << 32) // PART
    return 1


@functools.lru_cache(64)
def operands(case: Case, form: str, level: int, seed: int, part: int = 0) -> Operands:
    """The operands of an elementwise case in a form."""
    if form == "array" and parts(case, form, level) > 1:
        return _enumerate(case, part)
    if form == "rank-0":
        return _alone(case, part, level, seed)
    if form in LAYOUTS:
        return apply_layout(form, part, _few(case, LAYOUTS[form].size, level, seed))
    if form == "constant" and (case.column == WIDE or case.op == "chain"):
        return _sample(case, level, seed)
    if form == "constant" and level == 1 and len(case.operands) == 2 and not is_common(case):
        return _product(_notable(case.operands[1]), all_codes(case.operands[1]))
    if form in SIZES:
        return _few(case, SIZES[form], level, seed)
    if form in ("scalar", "broadcast"):
        return _scalars(case)
    return _whole(case, level, seed)


def apply_layout(form: str, part: int, given: Operands) -> Operands:
    """Operands in a layout. For a layout of a single operand the part selects the operand."""
    layout = LAYOUTS[form]
    sides = enumerate(given)
    return tuple(arrange(form, x) if i == part and layout.is_of_one else np.resize(x, layout.size) for i, x in sides)


def _alone(case: Case, part: int, level: int, seed: int) -> Operands:
    """A single element: an ordinary number if there is one."""
    if part < _SCALARS // 2:
        single = _few(case, _SCALARS, level, seed)
        return tuple(x[part : part + 1] for x in single)
    whole = _whole(case, level, seed)
    place = rng(seed, case.signature, "rank-0", str(part)).integers(len(whole[0]))
    return tuple(x[place : place + 1] for x in whole)


def _sample(case: Case, level: int, seed: int) -> Operands:
    """An evenly spaced sample of all operands, which covers every range of numbers."""
    whole = _whole(case, level, seed)
    n = len(whole[0])
    return whole if n <= _CONSTANTS else tuple(x[np.linspace(0, n - 1, _CONSTANTS).astype(np.intp)] for x in whole)


def _enumerate(case: Case, part: int) -> Operands:
    places = np.arange(part * PART, (part + 1) * PART, dtype=np.uint32)
    if case.op == "convert":
        return (places,)
    return tuple(((places >> shift) & 255).astype(np.uint8) for shift in (16, 8, 0))


@functools.lru_cache(8)
def _whole(case: Case, level: int, seed: int) -> Operands:
    if case.op == "convert":
        return (source_codes(case.operands[0], case.result, level, seed),)
    if case.op == "chain":
        return _of_chain(case, level, seed)
    element = case.operands[-1]
    if case.op == "select":
        codes = _codes(element, seed)
        if level >= 2 and bits(element) <= 8:
            return _product(np.array([False, True]), codes, codes)
        return _product(np.array([False, True]), codes)[:1] + tuple(np.tile(c, 2) for c in (codes, codes[::-1]))
    if case.op == "clamp":
        if bits(element) > 8:
            x, high = _pairs(element, seed)
            return rng(seed, case.signature).permutation(x), x, high
        few, codes = _notable(element), _codes(element, seed)
        return _product(few, codes, few)
    codes = _notable(element) if case.op == "type" and bits(element) > 8 else _codes(element, seed)
    if len(case.operands) == 1:
        return (codes,)
    return _product(codes, codes) if bits(element) <= 8 else _pairs(element, seed)


def _of_chain(case: Case, level: int, seed: int) -> Operands:
    """The operands of a chain, at the boundaries of its types."""
    source, result = case.operands[0], case.result
    steps = dict(case.attributes)["steps"]
    if "complex" in steps:
        codes = source_codes(source, result, 1, seed) if source != result else _codes(source, seed)
        codes = codes[np.linspace(0, len(codes) - 1, min(len(codes), _CONSTANTS)).astype(np.intp)]
        return (codes, rng(seed, steps).permutation(codes))[: len(case.operands)]
    if source in MINIFLOATS:
        codes = all_codes(source)
        return (codes,) if len(case.operands) == 1 else _product(codes, codes)
    if steps.startswith("via"):
        types = dict.fromkeys(t for t in (steps.removeprefix("via_"), result) if t != source)
        return (np.concatenate([source_codes(source, t, level, seed) for t in types]),)
    codes = source_codes(source, result, level, seed)
    # The sign of a NaN product is undefined.
    codes = np.where(FORMATS[source].is_nan(codes), np.uint32(FORMATS[source].nan_code or 0), codes)
    scales = np.array(_FACTORS, np.float32)[np.arange(len(codes)) % len(_FACTORS)]
    with np.errstate(all="ignore"):
        return (codes.view(np.float32) / scales).view(np.uint32), scales.view(np.uint32)


#: Factors: 1, powers of two, and factors that round every product.
_FACTORS = (1.0, 0.5, 3.0, 0.1, 448 / 3.7, 2.0**-12, 1.9999999, -1.25)


def _product(*axes: np.ndarray) -> Operands:
    return tuple(g.ravel() for g in np.meshgrid(*axes, indexing="ij"))


def _codes(element: str, seed: int) -> np.ndarray:
    if bits(element) <= 16:
        return all_codes(element)
    notable = _notable(element)
    return np.concatenate([notable, rng(seed, element).integers(0, 1 << 32, 1 << 16, np.uint32)])


def _pairs(element: str, seed: int) -> Operands:
    """Pairs of a type that has too many for all: notable codes, random codes, and numbers near each other."""
    random, notable = rng(seed, element, "pairs"), _notable(element)
    most = (1 << bits(element)) - 1
    first = random.integers(0, most, 1 << 15, np.uint64, endpoint=True).astype(code_dtype(element))
    second = random.integers(0, most, 1 << 15, np.uint64, endpoint=True).astype(code_dtype(element))
    near = first ^ (second & np.array(0x83FF if bits(element) == 16 else 0x80FFFFFF, code_dtype(element)))
    pairs = _product(notable, notable)
    return tuple(np.concatenate(p) for p in ((pairs[0], first, first), (pairs[1], second, near)))


@functools.cache
def _notable(element: str) -> np.ndarray:
    """Some 16 to 40 notable codes: zeros, the ends of the subnormal and normal numbers, 1, infinity, NaN."""
    fmt = FORMATS[element]
    one = fmt.bias << fmt.mantissa_bits
    least = 1 << fmt.mantissa_bits
    sizes = {0, 1, 2, least - 1, least, least + 1, one - 1, one, one + 1, one + (least >> 1), fmt.max_code - 1}
    sizes |= {fmt.max_code, min(fmt.max_code + 1, fmt.ones), fmt.ones, one + least, one - least}
    sizes = {s for s in sizes if 0 <= s <= fmt.ones}
    return np.array(sorted(sizes | {s | fmt.sign_bit for s in sizes}), fmt.code_dtype)


def _few(case: Case, size: int, level: int, seed: int) -> Operands:
    """A few elements in random order: ordinary numbers, if there are any."""
    whole = _whole(case, level, seed)
    random = rng(seed, case.signature, str(size))
    picked = random.permutation(len(whole[0]))
    plain = _plain(case, level, seed)
    if plain.any():  # repeat ordinary elements: a failure is then due to its position
        picked = picked[plain[picked]]
    return tuple(c[np.resize(picked, size)] for c in whole)


@functools.lru_cache(8)
def _plain(case: Case, level: int, seed: int) -> np.ndarray:
    """Tests which elements have only ordinary operands; none where no operand is a float."""
    whole = _whole(case, level, seed)
    numbers = [_is_plain(FORMATS[t], c) for c, t in zip(whole, case.operands, strict=True) if t in FORMATS]
    return np.logical_and.reduce(numbers) if numbers else np.zeros(len(whole[0]), bool)


def _is_plain(fmt, codes: np.ndarray) -> np.ndarray:
    """Tests for normal numbers other than zero and the largest."""
    size = codes.astype(np.int64) & fmt.ones
    return (size >= 1 << fmt.mantissa_bits) & (size <= fmt.max_code - 1)


def _scalars(case: Case) -> Operands:
    """Each of some scalars with every code, on either side."""
    element = case.operands[0]
    codes, few = all_codes(element), scalars(element)
    left, right = _product(few, codes), _product(codes, few)
    right = tuple(r.reshape(len(codes), len(few)).T.ravel() for r in right)
    return tuple(np.concatenate(p) for p in zip(left, right, strict=True))


@functools.cache
def scalars(element: str) -> np.ndarray:
    """Scalars to broadcast: some without exact reciprocal, 1 and zeros, which compilers simplify, and the ends."""
    fmt = FORMATS[element]
    numbers = fmt.decode(all_codes(element))
    wanted = [3.0, 0.75, -5.0, 2.0, 1.0] if fmt.has_zero else [4.0, 0.5, 2.0**40]
    places = [int(np.nanargmin(np.abs(numbers - w))) for w in wanted]
    extra = [1, fmt.max_code, 0, fmt.sign_bit]
    return np.array(list(dict.fromkeys([*places, *extra])), fmt.code_dtype)


# -- conversions -------------------------------------------------------------------------------------------------------


def source_codes(source: str, target: str, level: int, seed: int) -> np.ndarray:
    """The operands of a conversion: every code of up to 16 bits; for wider types, codes at boundaries of the target."""
    if bits(source) <= 16:
        return all_codes(source)
    codes = near(source, target, level >= 2)
    if source in INTEGERS and target in ALL_MINIFLOATS:
        return codes
    extra = 1 << (10 if level == 1 else 16)
    most = (1 << bits(source)) - 1
    random = rng(seed, source, target).integers(0, most, extra, np.uint64, endpoint=True)
    return np.concatenate([codes, random.astype(codes.dtype)])


def numbers(codes: np.ndarray, element: str) -> np.ndarray:
    """Decodes codes to f64 or integers; booleans stay unchanged."""
    if element in FORMATS:
        return FORMATS[element].decode(codes)
    return codes if element == "i1" else integers(codes, element)


def tuples(case: Case, texts: list[str]) -> Operands:
    """Operands from the command line: a text for each element, with the codes of its operands between commas.

    `0x03,0x40*64` is the element repeated 64 times. Raises ValueError for any other text.
    """
    rows = []
    for text in texts:
        text, _, times = text.partition("*")
        try:
            codes = [int(word, 0) for word in text.split(",")]
        except ValueError:
            raise ValueError(f"--operands {text}: a code is an integer, such as 0x3F") from None
        if len(codes) != len(case.operands):
            raise ValueError(f"--operands {text}: {case.signature} takes {count(len(case.operands), 'operand')}")
        for code, element in zip(codes, case.operands, strict=True):
            if not 0 <= code < 1 << bits(element):
                raise ValueError(f"--operands {text}: {code:#x} is not a code of {element}")
        if times and not times.isdecimal():
            raise ValueError(f"--operands {text}*{times}: {times} is not a count")
        rows += [codes] * int(times or 1)
    columns = itertools.zip_longest(*rows)
    return tuple(np.array(c, np.uint64).astype(code_dtype(t)) for c, t in zip(columns, case.operands, strict=True))


__all__ = ["PART", "Operands", "boundaries", "numbers", "operands", "parts", "rng", "scalars", "source_codes", "tuples"]
