"""Rules for ops that work element by element."""

from __future__ import annotations

from collections.abc import Sequence

from minihlo.ops.types import ELEMENT_TYPES, ElementType, Kind

from .builder import ALL, FLOATS, I1, INTEGERS, NUMBERS, Builder, Unfit, rule, size
from .program import Value

SIGNED = tuple(t for t in INTEGERS if t.kind is Kind.SIGNED)
COMPLEX = tuple(t for t in ALL if t.is_complex)
BITS = (I1, *INTEGERS)
INEXACT = [
    "sqrt",
    "rsqrt",
    "cbrt",
    "exponential",
    "exponential_minus_one",
    "log",
    "log_plus_one",
    "logistic",
    "tanh",
    "tan",
    "sine",
    "cosine",
]

UNARY: dict[str, Sequence[ElementType]] = {
    "abs": (*SIGNED, *FLOATS, *COMPLEX),
    "negate": NUMBERS,
    "sign": (*SIGNED, *FLOATS, *COMPLEX),
    **dict.fromkeys(("floor", "ceil", "round_nearest_even", "round_nearest_afz"), FLOATS),
    "not": BITS,
    **dict.fromkeys(("popcnt", "count_leading_zeros"), INTEGERS),
    **dict.fromkeys(("real", "imag"), (*FLOATS, *COMPLEX)),
    "is_finite": FLOATS,
    **dict.fromkeys(INEXACT, (*FLOATS, *COMPLEX)),
}
BINARY: dict[str, Sequence[ElementType]] = {
    **dict.fromkeys(("add", "multiply", "maximum", "minimum"), ALL),
    **dict.fromkeys(("subtract", "divide"), NUMBERS),
    "remainder": (*INTEGERS, *FLOATS),
    "power": NUMBERS,
    "atan2": (*FLOATS, *COMPLEX),
    **dict.fromkeys(("and", "or", "xor"), BITS),
    **dict.fromkeys(("shift_left", "shift_right_logical", "shift_right_arithmetic"), INTEGERS),
}


@rule(5)
def unary(b: Builder) -> None:
    op = b.one_of(list(UNARY))
    x = b.value(UNARY[op])
    e = x.type.element
    result = I1 if op == "is_finite" else e.part if op in ("abs", "real", "imag") else e
    b.add(op, [x], [(size(x), result)])


@rule(7)
def binary(b: Builder) -> None:
    op = b.one_of(list(BINARY))
    x = b.value(BINARY[op])
    b.add(op, [x, b.like(x)], [(size(x), x.type.element)])


@rule(2)
def compare(b: Builder) -> None:
    x = b.value()
    compared(b, x, b.like(x))


def comparison(b: Builder, t: ElementType, total: bool = True) -> str:
    """Attributes of a comparison of this type."""
    direction = b.one_of(("EQ", "NE") if t.is_complex else ("EQ", "NE", "GE", "GT", "LE", "LT"))
    kinds = {Kind.SIGNED: "SIGNED", Kind.FLOAT: "FLOAT", Kind.COMPLEX: "FLOAT"}
    kind = "TOTALORDER" if total and t.is_float and b.chance(0.3) else kinds.get(t.kind, "UNSIGNED")
    return (
        f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
        f"compare_type = #stablehlo<comparison_type {kind}>"
    )


def compared(b: Builder, x: Value, y: Value) -> Value:
    return b.add("compare", [x, y], [(size(x), I1)], comparison(b, x.type.element))[0]


@rule(2)
def select(b: Builder) -> None:
    x = b.value()
    pred = b.value([I1], shape=b.one_of([size(x), ()]))
    b.add("select", [pred, x, b.like(x)], [(size(x), x.type.element)])


@rule(2)
def clamp(b: Builder) -> None:
    x = b.value()
    low, high = (b.value([x.type.element], shape=s) for s in (b.one_of([size(x), ()]), b.one_of([size(x), ()])))
    b.add("clamp", [low, x, high], [(size(x), x.type.element)])


@rule(6)
def convert(b: Builder) -> None:
    x = b.value()
    b.add("convert", [x], [(size(x), b.element())])


@rule(3)
def bitcast_convert(b: Builder) -> None:
    x = b.value()
    e, shape = x.type.element, size(x)
    to = b.one_of([t for t in ALL if t.is_complex == e.is_complex and (t.bits == 1) == (e.bits == 1)])
    if to.bits < e.bits and e.bits % to.bits == 0:
        shape = (*shape, e.bits // to.bits)
    elif to.bits > e.bits and to.bits % e.bits == 0:
        if not shape or shape[-1] != to.bits // e.bits:
            raise Unfit
        shape = shape[:-1]
    elif to.bits != e.bits:
        raise Unfit
    b.add("bitcast_convert", [x], [(shape, to)])


@rule(1)
def reduce_precision(b: Builder) -> None:
    x = b.value(FLOATS)
    attributes = f"exponent_bits = {b.between(1, 11)} : i32, mantissa_bits = {b.between(0, 24)} : i32"
    b.add("reduce_precision", [x], [(size(x), x.type.element)], attributes)


@rule(1)
def complex_(b: Builder) -> None:
    x = b.value([ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]])
    b.add("complex", [x, b.like(x)], [(size(x), ELEMENT_TYPES[f"complex<{x.type.element}>"])])


@rule(0.5)
def barrier(b: Builder) -> None:
    x, y = b.value(), b.value()
    b.add("optimization_barrier", [x, y], [(size(v), v.type.element) for v in (x, y)])
