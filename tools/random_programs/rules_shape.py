"""Rules for ops that move elements: shapes, slices, gather."""

from __future__ import annotations

import math
from collections.abc import Sequence

from minihlo.ops.types import ElementType, Kind

from .builder import ALL, I32, INTEGERS, MOST, NUMBERS, Builder, Shape, Unfit, array, rule, size

INDICES = tuple(t for t in INTEGERS if t.bits >= 8)


def _rank(low: int):
    return lambda v: len(v.type.shape) >= low


@rule()
def iota(b: Builder) -> None:
    shape = b.shape(1)
    b.add("iota", [], [(shape, b.element(NUMBERS))], f"iota_dimension = {b.below(len(shape))} : i64")


@rule(1.5)
def reshape(b: Builder) -> None:
    x = b.value()
    dims, left = [], math.prod(size(x))
    if not left:
        dims = list(b.rng.permutation(size(x)))
    while left > 1 and len(dims) < 4:
        n = b.one_of([d for d in range(1, left + 1) if left % d == 0])
        dims.append(n)
        left //= n
    if left > 1:
        dims.append(left)
    b.add("reshape", [x], [(tuple(int(d) for d in dims), x.type.element)])


@rule(1.5)
def transpose(b: Builder) -> None:
    x = b.value()
    order = [int(i) for i in b.rng.permutation(len(size(x)))]
    shape = tuple(size(x)[i] for i in order)
    b.add("transpose", [x], [(shape, x.type.element)], f"permutation = {array(order)}")


@rule(2)
def broadcast_in_dim(b: Builder) -> None:
    x = b.value(fits=lambda v: math.prod(size(v)) <= 40)
    rank = len(size(x))
    full = b.between(rank, max(rank, 4))
    dims = [int(d) for d in b.rng.permutation(full)[:rank]]
    shape = [b.between(0 if b.chance(0.1) else 1, 4) for _ in range(full)]
    for i, d in enumerate(dims):
        if size(x)[i] != 1 or b.chance(0.3):
            shape[d] = size(x)[i]
    b.add("broadcast_in_dim", [x], [(tuple(shape), x.type.element)], f"broadcast_dimensions = {array(dims)}")


@rule()
def reverse(b: Builder) -> None:
    x = b.value()
    dims = [d for d in range(len(size(x))) if b.chance(0.6)]
    b.add("reverse", [x], [(size(x), x.type.element)], f"dimensions = {array(dims)}")


