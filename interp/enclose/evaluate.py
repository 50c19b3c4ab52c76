"""Evaluates a program over enclosures, operation by operation; the rule of an operation is found by its name."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.op import EXACT, EXACT_BUT_COMPLEX, call_attribute, lookup, traits_of
from ...ops.policy import Policy
from ...ops.traits import RegionSemantics
from ...ops.types import ELEMENT_TYPES, ElementType, QuantizedType, TensorType, Type
from .. import machine
from ..errors import UnsupportedError
from ..machine import Plan, find_function
from ..passes.rewriting import captures
from ..program import BARRIER, Function, Operation, Program, Region, Value
from .allowed import Allowed
from .combining import is_free_of_order
from .values import (
    F32,
    F64,
    Enclosure,
    by_parts,
    holds_integers,
    is_fnuz,
    least_normal,
    leaves_open,
    of_parts,
    round_to,
    to_f64,
)

#: Gives the results of an operation; None where another rule has to be found.
Rule = Callable[["Evaluator", Operation, Sequence[Any]], "Sequence[Any] | None"]
_RULES: dict[str, Rule] = {}
_I64 = ELEMENT_TYPES["i64"]
#: The most iterations of a loop.
MOST_ITERATIONS = 100_000
#: The most steps of a loop whose end is not decided, of which the interpreter's result is looked at.
MOST_STEPS = 10_000_000
#: The most elements of a value; an enclosure takes some twelve numbers of f64 for each while it is computed.
MOST_ELEMENTS = 1 << 24
#: The operands whose elements are moved, of operations that have others; of the rest all are.
_MOVED: Mapping[str, tuple[int, ...]] = {
    "gather": (0,), "dynamic_gather": (0,), "dynamic_slice": (0,), "dynamic_update_slice": (0, 1), "pad": (0, 1),
    "dynamic_pad": (0, 1), "torch_index_select": (0,), "real_dynamic_slice": (0,), "dynamic_broadcast_in_dim": (0,),
    "dynamic_reshape": (0,), "set_dimension_size": (0,), "select": (1, 2),
}  # fmt: skip


#: Operations on codes that are no movement of elements.
_NOT_MOVED = ("stablehlo.rng_bit_generator", "stablehlo.custom_call")


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the decorated function as the rule of operations; `stablehlo.` may be left out of their names."""

    def declare(function: Rule) -> Rule:
        for name in names:
            _RULES[full(name)] = function
        return function

    return declare


def full(name: str) -> str:
    """Return the name of an operation with its dialect."""
    return name if "." in name else f"stablehlo.{name}"


def rules() -> Mapping[str, Rule]:
    """Return the rules by the names of operations."""
    package = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return _RULES


def enclose(
    program: Program, arguments: Sequence[np.ndarray], allowed: Allowed | None = None, function: str | None = None
) -> list[Enclosure]:
    """Return the enclosures of a function's results.

    Args:
        program: The program.
        arguments: An array for each argument, of its dtype and shape.
        allowed: What an implementation may choose; `Allowed()` by default.
        function: The name of the function; `@main` or the only public one by default.

    Raises:
        ProgramError: The program is not valid, or has operations without enclosures, such as collectives.
        InputError: There is no such function.
    """
    entry = find_function(program, function)
    evaluator = Evaluator(program, allowed or Allowed())
    if entry.body is None:
        raise UnsupportedError(f"{entry.location}: @{entry.name}: expected a function with a body")
    given = [evaluator.exactly(t, x) for t, x in zip(entry.argument_types, arguments, strict=True)]
    return evaluator.region(entry.body, given)


