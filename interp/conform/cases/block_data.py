"""The operands of cases on blocks: every position in a block, every bit of a scale and every element matters.

In a block to quantize the largest magnitude is at each position in turn. It is at a boundary between two scales, or
just below or above one. The other numbers are ties between elements, the neighbours of ties, and numbers of all sizes.
All codes are dequantized with all scales (f32 scales: with a selection). Blocks to multiply have scales of similar
size, so that no product is absorbed by another; in the form `ends` they have scales at both ends of the range.
"""

from __future__ import annotations

import functools

import numpy as np

from ...oracle.blocks import BLOCKS, Block
from ...oracle.formats import FORMATS, Format, all_codes
from ...oracle.rounding import Exact, encode
from .case import Case
from .data import rng

Arrays = tuple[np.ndarray, ...]  #: of codes

_F32 = FORMATS["f32"]
#: Blocks in a row of quantized arrays.
_ALONG = 3
#: Number of blocks of a case; fewer for blocks of 128, which have more numbers.
_BLOCKS = {16: 192, 32: 192, 128: 135, 16384: 6}


@functools.lru_cache(64)
def arrays(case: Case, form: str, seed: int) -> Arrays:
    """The operands of a case in a form.

    Returns:
        for quantize the numbers [rows, k]; for dequantize elements [rows, k], scales, and if the format has one the
        scale of the tensor; for scaled_dot elements [m, k] and [k, n], and scales [m, blocks] and [blocks, n].
    """
    random = rng(seed, case.signature, form)
    facts = dict(case.attributes)
    with np.errstate(all="ignore"):
        if case.op == "quantize":
            return (_numbers(BLOCKS[facts["format"]], FORMATS[case.operands[0]], form, random),)
        if case.op == "dequantize":
            return _blocks(BLOCKS[facts["format"]], form, random)
        return _products(BLOCKS[facts["left"]], BLOCKS[facts["right"]], case.result, form, random)


