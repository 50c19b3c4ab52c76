"""A random program as plain data, and its text: whole, cut into steps, or one step with its operands as constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minihlo.ops.types import ElementType, Kind, TensorType


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of the program, under the name that its text uses."""

    name: str
    type: TensorType


@dataclasses.dataclass(frozen=True)
class Step:
    """One op. `captures` are values that its regions use; `functions` are texts of private functions that it calls."""

    op: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: str = ""
    regions: tuple[str, ...] = ()
    captures: tuple[Value, ...] = ()
    functions: tuple[str, ...] = ()
    #: What a comparison has to know: "sums" where float results depend on the order of additions, "order" where the
    #: body is not associative, so that an implementation which folds in another order is right too; ops of the body.
    notes: frozenset[str] = frozenset()

    @property
    def inputs(self) -> tuple[Value, ...]:
        return tuple(dict.fromkeys((*self.operands, *self.captures)))

    @property
    def short(self) -> str:
        return self.op.removeprefix("stablehlo.")

    @property
    def elements(self) -> list[ElementType]:
        return [v.type.element for v in (*self.operands, *self.captures, *self.results)]

    def text(self, prefix: str = "") -> str:
        """The op as MLIR; `prefix` comes before its results' names."""
        results = ", ".join(f"%{prefix}{v.name}" for v in self.results)
        operands = ", ".join(f"%{v.name}" for v in self.operands)
        regions = f" ({', '.join(self.regions)})" if self.regions else ""
        attributes = f" <{{{self.attributes}}}>" if self.attributes else ""
        return f'{results} = "{self.op}"({operands}){attributes}{regions} : {signature(self.operands, self.results)}'


@dataclasses.dataclass(frozen=True)
class Module:
    """Text whose entry takes and gives these types; `{entry}` in the text stands for the entry's name."""

    text: str
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    def named(self, entry: str = "main") -> str:
        return self.text.replace("{entry}", entry)


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps in order, with the values of the arguments."""

    arguments: tuple[Value, ...]
    arrays: tuple[np.ndarray, ...]
    steps: tuple[Step, ...]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that no step uses; the last step's results if there are none."""
        used = {v for s in self.steps for v in s.inputs}
        return tuple(v for s in self.steps for v in s.results if v not in used)

    def module(self, everything: bool = False) -> Module:
        """The whole program; with `everything`, one that returns each step's results."""
        returned = [v for s in self.steps for v in s.results] if everything else self.outputs
        return _module(self.steps, self.arguments, returned, "")

    def without_constants(self) -> tuple[Module, tuple[Value, ...]]:
        """The whole program with its constants as arguments too, and these arguments."""
        constants = [s for s in self.steps if s.op == "stablehlo.constant"]
        arguments = (*self.arguments, *(v for s in constants for v in s.results))
        return _module([s for s in self.steps if s not in constants], arguments, self.outputs, ""), arguments


def cut_steps(steps: Sequence[Step]) -> tuple[Module, tuple[Value, ...]]:
    """A module in which these steps stand side by side: every input an argument, every result returned."""
    inputs = tuple(dict.fromkeys(v for s in steps for v in s.inputs))
    return _module(steps, inputs, [v for s in steps for v in s.results], "r_"), inputs


def snippet(step: Step, values: Mapping[Value, np.ndarray]) -> str:
    """A program of this step alone, with its inputs as constants."""
    constants = [constant(v, values[v]) for v in step.inputs]
    return _module([*constants, step], (), step.results, "").named()


def constant(value: Value, array: np.ndarray) -> Step:
    return Step("stablehlo.constant", (), (value,), f"value = {dense(array, value.type)}")


def _module(steps: Sequence[Step], arguments: Iterable[Value], results: Sequence[Value], prefix: str) -> Module:
    arguments = tuple(arguments)
    takes = ", ".join(f"%{v.name}: {v.type}" for v in arguments)
    gives = ", ".join(str(v.type) for v in results)
    returned = ", ".join(f"%{prefix}{v.name}" for v in results)
    lines = [f"func.func @{{entry}}({takes}) -> ({gives}) {{"]
    lines += [f"  {s.text(prefix)}" for s in steps]
    lines += [f"  func.return {returned} : {gives}", "}"]
    functions = dict.fromkeys(f for s in steps for f in s.functions)
    text = "\n".join([*lines, *functions, ""])
    return Module(text, tuple(v.type for v in arguments), tuple(v.type for v in results))


def signature(operands: Sequence[Value], results: Sequence[Value]) -> str:
    return f"({', '.join(str(v.type) for v in operands)}) -> ({', '.join(str(v.type) for v in results)})"


# -- literals ----------------------------------------------------------------------------------------------------------


def dense(array: np.ndarray, t: TensorType) -> str:
    """A dense attribute: exact, floats as codes."""
    if not array.size:
        return f"dense<> : {t}"
    return f"dense<{_nest(_literals(array, t.element).tolist())}> : {t}"


def _literals(x: np.ndarray, element: ElementType) -> np.ndarray:
    if element.kind is Kind.BOOL:
        return np.where(x, "true", "false").astype(object)
    if element.is_complex:
        parts = [_literals(p, element.part) for p in (np.real(x), np.imag(x))]
        return np.asarray("(" + parts[0] + ", " + parts[1] + ")", object)
    if element.is_integer:
        return np.array([str(int(v)) for v in x.reshape(-1)], object).reshape(x.shape)
    digits = -(-element.bits // 4)
    return np.array([f"0x{int(v):0{digits}X}" for v in codes(x).reshape(-1)], object).reshape(x.shape)


def _nest(literals: str | list[Any]) -> str:
    return literals if isinstance(literals, str) else f"[{', '.join(map(_nest, literals))}]"


def codes(x: np.ndarray) -> np.ndarray:
    """The bits of an array of any type but complex, as unsigned integers of the storage's width."""
    return np.ascontiguousarray(x).view(f"u{x.itemsize}").reshape(x.shape)
