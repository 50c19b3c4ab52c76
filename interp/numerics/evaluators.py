"""Evaluators of single ops: under a policy, by a backend, or in a type so wide that narrow ones do not round.

The wide evaluators (`"f32"`, `"f64"`) hold every value of a narrower float type in that type, so a conversion to FP8
keeps all digits and the whole range. Beside a wide evaluator, an op of the other one only rounds its own result: if its
operands are numbers of the program's types, it is computed as usual; otherwise it is computed on the operands
as they are, and the result is rounded to its type. Ops that only move or choose elements round nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...ops.cast import cast
from ...ops.op import traits_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType, QuantizedType, TensorType, Type, type_of_dtype
from .. import machine
from ..backends import OPERATIONS, BackendError, transport
from ..backends.own import Minihlo
from ..backends.subjects import any_subject
from ..diff.examiner import operands_of, receive
from ..diff.judge import rounds
from ..diff.operations import operate
from ..diff.source import Source, inputs
from ..errors import Error, InputError
from ..machine import Plan
from ..program import CONSTANT, Operation, Region, Value

Arrays = Sequence[Any]

#: Sums are rounded once, so that a wide sum equals a sum of minifloats with a wide result.
EXACT = Policy(accumulate="exact")
WIDE = ("f32", "f64")


class Evaluator(Protocol):
    """An evaluator of single ops."""

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    @property
    def runs_whole(self) -> bool:
        """Whether a loop, branch or call evaluated as a whole gives the same bits as op by op."""
        ...

    def results(self, operation: Operation, values: Arrays) -> list[Any]:
        """The results of an op, given its `inputs`. Raises errors of `interp`."""
        ...


@dataclasses.dataclass(frozen=True)
class Choice:
    """A user's choice of an evaluator, before there is a program. One of `policy`, `backend` and `wide` is given."""

    name: str
    policy: Policy | None = None
    backend: Any = None
    wide: str = ""

    @property
    def platform(self) -> str | None:
        """The platform of JAX that the evaluator runs on, if it is one."""
        return getattr(self.backend, "platform", None)

    def on(self, source: Source) -> Evaluator:
        """The evaluator for the ops of a program."""
        if self.wide:
            return WideEvaluator(source, ELEMENT_TYPES[self.wide])
        if self.policy is not None:
            return PolicyEvaluator(source, self.name, self.policy)
        return BackendEvaluator(source, self.backend)

    def close(self) -> None:
        """Releases the resources of the backend."""
        if self.backend is not None:
            self.backend.close()


def choice(named: Any, role: str, backend_of: Callable[[Any], Any] = any_subject) -> Choice:
    """The choice that a user means: a Policy, "exact", "f32", "f64", a chip's name, a backend or its name.

    `backend_of` finds the backend. Raises InputError, which names the `role`, if there is none.
    """
    if isinstance(named, Policy):
        return Choice(_describe(named), named)
    if named == "exact":
        return Choice(named, EXACT)
    if isinstance(named, str) and named in WIDE:
        return Choice(named, wide=named)
    if isinstance(named, str):
        try:
            return Choice(named, Policy.target(named))
        except ValueError:
            pass
    try:
        backend = backend_of(named)
    except InputError as error:
        raise InputError(
            f"{role}: {error}; or a Policy, exact, {', '.join(WIDE)} or a chip (minihlo targets)"
        ) from None
    if isinstance(backend, Minihlo):
        return Choice(backend.name, backend.policy)
    return Choice(backend.name, backend=backend)


def _describe(policy: Policy) -> str:
    plain = Policy()
    fields = [f.name for f in dataclasses.fields(Policy) if getattr(policy, f.name) != getattr(plain, f.name)]
    return f"Policy({', '.join(f'{n}={getattr(policy, n)!r}' for n in fields)})"


# -- evaluators --------------------------------------------------------------------------------------------------------


class PolicyEvaluator:
    """minihlo under a policy."""

    def __init__(self, source: Source, name: str, policy: Policy) -> None:
        self.name, self.policy, self._source = name, policy, source
        # Stochastic rounding draws bits in the order of the ops; each op alone starts from the seed.
        self.runs_whole = policy.rounding != "stochastic"
        self._plans: dict[Operation, Plan] = {}

    def results(self, operation: Operation, values: Arrays) -> list[Any]:
        if operation not in self._plans:
            self._plans[operation] = self._source.plan(operation, self.policy)
        return machine.run(self._plans[operation], values)


class BackendEvaluator:
    """A backend; if it gives no result for an op, the op is computed exactly, and noted."""

    runs_whole = False

    def __init__(self, source: Source, backend: Any) -> None:
        self.name, self._source, self._backend = backend.name, source, backend
        self._exact = PolicyEvaluator(source, "exact", EXACT)
        self._texts: dict[Operation, str] = {}
        self.refused: dict[Operation, str] = {}  #: why the backend gives no results

    def results(self, operation: Operation, values: Arrays) -> list[Any]:
        if operation not in self.refused:
            try:
                return self._compute(operation, values)
            except BackendError as error:
                if error.how == "absent":
                    raise
                self.refused[operation] = str(error)
        return self._exact.results(operation, values)

    def _compute(self, operation: Operation, values: Arrays) -> list[Any]:
        if self._backend.takes == OPERATIONS:
            return operate(self._backend, operation, operands_of(operation, values))
        if operation not in self._texts:
            self._texts[operation] = self._source.text(operation, packed=True)
        arrays = [a for x in values for a in transport.pack(x, type_of_dtype(x.dtype))]
        answer = self._backend.evaluate(self._texts[operation], arrays)
        results = receive(answer, [v.type for v in operation.results], self.name)
        for result, value in zip(results, operation.results, strict=True):
            assert isinstance(value.type, TensorType)
            if result.shape != value.type.shape:
                raise BackendError("died", f"{self.name} gave a result of shape {result.shape}, not {value.type}")
        return results


