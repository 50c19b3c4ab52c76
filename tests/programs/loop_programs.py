"""Random programs of loops and branches over single numbers, and over arrays that are sliced and written to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minihlo.ops.types import ELEMENT_TYPES, Kind, TensorType

from .fusible_programs import tool

_TYPES = (
    "i32", "i64", "i8", "ui8", "ui32", "ui64", "i4", "ui4", "i2", "i1", "f32", "f64", "f8E4M3FN", "f8E5M2",
    "f8E4M3FNUZ", "f4E2M1FN", "f8E8M0FNU", "f6E3M2FN", "bf16", "f16",
)  # fmt: skip
_OF_INTEGERS = ["add", "subtract", "multiply", "and", "or", "xor", "maximum", "minimum", "divide", "remainder"]
_OF_INTEGERS += ["shift_left", "shift_right_logical", "shift_right_arithmetic"]
_OF_FLOATS = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
_UNARY = {"i": ["negate", "abs", "not", "sign"], "u": ["not"], "f": ["negate", "abs", "floor", "exponential", "sign"]}

Value = tuple[str, str]  #: a name and an element type: a scalar, or with a star an array of five
_LENGTH = 5


def program(seed: int) -> tuple[str, list[np.ndarray]]:
    """The text of a program and its arguments."""
    return _Builder(np.random.default_rng(seed)).build()


def _text(t: str) -> str:
    return f"tensor<{_LENGTH}x{t[:-1]}>" if t.endswith("*") else f"tensor<{t}>"


class _Builder:
    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._names, self._depth = rng, 0, 0
        self._types = ["i32", *(self._one_of(_TYPES) for _ in range(rng.integers(1, 4)))]
        self._lines: list[str] = []
        self._constants: list[str] = []

    def build(self) -> tuple[str, list[np.ndarray]]:
        arguments = [(f"%a{i}", t + "*" * int(i == 0)) for i, t in enumerate([*self._types, *self._types])]
        arrays = [self._array(t) for _, t in arguments]
        values = self._ops(list(arguments), 2)
        values = self._loop(values)
        values = self._ops(values, 2)
        results = values[-6:]
        gives = ", ".join(_text(t) for _, t in results)
        takes = ", ".join(f"{name}: {_text(t)}" for name, t in arguments)
        body = "\n  ".join([*self._constants, *self._lines])
        returned = f"return {', '.join(name for name, _ in results)} : {gives}"
        return f"func.func @main({takes}) -> ({gives}) {{\n  {body}\n  {returned}\n}}", arrays

    # -- ops -----------------------------------------------------------------------------------------------------------

    def _ops(self, values: list[Value], count: int) -> list[Value]:
        """The values and those of some more ops."""
        for _ in range(count):
            pick = self._rng.random()
            if pick < 0.12 and self._depth < 2:
                values = self._branch(values)
            elif pick < 0.18 and self._depth < 2:
                values = self._loop(values)
            elif pick < 0.35:
                values = [*values, self._window(values)]
            else:
                values = [*values, self._scalar(values)]
        return values

    def _scalar(self, values: list[Value]) -> Value:
        t = self._one_of(self._types)
        element, pick = ELEMENT_TYPES[t], self._rng.random()
        x, y = self._value(values, t), self._value(values, t)
        if pick < 0.15:
            to = self._one_of(self._types)
            return self._add(f"stablehlo.convert {x} : ({_text(t)}) -> {_text(to)}", to)
        if pick < 0.3:
            direction = self._one_of(("EQ", "NE", "LT", "GE", "GT", "LE"))
            return self._add(f"stablehlo.compare {direction}, {x}, {y} : ({_text(t)}, {_text(t)}) -> tensor<i1>", "i1")
        if pick < 0.4:
            p = self._value(values, "i1")
            return self._add(f"stablehlo.select {p}, {x}, {y} : tensor<i1>, {_text(t)}", t)
        if pick < 0.45:
            z = self._value(values, t)
            return self._add(f"stablehlo.clamp {z}, {x}, {y} : {_text(t)}", t)
        if element.kind is Kind.BOOL:
            return self._add(f"stablehlo.{self._one_of(('and', 'or', 'xor', 'add'))} {x}, {y} : {_text(t)}", t)
        if self._rng.random() < 0.25:
            kind = "f" if element.is_float else "u" if element.kind is Kind.UNSIGNED else "i"
            return self._add(f"stablehlo.{self._one_of(_UNARY[kind])} {x} : {_text(t)}", t)
        op = self._one_of(_OF_FLOATS if element.is_float else _OF_INTEGERS)
        return self._add(f"stablehlo.{op} {x}, {y} : {_text(t)}", t)

    def _window(self, values: list[Value]) -> Value:
        """A slice, or an array with one element replaced, at any place."""
        arrays = [v for v in values if v[1].endswith("*")]
        name, t = self._one_of(arrays)
        start = self._value(values, "i32")
        of, one, element = _text(t), f"tensor<1x{t[:-1]}>", t[:-1]
        if self._rng.random() < 0.4:
            window = f"stablehlo.dynamic_slice {name}, {start}, sizes = [1] : ({of}, tensor<i32>) -> {one}"
            piece = self._line(window)
            return self._add(f"stablehlo.reshape {piece} : ({one}) -> {_text(element)}", element)
        piece = self._line(f"stablehlo.reshape {self._value(values, element)} : ({_text(element)}) -> {one}")
        return self._add(
            f"stablehlo.dynamic_update_slice {name}, {piece}, {start} : ({of}, {one}, tensor<i32>) -> {of}", t
        )

    def _branch(self, values: list[Value]) -> list[Value]:
        types = [self._one_of(values)[1] for _ in range(self._rng.integers(1, 3))]
        bodies = []
        is_case = self._rng.random() < 0.4
        chosen = self._value(values, "i32" if is_case else "i1")
        for _ in range(self._rng.integers(1, 4) if is_case else 2):
            bodies.append(self._region(values, types, []))
        gives, names = ", ".join(map(_text, types)), [self._name() for _ in types]
        name = "case" if is_case else "if"
        regions = ", ".join(f"{{\n{body}\n}}" for body in bodies)
        of = "i32" if is_case else "i1"
        self._lines.append(
            f'{", ".join(names)} = "stablehlo.{name}"({chosen}) ({regions}) : (tensor<{of}>) -> ({gives})'
        )
        return [*values, *zip(names, types, strict=True)]

    def _loop(self, values: list[Value]) -> list[Value]:
        """A loop of a few turns that carries some values along, the counter first."""
        turns = int(self._rng.integers(0, 8))
        carried = [self._one_of(values) for _ in range(self._rng.integers(1, 5))]
        if self._rng.random() < 0.7:
            carried.append(self._one_of([v for v in values if v[1].endswith("*")]))
        zero, one, end = (self._constant(np.array(n, np.int32), "i32") for n in (0, 1, turns))
        inits, types = [zero, *(v for v, _ in carried)], ["i32", *(t for _, t in carried)]
        inside = [(self._name(), t) for t in types]
        takes = ", ".join(f"{name}: {_text(t)}" for name, t in inside)
        i = inside[0][0]
        head = f"%go{self._names} = stablehlo.compare LT, {i}, {end} : (tensor<i32>, tensor<i32>) -> tensor<i1>"
        condition = f"^bb0({takes}):\n{head}\nstablehlo.return %go{self._names} : tensor<i1>"
        step = f"%step{self._names} = stablehlo.add {i}, {one} : tensor<i32>"
        body = self._region([*values, *inside], types, [step], inside, f"%step{self._names}")
        # The condition's values have names of their own.
        for name, _ in inside:
            condition = condition.replace(f"{name}:", f"{name}c:").replace(f"{name},", f"{name}c,")
        names, gives = [self._name() for _ in types], ", ".join(map(_text, types))
        operands = ", ".join(inits)
        self._lines.append(
            f'{", ".join(names)} = "stablehlo.while"({operands}) ({{\n{condition}\n}}, {{\n{body}\n}}) '
            f": ({gives}) -> ({gives})"
        )
        return [*values, *zip(names, types, strict=True)]

    def _region(
        self, values: list[Value], types: Sequence[str], lines: list[str], inside: Sequence[Value] = (), first: str = ""
    ) -> str:
        outer, self._lines = self._lines, list(lines)
        self._depth += 1
        found = self._ops(list(values), int(self._rng.integers(1, 6)))
        returned = [first] if first else []
        returned += [self._value(found, t) for t in types[len(returned) :]]
        self._depth -= 1
        lines, self._lines = self._lines, outer
        takes = ", ".join(f"{name}: {_text(t)}" for name, t in inside)
        gives = ", ".join(map(_text, types))
        head = [f"^bb0({takes}):"] if inside else []
        return "\n".join([*head, *lines, f"stablehlo.return {', '.join(returned)} : {gives}"])

    # -- values --------------------------------------------------------------------------------------------------------

    def _value(self, values: Sequence[Value], t: str) -> str:
        found = [name for name, of in values if of == t]
        if found and self._rng.random() < 0.85:
            return self._one_of(found[-4:])
        return self._constant(self._array(t), t)

    def _constant(self, array: np.ndarray, t: str) -> str:
        shape, element = ((_LENGTH,) if t.endswith("*") else ()), ELEMENT_TYPES[t.rstrip("*")]
        name = self._name()
        self._constants.append(
            f"{name} = stablehlo.constant {tool('program').dense(array, TensorType(shape, element))}"
        )
        return name

    def _array(self, t: str) -> np.ndarray:
        shape, element = ((_LENGTH,) if t.endswith("*") else ()), ELEMENT_TYPES[t.rstrip("*")]
        if element.is_integer and self._rng.random() < 0.5:
            return np.asarray(self._rng.integers(-2 if element.kind is Kind.SIGNED else 0, 2, shape)).astype(
                element.dtype
            )
        return tool("values").random_array(self._rng, shape, element, "any")

    def _add(self, text: str, t: str) -> Value:
        return self._line(text), t

    def _line(self, text: str) -> str:
        name = self._name()
        self._lines.append(f"{name} = {text}")
        return name

    def _name(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def _one_of(self, things: Sequence[Any]) -> Any:
        return things[int(self._rng.integers(len(things)))]
