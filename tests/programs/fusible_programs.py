"""Random programs of the kinds that are fused: elementwise ops, broadcasts, conversions and reductions."""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minihlo.ops.types import ELEMENT_TYPES, Kind, TensorType

_MINIFLOATS = ("f8E4M3FNUZ", "f8E5M2", "f8E4M3FN", "f4E2M1FN", "f8E8M0FNU", "f6E3M2FN", "f8E3M4")
_TYPES = (*_MINIFLOATS, "f32", "bf16", "f16", "i8", "ui8", "i4", "i1", "i32", "f64")
_UNARY = ["negate", "abs", "exponential", "tanh", "logistic", "sqrt", "floor", "sign", "round_nearest_even", "log"]
_BINARY = ["add", "multiply", "subtract", "maximum", "minimum", "divide"]
_OF_INTEGERS = ["add", "multiply", "maximum", "minimum", "and", "xor", "or"]
_SHAPES = ((7,), (3, 5), (4, 1, 6), (2, 3, 4), (33,))

Shape = tuple[int, ...]


def program(seed: int) -> tuple[str, list[np.ndarray]]:
    """The text of a program and its arguments."""
    return _Builder(np.random.default_rng(seed)).build()


def tool(name: str) -> Any:
    """A module of tools/random_programs."""
    root = str(Path(__file__).parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)
    return importlib.import_module(f"tools.random_programs.{name}")


