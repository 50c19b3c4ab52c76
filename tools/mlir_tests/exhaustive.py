"""Functions over all codes of a format, or all pairs: one number tells whether every result is right.

The functions that list cases are for reading. These find a fault wherever it is, though not where it is.
"""

from __future__ import annotations

from tests.oracle import FORMATS, binary_codes, unary_codes

from .chunk import Chunk, Value, tensor
from .numbers import array, each

NOTE = (
    "{} One number stands for all results: the sum of their codes, each times an odd number of its own, modulo 2**32. "
    "A single wrong code changes it."
)
#: Ops whose results no format of those leaves open.
_CLEAN = ("add", "subtract", "multiply", "maximum", "minimum")


def _every(chunk: Chunk, name: str, element: str, count: int, dim: int | None = None) -> Value:
    """All codes, in order; or, along one dimension of two, made a vector."""
    bits = FORMATS[element].bits
    integer, shape = f"ui{bits}", (count,) if dim is None else (count, count)
    made = tensor(shape, integer)
    codes = f"%{name}_codes"
    chunk.line(f"{codes} = stablehlo.iota dim = {dim or 0} : {made}")
    if dim is not None:
        made, shape = tensor((count * count,), integer), (count * count,)
        chunk.line(f"%{name}_flat = stablehlo.reshape {codes} : ({tensor((count, count), integer)}) -> {made}")
        codes = f"%{name}_flat"
    result = Value(chunk.fresh(name), shape, element, tensor(shape, element))
    chunk.line(f"{result.name} = stablehlo.bitcast_convert {codes} : ({made}) -> {result.type}")
    return result


def _is_suitable(element: str) -> bool:
    """Whether the type has eight bits, and no result is left open."""
    return FORMATS[element].bits == 8 and FORMATS[element].is_signed


def all_codes(op: str, stem: str, element: str) -> list[Chunk]:
    """A function of one number on all codes of a format of eight bits. (Of fewer bits, all are listed.)"""
    if not _is_suitable(element):
        return []
    chunk = Chunk(f"{stem}_{element}_all", NOTE.format("All 256 codes."))
    x = _every(chunk, "x", element, 256)
    chunk.expect_sum(chunk.short(op, x), array(unary_codes(FORMATS[element], op.partition(".")[2])))
    return [chunk]


def all_pairs(op: str, stem: str, element: str) -> list[Chunk]:
    """A function of two numbers on all pairs of codes."""
    name, fmt = op.partition(".")[2], FORMATS[element]
    is_small = fmt.bits == 4 and name in _CLEAN
    if not (is_small or (_is_suitable(element) and name in (*_CLEAN, "divide", "remainder"))):
        return []
    count = 1 << fmt.bits
    chunk = Chunk(f"{stem}_{element}_all_pairs", NOTE.format(f"All {count * count} pairs of codes."))
    operands = [_every(chunk, side, element, count, dim) for dim, side in enumerate("xy")]
    chunk.expect_sum(chunk.short(op, *operands), array(binary_codes(fmt, name)))
    return [chunk]


def all_conversions(source: str, target: str) -> list[Chunk]:
    """From all codes of a type of 8 or 16 bits."""
    fmt = FORMATS[source]
    is_narrowing = fmt.bits == 16 and _is_suitable(target)
    if not (is_narrowing or (fmt.bits == 8 and target == "f32")):
        return []
    count = 1 << fmt.bits
    chunk = Chunk(f"convert_{source}_to_{target}_all", NOTE.format(f"All {count} codes."))
    x = _every(chunk, "x", source, count)
    r = Value(chunk.fresh("r"), x.shape, target, tensor(x.shape, target))
    chunk.line(f"{r.name} = stablehlo.convert {x.name} : ({x.type}) -> {r.type}")
    chunk.expect_sum(r, each(source, lambda v: v, array(range(count)), result=target))
    return [chunk]
