"""custom_call: functions that a program calls by name. `@target("name")` over a function of arrays adds one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..close import hint
from ..op import Accuracy, Call, Run, UnsupportedOpError, op
from ..require import require, unpack
from ..types import Kind, TensorType, TupleType, type_of_dtype
from . import checks

#: Takes a call's operands as numpy arrays, and its `backend_config` as keyword arguments where that is a dictionary.
#: Returns the result, a tuple of several, or None.
Target = Callable[..., Any]

_TARGETS: dict[str, Callable[[Call], Run]] = {}  #: the binders


def target(name: str) -> Callable[[Target], Target]:
    """Makes the decorated function what `custom_call @name` calls. Raises ValueError where the name is taken."""

    def declare(function: Target) -> Target:
        bound_target(name)(functools.partial(_bind_function, function))
        return function

    return declare


def bound_target(name: str) -> Callable[[Callable[[Call], Run]], Callable[[Call], Run]]:
    """Makes the decorated function the binder of `custom_call @name`, for a target that needs more than the values."""

    def declare(bind: Callable[[Call], Run]) -> Callable[[Call], Run]:
        if name in _TARGETS:
            raise ValueError(f"custom_call target {name!r} is declared twice")
        _TARGETS[name] = bind
        return bind

    return declare


def is_target(name: str) -> bool:
    """Whether a custom call of that name has a function."""
    return name in _TARGETS


@op(
    "custom_call",
    values="codes",
    accuracy=Accuracy("by its target"),
    has_effects=True,
    any_sizes=True,
    calls=("called_computations",),
)
def custom_call(call: Call) -> Run:
    """The results of the function that is registered as call_target_name.

    (I2) the name is one that is registered.
    """
    name = call.attribute("call_target_name")
    if len(call.results) == 1 and isinstance(whole := call.results[0], TupleType):
        parts = custom_call(dataclasses.replace(call, results=whole.elements))
        return parts if len(whole.elements) != 1 else lambda *values: (parts(*values),)
    bind = _TARGETS.get(name)
    if bind is None:
        raise UnsupportedOpError(f"expected a known target, got {name!r}{hint(name, _TARGETS)}")
    return bind(call)


def _bind_function(function: Target, call: Call) -> Run:
    """The kernel of a target that is a function of arrays."""
    keywords = dict(call.configuration) if isinstance(call.configuration, Mapping) else {}
    name, types = call.attribute("call_target_name"), call.results

    def kernel(*values: Any) -> Any:
        results = function(*values, **keywords)
        results = () if results is None else results if isinstance(results, tuple) else (results,)
        fit = len(results) == len(types)
        require(fit, f"target {name!r} gave {len(results)} results (expected {len(types)})")
        return unpack(tuple(_check_result(name, r, t) for r, t in zip(results, types, strict=True)))

    return kernel


def _check_result(name: str, result: Any, t: Any) -> Any:
    """The result of a target as an array. Raises OpError where it does not have the type that the program declares."""
    if not isinstance(t, TensorType):
        return result
    array = np.asarray(result)
    fits = array.dtype == t.element.dtype and t.admits(array.shape)
    require(fits, f"target {name!r} gave an array of {array.dtype} {list(array.shape)} (expected {t})")
    return array


for _name, _condition in (
    ("expect_eq", checks.EQUAL),
    ("expect_almost_eq", checks.within(1e-3)),
    ("expect_close", checks.ulps_between(0, 3)),
):
    target(f"check.{_name}")(functools.partial(checks.check, condition=_condition))


@target("check.eq")
def _eq(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    element = type_of_dtype(actual.dtype)
    exact = element.is_integer or element.kind is Kind.BOOL
    checks.check(actual, expected, checks.EQUAL if exact else checks.within(checks.TOLERANCE))
    return np.array(True)
