"""Describes a check that fails: the elements with codes and values, their operands, and the line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...ops.op import Call, CheckError, lookup
from ...ops.types import ElementType, TensorType
from ..program import Operation, Region, Value
from .checked import Mismatch
from .chunks import Chunk

#: The number of elements of a mismatch to show, and the largest operand to show as a whole.
_ELEMENTS = 4
_OPERAND = 16


@dataclasses.dataclass(frozen=True)
class Subject:
    """The subject of a check: the op before conversions to codes, and the type of the codes."""

    operation: Operation | None
    type: ElementType


def subject(mismatch: Mismatch) -> Subject:
    """Skip the ops that turn a result into codes: bitcast_convert, conversion from six bits, one code for all NaNs."""
    makers = {id(r): o for region in _regions(mismatch) for o in region.operations for r in o.results}
    value, t = mismatch.check.operands[0], _element(mismatch.check.operands[0])
    while (operation := makers.get(id(value))) is not None:
        name = operation.name.removeprefix("stablehlo.")
        source = operation.operands[-1] if name in ("bitcast_convert", "convert", "select") else None
        of = _element(source) if source is not None else None
        if source is None or of is None or t is None:
            break
        if name == "convert" and not (of.is_float and of.bits == 6 and t.name == "f32"):
            break
        if name == "bitcast_convert" and (of.bits != t.bits or t.is_float):
            break
        if name == "select" and not t.is_integer:
            break
        value, t = source, of
    return Subject(makers.get(id(value)), t or _element(mismatch.check.operands[0]))  # pyright: ignore[reportArgumentType]


def places(mismatch: Mismatch) -> list[tuple[int, ...]]:
    """Return the indices of the elements that differ."""
    actual, expected = mismatch.actual, mismatch.expected
    if actual is None or expected is None or actual.shape != expected.shape:
        return []
    return [at for at in np.ndindex(actual.shape) if not _holds(mismatch.check, actual[at], expected[at])]


def _holds(check: Operation, actual: Any, expected: Any) -> bool:
    types = tuple(dataclasses.replace(v.type, shape=()) for v in check.operands)  # pyright: ignore[reportArgumentType]
    attributes = {**check.attributes, "value": np.asarray(expected)}
    record = lookup(check.name)
    assert record is not None
    try:
        with np.errstate(all="ignore"):
            record.function(Call(check.name, types, (), attributes))(*map(np.asarray, (actual, expected)[: len(types)]))
    except CheckError:
        return False
    return True


def describe(mismatch: Mismatch, chunk: Chunk, backend: str, values: Mapping[int, Any]) -> str:
    """Describe a mismatch in several lines. `values` has minihlo's values of the program, by `id` of Value."""
    check = mismatch.check
    differ = places(mismatch)
    actual, expected = mismatch.actual, mismatch.expected
    lines = [f"{check.location}: {check.name} does not hold on {backend}"]
    if not differ or actual is None or expected is None:
        return "\n".join([*lines, f"  {mismatch.message}", *_source(chunk, check)])
    about = subject(mismatch)
    where = f" of {actual.size} elements" if actual.shape else ""
    lines[0] += f": {len(differ)}{where} differ{'s' * (len(differ) == 1)}" if where else ""
    for at in differ[:_ELEMENTS]:
        index = f"[{', '.join(map(str, at))}] " if at else ""
        lines.append(f"  {index}{_call(about.operation, at, actual.shape, values)}")
        lines.append(f"    expected {format_element(expected[at], about.type)}")
        lines.append(f"    actual   {format_element(actual[at], about.type)}")
    if len(differ) > _ELEMENTS:
        lines.append(f"  and {len(differ) - _ELEMENTS} more")
    return "\n".join([*lines, *_source(chunk, check)])


def format_element(x: Any, t: ElementType) -> str:
    """Format an element as code and value of a type."""
    if not t.is_float:
        return str(x)
    if x.dtype != t.dtype:  # its code; for types of six bits its value in f32, or the code of that
        if t.bits == 6:
            x = np.asarray(x.view(np.float32) if x.dtype == np.uint32 else x).astype(t.dtype)[()]
        else:
            x = np.asarray(x).astype(t.format.code_dtype).view(t.dtype)[()]
    code = int(x.view(t.format.code_dtype))
    number = str(x) if t.bits > 16 else repr(float(x)).removesuffix(".0")
    return f"0x{code:0{-(-t.bits // 4)}X} = {number} : {t}"


def _call(operation: Operation | None, at: tuple[int, ...], shape: tuple[int, ...], values: Mapping[int, Any]) -> str:
    """Format the op with its operands; for an elementwise op, with the elements at the same index."""
    if operation is None or not operation.operands:
        return operation.name if operation else "the value"
    texts = [_operand(v, values.get(id(v)), at, shape) for v in operation.operands]
    return f"{operation.name}({', '.join(texts)})"


def _operand(value: Value, array: Any, at: tuple[int, ...], shape: tuple[int, ...]) -> str:
    element = _element(value)
    if array is None or element is None:
        return str(value.type)
    array = np.asarray(array)
    if array.shape == shape:
        return format_element(array[at], element)
    if array.size <= _OPERAND:
        numbers = ", ".join(
            format_element(x, element).rpartition(" : ")[0] or format_element(x, element) for x in array.ravel()
        )
        return f"[{numbers}] : {value.type}" if array.shape else format_element(array[()], element)
    return str(value.type)


def _element(value: Value) -> ElementType | None:
    return value.type.element if isinstance(value.type, TensorType) else None


def _regions(mismatch: Mismatch) -> Iterator[Region]:
    regions = [f.body for f in mismatch.program.functions.values() if f.body]
    while regions:
        region = regions.pop()
        yield region
        for operation in region.operations:
            regions += operation.regions


def _source(chunk: Chunk, check: Operation) -> list[str]:
    line = check.location.line
    lines = chunk.text.splitlines()
    text = lines[line - chunk.line] if 0 <= line - chunk.line < len(lines) else ""
    return [f"  line {line}: {text.strip()}"] if text else []
