"""Tensors of the program that is being written: operators of Python insert StableHLO operations.

Operands of unlike rank are not broadcast, but for numbers and scalars. All sizes are known. Element types are those of
`ops.types`; no operation here computes on a minifloat.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType, element_type

Number = int | float | bool
#: Attributes of an operation: of MLIR, or as `insert` takes them.
Attributes = dict[str, Any]
#: Products are not to be computed in fewer bits.
HIGHEST = "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"

I1, UI8, UI16, UI32, UI64, I8, I32, I64, F32, F64 = (
    ELEMENT_TYPES[name] for name in ("i1", "ui8", "ui16", "ui32", "ui64", "i8", "i32", "i64", "f32", "f64")
)


def type_of(element: ElementType, shape: Sequence[int]) -> ir.Type:
    """Return the tensor type of MLIR."""
    return ir.RankedTensorType.get(list(shape), ir.Type.parse(element.name))


def insert(
    name: str, results: Sequence[ir.Type], operands: Sequence[ir.Value], attributes: Attributes | None = None,
    regions: int = 0,
) -> ir.Operation:  # fmt: skip
    """Insert an operation of StableHLO at the insertion point; attributes may be texts, and integers for i64."""
    parsed = {k: _attribute(v) for k, v in (attributes or {}).items()}
    full = name if "." in name else f"stablehlo.{name}"
    return ir.Operation.create(full, list(results), list(operands), parsed, regions=regions)


def _attribute(value: Any) -> ir.Attribute:
    if isinstance(value, str):
        return ir.Attribute.parse(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.DenseI64ArrayAttr.get(list(value)) if isinstance(value, list | tuple) else value


def write(
    name: str, element: ElementType, shape: Sequence[int], *operands: Tensor, body: str = "", **attributes: Any
) -> Tensor:  # fmt: skip
    """Insert an operation with one result; `body` names the operation on two numbers that is its region."""
    op = insert(name, [type_of(element, shape)], [x.value for x in operands], attributes, 1 if body else 0)
    if body:
        fill_by_name(op.regions[0], body, element)
    return Tensor(op.results[0], element, tuple(shape))


def _operator(name: str, swaps: bool = False) -> Callable[[Tensor, Tensor | Number], Tensor]:
    def write(self: Tensor, other: Tensor | Number) -> Tensor:
        x, y = _alike(self, other)
        return self.elementwise(name, *((y, x) if swaps else (x, y)))

    return write


def _function(name: str) -> Callable[[Tensor], Tensor]:
    return lambda self: self.elementwise(name, self)


def _comparison(direction: str) -> Callable[[Tensor, Tensor | Number], Tensor]:
    return lambda self, other: self.compare(other, direction)


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

    def elementwise(self, name: str, *operands: Tensor, element: ElementType | None = None, **given: Any) -> Tensor:
        """Return an elementwise operation of StableHLO on operands of one shape."""
        return write(name, element or operands[-1].element, operands[-1].shape, *operands, **given)

    def compare(self, other: Tensor | Number, direction: str) -> Tensor:
        """Return a comparison as i1, by its direction of StableHLO: `EQ`, `NE`, `LT`, `LE`, `GT` or `GE`."""
        x, y = _alike(self, other)
        kind = {Kind.SIGNED: "SIGNED", Kind.FLOAT: "FLOAT"}.get(x.element.kind, "UNSIGNED")
        return x.elementwise(
            "compare", x, y, element=I1, comparison_direction=f"#stablehlo<comparison_direction {direction}>",
            compare_type=f"#stablehlo<comparison_type {kind}>",
        )  # fmt: skip

    __add__, __radd__ = _operator("add"), _operator("add", swaps=True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", swaps=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", swaps=True)
    __floordiv__, __mod__ = _operator("divide"), _operator("remainder")
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __lshift__, __rlshift__ = _operator("shift_left"), _operator("shift_left", swaps=True)
    __lt__, __le__, __gt__, __ge__ = _comparison("LT"), _comparison("LE"), _comparison("GT"), _comparison("GE")
    #: Whether elements are equal, and whether they differ, as i1.
    equals, differs = _comparison("EQ"), _comparison("NE")
    #: The larger and the smaller of each two elements.
    at_least, at_most = _operator("maximum"), _operator("minimum")
    __neg__, __abs__, __invert__ = _function("negate"), _function("abs"), _function("not")
    count_leading_zeros = _function("count_leading_zeros")

    def __rshift__(self, other: Tensor | Number) -> Tensor:
        """Shift right: with copies of the sign for signed integers, with zeros for unsigned ones."""
        kind = "arithmetic" if self.element.kind is Kind.SIGNED else "logical"
        return _operator(f"shift_right_{kind}")(self, other)

    def to(self, element: ElementType) -> Tensor:
        """Convert to a type that the device computes in."""
        return self if element == self.element else self.elementwise("convert", self, element=element)

    def bits(self, element: ElementType) -> Tensor:
        """Return the bits as a type of equal width."""
        return self if element == self.element else self.elementwise("bitcast_convert", self, element=element)

    def as_complex(self, imaginary: Tensor | Number = 0) -> Tensor:
        """Return complex numbers, of which these are the real parts."""
        return self.elementwise("complex", *_alike(self, imaginary), element=ELEMENT_TYPES[f"complex<{self.element}>"])

    # -- shapes ------------------------------------------------------------------------------------------------------

    def _shaped(self, name: str, shape: Sequence[int], *operands: Tensor, **attributes: Any) -> Tensor:
        return write(name, self.element, shape, self, *operands, **attributes)

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """Return the elements in another shape of as many."""
        return self if tuple(shape) == self.shape else self._shaped("reshape", shape)

    def broadcast(self, shape: Sequence[int], dimensions: Sequence[int] = ()) -> Tensor:
        """Broadcast to a shape, in which `dimensions` are those of the tensor."""
        if tuple(shape) == self.shape and list(dimensions) == list(range(len(shape))):
            return self
        return self._shaped("broadcast_in_dim", shape, broadcast_dimensions=list(dimensions))

    def expand(self, axis: int, size: int = 1) -> Tensor:
        """Return the tensor repeated along a new dimension."""
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        return self.broadcast(shape, [d for d in range(len(shape)) if d != axis])

    def transpose(self, permutation: Sequence[int]) -> Tensor:
        """Return the tensor with its dimensions in another order."""
        if list(permutation) == list(range(len(self.shape))):
            return self
        shape = [self.shape[d] for d in permutation]
        return self._shaped("transpose", shape, permutation=list(permutation))

    def slice(self, axis: int, start: int, limit: int, stride: int = 1) -> Tensor:
        """Return the indices from `start` to `limit` along a dimension."""
        starts, limits, strides = [0] * len(self.shape), list(self.shape), [1] * len(self.shape)
        starts[axis], limits[axis], strides[axis] = start, limit, stride
        shape = list(self.shape)
        shape[axis] = max(-(-(limit - start) // stride), 0)
        if tuple(shape) == self.shape:
            return self
        return self._shaped("slice", shape, start_indices=starts, limit_indices=limits, strides=strides)

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
        edges = {"edge_padding_low": list(low), "edge_padding_high": list(high), "interior_padding": interior}
        return self._shaped("pad", shape, value, **edges)

    def reverse(self, *axes: int) -> Tensor:
        """Return the tensor with dimensions reversed; bytes as i8, since IREE reverses no integers without a sign."""
        if self.element == UI8:
            return self.bits(I8).reverse(*axes).bits(UI8)
        return self._shaped("reverse", self.shape, dimensions=list(axes))

    def row(self, index: Tensor | int) -> Tensor:
        """Return the element at a scalar index along the first dimension."""
        part = self.slice(0, index, index + 1) if isinstance(index, int) else self.window([index], [1])
        return part.reshape(self.shape[1:])

    def window(self, starts: Sequence[Tensor | int], sizes: Sequence[int]) -> Tensor:
        """Return a part at scalar starts along the first dimensions, of so many indices along each; `dynamic_slice`."""
        given = [*starts, *([0] * (len(self.shape) - len(starts)))]
        shape = [*sizes, *self.shape[len(sizes) :]]
        scalars = [s if isinstance(s, Tensor) else constant(s, I32) for s in given]
        kinds = {s.element for s in scalars if s.element != I32} or {I32}
        return self._shaped("dynamic_slice", shape, *(s.to(*kinds) for s in scalars), slice_sizes=shape)

    def with_row(self, row: Tensor, index: Tensor | int) -> Tensor:
        """Return the tensor with the element at a scalar index along the first dimension replaced."""
        first = index if isinstance(index, Tensor) else constant(index, I32)
        rest = [constant(0, first.element)] * (len(self.shape) - 1)
        return self._shaped("dynamic_update_slice", self.shape, row.reshape((1, *row.shape)), first, *rest)

    def take(self, index: Tensor) -> Tensor:
        """Return the entries of a table of rank 1 at an array of indices, which are integers within it."""
        shape, rank = index.shape, len(index.shape)
        numbers = f"#stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = {rank}>"
        index, constants = index.reshape((*shape, 1)), {"slice_sizes": [1], "indices_are_sorted": "false"}
        return write("gather", self.element, shape, self, index, dimension_numbers=numbers, **constants)

    def reduce(self, name: str, initial: Number, axes: Sequence[int]) -> Tensor:
        """Combine elements along dimensions by an operation that gives the same bits in any order."""
        if not axes:
            return self
        shape = [n for d, n in enumerate(self.shape) if d not in axes]
        return self._shaped("reduce", shape, constant(initial, self.element), body=name, dimensions=sorted(axes))

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
    if element.is_complex:  # whose attributes have no class in Python
        real, imag = (constant(x, element.part, shape) for x in (np.real(value), np.imag(value)))
        return real.as_complex(imag)
    if isinstance(value, np.ndarray) and value.ndim:
        return _of_array(value, element)
    number = np.asarray(value, element.dtype) if not isinstance(value, int) else np.array(value).astype(element.dtype)
    return write("constant", element, shape, value=f'dense<"0x{number.tobytes().hex()}"> : {type_of(element, shape)}')


def _of_array(array: np.ndarray, element: ElementType) -> Tensor:
    shape = array.shape
    array = np.ascontiguousarray(array, element.dtype)
    if element.is_float and element.bits <= 16:
        array = array.view(f"u{element.bits // 8}")
    elif 1 < element.bits < 8:
        array = array.astype(np.int8 if element.kind is Kind.SIGNED else np.uint8)
    buffer: Any = array
    attribute = ir.DenseElementsAttr.get(buffer, type=ir.Type.parse(element.name), shape=list(shape))
    return write("constant", element, shape, value=attribute)


def iota(element: ElementType, shape: Sequence[int], dimension: int = 0) -> Tensor:
    """Return the index of each element along a dimension."""
    return write("iota", element, shape, iota_dimension=dimension)


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
    return write("select", x.element, x.shape, condition, x, y)


def concatenate(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors one after the other along a dimension."""
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    return write("concatenate", parts[0].element, shape, *parts, dimension=axis)


