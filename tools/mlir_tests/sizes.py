"""Cases of ops whose sizes are computed. The result's type gives them too: no size is left open in the types."""

from __future__ import annotations

from collections.abc import Iterator

from minihlo.ops.op import Op

from .catalog import cases, stem
from .chunk import Chunk, integer_list
from .numbers import array, share, some_codes
from .shape import PADDINGS, SLICES, broadcast_to_dims, moving, pad_elements, slice_elements


@cases("dynamic_broadcast_in_dim")
def dynamic_broadcast_in_dim(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for shape, dims, result in share(element, (((6,), (1,), (2, 6)), ((2, 1), (0, 1), (2, 3)), ((1,), (0,), (0,)))):
        x = some_codes(element, *shape)
        operands = [chunk.constant(x, element), chunk.constant(array(result), "i64", "shape")]
        attributes = f"broadcast_dimensions = {integer_list(dims)}"
        r = chunk.apply(op.name, operands, (result, element), attributes=attributes)
        chunk.expect(r, broadcast_to_dims(x, dims, result), every_bit=True)
    yield chunk


@cases("dynamic_reshape")
def dynamic_reshape(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for old, new in share(element, (((12,), (2, 3, 2)), ((2, 4), (4, 2)), ((0, 3), (5, 0)))):
        x = some_codes(element, *old)
        operands = [chunk.constant(x, element), chunk.constant(array(new), "i32", "shape")]
        chunk.expect(chunk.apply(op.name, operands, (new, element)), x.reshape(new), every_bit=True)
    yield chunk


@cases("dynamic_pad")
def dynamic_pad(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for i, (shape, low, high, interior) in enumerate(share(element, PADDINGS)):
        x, fill = some_codes(element, *shape), some_codes(element, 1, start=3 + 5 * i)[0]
        operands = [chunk.constant(x, element), chunk.constant(array(fill, ()), element, "fill")]
        operands += [chunk.constant(array(amounts), "i64", "amount") for amounts in (low, high, interior)]
        expected = pad_elements(x, fill, low, high, interior)
        chunk.expect(chunk.apply(op.name, operands, (expected.shape, element)), expected, every_bit=True)
    yield chunk


@cases("real_dynamic_slice")
def real_dynamic_slice(op: Op, element: str) -> Iterator[Chunk]:
    chunk = moving(op, element)
    for shape, *bounds in share(element, SLICES[:-1]):
        x = some_codes(element, *shape)
        operands = [chunk.constant(x, element), *(chunk.constant(array(b), "i64", "bound") for b in bounds)]
        expected = slice_elements(x, *bounds)
        chunk.expect(chunk.apply(op.name, operands, (expected.shape, element)), expected, every_bit=True)
    yield chunk


@cases("get_dimension_size")
def get_dimension_size(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}")
    x = chunk.constant(some_codes(element, 2, 3), element)
    empty = chunk.constant(array([], (0, 2)), element)
    for value, dimension, size in ((x, 0, 2), (x, 1, 3), (empty, 0, 0)):
        r = chunk.apply(op.name, [value], ((), "i32"), attributes=f"dimension = {dimension} : i64")
        chunk.expect(r, array(size, ()))
    yield chunk


@cases("set_dimension_size")
def set_dimension_size(op: Op, element: str) -> Iterator[Chunk]:
    """To the size it has: to a smaller one is a matter of types with open sizes."""
    chunk = moving(op, element)
    for shape, dimension in (((6,), 0), ((2, 3), 1)):
        x = some_codes(element, *shape)
        operands = [chunk.constant(x, element), chunk.constant(array(shape[dimension], ()), "i32", "size")]
        r = chunk.apply(op.name, operands, (shape, element), attributes=f"dimension = {dimension} : i64")
        chunk.expect(r, x, every_bit=True)
    yield chunk
