"""Evaluators of single ops: under a policy, by a backend, or in a type so wide that narrow ones do not round.

The wide evaluators (`"f32"`, `"f64"`) hold every value of a narrower float type in that type, so a conversion to FP8
keeps all digits and the whole range. Beside a wide evaluator, an op of the other one only rounds its own result: if its
operands are numbers of the program's types, it is computed as usual; otherwise it is computed on the operands
as they are, and the result is rounded to its type. Ops that only move or choose elements round nothing.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.cast import cast
from ...ops.op import traits_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType, QuantizedType, TensorType, Type, type_of_dtype
from .. import machine
from ..backends import BackendError
from ..backends.own import Minihlo
from ..backends.subjects import any_subject
from ..diff.examiner import Examiner
from ..diff.judge import rounds
from ..diff.source import Source, inputs
from ..errors import Error, InputError
from ..judging.wide import widened
from ..program import Operation

Arrays = Sequence[Any]

#: Sums are rounded once, so that a wide sum equals a sum of minifloats with a wide result.
EXACT = Policy(accumulate="exact")
WIDE = ("f32", "f64")


@dataclasses.dataclass(frozen=True)
class Choice:
    """A user's choice of an evaluator, before there is a program. One of `policy`, `backend` and `wide` is given."""

    name: str
    policy: Policy | None = None
    backend: Any = None
    wide: str = ""

    def on(self, source: Source) -> Evaluator:
        """The evaluator for the ops of a program."""
        if self.wide:
            return _in_wide(source, ELEMENT_TYPES[self.wide])
        if self.policy is None:
            return _by_backend(source, self.backend)
        return Evaluator(self.name, functools.partial(results_here, source, policy=self.policy))

    def close(self) -> None:
        """Releases the resources of the backend."""
        if self.backend is not None:
            self.backend.close()


def choice(named: Any, role: str, backend_of: Callable[[Any], Any] = any_subject) -> Choice:
    """The choice that a user means: a Policy, "exact", "f32", "f64", a chip's name, a backend or its name.

    `backend_of` finds the backend. Raises InputError, which names the `role`, if there is none.
    """
    if isinstance(named, Policy):
        plain = dataclasses.asdict(Policy())
        fields = [f"{n}={v!r}" for n, v in dataclasses.asdict(named).items() if v != plain[n]]
        return Choice(f"Policy({', '.join(fields)})", named)
    if isinstance(named, str):
        if named == "exact":
            return Choice(named, EXACT)
        if named in WIDE:
            return Choice(named, wide=named)
        try:
            return Choice(named, Policy.target(named))
        except ValueError:
            pass
    try:
        backend = backend_of(named)
    except InputError as error:
        others = f"a Policy, exact, {', '.join(WIDE)} or a chip (minihlo targets)"
        raise InputError(f"{role}: {error}; or {others}") from None
    if isinstance(backend, Minihlo):
        return Choice(backend.name, backend.policy)
    return Choice(backend.name, backend=backend)


# -- evaluators --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Evaluator:
    """An evaluator of single ops."""

    name: str  #: in reports
    results: Callable[[Operation, Arrays], list[Any]]  #: of an op, given its `inputs`; raises errors of `interp`
    refused: dict[Operation, str] = dataclasses.field(default_factory=dict)  #: why a backend gives no results


def results_here(source: Source, operation: Operation, values: Arrays, policy: Policy = EXACT) -> list[Any]:
    """The results of an op under a policy, given its `inputs`."""
    return machine.run(source.plan(operation, policy), values)


def _by_backend(source: Source, backend: Any) -> Evaluator:
    """A backend; if it gives no result for an op, the op is computed exactly, and noted."""
    examiner = Examiner(source, backend, EXACT)
    refused: dict[Operation, str] = {}

    def results(operation: Operation, values: Arrays) -> list[Any]:
        try:
            results = examiner.there(operation, values)
            for result, value in zip(results, operation.results, strict=True):
                if result.shape != value.shape:
                    raise BackendError(
                        "died", f"{backend.name} gave a result of shape {result.shape}, not {value.type}"
                    )
        except BackendError as error:
            if error.how == "absent":
                raise
            refused[operation] = str(error)
            return examiner.here(operation, values)
        return results

    return Evaluator(backend.name, results, refused=refused)


def _in_wide(source: Source, element: ElementType) -> Evaluator:
    """Holds and computes every float type narrower than `element` in it, with sums rounded once."""
    known: dict[Operation, Operation | None] = {}

    def results(operation: Operation, values: Arrays) -> list[Any]:
        if operation not in known:
            keeps = traits_of(operation.name).keeps_bits  # its results depend on the codes
            known[operation] = None if keeps else widened(operation, lambda t: _wide(t, element))
        wide = known[operation]
        if wide is not None:
            try:
                return results_here(source, wide, to_declared(wide, values))
            except Error:
                known[operation] = None  # an op without such a form
        return results_here(source, operation, to_declared(operation, values))

    return Evaluator(element.name, results)


def _beside(inner: Evaluator, wide: Evaluator, policy: Policy) -> Evaluator:
    """An evaluator beside a wide one: its ops take operands that their types do not hold, and round their results.

    `policy` determines the rounding of results to their types.
    """

    def results(operation: Operation, values: Arrays) -> list[Any]:
        given = to_declared(operation, values)
        if all(_is_same(x, y) for x, y in zip(given, values, strict=True)):
            return inner.results(operation, given)
        results = wide.results(operation, values)
        if not rounds(operation):
            return results
        return [convert_to(x, v.type, policy) for x, v in zip(results, operation.results, strict=True)]

    return Evaluator(inner.name, results, refused=inner.refused)


def pair(source: Source, good: Choice, bad: Choice) -> tuple[Evaluator, Evaluator]:
    """Both evaluators for ops of a program, so that each accepts the other's results."""
    if good.wide and bad.wide and good.wide != bad.wide:
        raise InputError(f"expected one wide type at most, got {good.wide} and {bad.wide}")
    first, second = good.on(source), bad.on(source)
    if good.wide and not bad.wide:
        second = _beside(second, first, bad.policy or Policy())
    if bad.wide and not good.wide:
        first = _beside(first, second, good.policy or Policy())
    return first, second


# -- values in wider types ---------------------------------------------------------------------------------------------


def convert_to(value: Any, t: Type, policy: Policy = EXACT) -> Any:
    """A value in the element type of a tensor type."""
    if not isinstance(value, np.ndarray) or not isinstance(t, TensorType) or value.dtype == t.element.dtype:
        return value
    return np.asarray(cast(value, type_of_dtype(value.dtype), t.element, policy))


def to_declared(operation: Operation, values: Arrays) -> list[Any]:
    """The values of an op's `inputs` in the types of that op."""
    return [convert_to(x, v.type) for x, v in zip(values, inputs(operation), strict=True)]


def _is_same(narrow: Any, value: Any) -> bool:
    if narrow is value or not isinstance(value, np.ndarray):
        return True
    back = cast(narrow, type_of_dtype(narrow.dtype), type_of_dtype(value.dtype), EXACT)
    return bool(np.array_equal(back, value, equal_nan=True))


def _wide(t: Type, element: ElementType) -> Type:
    if not isinstance(t, TensorType) or isinstance(t.element, QuantizedType):
        return t
    part = t.element.part
    if not part.is_float or part.bits >= element.bits:
        return t
    wide = f"complex<{element.name}>" if t.element.is_complex else element.name
    return dataclasses.replace(t, element=ELEMENT_TYPES[wide])
