"""Writes StableHLO programs that compute many cases at once, with operands as arguments or as constants.

Codes travel as unsigned integers, which every backend takes, and become the element type within the program. 6-bit
floats have no integer of their width; their numbers travel as f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..oracle.formats import FORMATS, bits, code_dtype


def carrier(element: str) -> str:
    """The element type in which codes are passed to a backend."""
    if element == "i1":
        return element
    return "f32" if bits(element) == 6 else f"ui{max(8, bits(element))}"


def encode(codes: np.ndarray, element: str) -> np.ndarray:
    """Convert codes to their transport form."""
    if bits(element) == 6:
        return FORMATS[element].decode(codes).astype(np.float32)
    return np.asarray(codes, code_dtype(element), order="C")


def decode(values: np.ndarray, element: str) -> np.ndarray:
    """Convert values in transport form to codes."""
    if bits(element) != 6:
        return values
    fmt = FORMATS[element]
    numbers = fmt.decode(np.arange(64))
    order = np.argsort(numbers, kind="stable")
    near = order[np.clip(np.searchsorted(numbers[order], np.abs(values)), 0, 63)] & fmt.ones
    found = np.where(numbers[near] == np.abs(values), near, 0x40)  # an invalid code for other numbers
    return np.where(np.signbit(values), found | fmt.sign_bit, found).astype(np.uint8)


def tensor(shape: Sequence[int], element: str) -> str:
    """The type of a tensor in MLIR's notation."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


class Builder:
    """Builds a program. Values are referred to by name; their types are kept separately."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.functions: list[str] = []  #: functions of the program other than `main`
        self.arguments: list[np.ndarray] = []  #: in transport form
        self.inputs: list[tuple[np.ndarray, str]] = []  #: the same as codes, with their element types
        self._takes: list[str] = []
        self._outputs: list[tuple[str, str]] = []
        self._known: dict[tuple[object, ...], str] = {}
        self._types: dict[str, str] = {}
        self._last = 0

    def name(self) -> str:
        """A new name of a value."""
        self._last += 1
        return f"%v{self._last}"

    def input(self, codes: np.ndarray, element: str) -> str:
        """Add an argument to the program; equal arrays share one argument."""
        return self._once(("input", element, codes.shape, codes.tobytes()), lambda: self._argument(codes, element))

    def _argument(self, codes: np.ndarray, element: str) -> str:
        argument = f"%a{len(self.arguments)}"
        self.arguments.append(encode(codes, element))
        self.inputs.append((codes, element))
        self._takes.append(f"{argument}: {tensor(codes.shape, carrier(element))}")
        return self._convert(argument, carrier(element), element, codes.shape)

    def constant(self, codes: np.ndarray, element: str) -> str:
        """Add a constant to the program, with its codes unchanged."""
        codes = np.asarray(codes, code_dtype(element), order="C")
        return self._once(("constant", element, codes.shape, codes.tobytes()), lambda: self._constant(codes, element))

    def _constant(self, codes: np.ndarray, element: str) -> str:
        kind = tensor(codes.shape, element)
        if element == "i1":
            text = str([bool(c) for c in codes.ravel()]).lower() if codes.shape else str(bool(codes)).lower()
        else:
            text = f'"0x{codes.tobytes().hex().upper()}"'
        return self.op(f"stablehlo.constant dense<{text}> : {kind}")

    def op(self, text: str) -> str:
        """Add an op with one result; return its name."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def generic(self, op: str, operands: Sequence[str], takes: Sequence[str], gives: str, attributes: str = "") -> str:
        """Add an op in its generic form; return the name of its result."""
        text = f'"stablehlo.{op}"({", ".join(operands)}) {attributes}{" " if attributes else ""}'
        return self.op(f"{text}: ({', '.join(takes)}) -> {gives}")

    def function(self, key: tuple[object, ...], text: Callable[[str], str]) -> str:
        """Add a function whose text follows from its name; return the name. Each key has one function."""
        return self._once(("function", *key), lambda: self._function(text))

    def _function(self, text: Callable[[str], str]) -> str:
        name = f"f{len(self.functions)}"
        self.functions.append(text(name))
        return name

    def several(self, count: int, text: str) -> list[str]:
        """Add an op with several results; return their names."""
        if count == 1:
            return [self.op(text)]
        name = self.name()
        self.lines.append(f"{name}:{count} = {text}")
        return [f"{name}#{i}" for i in range(count)]

    def output(self, value: str, element: str, shape: Sequence[int]) -> None:
        """Make a value a result of the program."""
        self._outputs.append((self._convert(value, element, carrier(element), shape), tensor(shape, carrier(element))))

    def text(self) -> str:
        """The text of the program."""
        gives = ", ".join(t for _, t in self._outputs)
        values = ", ".join(v for v, _ in self._outputs)
        body = "\n  ".join([*self.lines, f"return {values} : {gives}"])
        others = "".join(f"{function}\n" for function in self.functions)
        return f"func.func @main({', '.join(self._takes)}) -> ({gives}) {{\n  {body}\n}}\n{others}"

    def _once(self, key: tuple[object, ...], make) -> str:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
        return found

    def _convert(self, value: str, source: str, target: str, shape: Sequence[int]) -> str:
        """Convert a value between a type and its carrier."""
        few = f"ui{min(bits(source), bits(target))}"
        if source == target:
            return value
        if bits(source) == 6 or bits(target) == 6:
            return self._unary("convert", value, source, target, shape)
        if bits(source) < 8:
            value = value if source == few else self._unary("bitcast_convert", value, source, few, shape)
            return self._unary("convert", value, few, target, shape)
        if bits(target) < 8:
            value = self._unary("convert", value, source, few, shape)
            return value if target == few else self._unary("bitcast_convert", value, few, target, shape)
        return self._unary("bitcast_convert", value, source, target, shape)

    def _unary(self, op: str, value: str, source: str, target: str, shape: Sequence[int]) -> str:
        return self.op(f"stablehlo.{op} {value} : ({tensor(shape, source)}) -> {tensor(shape, target)}")


def compare_attributes(direction: str, kind: str) -> str:
    """The attributes of `compare` in its generic form."""
    return (
        f"{{comparison_direction = #stablehlo<comparison_direction {direction}>, "
        f"compare_type = #stablehlo<comparison_type {kind}>}}"
    )