def dot(x: Tensor, y: Tensor, result: ElementType) -> Tensor:
    """Return the products of (batch, M, K) and (batch, K, N) as (batch, M, N), summed by the device in `result`."""
    if 0 in (*x.shape, *y.shape):  # IREE's compiler dies of a contraction of no elements
        return constant(0, result, (*x.shape[:2], y.shape[2]))
    if x.shape[0] == 1:  # compilers have quicker code for plain matrices
        x, y = x.reshape(x.shape[1:]), y.reshape(y.shape[1:])
        return _dot(x, y, result, (x.shape[0], y.shape[1]), 0).expand(0)
    return _dot(x, y, result, (*x.shape[:2], y.shape[2]), 1)


def _dot(x: Tensor, y: Tensor, result: ElementType, shape: Sequence[int], at: int) -> Tensor:
    batch = "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], " if at else ""
    numbers = f"#stablehlo.dot<{batch}lhs_contracting_dimensions = [{at + 1}], rhs_contracting_dimensions = [{at}]>"
    return write("dot_general", result, shape, x, y, dot_dimension_numbers=numbers, precision_config=HIGHEST)


# -- regions -----------------------------------------------------------------------------------------------------------


def fill(
    region: ir.Region, types: Sequence[ir.Type], body: Callable[..., Sequence[ir.Value]], end: str = "stablehlo.return"
) -> None:
    """Fill an empty region: its block has arguments of `types`, and returns what `body` gives of these."""
    unknown = ir.Location.unknown()
    block = region.blocks.append(*types, arg_locs=[unknown] * len(types))
    with ir.InsertionPoint(block):
        insert(end, [], body(*block.arguments))


def fill_by_name(region: ir.Region, name: str, element: ElementType) -> None:
    """Fill a region with an operation on two numbers."""
    scalar = type_of(element, ())
    fill(region, [scalar, scalar], lambda x, y: [insert(name, [scalar], [x, y]).results[0]])
