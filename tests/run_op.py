"""One op run by itself: looked up, bound for the types of its arguments, and called as the interpreter calls it."""

from typing import Any

import numpy as np

from minihlo.ops.op import Call, lookup
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, ElementType, TensorType, Type, type_of_dtype

TYPES = tuple(t for t in ELEMENT_TYPES.values() if t.has_dtype)
FLOATS = tuple(t for t in TYPES if t.is_float)
INTEGERS = tuple(t for t in TYPES if t.is_integer)


def tensor(element: str | ElementType, *shape: int) -> TensorType:
    return TensorType(shape, ELEMENT_TYPES[str(element)])


def type_of(x: np.ndarray) -> TensorType:
    return TensorType(x.shape, type_of_dtype(x.dtype))


def bind(name: str, operands: list[Type], result: Type | None, policy: Policy | None = None, **attributes: Any):
    """The kernel of an op with one result, or with none."""
    record = lookup(name)
    assert record is not None
    results = () if result is None else (result,)
    return record.function(Call(record.name, tuple(operands), results, attributes, policy=policy or Policy()))


def run(
    name: str, *arrays: np.ndarray, result: TensorType, policy: Policy | None = None, **attributes: Any
) -> np.ndarray:
    """The result, which has the type that is asked for; and the operands stay as they were."""
    before = [x.tobytes() for x in arrays]
    kernel = bind(name, [type_of(x) for x in arrays], result, policy, **attributes)
    with np.errstate(all="ignore"):
        results = np.asarray(kernel(*arrays))
    assert (results.shape, results.dtype) == (result.shape, result.element.dtype)
    assert [x.tobytes() for x in arrays] == before
    return results


def bounds(element: str | ElementType) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    t = ELEMENT_TYPES[str(element)]
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.name[0] == "i" else (0, (1 << t.bits) - 1)


def from_codes(codes: Any, element: str | ElementType) -> np.ndarray:
    """The array of an element type of at most 64 bits that has these bits."""
    t = ELEMENT_TYPES[str(element)]
    codes = np.asarray(codes).astype(np.uint64) & np.uint64((1 << t.bits) - 1)
    return codes != 0 if t.bits == 1 else np.asarray(codes.astype(f"u{t.dtype.itemsize}")).view(t.dtype)


def codes(x: np.ndarray) -> np.ndarray:
    """The bits of an array, as unsigned integers of the storage's width (of a complex<f64>: two)."""
    return np.ascontiguousarray(x).view("u8") if x.itemsize == 16 else x.view(f"u{x.itemsize}")
