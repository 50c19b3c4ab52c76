"""Rules for ops with regions: reductions, windows, scatter, sort, map, control flow, calls."""

from __future__ import annotations

import dataclasses

import numpy as np

from minihlo.ops.types import ElementType, Kind

from .builder import ALL, I1, I32, I64, NUMBERS, Builder, array, pairs, rule, size
from .program import Value
from .region import Region
from .rules_elementwise import comparison
from .rules_linear import Window
from .rules_shape import INDICES, Places

_ASSOCIATIVE = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
ORDERED = tuple(t for t in ALL if not t.is_complex)


@dataclasses.dataclass
class Folding:
    """A body that folds two scalars."""

    text: str
    notes: set[str]
    mood: str  #: that its values should have
    neutral: int | None  #: what changes nothing, where that is 0 or 1

    @staticmethod
    def of(b: Builder, t: ElementType) -> Folding:
        body = Region(b, [((), t), ((), t)])
        x, y = body.arguments
        sums = t.is_float or t.is_complex
        kind = b.one_of(("one", "one", "one", "chosen", "twice", "any"))
        op = b.one_of(("add", "multiply", "maximum", "minimum") if sums else _ASSOCIATIVE)
        notes: set[str] = {"sums"} if sums and op in ("add", "multiply") else set()
        if kind == "chosen" and not t.is_complex:
            # On NaN and on zeros of unlike sign this is not associative.
            result, notes = body.chosen(b.chance(0.5), x, y), {"order"} if t.is_float else set()
            op = ""
        elif kind == "twice" and op in ("maximum", "minimum", "and", "or"):
            result = body.binary(op, body.binary(op, y, x), y)
        elif kind == "any":
            result, notes, op = body.anything(body.arguments, b.between(1, 4)), {"order"}, ""
        else:
            result = body.binary(op, x, y)
        mood = b.one_of(("small", "small", "tame", "any")) if "sums" in notes else "any"
        if "order" in notes and sums:
            mood = "small"
        neutral = {"add": 0, "or": 0, "xor": 0, "multiply": 1}.get(op)
        return Folding(body.text(result), notes | {f"body:{o}" for o in body.ops()}, mood, neutral)

    def init(self, b: Builder, t: ElementType) -> Value:
        """Mostly the neutral value, as programs have it."""
        if self.neutral is not None and t.name != "f8E8M0FNU" and b.chance(0.7):
            return b.add_given(np.array(self.neutral).astype(np.float32 if t.is_float else t.dtype).astype(t.dtype), t)
        return b.value([t], shape=(), mood=self.mood)


@rule(4)
def reduce(b: Builder) -> None:
    t = b.element()
    fold = Folding.of(b, t)
    x = b.value([t], mood=fold.mood, shape=b.shape() if fold.mood != "any" else None)
    init = fold.init(b, t)
    dims = [d for d in range(len(size(x))) if b.chance(0.6)]
    shape = tuple(n for d, n in enumerate(size(x)) if d not in dims)
    b.add("reduce", [x, init], [(shape, t)], f"dimensions = {array(dims)}", [fold.text], notes=fold.notes)


@rule(1)
def reduce_pair(b: Builder) -> None:
    """The largest or smallest element with its index."""
    t = b.element(ORDERED)
    x = b.value([t], fits=lambda v: len(size(v)) > 0)
    axis = b.below(len(size(x)))
    (places,) = b.add("iota", [], [(size(x), I32)], f"iota_dimension = {axis} : i64")
    body = Region(b, [((), t), ((), I32), ((), t), ((), I32)])
    v, i, w, j = body.arguments
    compared = body.add("compare", [v, w], (), I1, comparison(b, t))
    best = body.add("select", [compared, v, w], (), t)
    at = body.add("select", [compared, i, j], (), I32)
    shape = size(x)[:axis] + size(x)[axis + 1 :]
    operands = [x, places, b.value([t], shape=()), b.value([I32], shape=())]
    text = body.text(best, at)
    b.add("reduce", operands, [(shape, t), (shape, I32)], f"dimensions = {array([axis])}", [text], notes={"order"})


@rule(2)
def reduce_window(b: Builder) -> None:
    t = b.element()
    fold = Folding.of(b, t)
    x = b.value([t], mood=fold.mood, shape=b.shape(largest=5) if fold.mood != "any" else None)
    window = Window.of(b, size(x))
    init = fold.init(b, t)
    b.add("reduce_window", [x, init], [(window.shape, t)], window.attributes(), [fold.text], notes=fold.notes)


