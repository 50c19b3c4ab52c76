"""Errors of running programs: the operation that failed, and our exception in the place of the kernel's."""

from __future__ import annotations

import collections
import traceback
from collections.abc import Iterator

from ..ops.op import CheckError
from ..ops.processes.exchange import DeadlockError
from . import code
from .code import Code
from .errors import CheckFailure, Error, ExecutionError, LimitError, ResourceError
from .program import Operation
from .steps import StepsError


def as_ours(error: Exception) -> Exception:
    """The exception to raise in the place of one that an op of a plan raised, with the place of the op."""
    if isinstance(error, Error):
        return error
    if isinstance(error, RecursionError):
        return ExecutionError(_too_deep(error))
    for theirs, ours in _OURS.items():
        if isinstance(error, theirs):
            return ours(_message_with_place(error) + " (out of memory)" * isinstance(error, MemoryError))
    return error


#: The exceptions of ops and numpy, and ours for each; the first that fits counts.
_OURS: dict[type[Exception], type[Error]] = {
    CheckError: CheckFailure, StepsError: LimitError, MemoryError: ResourceError,
    **dict.fromkeys((ArithmeticError, LookupError, TypeError, ValueError, AssertionError), ExecutionError),
}  # fmt: skip


def _too_deep(error: RecursionError) -> str:
    """Which function is entered most often when calls nest too deeply, and where its next call stands."""
    counts: collections.Counter[Code] = collections.Counter()
    calls: dict[Code, Operation] = {}
    for running, operation in _running_steps(error):
        counts[running] += 1
        calls[running] = operation
    if not counts:
        return "the program nests too deeply"
    function, count = counts.most_common(1)[0]
    place = f"{calls[function].location}: {calls[function].name}"
    if count > 1:
        return f"{place}: {function.label} calls itself too deeply, {count} times so far (a recursion without an end?)"
    return f"{place}: {sum(counts.values())} calls are nested here (expected fewer)"


def failed_operation(error: BaseException) -> Operation | None:
    """Return the innermost op whose kernel raised `error`."""
    operations = [operation for _, operation in _running_steps(error)]
    return operations[-1] if operations else None


def _running_steps(error: BaseException) -> Iterator[tuple[Code, Operation]]:
    """Yield the regions that were running when `error` was raised, and the op of each, from the outside in."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code is Code.run.__code__:
            operation = code.operation_of(frame.f_locals.get("step"))
            if operation is not None:
                yield frame.f_locals["self"], operation


def _message_with_place(error: BaseException) -> str:
    operation = failed_operation(error)
    text = " ".join(_message(error).split()) or type(error).__name__
    text += "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{operation.location}: {operation.name}: {text}" if operation else text


def _message(error: BaseException) -> str:
    if not isinstance(error, DeadlockError):
        return str(error)

    def place(part: BaseException) -> str:
        operation = failed_operation(part)
        return f" at {operation.location}" if operation else ""

    return error.message(place)
