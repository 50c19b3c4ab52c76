"""Tensors of the program that is being written: operators of Python insert StableHLO operations.

Operands of unlike rank are not broadcast, but for numbers and scalars. All sizes are known. Element types are those of
`ops.types`; no operation here computes on a minifloat.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType, element_type

Number = int | float | bool
#: Attributes of an operation: of MLIR, or as text.
Attributes = dict[str, Any]

I1, UI8, UI16, UI32, UI64, I32, I64, F32, F64 = (
    ELEMENT_TYPES[name] for name in ("i1", "ui8", "ui16", "ui32", "ui64", "i32", "i64", "f32", "f64")
)


def type_of(element: ElementType, shape: Sequence[int]) -> ir.Type:
    """Return the tensor type of MLIR."""
    return ir.RankedTensorType.get(list(shape), ir.Type.parse(element.name))


def insert(
    name: str,
    results: Sequence[ir.Type],
    operands: Sequence[ir.Value],
    attributes: Attributes | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Insert an operation of StableHLO at the insertion point; attributes may be texts."""
    given = attributes or {}
    parsed = {k: ir.Attribute.parse(v) if isinstance(v, str) else v for k, v in given.items()}
    full = name if "." in name else f"stablehlo.{name}"
    return ir.Operation.create(full, list(results), list(operands), parsed, regions=regions)


