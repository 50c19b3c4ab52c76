"""Writes the Python function of a function or region: one line for each op, `results = kernel(regions, operands)`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from ..ops.types import TensorType, Type
from .program import Operation, Value

#: Values of at least this many bytes are dropped as soon as nothing needs them.
_DROP_FROM = 1 << 16

#: The name of a generated file -> its text, and the op of each line.
Sources = dict[str, tuple[str, list[Operation | None]]]


class Writer:
    """Writes the text of one Python function and collects the objects it names."""

    _numbers = itertools.count()

    def __init__(self, constants: dict[Value, Any]) -> None:
        self._constants = constants
        self._names: dict[Value, str] = {}
        self._lines: list[str] = []
        self._operations: list[Operation | None] = [None]  # of the line with `def`
        self._globals: dict[str, Any] = {}

    def define(self, value: Value) -> str:
        name = self._names[value] = f"v{len(self._names)}"
        return name

    def call(
        self,
        target: Callable[..., Any],
        operation: Operation,
        operands: Iterable[Value],
        *,
        regions: list[tuple[Callable[..., Any], tuple[Value, ...]]] | None = None,
        always_tuple: bool = False,
        no_results: bool = False,
    ) -> None:
        """`results = target(regions, operands)`."""
        arguments = [self._use(v) for v in operands]
        if regions:
            arguments.insert(0, f"({', '.join(self._region(f, captures) for f, captures in regions)},)")
        text = f"{self._object(target)}({', '.join(arguments)})"
        results = () if no_results else operation.results
        if results:
            comma = "," if always_tuple and len(results) == 1 else ""
            text = f"{', '.join(self.define(r) for r in results)}{comma} = {text}"
        self._lines.append(f"    {text}")
        self._operations.append(operation)

    def drop(self, values: Iterable[Value], operation: Operation) -> None:
        """Forget large values that nothing needs any more."""
        mine = (v for v in values if v in self._names and v not in self._constants)
        names = [self._names[v] for v in mine if _is_large(v.type)]
        if names:
            self._lines.append(f"    del {', '.join(names)}")
            self._operations.append(operation)

    def function(
        self, returns: Iterable[Value], parameters: int, label: str, sources: Sources
    ) -> Callable[..., tuple[Any, ...]]:
        result = "".join(f"{self._use(v)}, " for v in returns)
        names = ", ".join(list(self._names.values())[:parameters])
        text = "\n".join([f"def run({names}):", *self._lines, f"    return ({result})", ""])
        file = f"<minihlo plan {next(self._numbers)} {label}>"
        sources[file] = text, [*self._operations, None]
        exec(compile(text, file, "exec"), self._globals)
        return self._globals["run"]

    def _use(self, value: Value) -> str:
        if value in self._names:
            return self._names[value]
        name = self._names[value] = self._object(self._constants[value])
        return name

    def _region(self, function: Callable[..., Any], captures: tuple[Value, ...]) -> str:
        captures = tuple(self._use(v) for v in captures)  # type: ignore[assignment]
        name = self._object(function)
        if not captures:
            return name
        self._globals["partial"] = functools.partial
        return f"partial({', '.join([name, *captures])})"  # type: ignore[list-item]

    def _object(self, thing: Any) -> str:
        name = f"k{len(self._globals)}"
        self._globals[name] = thing
        return name


def _is_large(t: Type) -> bool:
    return isinstance(t, TensorType) and (not t.is_static or t.nbytes >= _DROP_FROM)