@rule(1)
def select_and_scatter(b: Builder) -> None:
    t = b.element(ORDERED)
    x = b.value([t], fits=lambda v: 0 not in size(v))
    window = [min(b.between(1, 3), n) for n in size(x)]
    steps = [b.between(1, 3) for _ in window]
    low = [b.between(0, w - 1) if b.chance(0.3) else 0 for w in window]
    shape = tuple((n + lo - w) // s + 1 for n, lo, w, s in zip(size(x), low, window, steps, strict=True))
    select, scatter = Region(b, [((), t)] * 2), Region(b, [((), t)] * 2)
    direction = b.one_of(("GE", "GT", "LE", "LT"))
    kind = {Kind.SIGNED: "SIGNED", Kind.FLOAT: "FLOAT"}.get(t.kind, "UNSIGNED")
    attributes = (
        f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
        f"compare_type = #stablehlo<comparison_type {kind}>"
    )
    selects = select.text(select.add("compare", select.arguments, (), I1, attributes))
    scatters = scatter.text(scatter.binary("add", *scatter.arguments))
    source = b.value([t], shape=shape, mood="small")
    attributes = f"window_dimensions = {array(window)}, window_strides = {array(steps)}, padding = "
    attributes += pairs([(lo, 0) for lo in low])
    notes = {"sums"} if t.is_float else set()
    init = b.value([t], shape=(), mood="small")
    b.add("select_and_scatter", [x, source, init], [(size(x), t)], attributes, [selects, scatters], notes=notes)


@rule(2)
def scatter(b: Builder) -> None:
    t = b.element()
    if b.chance(0.3):
        body = Region(b, [((), t), ((), t)])
        text, notes, mood = body.text(body.arguments[1]), set(), "any"  # the update itself
    else:
        fold = Folding.of(b, t)
        text, notes, mood = fold.text, fold.notes, fold.mood
    x = b.value([t], mood=mood, shape=b.shape() if mood != "any" else None)
    places = Places(b, size(x))
    indices = places.starts(b, size(x), b.element(INDICES))
    updates = b.value([t], shape=places.whole, mood=mood)
    if any(places.sizes[d] > 1 for d in places.mapped):
        notes = notes | {"windows"}
    attributes = f"scatter_dimension_numbers = {places.numbers('scatter')}, unique_indices = false"
    b.add("scatter", [x, indices, updates], [(size(x), t)], attributes, [text], notes=notes)


@rule(2)
def sort(b: Builder) -> None:
    x = b.value(ORDERED, fits=lambda v: len(size(v)) > 0)
    others = [b.value(shape=size(x)) for _ in range(b.one_of((0, 0, 1, 2)))]
    arrays = [x, *others]
    body = Region(b, [((), v.type.element) for v in arrays for _ in range(2)])
    left, right = body.arguments[:2]
    t = x.type.element
    direction = b.one_of(("LT", "GT"))
    kind = {Kind.SIGNED: "SIGNED", Kind.FLOAT: "TOTALORDER"}.get(t.kind, "UNSIGNED")
    attributes = (
        f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
        f"compare_type = #stablehlo<comparison_type {kind}>"
    )
    if t.is_integer and b.chance(0.3):  # a comparator of several ops: by the low bits alone
        mask = body.literal(1, t)
        left, right = body.binary("and", left, mask), body.binary("and", right, mask)
    result = body.add("compare", [left, right], (), I1, attributes)
    attributes = f"dimension = {b.below(len(size(x)))} : i64, is_stable = true"
    b.add("sort", arrays, [(size(v), v.type.element) for v in arrays], attributes, [body.text(result)])


@rule(1.5)
def map_(b: Builder) -> None:
    x = b.calm(NUMBERS)
    operands = [x, *(b.calm_like(x) for _ in range(b.below(2)))]
    body = Region(b, [((), x.type.element)] * len(operands))
    result = body.anything(body.arguments, b.between(1, 4))
    notes = {f"body:{o}" for o in body.ops()}
    dims = f"dimensions = {array(range(len(size(x))))}"
    b.add("map", operands, [(size(x), x.type.element)], dims, [body.text(result)], notes=notes)


# -- control flow ------------------------------------------------------------------------------------------------------


def branch(b: Builder, captured: Value) -> tuple[str, set[str]]:
    body = Region(b)
    result = body.anything([captured], b.between(1, 3))
    return body.text(result), {f"body:{o}" for o in body.ops()}


@rule(1.5)
def if_(b: Builder) -> None:
    x, y = (v := b.calm(NUMBERS)), b.calm_like(v)
    (yes, notes), (no, more) = branch(b, x), branch(b, y)
    pred = b.value([I1], shape=())
    b.add("if", [pred], [(size(x), x.type.element)], "", [yes, no], [x, y], notes=notes | more)


@rule(1.5)
def case(b: Builder) -> None:
    x = b.calm(NUMBERS)
    branches = [branch(b, x) for _ in range(b.between(1, 3))]
    index = b.integers(b.between(-1, 3), I32)
    texts, notes = [t for t, _ in branches], set().union(*(n for _, n in branches))
    b.add("case", [index], [(size(x), x.type.element)], "", texts, [x], notes=notes)


@rule(2)
def while_(b: Builder) -> None:
    """A loop of a few iterations, whose count is part of its state; its body may use a value from outside."""
    x = b.calm(NUMBERS)
    t = b.one_of((I32, I64))
    state = [((), t), (size(x), x.type.element)]
    test = Region(b, state)
    limit = test.literal(b.between(0, 5), t)
    attributes = (
        "comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>"
    )
    goes_on = test.text(test.add("compare", [test.arguments[0], limit], (), I1, attributes))
    body = Region(b, state)
    captured = [b.calm_like(x)] if b.chance(0.5) else []
    count = body.binary("add", body.arguments[0], body.literal(1, t))
    result = body.anything([body.arguments[1], *captured], b.between(1, 3))
    notes = {f"body:{o}" for o in body.ops()}
    start = b.integers(0, t)
    results = [((), t), (size(x), x.type.element)]
    b.add("while", [start, x], results, "", [goes_on, body.text(count, result)], captured, notes=notes)


@rule(1)
def call(b: Builder) -> None:
    """A function called directly or as the decomposition of a composite."""
    x = b.calm(NUMBERS)
    body = Region(b, [(size(x), x.type.element)] * 2)
    result = body.anything(body.arguments, b.between(1, 4))
    name = f"f{b.name()}"
    notes = {f"body:{o}" for o in body.ops()}
    operands, results, function = [x, b.calm_like(x)], [(size(x), x.type.element)], body.function(name, result)
    if b.chance(0.5):
        b.add("func.call", operands, results, f"callee = @{name}", functions=[function], notes=notes)
    else:
        attributes = f'name = "random.composite", decomposition = @{name}'
        b.add("composite", operands, results, attributes, functions=[function], notes=notes)
