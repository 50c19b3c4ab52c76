"""Python functions that a program calls: the table of them, and what the call runs."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable as Function
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ...ops.programs.custom_call import bound_target
from ...ops.registry import Call, OpError, Run
from ...ops.types import TensorType

TARGET, INSPECT = "minihlo.python_callback", "minihlo.inspect_sharding"

#: Numbers differ from process to process, so that a program which is kept in a cache never calls another's function.
_numbers = itertools.count(int.from_bytes(os.urandom(5)))


class Divided(Protocol):
    """How a tensor lies on devices."""

    def divide(self, wholes: Sequence[Any]) -> list[Any]:
        """Each device's part."""
        ...

    def message(self) -> bytes:
        """An OpSharding."""
        ...


class Callback:
    """A function that a program calls by a number. It lives as long as what JAX has lowered, or a plan of it."""

    def __init__(
        self,
        function: Function[..., Sequence[Any]],
        results: tuple[Any, ...],
        canonicalize: Function[[Any], Any],
        is_partitioned: bool = False,
    ) -> None:
        """`results` have the shapes and dtypes that the function is to give, once they are `canonicalize`d.

        A function that is partitioned is called for each device, with its parts of the operands.
        """
        self.number = next(_numbers)
        self._function, self._results, self._canonicalize = function, results, canonicalize
        self._is_partitioned, self._divided = is_partitioned, ()
        _callbacks[self.number] = self

    def placed(self, operands: Sequence[Divided]) -> None:
        """Learn how the operands lie on several devices."""
        if self._is_partitioned:
            self._divided = tuple(operands)

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """What the function gives. Raises OpError where that does not fit; CallbackError for an exception of it."""
        if not self._divided:
            return self._called(*arrays)
        results: tuple[np.ndarray, ...] = ()
        for parts in zip(*[d.divide([x]) for d, x in zip(self._divided, arrays, strict=True)], strict=True):
            results = self._called(*parts)
        return results

    def _called(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        try:
            results = tuple(np.asarray(self._canonicalize(np.asarray(r))) for r in self._function(*arrays))
        except Exception as error:
            raise CallbackError(f"{type(error).__name__}: {error}") from error
        if len(results) != len(self._results):
            raise OpError(
                f"Mismatched number of outputs from callback. Expected: {len(self._results)}, Actual: {len(results)}"
            )
        for i, (value, expected) in enumerate(zip(results, self._results, strict=True)):
            for what, has, would in (
                ("shape", value.shape, expected.shape),
                ("dtype", value.dtype, np.dtype(expected.dtype)),
            ):
                if has != would:
                    raise OpError(f"Incorrect output {what} for return value #{i}: Expected: {would}, Actual: {has}")
        return results


class Inspector:
    """A function that learns, when a program is compiled, how a value of it lies on several devices."""

    def __init__(self, function: Function[[bytes], Any]) -> None:
        """The function takes an OpSharding."""
        self.number = next(_numbers)
        self._function = function
        _callbacks[self.number] = self

    def placed(self, operands: Sequence[Divided]) -> None:
        """Learn how the operand lies."""
        self._function(operands[0].message())


class CallbackError(RuntimeError):
    """An exception of a Python function that a program calls."""


_callbacks: weakref.WeakValueDictionary[int, Callback | Inspector] = weakref.WeakValueDictionary()


def placed(attributes: Mapping[str, Any], operands: Function[[], Sequence[Divided]]) -> None:
    """Let the function that a custom call with these attributes calls, if any, learn how its operands lie."""
    if attributes.get("call_target_name") in (TARGET, INSPECT):
        callback = _called_by(attributes)
        if callback is not None:
            callback.placed(operands())


def _called_by(attributes: Mapping[str, Any]) -> Callback | Inspector | None:
    config = attributes.get("backend_config") or attributes.get("mhlo.backend_config") or {}
    return _callbacks.get(int(config.get("number", 0)))


@bound_target(INSPECT)
def _inspect(_: Call) -> Run:
    """Does nothing: the function has been called when the program was compiled."""
    return lambda _: ()


@bound_target(TARGET)
def _bind(call: Call) -> Run:
    callback = _called_by(call.attributes)
    if not isinstance(callback, Callback):
        raise OpError("the Python function that it calls no longer exists")
    count = len(call.results)
    tensors = [i for i, t in enumerate(call.operands) if isinstance(t, TensorType)]

    def kernel(*values: Any) -> Any:
        outputs = callback(*[np.asarray(values[i]) for i in tensors])
        results = (*[None] * (count - len(outputs)), *outputs)  # the token comes first
        return results[0] if count == 1 else results

    return kernel