class WideEvaluator:
    """Holds and computes every float type narrower than `element` in it, with sums rounded once."""

    runs_whole = False

    def __init__(self, source: Source, element: ElementType) -> None:
        self.name, self._element = element.name, element
        self._exact = PolicyEvaluator(source, "exact", EXACT)
        self._widened: dict[Operation, Operation | None] = {}

    def results(self, operation: Operation, values: Arrays) -> list[Any]:
        wide = self._of(operation)
        if wide is not None:
            given = [convert_to(x, v.type) for x, v in zip(values, inputs(wide), strict=True)]
            try:
                return self._exact.results(wide, given)
            except Error:
                self._widened[operation] = None  # an op without such a form
        return self._exact.results(operation, to_declared(operation, values))

    def _of(self, operation: Operation) -> Operation | None:
        if operation not in self._widened:
            keeps = traits_of(operation.name).keeps_bits  # its results depend on the codes
            self._widened[operation] = None if keeps else _Widener(self._element).operation(operation)
        return self._widened[operation]


class RoundingEvaluator:
    """An evaluator beside a wide one: its ops take operands that their types do not hold, and round their own
    results."""

    runs_whole = False

    def __init__(self, evaluator: Evaluator, wide: WideEvaluator, policy: Policy) -> None:
        """`policy` determines the rounding of results to their types."""
        self.name, self.inner, self._wide, self._policy = evaluator.name, evaluator, wide, policy

    def results(self, operation: Operation, values: Arrays) -> list[Any]:
        given = to_declared(operation, values)
        if all(_is_same(x, y) for x, y in zip(given, values, strict=True)):
            return self.inner.results(operation, given)
        results = self._wide.results(operation, values)
        if not rounds(operation):
            return results
        return [convert_to(x, v.type, self._policy) for x, v in zip(results, operation.results, strict=True)]


def pair(source: Source, good: Choice, bad: Choice) -> tuple[Evaluator, Evaluator]:
    """Both evaluators for ops of a program, so that each accepts the other's results."""
    evaluators = [good.on(source), bad.on(source)]
    for i, other in ((0, 1), (1, 0)):
        wide, evaluator = evaluators[other], evaluators[i]
        if isinstance(wide, WideEvaluator) and not isinstance(evaluator, WideEvaluator):
            evaluators[i] = RoundingEvaluator(evaluator, wide, (good, bad)[i].policy or Policy())
    if isinstance(evaluators[0], WideEvaluator) and isinstance(evaluators[1], WideEvaluator) and good.wide != bad.wide:
        raise InputError(f"expected one wide type at most, got {good.wide} and {bad.wide}")
    return evaluators[0], evaluators[1]


# -- values in wider types ---------------------------------------------------------------------------------------------


def convert_to(value: Any, t: Type, policy: Policy = EXACT) -> Any:
    """A value in the element type of a tensor type."""
    if not isinstance(value, np.ndarray) or not isinstance(t, TensorType) or value.dtype == t.element.dtype:
        return value
    return cast(value, type_of_dtype(value.dtype), t.element, policy)


def to_declared(operation: Operation, values: Arrays) -> list[Any]:
    """The values of an op's `inputs` in the program's types."""
    return [convert_to(x, v.type) for x, v in zip(values, inputs(operation), strict=True)]


def _is_same(narrow: Any, value: Any) -> bool:
    if narrow is value or not isinstance(value, np.ndarray):
        return True
    back = cast(narrow, type_of_dtype(narrow.dtype), type_of_dtype(value.dtype), EXACT)
    return bool(np.array_equal(back, value, equal_nan=True))


class _Widener:
    """Copies an op with wider types instead of narrow floats."""

    def __init__(self, element: ElementType) -> None:
        self._element = element
        self._values: dict[Value, Value] = {}

    def operation(self, operation: Operation) -> Operation:
        attributes = {k: v for k, v in operation.attributes.items() if k != "algorithm"}  # it names narrow types
        if operation.name == CONSTANT:
            attributes["value"] = convert_to(attributes["value"], self._type(operation.results[0].type))
        return dataclasses.replace(
            operation,
            operands=self._all(operation.operands),
            results=self._all(operation.results),
            regions=tuple(map(self._region, operation.regions)),
            attributes=attributes,
            origin=operation,
        )

    def _region(self, region: Region) -> Region:
        arguments = self._all(region.arguments)
        operations = [self.operation(o) for o in region.operations]
        return Region(arguments, operations, self._all(region.returns))

    def _all(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(self._values.setdefault(v, Value(self._type(v.type))) for v in values)

    def _type(self, t: Type) -> Type:
        if not isinstance(t, TensorType) or isinstance(t.element, QuantizedType):
            return t
        part = t.element.part
        if not part.is_float or part.bits >= self._element.bits:
            return t
        wide = f"complex<{self._element.name}>" if t.element.is_complex else self._element.name
        return dataclasses.replace(t, element=ELEMENT_TYPES[wide])
