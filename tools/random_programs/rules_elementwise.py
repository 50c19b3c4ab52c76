"""Rules for ops that work element by element."""

from __future__ import annotations

from collections.abc import Sequence

from minihlo.ops.op import lookup, ops
from minihlo.ops.types import ELEMENT_TYPES, ElementType, Kind

from .builder import ALL, FLOATS, I1, Builder, Unfit, rule, size
from .program import Value


def _types(op: str) -> Sequence[ElementType]:
    """The element types that an op takes."""
    record = lookup(op)
    assert record is not None, op
    return [t for t in ALL if t in record.types]


def _functions(dialect: str, operands: int) -> list[str]:
    """The functions of a dialect that take so many operands."""
    return sorted(n for n, op in ops().items() if n.startswith(dialect) and op.is_function and op.operands == operands)


#: Beside functions, what needs no attributes.
_OF_ONE = ("abs", "popcnt", "count_leading_zeros", "real", "imag", "is_finite")
_OF_TWO = ("shift_left", "shift_right_logical", "shift_right_arithmetic")

UNARY = {op: _types(op) for op in (*_functions("stablehlo.", 1), *_OF_ONE)}
BINARY = {op: _types(op) for op in (*_functions("stablehlo.", 2), *_OF_TWO)}
CHLO = {op: _types(op) for n in (1, 2) for op in _functions("chlo.", n)}


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


@rule(1)
def of_chlo(b: Builder) -> None:
    op = b.one_of(list(CHLO))
    x = b.value(CHLO[op])
    record = lookup(op)
    operands = [x, b.like(x)] if record is not None and record.operands == 2 else [x]
    b.add(op, operands, [(size(x), x.type.element)])


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
