"""Builds a test program: operands as codes, ops, and their expected results."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dialects import is_registered
from .numbers import (
    Codes,
    array,
    canonical_nan,
    code,
    format_value,
    has_several_nans,
    is_float,
    is_nan,
    literal,
    values_of,
    width,
)

Shape = tuple[int, ...]

#: Columns of a line.
_COLUMNS = 120

#: Twice an odd number: the weights of a sum of codes are multiples of it, and one.
_WEIGHT = 2 * 0x3779_79B9


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of the program."""

    name: str  #: with its %
    shape: Shape
    element: str  #: of a tensor its element type; of anything else ""
    type: str


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def carrier(element: str) -> str:
    """The integer type in which codes of a float type are written; f32 for the types of six bits, which have none."""
    return "f32" if width(element) == 6 else f"ui{width(element)}"


class Chunk:
    """One function without arguments. Its lines are written as its ops are added."""

    def __init__(self, name: str, *notes: str) -> None:
        self.name = name
        self.functions: list[str] = []  #: private ones, that come before
        self._notes, self._lines, self._names = list(notes), [], set()

    @property
    def text(self) -> str:
        notes = [f"// {line}" for note in self._notes for line in wrap(note, _COLUMNS - 3)]
        head, tail = f"func.func @{self.name}() {{", "  return\n}"
        return "\n".join([*notes, *self.functions, head, *self._lines, tail]) + "\n"

    def note(self, text: str) -> None:
        """A remark above the function."""
        self._notes.append(text)

    def say(self, text: str) -> None:
        """A remark in the body."""
        self._lines += ["  //" + f" {line}" for line in wrap(text, _COLUMNS - 5)]

    def line(self, text: str) -> None:
        """A line of the body, as it is."""
        self._lines.append("  " + text)

    def fresh(self, name: str) -> str:
        """An unused name: the requested one, or that with a number."""
        result, n = name, 1
        while result in self._names:
            n += 1
            result = f"{name}{n}"
        self._names.add(result)
        return "%" + result

    def constant(self, codes: Codes, element: str, name: str = "x") -> Value:
        """A constant of these codes (of integers: these numbers; of i1: ones and zeros)."""
        codes = array(codes)
        plain = Value(self.fresh(name), codes.shape, element, tensor(codes.shape, element))
        if not is_float(element) or width(element) == 6 or not codes.size:
            dense, remark = _dense(codes, element)
            self.line(f"{plain.name} = stablehlo.constant {dense} : {plain.type}{remark}")
            return plain
        held = Value(
            self.fresh(f"{plain.name[1:]}_codes"), codes.shape, carrier(element), tensor(codes.shape, carrier(element))
        )
        dense, remark = _dense(codes, element)
        self.line(f"{held.name} = stablehlo.constant {dense} : {held.type}{remark}")
        self.line(f"{plain.name} = stablehlo.bitcast_convert {held.name} : ({held.type}) -> {plain.type}")
        return plain

    def apply(
        self,
        op: str,
        operands: Sequence[Value],
        *results: tuple[Shape, str],
        attributes: str = "",
        regions: str = "",
        name: str = "r",
    ) -> Value:
        """An op with one result, in its generic form where there is more to it than operands."""
        return self.apply_all(op, operands, results, attributes, regions, name)[0]

    def apply_all(
        self,
        op: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Shape, str]],
        attributes: str = "",
        regions: str = "",
        name: str = "r",
    ) -> list[Value]:
        """An op with results of these shapes and element types."""
        types = [tensor(*r) for r in results]
        base = self.fresh(name)
        full = op if "." in op else f"stablehlo.{op}"
        takes, gives = [v.type for v in operands], types[0] if len(types) == 1 else f"({', '.join(types)})"
        attributes = f" {{{attributes}}}" if attributes else ""
        regions = f" ({regions})" if regions else ""
        many = f":{len(types)}" if len(types) > 1 else ""
        values = ", ".join(v.name for v in operands)
        head, types_ = f'{base}{many} = "{full}"({values}){regions}', f" : ({', '.join(takes)}) -> {gives}"
        if len(f"{head}{attributes}{types_}".rpartition("\n")[2]) > _COLUMNS - 2:
            attributes, types_ = (f"\n    {part.strip()}" if part else "" for part in (attributes, types_))
        self.line(head + attributes + types_)
        names = [base] if len(types) == 1 else [f"{base}#{i}" for i in range(len(types))]
        return [Value(n, s, e, t) for n, (s, e), t in zip(names, results, types, strict=True)]

    def short(self, op: str, *operands: Value, attributes: str = "", result: str | None = None) -> Value:
        """An op whose operands and result are of one type, in its short form where the dialect's parser has one."""
        first = operands[0]
        full = op if "." in op else f"stablehlo.{op}"
        if not is_registered(full):
            return self.apply(
                full, operands, (first.shape, result or first.element), attributes=attributes.strip(" {}")
            )
        names = ", ".join(v.name for v in operands)
        results = Value(
            self.fresh("r"), first.shape, result or first.element, tensor(first.shape, result or first.element)
        )
        same = all(v.type == results.type for v in operands) and not full.startswith("chlo")
        types = results.type if same else f"({', '.join(v.type for v in operands)}) -> {results.type}"
        if full.startswith("chlo") and len(operands) == 1:
            types = f"{first.type} -> {results.type}"
        elif full.startswith("chlo"):
            types = f"{', '.join(v.type for v in operands)} -> {results.type}"
        self.line(f"{results.name} = {full} {names}{attributes} : {types}")
        return results

    # -- expectations --------------------------------------------------------------------------------------------------

    def expect(self, value: Value, codes: Codes, every_bit: bool = False) -> None:
        """Checks that a value has these codes. All NaN are equal, unless every bit counts."""
        codes = array(codes)
        if codes.shape != value.shape:
            raise ValueError(f"{self.name}: {value.name} is {value.type}, expected are {codes.shape}")
        if not is_float(value.element) or not codes.size:
            return self._check(value, codes)
        return self._check(*self._as_codes(value, codes, every_bit))

    def expect_sum(self, value: Value, codes: Codes) -> None:
        """Checks the codes of a long vector by one number: the sum of all, each times an odd number of its own."""
        held, codes, _ = self._as_codes(value, codes, every_bit=False)
        t, scalar = tensor(value.shape, "ui32"), tensor((), "ui32")
        self.line(f"%wide = stablehlo.convert {held.name} : ({held.type}) -> {t}")
        self.line(f"%place = stablehlo.iota dim = 0 : {t}")
        self.line(f"%step = stablehlo.constant dense<{_WEIGHT}> : {t}")
        self.line(f"%one = stablehlo.constant dense<1> : {t}")
        self.line(f"%even = stablehlo.multiply %place, %step : {t}")
        self.line(f"%odd = stablehlo.add %even, %one : {t}")
        self.line(f"%weighted = stablehlo.multiply %wide, %odd : {t}")
        self.line(f"%zero = stablehlo.constant dense<0> : {scalar}")
        reduced = "stablehlo.reduce(%weighted init: %zero) applies stablehlo.add across dimensions = [0]"
        self.line(f"%sum = {reduced} : ({t}, {scalar}) -> {scalar}")
        total = sum(c * (_WEIGHT * i + 1) for i, c in enumerate(codes.tolist())) % (1 << 32)
        self.line(f"check.expect_eq_const %sum, dense<{total}> : {scalar}")

    def _as_codes(self, value: Value, codes: Codes, every_bit: bool) -> tuple[Value, Codes, str]:
        """A float value as integers that are compared with codes, those codes, and the type to show them in."""
        element, base = value.element, value.name[1:].replace("#", "_")
        held = self._carrier(value, base)
        if held.element == "f32" and element != "f32":
            codes = array([code("f32", x) for x in values_of(element, codes)], codes.shape)
            return self._carrier(held, f"{base}_f32"), codes, "f32"
        nans = [is_nan(element, c) for c in codes.ravel()]
        if any(nans) and not every_bit and has_several_nans(element):
            held = self._with_one_nan(value, held, base)
            nan = canonical_nan(element)
            codes = array([nan if n else c for n, c in zip(nans, codes.ravel(), strict=True)], codes.shape)
        return held, codes, element

    def _carrier(self, value: Value, base: str) -> Value:
        """The codes of a float value, or an f32 of the same value."""
        element = carrier(value.element)
        op, name = ("convert", f"{base}_f32") if element == "f32" else ("bitcast_convert", f"{base}_codes")
        held = Value(self.fresh(name), value.shape, element, tensor(value.shape, element))
        self.line(f"{held.name} = stablehlo.{op} {value.name} : ({value.type}) -> {held.type}")
        return held

    def _with_one_nan(self, value: Value, held: Value, base: str) -> Value:
        nan, is_it, result = (self.fresh(f"{base}_{what}") for what in ("nan", "is_nan", "one_nan"))
        mask = tensor(value.shape, "i1")
        splat = f"dense<{literal(value.element, canonical_nan(value.element))}>"
        self.line(
            f"{is_it} = stablehlo.compare NE, {value.name}, {value.name} : ({value.type}, {value.type}) -> {mask}"
        )
        self.line(f"{nan} = stablehlo.constant {splat} : {held.type}  // for any NaN")
        self.line(f"{result} = stablehlo.select {is_it}, {nan}, {held.name} : {mask}, {held.type}")
        return dataclasses.replace(held, name=result)

    def _check(self, value: Value, codes: Codes, element: str | None = None) -> None:
        dense, remark = _dense(codes, element or value.element)
        self.line(f"check.expect_eq_const {value.name}, {dense} : {value.type}{remark}")