def integers(values: Iterable[int]) -> str:
    """Return the attribute of a list of integers."""
    inner = ", ".join(map(str, values))
    return f"array<i64: {inner}>" if inner else "array<i64>"


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A value of the program that is being written: `value`, of a tensor type with known sizes."""

    value: ir.Value
    element: ElementType
    shape: tuple[int, ...]

    @classmethod
    def of(cls, value: ir.Value) -> Tensor:
        """Return the tensor of a value of MLIR."""
        t = ir.RankedTensorType(value.type)
        return cls(value, element_type(str(t.element_type)), tuple(t.shape))

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def type(self) -> TensorType:
        """The type as the interpreter has it."""
        return TensorType(self.shape, self.element)

    # -- elementwise -------------------------------------------------------------------------------------------------

    def _with(self, name: str, other: Tensor | Number, swap: bool = False) -> Tensor:
        x, y = _alike(self, other)
        return x.elementwise(name, *((y, x) if swap else (x, y)))

    def elementwise(
        self, name: str, *operands: Tensor, element: ElementType | None = None, **attributes: Any
    ) -> Tensor:
        """Return an elementwise operation of StableHLO on operands of one shape."""
        shape, element = operands[-1].shape, element or operands[-1].element
        op = insert(name, [type_of(element, shape)], [x.value for x in operands], attributes)
        return Tensor(op.results[0], element, shape)

    def __add__(self, other: Tensor | Number) -> Tensor:
        return self._with("add", other)

    def __radd__(self, other: Number) -> Tensor:
        return self._with("add", other, swap=True)

    def __sub__(self, other: Tensor | Number) -> Tensor:
        return self._with("subtract", other)

    def __rsub__(self, other: Number) -> Tensor:
        return self._with("subtract", other, swap=True)

    def __mul__(self, other: Tensor | Number) -> Tensor:
        return self._with("multiply", other)

    def __rmul__(self, other: Number) -> Tensor:
        return self._with("multiply", other, swap=True)

    def __floordiv__(self, other: Tensor | Number) -> Tensor:
        return self._with("divide", other)

    def __mod__(self, other: Tensor | Number) -> Tensor:
        return self._with("remainder", other)

    def __and__(self, other: Tensor | Number) -> Tensor:
        return self._with("and", other)

    def __or__(self, other: Tensor | Number) -> Tensor:
        return self._with("or", other)

    def __xor__(self, other: Tensor | Number) -> Tensor:
        return self._with("xor", other)

    def __lshift__(self, other: Tensor | Number) -> Tensor:
        return self._with("shift_left", other)

    def __rlshift__(self, other: Number) -> Tensor:
        return self._with("shift_left", other, swap=True)

    def __rshift__(self, other: Tensor | Number) -> Tensor:
        """Shift right: with copies of the sign for signed integers, with zeros for unsigned ones."""
        is_signed = self.element.kind is Kind.SIGNED
        return self._with("shift_right_arithmetic" if is_signed else "shift_right_logical", other)

    def __neg__(self) -> Tensor:
        return self.elementwise("negate", self)

    def __abs__(self) -> Tensor:
        return self.elementwise("abs", self)

    def __invert__(self) -> Tensor:
        return self.elementwise("not", self)

    def _compare(self, direction: str, other: Tensor | Number) -> Tensor:
        x, y = _alike(self, other)
        kind = {Kind.SIGNED: "SIGNED", Kind.FLOAT: "FLOAT"}.get(x.element.kind, "UNSIGNED")
        direction = f"#stablehlo<comparison_direction {direction}>"
        kind = f"#stablehlo<comparison_type {kind}>"
        return x.elementwise("compare", x, y, element=I1, comparison_direction=direction, compare_type=kind)

    def __lt__(self, other: Tensor | Number) -> Tensor:
        return self._compare("LT", other)

    def __le__(self, other: Tensor | Number) -> Tensor:
        return self._compare("LE", other)

    def __gt__(self, other: Tensor | Number) -> Tensor:
        return self._compare("GT", other)

    def __ge__(self, other: Tensor | Number) -> Tensor:
        return self._compare("GE", other)

    def equals(self, other: Tensor | Number) -> Tensor:
        """Return whether elements are equal, as i1."""
        return self._compare("EQ", other)

    def differs(self, other: Tensor | Number) -> Tensor:
        """Return whether elements differ, as i1."""
        return self._compare("NE", other)

    def at_least(self, other: Tensor | Number) -> Tensor:
        """Return the larger of each two elements."""
        return self._with("maximum", other)

    def at_most(self, other: Tensor | Number) -> Tensor:
        """Return the smaller of each two elements."""
        return self._with("minimum", other)

    def count_leading_zeros(self) -> Tensor:
        """Return the leading zero bits of integers, in their type."""
        return self.elementwise("count_leading_zeros", self)

    def to(self, element: ElementType) -> Tensor:
        """Convert to a type that the device computes in."""
        return self if element == self.element else self.elementwise("convert", self, element=element)

    def bits(self, element: ElementType) -> Tensor:
        """Return the bits as a type of equal width."""
        return self if element == self.element else self.elementwise("bitcast_convert", self, element=element)

    def cast_bits(self, element: ElementType, shape: Sequence[int]) -> Tensor:
        """Return the bits as a type of another width, in the shape that follows."""
        op = insert("bitcast_convert", [type_of(element, shape)], [self.value])
        return Tensor(op.results[0], element, tuple(shape))

    # -- shapes ------------------------------------------------------------------------------------------------------

    def _shaped(self, name: str, shape: Sequence[int], operands: Sequence[Tensor] = (), **attributes: Any) -> Tensor:
        values = [self.value, *(x.value for x in operands)]
        return Tensor(
            insert(name, [type_of(self.element, shape)], values, attributes).results[0], self.element, tuple(shape)
        )

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """Return the elements in another shape of as many."""
        return self if tuple(shape) == self.shape else self._shaped("reshape", shape)

    def broadcast(self, shape: Sequence[int], dimensions: Sequence[int] = ()) -> Tensor:
        """Broadcast to a shape, in which `dimensions` are those of the tensor."""
        if tuple(shape) == self.shape and list(dimensions) == list(range(len(shape))):
            return self
        return self._shaped("broadcast_in_dim", shape, broadcast_dimensions=integers(dimensions))

    def expand(self, axis: int, size: int = 1) -> Tensor:
        """Return the tensor repeated along a new dimension."""
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        return self.broadcast(shape, [d for d in range(len(shape)) if d != axis])

    def transpose(self, permutation: Sequence[int]) -> Tensor:
        """Return the tensor with its dimensions in another order."""
        if list(permutation) == list(range(len(self.shape))):
            return self
        shape = [self.shape[d] for d in permutation]
        return self._shaped("transpose", shape, permutation=integers(permutation))

    def slice(self, axis: int, start: int, limit: int, stride: int = 1) -> Tensor:
        """Return the indices from `start` to `limit` along a dimension."""
        starts, limits, strides = [0] * len(self.shape), list(self.shape), [1] * len(self.shape)
        starts[axis], limits[axis], strides[axis] = start, limit, stride
        shape = list(self.shape)
        shape[axis] = max(-(-(limit - start) // stride), 0)
        if tuple(shape) == self.shape:
            return self
        return self._shaped(
            "slice", shape, start_indices=integers(starts), limit_indices=integers(limits), strides=integers(strides)
        )

    def __getitem__(self, index: tuple[slice, ...]) -> Tensor:
        """Return a part, as of an array."""
        found = self
        for axis, part in enumerate(index):
            found = found.slice(axis, *part.indices(self.shape[axis]))
        return found

    def pad(
        self, value: Tensor | Number, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None
    ) -> Tensor:
        """Return the tensor with `value`, a scalar, around it and between its elements."""
        interior = [0] * len(self.shape) if interior is None else list(interior)
        shape = [n + a + b + max(n - 1, 0) * i for n, a, b, i in zip(self.shape, low, high, interior, strict=True)]
        value = value if isinstance(value, Tensor) else constant(value, self.element)
        return self._shaped(
            "pad", shape, [value], edge_padding_low=integers(low), edge_padding_high=integers(high),
            interior_padding=integers(interior),
        )  # fmt: skip

    def reverse(self, *axes: int) -> Tensor:
        """Return the tensor with dimensions reversed."""
        return self._shaped("reverse", self.shape, dimensions=integers(axes))

    def row(self, index: Tensor) -> Tensor:
        """Return the element at a scalar index along the first dimension."""
        return self.window([index], [1]).reshape(self.shape[1:])

    def window(self, starts: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
        """Return a part at scalar starts along the first dimensions, of so many indices along each; `dynamic_slice`."""
        starts = [*starts, *([constant(0, starts[0].element)] * (len(self.shape) - len(starts)))]
        shape = [*sizes, *self.shape[len(sizes) :]]
        return self._shaped("dynamic_slice", shape, starts, slice_sizes=integers(shape))

    def with_window(self, part: Tensor, starts: Sequence[Tensor]) -> Tensor:
        """Return the tensor with a part replaced at scalar starts along the first dimensions."""
        starts = [*starts, *([constant(0, starts[0].element)] * (len(self.shape) - len(starts)))]
        return self._shaped("dynamic_update_slice", self.shape, [part, *starts])

    def with_row(self, row: Tensor, index: Tensor) -> Tensor:
        """Return the tensor with the element at a scalar index along the first dimension replaced."""
        return self.with_window(row.reshape((1, *row.shape)), [index])

    def take(self, index: Tensor) -> Tensor:
        """Return the entries of a table of rank 1 at an array of indices, which are integers within it."""
        shape = index.shape
        rank = len(shape)
        numbers = f"#stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = {rank}>"
        index = index.reshape((*shape, 1))
        op = insert(
            "gather", [type_of(self.element, shape)], [self.value, index.value],
            {"dimension_numbers": numbers, "slice_sizes": integers([1]), "indices_are_sorted": "false"},
        )  # fmt: skip
        return Tensor(op.results[0], self.element, shape)

    def reduce(self, name: str, initial: Number, axes: Sequence[int]) -> Tensor:
        """Combine elements along dimensions by an operation that gives the same bits in any order."""
        if not axes:
            return self
        shape = tuple([n for d, n in enumerate(self.shape) if d not in axes])
        start, scalar = constant(initial, self.element), type_of(self.element, ())
        op = insert(
            "reduce",
            [type_of(self.element, shape)],
            [self.value, start.value],
            {"dimensions": integers(sorted(axes))},
            1,
        )
        fill(op.regions[0], [scalar, scalar], lambda x, y: [insert(name, [scalar], [x, y]).results[0]])
        return Tensor(op.results[0], self.element, shape)

    def any(self, axes: Sequence[int]) -> Tensor:
        """Return whether any element along dimensions is true."""
        return self.reduce("or", False, axes)


def _alike(x: Tensor, y: Tensor | Number) -> tuple[Tensor, Tensor]:
    """Return two operands of one type; a number and a scalar take the other's shape."""
    if not isinstance(y, Tensor):
        return x, constant(y, x.element, x.shape)
    if x.element != y.element:
        raise TypeError(f"expected operands of one element type, got {x.type} and {y.type}")
    if x.shape != y.shape and () in (x.shape, y.shape):
        shape = x.shape or y.shape
        return x if x.shape else x.broadcast(shape), y if y.shape else y.broadcast(shape)
    if x.shape != y.shape:
        raise TypeError(f"expected operands of one shape, got {x.type} and {y.type}")
    return x, y