@rule(1.5)
def slice_(b: Builder) -> None:
    x = b.value(fits=_rank(1))
    starts = [b.between(0, n) for n in size(x)]
    stops = [b.between(s, n) for s, n in zip(starts, size(x), strict=True)]
    steps = [b.between(1, 3) for _ in starts]
    shape = tuple(-(-(e - s) // k) for s, e, k in zip(starts, stops, steps, strict=True))
    attributes = f"start_indices = {array(starts)}, limit_indices = {array(stops)}, strides = {array(steps)}"
    b.add("slice", [x], [(shape, x.type.element)], attributes)


@rule(1.5)
def pad(b: Builder) -> None:
    x = b.value()
    low, high = ([b.between(-2, 2) for _ in size(x)] for _ in range(2))
    inner = [b.one_of((0, 0, 1, 2)) for _ in size(x)]
    shape = tuple(max(n - 1, 0) * k + n + lo + hi for n, k, lo, hi in zip(size(x), inner, low, high, strict=True))
    if min(shape, default=0) < 0:
        raise Unfit
    attributes = (
        f"edge_padding_low = {array(low)}, edge_padding_high = {array(high)}, interior_padding = {array(inner)}"
    )
    b.add("pad", [x, b.value([x.type.element], shape=())], [(shape, x.type.element)], attributes)


@rule(1.5)
def concatenate(b: Builder) -> None:
    x = b.value(fits=_rank(1))
    axis = b.below(len(size(x)))
    parts = [x]
    for _ in range(b.between(0, 2)):
        other = list(size(x))
        other[axis] = b.between(0, 4)
        parts.append(b.value([x.type.element], shape=b.one_of([size(x), tuple(other)])))
    shape = list(size(x))
    shape[axis] = sum(size(p)[axis] for p in parts)
    b.add("concatenate", parts, [(tuple(shape), x.type.element)], f"dimension = {axis} : i64")


def _starts(b: Builder, shape: Shape) -> list:
    t = b.element(INDICES)
    low = -3 if t.kind is Kind.SIGNED else 0
    return [b.value([t], shape=()) if b.chance(0.2) else b.integers(b.between(low, n + 2), t) for n in shape]


@rule(1.5)
def dynamic_slice(b: Builder) -> None:
    x = b.value()
    shape = tuple(b.between(0 if b.chance(0.1) else min(1, n), n) for n in size(x))
    operands = [x, *_starts(b, size(x))]
    b.add("dynamic_slice", operands, [(shape, x.type.element)], f"slice_sizes = {array(shape)}")


@rule(1.5)
def dynamic_update_slice(b: Builder) -> None:
    x = b.value()
    shape = tuple(b.between(0 if b.chance(0.1) else min(1, n), n) for n in size(x))
    update = b.value([x.type.element], shape=shape)
    b.add("dynamic_update_slice", [x, update, *_starts(b, size(x))], [(size(x), x.type.element)])


# -- gather and scatter ----------------------------------------------------------------------------------------------


class Places:
    """Random dimension numbers of gather and scatter, for a tensor of this shape."""

    def __init__(self, b: Builder, shape: Shape) -> None:
        rank = len(shape)
        roles = [b.one_of(("window", "window", "dropped", "batching")) if n else "window" for n in shape]
        self.dropped = [d for d in range(rank) if roles[d] == "dropped"]
        self.batching = [d for d in range(rank) if roles[d] == "batching"]
        self.window = [d for d in range(rank) if roles[d] == "window"]
        kept = [d for d in range(rank) if d not in self.batching]
        self.mapped = [d for d in (int(i) for i in b.rng.permutation(kept)) if b.chance(0.7)] if kept else []
        self.sizes = [
            1 if d not in self.window else n if b.chance(0.4) else b.between(min(n, 1), n) for d, n in enumerate(shape)
        ]
        extra = [b.between(0 if b.chance(0.1) else 1, 3) for _ in range(b.between(0, 2))]
        slots = len(extra) + len(self.batching)
        of_grid = [int(i) for i in b.rng.permutation(slots)[: len(self.batching)]]
        rest = iter(extra)
        self.grid = [shape[self.batching[of_grid.index(i)]] if i in of_grid else next(rest) for i in range(slots)]
        self.vector = b.below(slots + 1)
        indices = list(self.grid)
        if len(self.mapped) != 1 or b.chance(0.6):
            indices.insert(self.vector, len(self.mapped))
        else:
            self.vector = slots
        self.indices = tuple(indices)
        self.of_indices = [i + (i >= self.vector) for i in of_grid]
        whole = slots + len(self.window)
        self.axes = sorted(int(i) for i in b.rng.permutation(whole)[: len(self.window)])
        grid, sizes = iter(self.grid), iter([self.sizes[d] for d in self.window])
        self.whole = tuple(next(sizes) if a in self.axes else next(grid) for a in range(whole))
        if math.prod(self.whole) > MOST or math.prod(self.indices) > MOST:
            raise Unfit

    def numbers(self, kind: str) -> str:
        """The attribute of dimension numbers; `kind` is gather or scatter."""
        a, c, d, e, f = (
            (
                "offset_dims",
                "collapsed_slice_dims",
                "operand_batching_dims",
                "start_indices_batching_dims",
                "start_index_map",
            )
            if kind == "gather"
            else (
                "update_window_dims",
                "inserted_window_dims",
                "input_batching_dims",
                "scatter_indices_batching_dims",
                "scatter_dims_to_operand_dims",
            )
        )
        fields = {a: self.axes, c: self.dropped, d: self.batching, e: self.of_indices, f: self.mapped}
        text = ", ".join(f"{k} = [{', '.join(map(str, v))}]" for k, v in fields.items())
        return f"#stablehlo.{kind}<{text}, index_vector_dim = {self.vector}>"

    def starts(self, b: Builder, shape: Shape, t: ElementType):
        """Indices, some of them out of bounds."""
        if b.chance(0.2):
            return b.value([t], shape=self.indices)
        low, high = (-2 if t.kind is Kind.SIGNED else 0), max([shape[d] for d in self.mapped], default=1) + 1
        return b.integers(b.rng.integers(low, high, self.indices), t)


@rule(2)
def gather(b: Builder) -> None:
    x = b.value()
    places = Places(b, size(x))
    indices = places.starts(b, size(x), b.element(INDICES))
    attributes = f"dimension_numbers = {places.numbers('gather')}, slice_sizes = {array(places.sizes)}"
    if b.chance(0.3):
        attributes += ", indices_are_sorted = false"
    b.add("gather", [x, indices], [(places.whole, x.type.element)], attributes)


@rule(0.5)
def torch_index_select(b: Builder) -> None:
    x = b.value(fits=lambda v: len(size(v)) >= 1 and 0 not in size(v))
    axis, count = b.below(len(size(x))), b.between(1, 4)
    indices = b.integers(b.rng.integers(0, size(x)[axis], count), I32)
    shape = (*size(x)[:axis], count, *size(x)[axis + 1 :])
    b.add("torch_index_select", [x, indices], [(shape, x.type.element)], f"dim = {axis} : i64, batch_dims = 0 : i64")


@rule(0.3)
def get_dimension_size(b: Builder) -> None:
    x = b.value(ALL, fits=_rank(1))
    b.add("get_dimension_size", [x], [((), I32)], f"dimension = {b.below(len(size(x)))} : i64")


@rule(1)
def dynamic_shape(b: Builder) -> None:
    """The ops that take a shape or bounds as values, with constant ones that fit the static result."""
    x = b.value()
    shape, e = size(x), x.type.element
    t = b.one_of((I32, b.one_of([t for t in INTEGERS if t.name == "i64"])))

    def known(numbers: Sequence[int]):
        return b.integers(list(numbers), t)

    match b.one_of(("reshape", "broadcast", "iota", "pad", "slice")):
        case "reshape":
            new = tuple(int(i) for i in b.rng.permutation(shape))
            b.add("dynamic_reshape", [x, known(new)], [(new, e)])
        case "broadcast":
            new = (b.between(1, 3), *shape)
            dims = f"broadcast_dimensions = {array(range(1, len(new)))}"
            b.add("dynamic_broadcast_in_dim", [x, known(new)], [(new, e)], dims)
        case "iota":
            if not shape:
                raise Unfit
            axis = f"iota_dimension = {b.below(len(shape))} : i64"
            b.add("dynamic_iota", [known(shape)], [(shape, b.element(NUMBERS))], axis)
        case "pad":
            low, high = ([b.between(0, 2) for _ in shape] for _ in range(2))
            new = tuple(n + lo + hi for n, lo, hi in zip(shape, low, high, strict=True))
            fill = b.value([e], shape=())
            b.add("dynamic_pad", [x, fill, known(low), known(high), known([0] * len(shape))], [(new, e)])
        case "slice":
            starts = [b.between(0, n) for n in shape]
            new = tuple(n - s for s, n in zip(starts, shape, strict=True))
            b.add("real_dynamic_slice", [x, known(starts), known(shape), known([1] * len(shape))], [(new, e)])
