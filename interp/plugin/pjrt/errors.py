"""Exceptions as errors of PJRT."""

from __future__ import annotations

import ctypes

from ...errors import CheckFailure, Error, ExecutionError, InputError, ProgramError, ResourceError, UnsupportedError

CANCELLED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION = 1, 3, 8, 9
UNIMPLEMENTED, INTERNAL = 12, 13

#: The first that fits is taken.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (ResourceError, RESOURCE_EXHAUSTED),
    (MemoryError, RESOURCE_EXHAUSTED),
    (CheckFailure, FAILED_PRECONDITION),
    (UnsupportedError, UNIMPLEMENTED),
    (ProgramError, INVALID_ARGUMENT),
    (InputError, INVALID_ARGUMENT),
    (ExecutionError, INTERNAL),
    (NotImplementedError, UNIMPLEMENTED),
    (KeyboardInterrupt, CANCELLED),
)


class PluginError(Error):
    """An error with a code of its own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ErrorObject:
    """The object of an error's handle; also an event that failed."""

    def __init__(self, error: BaseException) -> None:
        self.code = code_of(error)
        self.text = str(error) or type(error).__name__
        data = self.text.encode(errors="replace")
        self._memory = ctypes.create_string_buffer(data)
        self.properties = {"Message": (ctypes.addressof(self._memory), len(data)), "GetCode": self.code}


class FailedError(Exception):
    """An argument is the result of a program that failed."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__("an argument is the result of a program that failed")
        self.error = error


def code_of(error: BaseException) -> int:
    """Return the code of an exception."""
    if isinstance(error, PluginError):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)
