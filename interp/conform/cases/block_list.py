"""The list of cases on blocks: quantize, dequantize and products, and the forms of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...oracle.blocks import BLOCKS
from ...oracle.formats import CONVERTED

#: Ops on arrays in blocks.
BLOCK_OPS = ("quantize", "dequantize", "scaled_dot")
#: The rule of a backend that names none.
OWN = "own"

#: Operands and result as element types, and the attributes of a case, in the order of its name.
Facts = tuple[str, tuple[str, ...], str, tuple[tuple[str, str], ...]]

BLOCK_FORMS = {
    "partial": "blocks of which the last one is not full",
    "square": "as many rows as columns, so that exchanged dimensions are no other shape",
    "ends": "the largest and the smallest numbers and scales",
    "special": "blocks with NaN, with infinities, of zeros, of subnormal numbers; scales that are NaN",
    **{f"blocks-{n}": f"products of {n} block{'s' * (n > 1)}" for n in (1, 3, 5)},
}
_OF_CONVERSIONS = ("array", "constant", "partial", "square", "ends", "special")
_OF_PRODUCTS = ("array", "constant", "partial", *(f for f in BLOCK_FORMS if f.startswith("blocks")), "ends", "special")

#: Products of blocks, first those of a format with itself. Elements of i8 have no dot with fractions.
_PAIRS = (
    *((n, n) for n in ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1", "nvfp4")),
    ("mxfp8_e4m3", "mxfp8_e5m2"),
    ("mxfp8_e5m2", "mxfp8_e4m3"),
    ("mxfp8_e4m3", "mxfp4_e2m1"),
    ("deepseek_1x128", "deepseek_1x128"),
)


def block_cases(level: int) -> Iterator[Facts]:
    """The cases of a level."""
    blocks = [b for b in BLOCKS.values() if b.scale not in CONVERTED]
    for block in blocks:
        for source in ("f32", "bf16", *(("f16",) if level >= 2 else ())):
            for rule in (*block.rules, OWN):
                yield "quantize", (source,), block.element, (("format", block.name), ("scale", rule))
    for block in blocks:
        operands = block.element, block.scale, *(("f32",) if block.has_tensor_scale else ())
        for result in ("f32", "bf16"):
            yield "dequantize", operands, result, (("format", block.name),)
    for left, right in _PAIRS:
        operands = BLOCKS[left].element, BLOCKS[right].element
        for result in ("f32", "bf16", *(("f16",) if level >= 2 else ())):
            yield "scaled_dot", operands, result, (("left", left), ("right", right))


def block_forms(op: str, scale: str, takes: str) -> Sequence[str]:
    """The forms of a case, for a backend that takes programs or operations.

    A program names the rule for scales, which a backend therefore cannot choose.
    """
    if scale == OWN and takes == "programs":
        return []
    forms = _OF_PRODUCTS if op == "scaled_dot" else _OF_CONVERSIONS
    forms = [f for f in forms if f != "ends" or op != "dequantize"]  # the form `array` has all of them
    return forms if takes == "programs" else [f for f in forms if f != "constant"]