def _shape(block: Block, form: str) -> tuple[int, int]:
    """The shape of arrays to quantize, and in all forms but `array` of arrays to dequantize."""
    size, rows = block.size, block.shape[0] if len(block.shape) == 2 else 1
    count = _BLOCKS[block.size * rows]
    match form:
        case "constant":
            return (7, size * 2) if rows == 1 else (rows, size)
        case "partial":
            return (max(count // 2, rows + 5), size + size // 2 + 3)
        case "square":
            return (size * 2, size * 2)
    return (max(count // _ALONG, rows * 2), size * _ALONG)


# -- quantize ----------------------------------------------------------------------------------------------------------


def _numbers(block: Block, source: Format, form: str, random: np.random.Generator) -> np.ndarray:
    shape = _shape(block, form)
    down, along = block.scale_shape(shape)
    exponents = _exponents(block, source, form, down * along, random).reshape(down, along)
    x = np.empty((down, along, int(np.prod(block.shape))))
    for i, at in enumerate(np.ndindex(down, along)):
        x[at] = _of_block(block, i, int(exponents[at]), random)
    rows = block.shape[0] if len(block.shape) == 2 else 1
    whole = x.reshape(down, along, rows, block.size).transpose(0, 2, 1, 3).reshape(down * rows, along * block.size)
    whole = whole[: shape[0], : shape[1]]
    top = np.nextafter(source.max, np.inf)
    codes = encode(source, Exact.of(np.clip(whole, -top, top)))[0]
    return _with_specials(block, source, codes, random) if form == "special" else codes


def _exponents(block: Block, source: Format, form: str, count: int, random: np.random.Generator) -> np.ndarray:
    """The exponents of the largest magnitudes of blocks."""
    low = source.min_exponent + 10
    high = source.max_code.bit_length() and int(np.floor(np.log2(source.max)))
    if not block.has_power_scale:  # within the range that a tensor scale, or an f32 scale, leaves
        low, high = (-9, 2) if block.has_tensor_scale else (max(low, -40), min(high, 40))
        if form == "ends":
            low = low - 14 if block.has_tensor_scale else max(source.min_exponent - source.mantissa_bits, -149)
        return random.integers(low, high, count)
    if form == "ends":
        least = source.min_exponent - source.mantissa_bits
        ends = np.concatenate([np.arange(least, least + 30), np.arange(high - 8, high + 1)])
        return np.resize(random.permutation(ends), count)
    return random.integers(low, high - 1, count)


def _of_block(block: Block, i: int, exponent: int, random: np.random.Generator) -> np.ndarray:
    """One block whose largest magnitude is about 2**exponent, near a boundary between scales."""
    size = int(np.prod(block.shape))
    mantissa, bits = np.frexp(block.largest)[0] * 2, block.mantissa_bits
    deciding = (1.0, mantissa, 2 - 2.0 ** -(bits + 1), 0.75 * mantissa, 1.5 * mantissa, 1 + random.random())
    amax = float(np.ldexp(deciding[i % len(deciding)], exponent))
    amax *= (1.0, 1 - 2.0**-23, 1 + 2.0**-23, 1 - 2.0**-8, 1 + 2.0**-7)[i // len(deciding) % 5]
    unit = 2.0 ** (exponent - (np.frexp(block.largest)[1] - 1))
    ties = _ties(block) * unit
    others = random.choice(ties, size) * random.choice([1.0, 1.0, 1 - 2.0**-23, 1 + 2.0**-23, 1 - 2.0**-9], size)
    sizes = amax * 2.0 ** -random.uniform(0, 12, size)
    row = np.where(random.random(size) < 0.5, others, sizes)
    # In every second block only the largest decides; in the others another may be equally large.
    row = np.minimum(row, np.nextafter(amax, 0) if i // size % 2 else amax / 4) * random.choice([-1.0, 1.0], size)
    row[i % size] = amax * (-1 if i // size % 2 else 1)
    return row


def _ties(block: Block) -> np.ndarray:
    """The numbers midway between neighbouring elements, and the elements."""
    if block.fmt is None:
        return np.arange(1, 255) / 128
    numbers = block.fmt.decode(np.arange(block.fmt.max_code + 1))
    return np.concatenate([(numbers[1:] + numbers[:-1]) / 2, numbers[1:]])


def _with_specials(block: Block, source: Format, codes: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Codes with a special block at every second position: each point left open, several times."""
    rows = block.shape[0] if len(block.shape) == 2 else 1
    down, along = block.scale_shape((codes.shape[0], codes.shape[1]))
    small = encode(source, Exact.of(np.ldexp(1.0, source.min_exponent - np.arange(1, 5))))[0]
    normal = 1 << source.mantissa_bits
    beyond = encode(source, Exact.of(np.array([block.largest * 33 / 32, 1.0, 0.5])))[0]
    signs = np.array(source.sign_bit, codes.dtype)
    for i, (r, c) in enumerate(np.ndindex(down, along)):
        part = codes[r * rows : (r + 1) * rows, c * block.size : (c + 1) * block.size]
        place = int(random.integers(part.shape[0])), int(random.integers(part.shape[1]))
        sign = random.choice(np.array([0, signs], codes.dtype), part.shape)
        match i % 10:
            case 1:
                part[place] = source.nan_code or 0
            case 3:
                part[place] = (source.infinity_code or 0) | int(sign[place])
            case 5:
                part[...] = sign
            case 6:
                part[place] = signs
            case 7:
                part[...] = random.choice(small, part.shape) | sign
            case 8:
                part[...] = random.choice([normal >> 1, normal, normal << 1], part.shape).astype(codes.dtype) | sign
            case 9:
                part[...] = random.choice(beyond, part.shape) | sign
    return codes


# -- dequantize --------------------------------------------------------------------------------------------------------


def _blocks(block: Block, form: str, random: np.random.Generator) -> Arrays:
    codes, scales = all_codes(block.element), _scale_codes(block, random)
    of_tensor = (encode(_F32, Exact.of(np.array(0.0146484375 * (1 + 2.0**-11 + 2.0**-20))))[0],)
    of_tensor = of_tensor if block.has_tensor_scale else ()
    size, rows = block.size, block.shape[0] if len(block.shape) == 2 else 1
    if form == "array" and rows == 1:
        along = -(-len(codes) // size)
        elements = np.tile(np.resize(codes, along * size), (len(scales), 1))
        return elements, np.tile(scales[:, None], (1, along)), *of_tensor
    shape = (2 * rows, 3 * size) if form == "array" else _shape(block, form)
    if form == "special":
        nan = np.flatnonzero(block.scale_fmt.is_nan(scales) | np.isinf(block.scale_fmt.decode(scales)))
        scales = np.concatenate([scales[nan].repeat(4), scales[:2], scales[-6:], random.choice(scales, 12)])
    else:
        scales = scales[np.isfinite(block.scale_fmt.decode(scales))]
        around = np.abs(block.scale_fmt.decode(scales))
        scales = scales[(around > 2.0**-60) & (around < 2.0**60)]
    elements = random.choice(codes, shape)
    return elements, random.choice(scales, block.scale_shape(shape)), *of_tensor


def _scale_codes(block: Block, random: np.random.Generator) -> np.ndarray:
    """All scales; for f32 powers of two, the ends of each class of numbers, and a selection of the others."""
    fmt = block.scale_fmt
    if fmt.bits <= 8:
        return all_codes(fmt.name)
    one, top = fmt.bias << fmt.mantissa_bits, fmt.max_code
    bits = [one ^ (1 << i) for i in range(31)]
    ends = [0, 1, 2, (1 << 23) - 1, 1 << 23, one, one - 1, one + 1, top - 1, top, top + 1, fmt.nan_code or 0]
    some = random.integers(one - (40 << 23), one + (40 << 23), 200)
    return np.concatenate([ends, bits, some]).astype(fmt.code_dtype)


# -- scaled_dot --------------------------------------------------------------------------------------------------------

#: Rows, columns and blocks of products in each form.
_PRODUCTS = {
    "array": (17, 19, 4),
    "constant": (9, 7, 2),
    "partial": (11, 9, 2),
    "blocks-1": (33, 10, 1),
    "blocks-3": (10, 33, 3),
    "blocks-5": (13, 11, 5),
    "ends": (22, 22, 2),
    "special": (20, 20, 3),
}
#: The exponents of rows and columns in the form `ends`: they cancel, or add up to the ends of f32.
_ENDS = (127, -127, 120, -120, 100, -100, 63, -64, 0, 8, -126)


def _products(left: Block, right: Block, result: str, form: str, random: np.random.Generator) -> Arrays:
    m, n, count = _PRODUCTS[form]
    size = max(left.size, right.size)
    k = count * size if form != "partial" else (count - 1) * size + size // 2 + 3
    small = result == "f16"
    x = _factors(left, m, k, small, random)
    y = _factors(right, n, k, small, random)
    s, t = _scales_of(left, m, k, form, random), _scales_of(right, n, k, form, random)
    if left.scale_fmt.bits > 8:  # products of two scales and two elements are then exact in f64
        t = t & np.array(0xFFFFFFF0, t.dtype)
    if form == "special":
        _make_special(left, x, s, random)
        _make_special(right, y, t, random)
    return x, np.ascontiguousarray(y.T), s, np.ascontiguousarray(t.T)


def _factors(block: Block, rows: int, k: int, small: bool, random: np.random.Generator) -> np.ndarray:
    """Elements whose magnitudes differ by a factor of at most about 16 in most rows, and by any factor in the
    others."""
    fmt = FORMATS[block.element]
    numbers = fmt.decode(all_codes(fmt.name))
    usual = np.flatnonzero(np.isfinite(numbers) & (numbers != 0))
    if small:
        usual = usual[np.abs(numbers[usual]) <= 16]
    size = np.abs(numbers[usual])
    middle = usual[(size >= min(size.max() / 16, 1)) & (size <= min(size.max(), 16))]
    x = random.choice(middle, (rows, k))
    x[::4] = random.choice(usual, x[::4].shape)
    if not fmt.is_signed:
        return x.astype(fmt.code_dtype)
    x[1::4] = x[1::4] & fmt.ones
    return x.astype(fmt.code_dtype)


def _scales_of(block: Block, rows: int, k: int, form: str, random: np.random.Generator) -> np.ndarray:
    fmt, count = block.scale_fmt, -(-k // block.size)
    if form != "ends":
        exponents = random.integers(-3, 4, (rows, count))
    elif fmt.bits > 8 or fmt.mantissa_bits == 0:
        exponents = np.resize(_ENDS, rows)[:, None] + random.integers(0, 2, (rows, count)) * 1
        exponents = np.clip(exponents, -127 if fmt.mantissa_bits == 0 else -126, 127)
    else:
        exponents = random.integers(fmt.min_exponent - fmt.mantissa_bits, 9, (rows, count))
    mantissas = 1 + random.integers(0, 1 << fmt.mantissa_bits, (rows, count)) / (1 << fmt.mantissa_bits)
    codes = encode(fmt, Exact.of(np.ldexp(mantissas, exponents)))[0]
    return np.minimum(codes, np.array(fmt.max_code, codes.dtype))


def _make_special(block: Block, x: np.ndarray, s: np.ndarray, random: np.random.Generator) -> None:
    """Puts NaN scales, NaN and infinite elements, and zero blocks into rows, one kind in each."""
    fmt, scale = FORMATS[block.element], block.scale_fmt
    for row in range(2, len(x), 2):
        at = int(random.integers(s.shape[1]))
        part = x[row, at * block.size : (at + 1) * block.size]
        match row // 2 % 4:
            case 0 if scale.nan_code is not None:
                s[row, at] = scale.nan_code
            case 1:
                part[...] = random.choice([0, fmt.sign_bit], part.shape)
            case 2 if fmt.nan_code is not None:
                part[int(random.integers(len(part)))] = fmt.nan_code
            case 3 if fmt.infinity_code is not None:
                part[int(random.integers(len(part)))] = fmt.infinity_code
            case _:
                s[row, at] = 1