# -- making tensors ----------------------------------------------------------------------------------------------------


def constant(value: Number | np.ndarray | np.generic, element: ElementType, shape: Sequence[int] = ()) -> Tensor:
    """Return a constant: an array of the storage type of `element`, or one number for a whole shape."""
    if isinstance(value, np.ndarray) and value.ndim:
        return _of_array(value, element)
    number = np.asarray(value, element.dtype) if not isinstance(value, int) else np.array(value).astype(element.dtype)
    code = int.from_bytes(number.tobytes(), "little")
    if element.kind is Kind.BOOL:
        text = str(bool(code)).lower()
    elif element.is_float:
        text = f"0x{code:0{element.bits // 4}X}"
    else:
        text = str(int(number))
    t = type_of(element, shape)
    op = insert("constant", [t], [], {"value": f"dense<{text}> : {t}"})
    return Tensor(op.results[0], element, tuple(shape))


def _of_array(array: np.ndarray, element: ElementType) -> Tensor:
    shape = array.shape
    array = np.ascontiguousarray(array, element.dtype)
    if element.is_float and element.bits <= 16:
        array = array.view(f"u{element.bits // 8}")
    elif 1 < element.bits < 8:
        array = array.astype(np.int8 if element.kind is Kind.SIGNED else np.uint8)
    buffer: Any = array
    attribute = ir.DenseElementsAttr.get(buffer, type=ir.Type.parse(element.name), shape=list(shape))
    op = insert("constant", [type_of(element, shape)], [], {"value": attribute})
    return Tensor(op.results[0], element, shape)