def _text(shape: Shape, t: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{t}>"


class _Builder:
    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._shape = self._one_of(_SHAPES)
        self._types = [self._one_of(_TYPES) for _ in range(rng.integers(1, 4))]
        self._lines: list[str] = []
        self._values: list[tuple[str, Shape, str]] = []
        self._arguments: list[tuple[str, str, np.ndarray]] = []

    def build(self) -> tuple[str, list[np.ndarray]]:
        rules: list[Callable[[Shape, str], None]] = [
            self._convert, self._choice, self._clamp, self._squeeze, self._bits, self._reduce, *[self._arithmetic] * 4
        ]  # fmt: skip
        for _ in range(self._rng.integers(3, 16)):
            shape = self._shape
            if self._chance(0.15):
                shape = tuple(n if self._chance(0.6) else 1 for n in shape)
            self._one_of(rules)(shape, self._one_of(self._types))
        results = list(dict.fromkeys([self._values[-1], *(v for v in self._values if self._chance(0.2))]))
        takes = ", ".join(f"{name}: {t}" for name, t, _ in self._arguments)
        gives = ", ".join(_text(shape, t) for _, shape, t in results)
        body = "\n  ".join([*self._lines, f"return {', '.join(name for name, _, _ in results)} : {gives}"])
        return f"func.func @main({takes}) -> ({gives}) {{\n  {body}\n}}", [array for _, _, array in self._arguments]

    # -- ops -----------------------------------------------------------------------------------------------------------

    def _convert(self, shape: Shape, t: str) -> None:
        to = self._one_of(self._types if self._chance(0.7) else _TYPES)
        x = self._value(shape, t)
        self._add(f"stablehlo.convert {x} : ({_text(shape, t)}) -> {_text(shape, to)}", shape, to)

    def _choice(self, shape: Shape, t: str) -> None:
        of, bools = _text(shape, t), _text(shape, "i1")
        direction = self._one_of(("EQ", "NE", "LT", "GE", "GT", "LE"))
        x, y = self._value(shape, t), self._value(shape, t)
        p = self._add(f"stablehlo.compare {direction}, {x}, {y} : ({of}, {of}) -> {bools}", shape, "i1")
        if self._chance(0.8):
            x, y = self._value(shape, t), self._value(shape, t)
            self._add(f"stablehlo.select {p}, {x}, {y} : {bools}, {of}", shape, t)

    def _clamp(self, shape: Shape, t: str) -> None:
        bounds = [() if self._chance(0.5) else shape for _ in range(2)]
        low, high = (self._value(s, t) for s in bounds)
        types = [_text(s, t) for s in (bounds[0], shape, bounds[1])]
        x = self._value(shape, t)
        self._add(f"stablehlo.clamp {low}, {x}, {high} : ({', '.join(types)}) -> {types[1]}", shape, t)

    def _squeeze(self, shape: Shape, t: str) -> None:
        to = tuple(n for n in shape if n != 1)
        if to and to != shape:
            x = self._value(shape, t)
            self._add(f"stablehlo.reshape {x} : ({_text(shape, t)}) -> {_text(to, t)}", to, t)

    def _bits(self, shape: Shape, t: str) -> None:
        same = [o for o in _TYPES if ELEMENT_TYPES[o].bits == ELEMENT_TYPES[t].bits]
        to, x = self._one_of(same), self._value(shape, t)
        self._add(f"stablehlo.bitcast_convert {x} : ({_text(shape, t)}) -> {_text(shape, to)}", shape, to)

    def _reduce(self, shape: Shape, t: str) -> None:
        if ELEMENT_TYPES[t].kind is Kind.BOOL:
            return
        x, init = self._value(shape, t), self._value((), t)
        dims = [d for d in range(len(shape)) if self._chance(0.6)]
        kept = tuple(n for d, n in enumerate(shape) if d not in dims)
        op = self._one_of(("add", "maximum", "minimum", "maximum"))
        types = f"({_text(shape, t)}, {_text((), t)}) -> {_text(kept, t)}"
        how = f"applies stablehlo.{op} across dimensions = {dims}"
        self._add(f"stablehlo.reduce({x} init: {init}) {how} : {types}", kept, t)

    def _arithmetic(self, shape: Shape, t: str) -> None:
        is_float = ELEMENT_TYPES[t].is_float
        if is_float and self._chance(0.4):
            text = f"{self._one_of(_UNARY)} {self._value(shape, t)}"
        else:
            operands = f"{self._value(shape, t)}, {self._value(shape, t)}"
            text = f"{self._one_of(_BINARY if is_float else _OF_INTEGERS)} {operands}"
        self._add(f"stablehlo.{text} : {_text(shape, t)}", shape, t)

    # -- values --------------------------------------------------------------------------------------------------------

    def _value(self, shape: Shape, t: str) -> str:
        """A value there is, or a new leaf, or one that is laid along some of the dimensions."""
        result = [name for name, s, of in self._values if (s, of) == (shape, t)]
        if result and self._chance(0.8):
            return self._one_of(result[-4:])
        if not shape or self._chance(0.4):
            return self._leaf(shape, t)
        dims = [d for d in range(len(shape)) if self._chance(0.5)]
        small = tuple(shape[d] if self._chance(0.8) else 1 for d in dims)
        x = self._value(small, t) if small != shape and self._chance(0.6) else self._leaf(small, t)
        types = f"({_text(small, t)}) -> {_text(shape, t)}"
        return self._add(f"stablehlo.broadcast_in_dim {x}, dims = {dims} : {types}", shape, t)

    def _leaf(self, shape: Shape, t: str) -> str:
        element = ELEMENT_TYPES[t]
        array = tool("values").random_array(self._rng, shape, element, "any")
        if self._chance(0.3):
            constant = tool("program").dense(array, TensorType(shape, element))
            return self._add(f"stablehlo.constant {constant}", shape, t)
        name = f"%a{len(self._arguments)}"
        self._arguments.append((name, _text(shape, t), array))
        self._values.append((name, shape, t))
        return name

    def _add(self, text: str, shape: Shape, t: str) -> str:
        name = f"%v{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        self._values.append((name, shape, t))
        return name

    def _one_of(self, things: Sequence[Any]) -> Any:
        return things[int(self._rng.integers(len(things)))]

    def _chance(self, p: float) -> bool:
        return bool(self._rng.random() < p)
