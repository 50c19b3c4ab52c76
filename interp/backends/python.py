"""Any Python object by `module:attr`. The module is searched in the current folder first.

The object is a function `(text, arrays) -> arrays`, or has a method `evaluate` of that kind, or a method
`operate(operation, codes) -> codes` (see `minihlo.interp.backends.operation`); a class is called first, without
arguments. NotImplementedError means that the backend does not support the request. Any other exception is a fault.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .base import OPERATIONS, PROGRAMS, BackendError, Evaluate, Kind, one_line

KIND = Kind("MODULE:ATTR", rest=r"[^\W\d]\w*(\.\w+)*:[^\W\d]\w*(\.\w+)*", takes="")


def start(name: str) -> tuple[str, Callable[..., Any]]:
    """Return whether the object takes programs or operations, and its function.

    Raises TypeError if it is neither.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, "")
    target = operator.attrgetter(attribute)(importlib.import_module(module))
    # From now on the folder comes last, so that later imports still work and no file hides an installed package.
    sys.path[:] = [*(p for p in sys.path if p), ""]
    if isinstance(target, type):
        target = target()
    if hasattr(target, "operate"):
        return OPERATIONS, operator_of(target)
    if not callable(getattr(target, "evaluate", target)):
        got = type(target).__name__
        raise TypeError(f"{attribute}: expected a function or an object with evaluate or operate, got {got}")
    return PROGRAMS, evaluator(target)


def evaluator(target: Any) -> Evaluate:
    """Return a function, or the method `evaluate` of an object, wrapped to raise BackendError."""
    return _guard(getattr(target, "evaluate", target), _as_list)


def operator_of(target: Any) -> Callable[..., np.ndarray]:
    """Return the method `operate` of an object, wrapped to raise BackendError."""
    return _guard(target.operate, np.asarray)


def _as_list(results: Any) -> list[np.ndarray]:
    return [np.asarray(r) for r in (results if isinstance(results, (list, tuple)) else [results])]


def _guard(function: Callable[..., Any], made: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def guarded(*arguments: Any) -> Any:
        try:
            return made(function(*arguments))
        except BackendError:
            raise
        except NotImplementedError as error:
            raise BackendError("refused", one_line(error)) from None
        except Exception as error:
            raise BackendError("died", f"it raised {type(error).__name__}: {one_line(error)}") from None

    return guarded
