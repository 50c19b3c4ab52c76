"""Python functions that a program calls: the table of them, and what the call runs."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable as Function
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.custom_call import bound_target
from ...ops.registry import Call, OpError, Run
from ...ops.types import TensorType

TARGET = "minihlo.python_callback"

#: Numbers differ from process to process, so that a program which is kept in a cache never calls another's function.
_numbers = itertools.count(int.from_bytes(os.urandom(5)))


class Callback:
    """A function that a program calls by a number. It lives as long as what JAX has lowered, or a plan of it."""

    def __init__(
        self, function: Function[..., Sequence[Any]], results: tuple[Any, ...], canonicalize: Function[[Any], Any]
    ) -> None:
        """`results` have the shapes and dtypes that the function is to give, once they are `canonicalize`d."""
        self.number = next(_numbers)
        self._function, self._results, self._canonicalize = function, results, canonicalize
        _callbacks[self.number] = self

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """What the function gives. Raises OpError where that does not fit; CallbackError for an exception of it."""
        try:
            found = tuple(np.asarray(self._canonicalize(np.asarray(r))) for r in self._function(*arrays))
        except Exception as error:
            raise CallbackError(f"{type(error).__name__}: {error}") from error
        if len(found) != len(self._results):
            raise OpError(
                f"Mismatched number of outputs from callback. Expected: {len(self._results)}, Actual: {len(found)}"
            )
        for i, (value, wanted) in enumerate(zip(found, self._results, strict=True)):
            for what, has, would in (
                ("shape", value.shape, wanted.shape),
                ("dtype", value.dtype, np.dtype(wanted.dtype)),
            ):
                if has != would:
                    raise OpError(f"Incorrect output {what} for return value #{i}: Expected: {would}, Actual: {has}")
        return found


class CallbackError(RuntimeError):
    """An exception of a Python function that a program calls."""


_callbacks: weakref.WeakValueDictionary[int, Callback] = weakref.WeakValueDictionary()


@bound_target(TARGET)
def _bind(call: Call) -> Run:
    config = call.attributes.get("backend_config") or call.attributes.get("mhlo.backend_config") or {}
    callback = _callbacks.get(int(config.get("number", 0)))
    if callback is None:
        raise OpError("the Python function that it calls no longer exists")
    count = len(call.results)
    tensors = [i for i, t in enumerate(call.operands) if isinstance(t, TensorType)]

    def kernel(*values: Any) -> Any:
        found = callback(*[np.asarray(values[i]) for i in tensors])
        results = (*[None] * (count - len(found)), *found)  # the token comes first
        return results[0] if count == 1 else results

    return kernel
