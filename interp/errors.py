"""The exceptions that bad input raises. Each message is one line: the place, what is wrong, what is expected."""

from __future__ import annotations


class Error(Exception):
    """The base class of all exceptions of minihlo."""


class ProgramError(Error, ValueError):
    """The program cannot be read, is not valid, or uses what is not supported. The message starts with the place."""


class InputError(Error, ValueError):
    """An argument is not valid: the syntax, number, shape, dtype or range of a value, or the name of a function."""


class ResourceError(Error, MemoryError):
    """The program needs more memory than there is, or than `MINIHLO_MEMORY_LIMIT` allows."""


class ExecutionError(Error, RuntimeError):
    """An operation failed while it ran."""


class CheckFailure(Error, AssertionError):
    """A check in the program does not hold. The message has the index, both values and their distance."""