# -- layout ------------------------------------------------------------------------------------------------------------


def _dense(codes: Codes, element: str) -> tuple[str, str]:
    """A dense attribute, with the values in comments; and a comment for the end of the line."""
    if not codes.size:
        return "dense<>", ""
    text = [_literal(element, c) for c in codes.ravel()]
    values = [format_value(element, c) for c in codes.ravel()] if is_float(element) else None
    if codes.ndim == 0 or codes.size <= (12 if values is None else 4):
        return f"dense<{_nest(np.array(text, object).reshape(codes.shape).tolist())}>", _remark(values)
    lines = _rows(codes.shape, text, values, element)
    return "dense<[\n" + "\n".join(f"    {line}" for line in lines) + "\n  ]>", ""


def _literal(element: str, c: int) -> str:
    return ("true" if c else "false") if element == "i1" else literal(element, c) if is_float(element) else str(c)


def _remark(values: Sequence[str] | None) -> str:
    return f"  // {', '.join(values)}" if values else ""


def _nest(text: Any) -> str:
    return text if isinstance(text, str) else f"[{', '.join(map(_nest, text))}]"


def _rows(shape: Shape, text: list[str], values: list[str] | None, element: str) -> list[str]:
    """Lines of elements with their values behind; a line ends where a row of the innermost dimension does."""
    size = shape[-1] if len(shape) > 1 else {4: 8, 6: 8, 8: 8, 16: 5, 32: 4, 64: 3}.get(width(element), 12)
    lines = []
    for start in range(0, len(text), size):
        stop = min(start + size, len(text))
        before = after = ""
        for d in range(1, len(shape)):  # brackets that open or close here
            inner = math.prod(shape[d:])
            before += "[" * (start % inner == 0)
            after += "]" * (stop % inner == 0)
        last = stop == len(text)
        line = before + ", ".join(text[start:stop]) + after + ("" if last else ",")
        lines.append((line, values[start:stop] if values else None))
    across = max(len(line) for line, _ in lines)
    return [line.ljust(across) + f"  // {', '.join(v)}" if v else line for line, v in lines]


def wrap(text: str, columns: int) -> list[str]:
    """The lines of a text."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > columns:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def integer_list(numbers: Sequence[int]) -> str:
    """`array<i64: …>` as MLIR writes it."""
    text = ", ".join(map(str, numbers))
    return f"array<i64: {text}>" if text else "array<i64>"


def body(element: str, op: str, count: int = 2) -> str:
    """A region of scalars that is one op."""
    t = tensor((), element)
    names = [f"%arg{i}" for i in range(count)]
    heads = ", ".join(f"{n}: {t}" for n in names)
    inner = f"%b = stablehlo.{op} {', '.join(names)} : {t}"
    return f"{{\n  ^bb0({heads}):\n    {inner}\n    stablehlo.return %b : {t}\n  }}"
