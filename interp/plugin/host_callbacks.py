"""Python functions that programs call: their table, and the op that calls them."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable as Function
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.op import Call, OpError, Run
from ...ops.programs.custom_call import bound_target
from ...ops.types import TensorType

if TYPE_CHECKING:
    from .sharding.partition import Tiling

TARGET, INSPECT = "minihlo.python_callback", "minihlo.inspect_sharding"

#: The numbers start at random, so that a cached program never calls a function of another process.
_numbers = itertools.count(int.from_bytes(os.urandom(5)))


class Callback:
    """A function that a program calls by a number. It lives as long as the lowered program or a plan of it."""

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
        self._is_partitioned, self._tilings = is_partitioned, ()
        _callbacks[self.number] = self

    def observe(self, operands: Sequence[Tiling]) -> None:
        """Record the division of the operands over several devices."""
        if self._is_partitioned:
            self._tilings = tuple(operands)

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """Call the function. Raises OpError if its results do not fit, and CallbackError if it raises an exception."""
        if not self._tilings:
            return self._call(*arrays)
        results: tuple[np.ndarray, ...] = ()
        for parts in zip(*[d.divide([x]) for d, x in zip(self._tilings, arrays, strict=True)], strict=True):
            results = self._call(*parts)
        return results

    def _call(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        try:
            results = tuple(np.asarray(self._canonicalize(np.asarray(r))) for r in self._function(*arrays))
        except Exception as error:
            raise CallbackError(f"{type(error).__name__}: {error}") from error
        if len(results) != len(self._results):
            raise OpError(
                f"Mismatched number of outputs from callback. Expected: {len(self._results)}, Actual: {len(results)}"
            )
        for i, (value, expected) in enumerate(zip(results, self._results, strict=True)):
            pairs = {"shape": (value.shape, expected.shape), "dtype": (value.dtype, np.dtype(expected.dtype))}
            for name, (actual, declared) in pairs.items():
                if actual != declared:
                    message = f"Incorrect output {name} for return value #{i}: Expected: {declared}, Actual: {actual}"
                    raise OpError(message)
        return results


class Inspector:
    """A function that receives the sharding of a value when its program is compiled."""

    def __init__(self, function: Function[[bytes], Any]) -> None:
        """The function takes an OpSharding."""
        self.number = next(_numbers)
        self._function = function
        _callbacks[self.number] = self

    def observe(self, operands: Sequence[Tiling]) -> None:
        """Pass the sharding of the operand to the function."""
        self._function(operands[0].message())


class CallbackError(RuntimeError):
    """An exception of a Python function that a program calls."""


_callbacks: weakref.WeakValueDictionary[int, Callback | Inspector] = weakref.WeakValueDictionary()


def observe(attributes: Mapping[str, Any], operands: Function[[], Sequence[Tiling]]) -> None:
    """Pass the division of the operands to the function of a custom call with these attributes, if it has one."""
    if attributes.get("call_target_name") in (TARGET, INSPECT):
        callback = _find(attributes)
        if callback is not None:
            callback.observe(operands())


def _find(attributes: Mapping[str, Any]) -> Callback | Inspector | None:
    config = attributes.get("backend_config") or attributes.get("mhlo.backend_config") or {}
    return _callbacks.get(int(config.get("number", 0)))


@bound_target(INSPECT)
def _inspect(_: Call) -> Run:
    """Does nothing: the function was called at compilation."""
    return lambda _: ()


@bound_target(TARGET)
def _bind(call: Call) -> Run:
    callback = _find(call.attributes)
    if not isinstance(callback, Callback):
        raise OpError("the Python function that it calls no longer exists")
    count = len(call.results)
    tensors = [i for i, t in enumerate(call.operands) if isinstance(t, TensorType)]

    def kernel(*values: Any) -> Any:
        outputs = callback(*[np.asarray(values[i]) for i in tensors])
        results = (*[None] * (count - len(outputs)), *outputs)  # the token is the first result
        return results[0] if count == 1 else results

    return kernel