def iota(element: ElementType, shape: Sequence[int], dimension: int = 0) -> Tensor:
    """Return the index of each element along a dimension."""
    op = insert("iota", [type_of(element, shape)], [], {"iota_dimension": f"{dimension} : i64"})
    return Tensor(op.results[0], element, tuple(shape))


def where(condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
    """Return elements of `x` where the condition holds, else of `y`; one of them is a tensor."""
    if isinstance(x, Tensor):
        x, y = _alike(x, y)
    elif isinstance(y, Tensor):
        y, x = _alike(y, x)
    else:
        raise TypeError("expected a tensor among the two choices, got two numbers")
    if condition.shape != x.shape and not x.shape:
        x, y = x.broadcast(condition.shape), y.broadcast(condition.shape)
    op = insert("select", [type_of(x.element, x.shape)], [condition.value, x.value, y.value])
    return Tensor(op.results[0], x.element, x.shape)


def concatenate(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors one after the other along a dimension."""
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    op = insert(
        "concatenate", [type_of(parts[0].element, shape)], [p.value for p in parts], {"dimension": f"{axis} : i64"}
    )
    return Tensor(op.results[0], parts[0].element, tuple(shape))


def dot(x: Tensor, y: Tensor, result: ElementType) -> Tensor:
    """Return the products of (batch, M, K) and (batch, K, N) as (batch, M, N), summed by the device in `result`."""
    if x.shape[0] == 1:  # compilers have quicker code for plain matrices
        x, y = x.reshape(x.shape[1:]), y.reshape(y.shape[1:])
        return _dot(x, y, result, (x.shape[0], y.shape[1]), 0).expand(0)
    return _dot(x, y, result, (*x.shape[:2], y.shape[2]), 1)


def _dot(x: Tensor, y: Tensor, result: ElementType, shape: Sequence[int], at: int) -> Tensor:
    batch = "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], " if at else ""
    numbers = f"#stablehlo.dot<{batch}lhs_contracting_dimensions = [{at + 1}], rhs_contracting_dimensions = [{at}]>"
    highest = "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"
    attributes = {"dot_dimension_numbers": numbers, "precision_config": highest}
    op = insert("dot_general", [type_of(result, shape)], [x.value, y.value], attributes)
    return Tensor(op.results[0], result, tuple(shape))


# -- regions -----------------------------------------------------------------------------------------------------------


def fill(
    region: ir.Region, types: Sequence[ir.Type], body: Callable[..., Sequence[ir.Value]], end: str = "stablehlo.return"
) -> None:
    """Fill an empty region: its block has arguments of `types`, and returns what `body` gives of these."""
    unknown = ir.Location.unknown()
    block = region.blocks.append(*types, arg_locs=[unknown] * len(types))
    with ir.InsertionPoint(block):
        insert(end, [], body(*block.arguments))


def loop(count: int | Tensor, body: Callable[..., Sequence[Tensor]], state: Sequence[Tensor]) -> list[Tensor]:
    """Repeat `body(index, *state)`, which gives the next state; `index` counts from 0, as a scalar of i32."""
    if isinstance(count, int) and count == 0:
        return list(state)
    first = constant(0, I32)
    initial = [first, *state]
    types = [x.value.type for x in initial]

    def condition(*values: ir.Value) -> list[ir.Value]:
        index = Tensor(values[0], I32, ())
        return [(index < count).value]

    def step(*values: ir.Value) -> list[ir.Value]:
        index, *rest = (Tensor(v, x.element, x.shape) for v, x in zip(values, initial, strict=True))
        return [x.value for x in (index + 1, *body(index, *rest))]

    op = insert("while", types, [x.value for x in initial], regions=2)
    fill(op.regions[0], types, condition)
    fill(op.regions[1], types, step)
    return [Tensor(r, x.element, x.shape) for r, x in zip(list(op.results)[1:], state, strict=True)]


def branch(
    condition: Tensor,
    like: Sequence[Tensor],
    first: Callable[[], Sequence[Tensor]],
    second: Callable[[], Sequence[Tensor]],
) -> list[Tensor]:
    """Return what `first` gives where a scalar of i1 holds, else what `second` gives: only one of them is run.

    The results have the types of `like`.
    """
    op = insert("if", [x.value.type for x in like], [condition.value], regions=2)
    for region, give in zip(op.regions, (first, second), strict=True):
        fill(region, [], lambda give=give: [x.value for x in give()])
    return [Tensor(r, x.element, x.shape) for r, x in zip(op.results, like, strict=True)]