class Evaluator:
    """The evaluation of one program.

    Attributes:
        values: The enclosure of each value that was computed last.
        causes: Operations since which elements are undecided; the first is None.
    """

    def __init__(self, program: Program, allowed: Allowed) -> None:
        rules()
        self.program, self.allowed = program, allowed
        self.values: dict[Value, Any] = {}
        self.causes: list[Operation | None] = [None]
        self._plans: dict[Operation, Plan] = {}
        self._known: dict[Any, Any] = {}

    # -- regions and operations ----------------------------------------------------------------------------------------

    def region(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """Return the enclosures of a region's results."""
        self.values.update(zip(region.arguments, arguments, strict=True))
        for operation in region.operations:
            for v in (*operation.operands, *operation.results):
                _require_small(v.type, operation)
            given = [self.values[v] for v in operation.operands]
            with np.errstate(all="ignore"):
                self.values.update(zip(operation.results, self.operation(operation, given), strict=True))
        return [self.values[v] for v in region.returns]

    def operation(self, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """Return the enclosures of an operation's results."""
        name, record = operation.name, lookup(operation.name)
        attribute = call_attribute(name)
        if attribute is not None and operation.attributes.get(attribute) in self.program.functions:
            body = self.program.functions[str(operation.attributes[attribute])].body
            assert body is not None
            return self.region(body, operands)
        if (record is None or record.values != "codes") and name != "stablehlo.sort":
            operands = [self.flushed(x) for x in operands]
        captured = [self.values[v] for r in operation.regions for v in captures(r) if v in self.values]
        found = _RULES.get(name)
        is_exact = all(map(_is_exact, [*operands, *captured]))
        if is_exact and self.is_exact(operation) and not _is_open(operation):
            return self._either_zero(operation, self.nominal(operation, operands))
        results = found(self, operation, operands) if found is not None else None
        if results is not None:
            return results
        if record is not None and record.values == "codes" and name not in _NOT_MOVED and not captured:
            return self.move(operation, operands)
        return self.undecide(operation, operands)

    def is_exact(self, operation: Operation) -> bool:
        """Return whether exact operands have one result, that of the interpreter."""
        record, name = lookup(operation.name), operation.name.removeprefix("stablehlo.")
        if operation.regions:
            inner = [o for r in operation.regions for o in r.operations]
            if name in _RULES_ALWAYS or not all(map(self.is_exact, inner)):
                return False
            return name == "map" or is_free_of_order(self, operation.regions[-1])
        if name in ("iota", "dynamic_iota"):
            return True
        if name == "rng_bit_generator":
            return operation.attributes.get("rng_algorithm", "DEFAULT") != "DEFAULT"
        if record is None or name in ("rng", "custom_call"):
            return False
        types = [v.type.element for v in operation.results if isinstance(v.type, TensorType)]
        if not any(t.is_float or t.is_complex for t in types) or record.values == "codes":
            return name not in _LEFT_OPEN
        if name in ("convert", "reduce_precision", "uniform_dequantize"):
            return True
        if any(_is_complex(v.type) for v in (*operation.operands, *operation.results)):
            return record.accuracy is EXACT and name in ("add", "subtract", "negate", "real", "imag", "complex")
        return record.accuracy in (EXACT, EXACT_BUT_COMPLEX)

    def _either_zero(self, operation: Operation, results: list[Any]) -> list[Any]:
        """Return results of a choice between numbers: a zero may be the other one."""
        if not _chooses(operation):
            return results
        return [x if not isinstance(x, Enclosure) or not x.element.is_float else _as_interval(x) for x in results]

    def flushed(self, x: Any) -> Any:
        """Return an operand that is computed with: its subnormal numbers may be taken as zero."""
        if not isinstance(x, Enclosure) or not self.allowed.flushes(x.element):
            return x
        low, high, nan = x.bounds()
        least = least_normal(x.element)
        near = (low < least) & (high > -least) & ((low != 0) | (high != 0))
        if not near.any():
            return x
        low, high = np.where(near, np.minimum(low, 0.0), low), np.where(near, np.maximum(high, 0.0), high)
        return dataclasses.replace(x, low=low, high=high, nan=nan)

    # -- the interpreter -----------------------------------------------------------------------------------------------

    def exactly(self, t: Type, value: Any) -> Any:
        """Return the enclosure of one value of a tensor type; other values as they are."""
        return Enclosure(t, np.asarray(value), causes=self.causes) if isinstance(t, TensorType) else value

    def nominal(self, operation: Operation, operands: Sequence[Any]) -> list[Any]:
        """Return what the interpreter gives for an operation, as enclosures of one value."""
        values = self.run(operation, [_value(x) for x in operands])
        return [self.exactly(v.type, x) for v, x in zip(operation.results, values, strict=True)]

    def run(self, operation: Operation, values: Sequence[Any]) -> list[Any]:
        """Return the interpreter's results of one operation."""
        outer = [v for r in operation.regions for v in captures(r)]
        inputs = list(dict.fromkeys([*operation.operands, *outer]))
        plan = self._plans.get(operation)
        if plan is None:
            body = Region(tuple(inputs), [operation], operation.results)
            types = tuple([v.type for v in inputs])
            alone = Function("alone", True, types, tuple([v.type for v in operation.results]), body, operation.location)
            program = dataclasses.replace(self.program, functions={**self.program.functions, "alone": alone})
            loops = traits_of(operation.name).regions is RegionSemantics.LOOP
            plan = machine.plan(program, "alone", Policy(), most_steps=MOST_STEPS if loops else None)
            self._plans[operation] = plan
        known = {**{v: _value(self.values[v]) for v in outer}, **dict(zip(operation.operands, values, strict=True))}
        return machine.run(plan, [known[v] for v in inputs])

    def run_as(
        self, operation: Operation, arrays: Sequence[Any], element: ElementType, at: Sequence[int] | None = None
    ) -> list[Any]:
        """Return the interpreter's results of an operation whose operands `at` (all floats, if not given) and results
        have another element type.
        """
        chosen = [i for i, v in enumerate(operation.operands) if _is_float(v.type)] if at is None else at
        key = operation, element, tuple(chosen)
        return self.run(self.remember(key, lambda: _retype(operation, element, chosen)), arrays)

    def remember(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` gives, which is called once for each key."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    # -- results -------------------------------------------------------------------------------------------------------

    def undecide(self, operation: Operation, operands: Sequence[Any]) -> list[Any]:
        """Return results of which no element is decided; the cause is an operand's, or this operation."""
        found = [causes_of(x) for x in operands if isinstance(x, Enclosure) and x.undecided.any()]
        known = [int(causes[causes != 0].min()) for causes in found]
        cause = min(known) if known else self.cause(operation)
        return [
            dataclasses.replace(x, since=np.full(x.value.shape, cause, np.int32)) if isinstance(x, Enclosure) else x
            for x in self.nominal(operation, operands)
        ]

    def cause(self, operation: Operation) -> int:
        """Return the index of an operation as a cause."""
        if operation not in self.causes:
            self.causes.append(operation)
        return self.causes.index(operation)

    def finish(
        self, operation: Operation, operands: Sequence[Enclosure], low: np.ndarray, high: np.ndarray, nan: np.ndarray,
        *, rounds: bool = True, value: np.ndarray | None = None, index: int = 0, since: np.ndarray | None = None,
    ) -> Enclosure:  # fmt: skip
        """Return the enclosure of a result whose exact value lies between `low` and `high`.

        Args:
            operation: The operation.
            operands: Its operands, for the interpreter's result and what is undecided.
            low: The least real number, in f64 or complex128.
            high: The greatest.
            nan: Where the result may be NaN.
            rounds: Whether the operation may round to its type.
            value: The interpreter's result, if it is known.
            index: The index of the result.
            since: What is undecided; of an elementwise operation by default.
        """
        t = operation.results[index].type
        assert isinstance(t, TensorType)
        value = np.asarray(self.run(operation, [_value(x) for x in operands])[index]) if value is None else value
        if rounds and (t.element.is_float or t.element.is_complex):
            low, high = self._rounded(low, high, t.element.part)
        own = to_f64(value, t.element)
        if t.element.is_complex:
            low = of_parts(np.fmin(np.real(low), np.real(own)), np.fmin(np.imag(low), np.imag(own)))
            high = of_parts(np.fmax(np.real(high), np.real(own)), np.fmax(np.imag(high), np.imag(own)))
        else:
            low, high = np.fmin(low, own), np.fmax(high, own)
        shape = value.shape
        low, high, nan = (np.broadcast_to(x, shape) for x in (low, high, nan | np.isnan(own)))
        since = merge_since(operands, shape) if since is None else since
        return Enclosure(t, value, low, high, nan, since, self.causes)

    def _rounded(self, low: np.ndarray, high: np.ndarray, element: ElementType) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of an operation's result, which is rounded to its type, to a wider one, or not yet."""
        is_narrow = element.bits < 32
        lows, highs = [low], [high]
        if is_narrow:  # computed in f32
            lows.append(by_parts(low, lambda x: round_to(x, F32)))
            highs.append(by_parts(high, lambda x: round_to(x, F32)))
        low, high = _hull(lows, highs)
        ends = [by_parts(x, lambda v: round_to(v, element)) for x in (low, high)]
        if not self.allowed.wide:
            low, high = ends
        low, high = _hull([low, ends[0]], [high, ends[1]])
        if not self.allowed.flushes(element):
            return low, high
        least = least_normal(element)

        def flush(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            near = (x < least) & (y > -least)
            return np.where(near, np.minimum(x, 0.0), x), np.where(near, np.maximum(y, 0.0), y)

        if not np.iscomplexobj(low):
            return flush(low, high)
        real, imag = flush(np.real(low), np.real(high)), flush(np.imag(low), np.imag(high))
        return of_parts(real[0], imag[0]), of_parts(real[1], imag[1])

    # -- movement ------------------------------------------------------------------------------------------------------

    def move(self, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """Return results whose elements are those of operands: which, the operation says on their indices."""
        name = operation.name.removeprefix("stablehlo.")
        at = [i for i in _MOVED.get(name, range(len(operands))) if i < len(operands)]
        others = [x for i, x in enumerate(operands) if i not in at]
        data = [operands[i] for i in at]
        is_movable = all(isinstance(x, Enclosure) for x in operands) and all(
            isinstance(v.type, TensorType) and not isinstance(v.type.element, QuantizedType) for v in operation.results
        )
        if name in ("tuple", "get_tuple_element", "after_all", "create_token") or operation.name == BARRIER:
            return _move_values(name, operation, operands)
        elements = {x.element for x in data if isinstance(x, Enclosure)}
        if not is_movable or not data or not all(map(_is_exact, others)):
            return self.undecide(operation, operands)
        if len(elements) != 1 or any(_element(v.type) not in elements for v in operation.results):
            return self.undecide(operation, operands)
        indices, start = [], 0
        for x in data:
            indices.append(np.arange(start, start + x.value.size).reshape(x.value.shape))
            start += x.value.size
        arrays = [indices[at.index(i)] if i in at else _value(x) for i, x in enumerate(operands)]
        places = self.run_as(operation, arrays, _I64, at)
        return [self.take(v.type, data, p) for v, p in zip(operation.results, places, strict=True)]

    def take(self, t: Type, data: Sequence[Enclosure], places: np.ndarray) -> Enclosure:
        """Return the elements at places among those of several enclosures, one after the other."""
        assert isinstance(t, TensorType)

        def pick(arrays: Sequence[np.ndarray]) -> np.ndarray:
            return (
                np.concatenate([np.ravel(a) for a in arrays])[places]
                if places.size
                else np.zeros(places.shape, arrays[0].dtype)
            )

        value = pick([x.value for x in data])
        low = high = nan = since = None
        if any(x.low is not None for x in data):
            low, high, nan = (pick(list(part)) for part in zip(*(x.bounds() for x in data), strict=True))
        if any(x.since is not None for x in data):
            since = pick(list(map(causes_of, data)))
        return Enclosure(t, value, low, high, nan, since, self.causes)


#: Operations with regions whose rules decide even where all is exact.
_RULES_ALWAYS = ("while", "if", "case", "scatter", "sort")


#: Operations on integers with operands for which the specification leaves the result open.
_LEFT_OPEN = ("power", "divide", "remainder", "convert")


def _is_open(operation: Operation) -> bool:
    """Return whether formats leave results open: those without NaN or zero, and the order of the NaN of FNUZ."""
    record, values = lookup(operation.name), (*operation.operands, *operation.results)
    elements = [v.type.element for v in values if isinstance(v.type, TensorType)]
    if operation.attributes.get("compare_type") == "TOTALORDER":
        return any(map(is_fnuz, elements))
    return record is not None and record.values == "numbers" and any(map(leaves_open, elements))


def _chooses(operation: Operation) -> bool:
    """Return whether an operation gives the larger or the smaller of numbers."""
    inner = [o for r in operation.regions for o in r.operations]
    return any(o.name.removeprefix("stablehlo.") in ("maximum", "minimum", "clamp") for o in (operation, *inner))


def _as_interval(x: Enclosure) -> Enclosure:
    low, high, nan = x.bounds()
    return dataclasses.replace(x, low=low, high=high, nan=nan) if (low == 0).any() else x


def join(first: Enclosure, second: Enclosure) -> Enclosure:
    """Return what one or the other of two enclosures holds."""
    if not isinstance(first, Enclosure):
        return first
    (a, b, m), (c, d, n) = first.bounds(), second.bounds()
    low, high = _hull([a, c], [b, d])
    since = np.maximum(causes_of(first), causes_of(second))
    return dataclasses.replace(first, low=low, high=high, nan=m | n, since=since if since.any() else None)


def causes_of(x: Enclosure) -> np.ndarray:
    """Return the index of the cause of each element that is undecided, else 0."""
    return np.zeros(x.value.shape, np.int32) if x.since is None else x.since


def merge_since(operands: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the causes of elements that depend on the same elements of operands; None where there is none."""
    known = [x.since for x in operands if isinstance(x, Enclosure) and x.since is not None]
    if not known:
        return None
    return np.broadcast_to(np.maximum.reduce([np.broadcast_to(s, shape) for s in known]), shape).astype(np.int32)


def _hull(lows: Sequence[np.ndarray], highs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    if any(map(np.iscomplexobj, (*lows, *highs))):
        low, high = (
            of_parts(f.reduce([np.real(x) for x in ends]), f.reduce([np.imag(x) for x in ends]))
            for f, ends in ((np.fmin, lows), (np.fmax, highs))
        )
        return low, high
    return np.fmin.reduce(list(lows)), np.fmax.reduce(list(highs))


def _move_values(name: str, operation: Operation, operands: Sequence[Any]) -> list[Any]:
    if name == "tuple":
        return [tuple(operands)]
    if name == "get_tuple_element":
        return [operands[0][int(operation.attributes["index"])]]
    return list(operands) if operation.name == BARRIER else [None]


def _retype(operation: Operation, element: ElementType, at: Sequence[int]) -> Operation:
    """Return an operation whose operands `at` and results, and region values of their types, have another type."""
    old = {_element(operation.operands[i].type) for i in at}
    old |= {t.element for v in operation.results if isinstance(t := v.type, TensorType) and _is_wide(t.element)}
    values: dict[Value, Value] = {}

    def again(v: Value) -> Value:
        if v not in values:
            t = v.type
            values[v] = v
            if isinstance(t, TensorType) and t.element in old:
                values[v] = Value(dataclasses.replace(t, element=element.part if t.element.is_float else element))
        return values[v]

    def region(r: Region) -> Region:
        return Region(tuple(map(again, r.arguments)), list(map(inner, r.operations)), tuple(map(again, r.returns)))

    def inner(o: Operation) -> Operation:
        attributes = o.attributes
        value = attributes.get("value")
        if isinstance(value, np.ndarray) and o.results and again(o.results[0]) is not o.results[0]:
            attributes = {**attributes, "value": to_f64(value, _element(o.results[0].type)).astype(element.dtype)}
        return dataclasses.replace(
            o, operands=tuple(map(again, o.operands)), results=tuple(map(again, o.results)), attributes=attributes,
            regions=tuple(map(region, o.regions)),
        )  # fmt: skip

    # A value that is an operand twice becomes two, since each has numbers of its own here.
    operands = tuple([Value(again(v).type if i in at else v.type) for i, v in enumerate(operation.operands)])
    made = inner(operation)
    return dataclasses.replace(made, operands=operands)


def _element(t: Type) -> ElementType:
    return t.element if isinstance(t, TensorType) else F64


def _is_wide(element: ElementType) -> bool:
    return element.is_float or element.is_complex


def _require_small(t: Type, operation: Operation) -> None:
    count = t.size if isinstance(t, TensorType) and t.is_static else 0
    if count > MOST_ELEMENTS:
        expected = f"expected at most {MOST_ELEMENTS:,} elements to enclose, got {t}"
        raise UnsupportedError(f"{operation.location}: {operation.name}: {expected}")


def _is_complex(t: Type) -> bool:
    return isinstance(t, TensorType) and t.element.is_complex


def _is_float(t: Type) -> bool:
    return isinstance(t, TensorType) and t.element.is_float


def _is_exact(x: Any) -> bool:
    if isinstance(x, tuple):
        return all(map(_is_exact, x))
    return not isinstance(x, Enclosure) or x.is_exact


def _value(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_value, x))
    return x.value if isinstance(x, Enclosure) else x


__all__ = ["Evaluator", "Rule", "enclose", "full", "holds_integers", "join", "merge_since", "rule", "rules"]
