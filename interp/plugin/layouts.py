"""The places of arguments and results: the memory of a device and the order of dimensions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...ops.types import TensorType, Type
from ..program import Function
from .devices import MEMORY_KINDS
from .pjrt.errors import INVALID_ARGUMENT, UNIMPLEMENTED, PluginError
from .sharding.propagation import CONSTRAINTS

_MEMORY, _LAYOUT = "mhlo.memory_kind", "mhlo.layout_mode"
_ORDER = re.compile(r"\{([\d,]*)\}")
#: The attribute that leaves the layout to the compiler.
_CHOSEN = "auto"
_OPEN = ("default", _CHOSEN)


@dataclasses.dataclass(frozen=True)
class Place:
    """The index of a kind of memory, and the dimensions from minor to major, or None for the usual order."""

    memory: int = 0
    order: tuple[int, ...] | None = None


def places(function: Function) -> tuple[list[Place], list[Place]]:
    """Return the places of the arguments and results of a function. Raises PluginError as `place_of` does."""
    result: list[list[Place]] = []
    for name, types in (("arg_attrs", function.argument_types), ("res_attrs", function.result_types)):
        attributes = function.attributes.get(name) or ({},) * len(types)
        result.append([place_of(a, t) for a, t in zip(attributes, types, strict=True)])
    arguments, results = result
    for i, attributes in enumerate(function.attributes.get("res_attrs") or ()):
        if (attributes or {}).get(_LAYOUT) == _CHOSEN:
            results[i] = dataclasses.replace(results[i], order=_order_without_move(function, i, arguments))
    return arguments, results


def _order_without_move(function: Function, number: int, arguments: Sequence[Place]) -> tuple[int, ...] | None:
    """The order of dimensions of a result that is the transpose of an argument, with which no element is moved.

    None, the usual order, for other results.
    """
    body = function.body
    if body is None:
        return None
    sources = {v: o for o in body.operations for v in o.results}
    value, permutations = body.returns[number], []
    while value in sources and sources[value].name in ("stablehlo.transpose", *CONSTRAINTS):
        operation = sources[value]
        if operation.name == "stablehlo.transpose":
            permutations.append([int(d) for d in operation.attributes["permutation"]])
        value = operation.operands[0]
    if value not in body.arguments or not permutations:
        return None
    usual = tuple(range(len(permutations[0])))[::-1]
    order = arguments[body.arguments.index(value)].order or usual
    for permutation in reversed(permutations):
        order = tuple(permutation.index(d) for d in order)
    return None if order == usual else order


def place_of(attributes: Mapping[str, Any] | None, of: Type) -> Place:
    """Return the place that the attributes of a value declare. Raises PluginError if it does not exist."""
    attributes = attributes or {}
    kind, text = str(attributes.get(_MEMORY, "device")), str(attributes.get(_LAYOUT, "default"))
    if kind not in MEMORY_KINDS:
        raise PluginError(INVALID_ARGUMENT, f"expected a memory kind of {', '.join(MEMORY_KINDS)}, got {kind!r}")
    return Place(list(MEMORY_KINDS).index(kind), None if text in _OPEN else _order(text, of))


def _order(text: str, of: Type) -> tuple[int, ...] | None:
    """A layout in XLA's form, such as `{0,1}`."""
    rank = len(of.shape) if isinstance(of, TensorType) else 0
    match = _ORDER.fullmatch(text)
    if not match:
        raise PluginError(UNIMPLEMENTED, f"expected a layout without tiles, such as {{1,0}}, got {text}")
    order = tuple(int(n) for n in match[1].split(",") if n)
    if sorted(order) != list(range(rank)):
        raise PluginError(INVALID_ARGUMENT, f"expected a layout of {rank} dimensions, got {text}")
    return None if order == tuple(range(rank))[::-1] else order
