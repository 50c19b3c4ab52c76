"""Evaluates a program over enclosures, operation by operation; the rule of an operation is found by its name."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.op import EXACT, EXACT_BUT_COMPLEX, call_attribute, full_name, lookup, traits_of
from ...ops.policy import Policy
from ...ops.traits import RegionSemantics
from ...ops.types import ElementType, TensorType, Type
from .. import machine, planner
from ..errors import UnsupportedError
from ..passes.rewriting import captures
from ..planner import Plan, find_function
from ..program import Function, Operation, Program, Region, Value
from .allowed import Allowed
from .combining import is_free_of_order
from .movement import move
from .retype import element_of, retype
from .values import (
    F32,
    Enclosure,
    by_parts,
    causes_of,
    exactly_known,
    flush,
    has_nan,
    hull,
    is_fnuz,
    know_bits,
    leaves_open,
    merge_since,
    round_to,
    settle,
    to_f64,
    value_of,
)

#: Gives the results of an operation; None where another rule has to be found.
Rule = Callable[["Evaluator", Operation, Sequence[Any]], "Sequence[Any] | None"]
_RULES: dict[str, Rule] = {}
_PLAIN = Policy()
#: The most iterations of a loop.
MOST_ITERATIONS = 100_000
#: The most steps of a loop whose end is not decided, of which the interpreter's result is looked at.
MOST_STEPS = 10_000_000
#: The most elements of a value; an enclosure takes some twelve numbers of f64 for each while it is computed.
MOST_ELEMENTS = 1 << 24
#: Operations on codes that are no movement of elements.
_NOT_MOVED = ("stablehlo.rng_bit_generator", "stablehlo.custom_call")


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the decorated function as the rule of operations; `stablehlo.` may be left out of their names."""

    def declare(function: Rule) -> Rule:
        for name in names:
            _RULES[full_name(name)] = function
        return function

    return declare


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
    return evaluator.start(entry.body, arguments)


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
        self._plans: dict[tuple[Operation, Policy], Plan] = {}
        self._known: dict[Any, Any] = {}

    # -- regions and operations ----------------------------------------------------------------------------------------

    def start(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """Return the enclosures of a region's results for arguments that are known to the bit."""
        given = zip(region.arguments, arguments, strict=True)
        return self.region(region, [self.exactly(v.type, x, has_bits=True) for v, x in given])

    def region(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """Return the enclosures of a region's results."""
        self.values.update(zip(region.arguments, arguments, strict=True))
        for operation in region.operations:
            _require_small(operation)
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
        is_exact = all(map(exactly_known, [*operands, *captured]))
        nan, has_bits = any(map(has_nan, operands)), all(map(know_bits, operands))
        moves = record is not None and record.values == "codes" and name not in _NOT_MOVED
        is_open = _is_open(operation) or (nan and shows_bits(operation) and not has_bits)
        if is_exact and self.is_exact(operation, nan) and not is_open:
            results = _either_zero(operation, self.nominal(operation, operands))
        else:
            results = found(self, operation, operands) if found is not None else None
            if results is None:
                results = (move if moves and not captured else Evaluator.undecide)(self, operation, operands)
        has_sign = is_exact and name in _WITH_SIGN
        results = [settle(x, has_sign) if isinstance(x, Enclosure) else x for x in results]
        if moves and has_bits:
            results = [dataclasses.replace(x, has_bits=True) if isinstance(x, Enclosure) else x for x in results]
        return results

    def is_exact(self, operation: Operation, nan: bool = False) -> bool:
        """Return whether exact operands, of which some are NaN with `nan`, have one result, that of the interpreter."""
        record, name = lookup(operation.name), operation.name.removeprefix("stablehlo.")
        if operation.regions:
            inner = [o for r in operation.regions for o in r.operations]
            if name in _RULES_ALWAYS or not all(map(self.is_exact, inner)):
                return False
            return name == "map" or is_free_of_order(self, operation.regions[-1], nan)
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
        if any(element_of(v.type).is_complex for v in (*operation.operands, *operation.results)):
            return record.accuracy is EXACT and name in ("add", "subtract", "negate", "real", "imag", "complex")
        return record.accuracy in (EXACT, EXACT_BUT_COMPLEX)

    def flushed(self, x: Any) -> Any:
        """Return an operand that is computed with: its subnormal numbers may be taken as zero."""
        if not isinstance(x, Enclosure) or not self.allowed.flushes(x.element):
            return x
        low, high, nan = x.bounds()
        ends = flush(low, high, x.element)
        is_same = np.array_equal(low, ends[0], equal_nan=True) and np.array_equal(high, ends[1], equal_nan=True)
        return x if is_same else dataclasses.replace(x, low=ends[0], high=ends[1], nan=nan)

    # -- the interpreter -----------------------------------------------------------------------------------------------

    def exactly(self, t: Type, value: Any, has_bits: bool = False) -> Any:
        """Return the enclosure of one value of a tensor type; other values as they are."""
        if not isinstance(t, TensorType):
            return value
        return Enclosure(t, np.asarray(value), causes=self.causes, has_bits=has_bits)

    def nominal(self, operation: Operation, operands: Sequence[Any]) -> list[Any]:
        """Return what the interpreter gives for an operation, as enclosures of one value."""
        values = self.run(operation, [value_of(x) for x in operands])
        return [self.exactly(v.type, x) for v, x in zip(operation.results, values, strict=True)]

    def run(self, operation: Operation, values: Sequence[Any], policy: Policy = _PLAIN) -> list[Any]:
        """Return the interpreter's results of one operation, under the default policy or another one."""
        outer = [v for r in operation.regions for v in captures(r)]
        inputs = list(dict.fromkeys([*operation.operands, *outer]))
        plan = self._plans.get((operation, policy))
        if plan is None:
            body = Region(tuple(inputs), [operation], operation.results)
            types = tuple([v.type for v in inputs])
            alone = Function("alone", True, types, tuple([v.type for v in operation.results]), body, operation.location)
            program = dataclasses.replace(self.program, functions={**self.program.functions, "alone": alone})
            loops = traits_of(operation.name).regions is RegionSemantics.LOOP
            plan = planner.plan(program, "alone", policy, most_steps=MOST_STEPS if loops else None)
            self._plans[operation, policy] = plan
        known = {**{v: value_of(self.values[v]) for v in outer}, **dict(zip(operation.operands, values, strict=True))}
        return machine.run(plan, [known[v] for v in inputs])

    def run_as(
        self, operation: Operation, arrays: Sequence[Any], element: ElementType, at: Sequence[int] | None = None
    ) -> list[Any]:
        """Return the interpreter's results of an operation whose operands `at` (all floats, if not given) and results
        have another element type.
        """
        types = [v.type for v in operation.operands]
        floats = [i for i, t in enumerate(types) if isinstance(t, TensorType) and element_of(t).is_float]
        chosen = floats if at is None else at
        key = operation, element, tuple(chosen)
        return self.run(self.remember(key, lambda: retype(operation, element, chosen)), arrays)

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

    def since(self, operation: Operation, where: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        """Return the causes of elements of which some are undecided since an operation, if they were not before."""
        own = np.where(where, np.int32(self.cause(operation)), np.int32(0))
        return own if before is None else np.where(before != 0, before, own)

    def finish(
        self, operation: Operation, operands: Sequence[Enclosure], low: np.ndarray, high: np.ndarray, nan: np.ndarray,
        *, rounds: bool = True, value: np.ndarray | None = None, index: int = 0, since: np.ndarray | None = None,
        beyond: np.ndarray | None = None,
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
            beyond: Where a step on the way may overflow.
        """
        t = operation.results[index].type
        assert isinstance(t, TensorType)
        value = np.asarray(self.run(operation, [value_of(x) for x in operands])[index]) if value is None else value
        if rounds and (t.element.is_float or t.element.is_complex):
            low, high = self._rounded(low, high, t.element.part)
        own = to_f64(value, t.element)
        if beyond is not None:
            own = np.where(beyond & np.isinf(own), np.nan, own)
        low, high = hull([low, own], [high, own])
        shape = value.shape
        low, high, nan = (np.broadcast_to(x, shape) for x in (low, high, nan | np.isnan(own)))
        since = merge_since(operands, shape) if since is None else since
        return Enclosure(t, value, low, high, nan, since, self.causes, beyond)

    def around(
        self, operation: Operation, operands: Sequence[Enclosure], center: np.ndarray, error: np.ndarray,
        known: np.ndarray | bool = True, value: np.ndarray | None = None, index: int = 0,
    ) -> Enclosure:  # fmt: skip
        """Return the enclosure of a result that lies within an error of a number.

        Args:
            operation: The operation.
            operands: Its operands.
            center: The number, in f64 or complex128.
            error: The error, of each part of complex numbers; where it is infinite, the result may be anything.
            known: Where anything is known of the result; elsewhere it is undecided.
            value: The interpreter's result, if it is known.
            index: The index of the result.
        """
        is_any = np.isinf(error)
        center, error = np.where(is_any, 0.0, center), np.where(known, error, 0.0)
        since = merge_since(operands, center.shape)
        if not np.all(known):
            since = self.since(operation, ~np.broadcast_to(known, center.shape), since)
        low, high = by_parts(center, lambda v: v - error), by_parts(center, lambda v: v + error)
        nan = is_any | np.isnan(center)
        return self.finish(operation, operands, low, high, nan, value=value, index=index, since=since)

    def _rounded(self, low: np.ndarray, high: np.ndarray, element: ElementType) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of an operation's result, which is rounded to its type, to a wider one, or not yet."""
        is_narrow = element.bits < 32
        lows, highs = [low], [high]
        if is_narrow:  # computed in f32
            lows.append(by_parts(low, lambda x: round_to(x, F32)))
            highs.append(by_parts(high, lambda x: round_to(x, F32)))
        low, high = hull(lows, highs)
        ends = [by_parts(x, lambda v: round_to(v, element)) for x in (low, high)]
        if not self.allowed.wide:
            low, high = ends
        low, high = hull([low, ends[0]], [high, ends[1]])
        return flush(low, high, element) if self.allowed.flushes(element) else (low, high)


#: Operations whose zeros have the sign that IEEE 754 gives them.
_WITH_SIGN = ("stablehlo.add", "stablehlo.subtract", "stablehlo.multiply")
#: Operations with regions whose rules decide even where all is exact.
_RULES_ALWAYS = ("while", "if", "case", "scatter", "sort")
#: Operations on integers with operands for which the specification leaves the result open.
_LEFT_OPEN = ("power", "divide", "remainder", "convert")


def shows_bits(operation: Operation) -> bool:
    """Return whether an operation tells one NaN from another."""
    return operation.name == "stablehlo.bitcast_convert" or operation.attributes.get("compare_type") == "TOTALORDER"


def _is_open(operation: Operation) -> bool:
    """Return whether formats leave results open: those without NaN or zero, and the order of the NaN of FNUZ."""
    record, values = lookup(operation.name), (*operation.operands, *operation.results)
    elements = [v.type.element for v in values if isinstance(v.type, TensorType)]
    if operation.attributes.get("compare_type") == "TOTALORDER":
        return any(map(is_fnuz, elements))
    return record is not None and record.values == "numbers" and any(map(leaves_open, elements))


def _either_zero(operation: Operation, results: list[Any]) -> list[Any]:
    """Return exact results; where the larger or the smaller of numbers is chosen, a zero may be the other one."""
    inner = [o for r in operation.regions for o in r.operations]
    if not any(o.name.removeprefix("stablehlo.") in ("maximum", "minimum", "clamp") for o in (operation, *inner)):
        return results
    return [x.as_interval() if x.element.is_float and not x.value.all() else x for x in results]


def _require_small(operation: Operation) -> None:
    for t in (v.type for v in (*operation.operands, *operation.results)):
        if isinstance(t, TensorType) and t.is_static and t.size > MOST_ELEMENTS:
            expected = f"expected at most {MOST_ELEMENTS:,} elements to enclose, got {t}"
            raise UnsupportedError(f"{operation.location}: {operation.name}: {expected}")


__all__ = ["Evaluator", "Rule", "enclose", "rule", "rules"]
