"""The exceptions bad input raises. Each message is one line: where, what is wrong, what would be right."""

from __future__ import annotations


class Error(Exception):
    """Base of everything minihlo raises on purpose."""


class ProgramError(Error, ValueError):
    """The program cannot be read, is not valid, or uses what is not supported. The message starts with its place."""


class InputError(Error, ValueError):
    """A value given to a program does not fit: its syntax, number, shape, type or range; or no such function."""


class ResourceError(Error, MemoryError):
    """The program asks for more memory than the machine has."""


class ExecutionError(Error, RuntimeError):
    """An op failed while it ran."""


class CheckFailure(Error, AssertionError):
    """A check in the program does not hold. The message tells the index, both values and their distance."""
