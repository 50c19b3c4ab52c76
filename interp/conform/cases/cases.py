"""The list of cases: the ops and types of each level. `forms` has their forms, `data` their operands."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterable, Iterator, Sequence

from ...oracle.blocks import BLOCKS
from ...oracle.exact import COMPARISONS, OPS, arity
from ...oracle.formats import CONVERTED, FORMATS, INTEGERS, MINIFLOATS
from .case import OWN, PRODUCT_OPS, WIDE_TYPES, Case

BODIES = ("add", "multiply", "maximum", "minimum")

#: Products of two formats, and of wider ones, with the types of their results, the usual one first.
_PRODUCTS = {
    ("f8E4M3FN", "f8E5M2"): ("f32", "bf16", "f16"),
    ("f8E5M2", "f8E4M3FN"): ("f32", "bf16", "f16"),
    ("f8E4M3FNUZ", "f8E5M2FNUZ"): ("f32", "bf16", "f16"),
    ("f8E5M2FNUZ", "f8E4M3FNUZ"): ("f32", "bf16", "f16"),
    ("f8E4M3FN", "f4E2M1FN"): ("f32", "bf16", "f16"),
    ("f16", "f16"): ("f32", "f16"),
    ("bf16", "bf16"): ("f32", "bf16"),
}

#: Products of blocks, first those of a format with itself. Elements of i8 have no dot with fractions.
_BLOCK_PRODUCTS = (
    *((n, n) for n in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1", "nvfp4")),
    ("mxfp8_e4m3", "mxfp8_e5m2"),
    ("mxfp8_e5m2", "mxfp8_e4m3"),
    ("mxfp8_e4m3", "mxfp4_e2m1"),
    ("deepseek_1x128", "deepseek_1x128"),
)


def cases(level: int) -> list[Case]:
    """Every case of a level."""
    return list(_cases(level))


def _cases(level: int) -> Iterator[Case]:
    wide = ("f16", "bf16") if level >= 2 else ()
    for element in (*MINIFLOATS, *wide):
        yield Case("type", (element,), element)
    for element in (*MINIFLOATS, *wide, *(("f32",) if level >= 3 else ())):
        yield from _elementwise(element)
    for element in MINIFLOATS:
        yield from _conversions(element)
    for source, target in itertools.permutations(WIDE_TYPES, 2):
        yield Case("convert", (source,), target)
    yield from _chains()
    for element in MINIFLOATS:
        yield from _rows(element, level)
    for operands, results in _PRODUCTS.items():
        for op in PRODUCT_OPS if len(set(operands)) == 1 else ("dot_general",):  # (C27): one type in a convolution
            for result in results if op == "dot_general" or level >= 2 else results[:1]:
                yield Case(op, operands, result)
    yield from _blocks(level)
    for element in CONVERTED if level >= 3 else ():  # no program of StableHLO has them
        yield Case("type", (element,), element)
        for other in (*FORMATS, *INTEGERS, "i1"):
            if other != element:
                yield from (Case("convert", (other,), element), Case("convert", (element,), other))


def _elementwise(element: str) -> Iterator[Case]:
    for op in OPS:
        yield Case(op, (element,) * arity(op), element)
    yield Case("is_finite", (element,), "i1")
    for kind in ("FLOAT", "TOTALORDER"):
        for direction in COMPARISONS:
            named = (("comparison_direction", direction), ("compare_type", kind))
            yield Case("compare", (element, element), "i1", named)
    yield Case("select", ("i1", element, element), element)
    yield Case("clamp", (element,) * 3, element)


def _conversions(element: str) -> Iterator[Case]:
    others = [*(f for f in FORMATS if f not in CONVERTED), *INTEGERS, "i1"]
    for source in others:
        if source != element:
            yield Case("convert", (source,), element)
    for target in others:
        if target not in MINIFLOATS:
            yield Case("convert", (element,), target)


def _chains() -> Iterator[Case]:
    """Cases of several ops in sequence (`chains.py`)."""

    def chain(steps: str, operands: tuple[str, ...], result: str) -> Case:
        return Case("chain", operands, result, (("steps", steps),))

    for element in MINIFLOATS:
        for between, source in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f32", element)):
            yield chain(f"via_{between}", (source,), element)
        yield chain("scale_clamp_convert", ("f32", "f32"), element)
        yield chain("dequantize_add_quantize", (element, element), element)
        yield chain("multiply_add_in_bf16", (element, element), element)
    for source, between, result in (
        *(("f32", t, "f32") for t in ("f16", "bf16")),
        *(("f64", "f32", t) for t in ("f64", "f16", "bf16")),
    ):
        yield chain(f"via_{between}", (source,), result)
    for part in ("f64", "f32"):
        other = "f32" if part == "f64" else "f64"
        for element in (*MINIFLOATS, *WIDE_TYPES):
            yield chain("to_complex_real", (element,), part)
            yield chain("from_complex", (part, part), element)
        yield chain("to_complex_imag", (other,), part)
        yield from (chain(f"complex_{half}", (part, part), other) for half in ("real", "imag"))


def _rows(element: str, level: int) -> Iterator[Case]:
    # A sum starts from zero.
    without = () if FORMATS[element].has_zero else ("add",)
    for body in BODIES:
        if body not in without:
            yield Case("reduce", (element,), element, (("body", body),))
    for body in ("add", "maximum"):
        if body not in without:
            yield Case("cumulative", (element,), element, (("body", body),))
    for op in PRODUCT_OPS:
        for result in (element, "f32", "bf16", "f16") if op == "dot_general" or level >= 2 else (element, "f32"):
            yield Case(op, (element, element), result)
    yield Case("sort", (element,), element)


def _blocks(level: int) -> Iterator[Case]:
    also = ("f16",) if level >= 2 else ()
    blocks = [b for b in BLOCKS.values() if b.scale not in CONVERTED]
    for block in blocks:
        for source in ("f32", "bf16", *also):
            for rule in (*block.rules, OWN):
                yield Case("quantize", (source,), block.element, (("format", block.name), ("scale", rule)))
    for block in blocks:
        operands = block.element, block.scale, *(("f32",) if block.has_tensor_scale else ())
        for result in ("f32", "bf16"):
            yield Case("dequantize", operands, result, (("format", block.name),))
    for left, right in _BLOCK_PRODUCTS:
        operands = BLOCKS[left].element, BLOCKS[right].element
        for result in ("f32", "bf16", *also):
            yield Case("scaled_dot", operands, result, (("left", left), ("right", right)))


Patterns = Sequence[str]


def select_cases(every: Iterable[Case], ops: Patterns = (), formats: Patterns = (), case: str = "") -> list[Case]:
    """The cases that match patterns of op names, formats and signatures."""

    def fits(names: Sequence[str], patterns: Patterns) -> bool:
        return not patterns or any(fnmatch.fnmatchcase(n, p) for n in names for p in patterns)

    wanted = [case] if case else []
    return [c for c in every if fits((c.op, c.name), ops) and fits(c.types, formats) and fits([c.signature], wanted)]
