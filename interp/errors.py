"""The exceptions that bad input raises. Each message is one line: the place, what is wrong, what is expected."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def escape(text: str) -> str:
    """Return text of a program, such as a name, on one line and without control characters."""
    return _CONTROL.sub(_escape, text).replace("\n", "\\n")


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def printable(text: str) -> str:
    """Return a text from outside, such as the message of a library, on one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in text)


def count(n: int, noun: str) -> str:
    """A number and its noun, in the plural except for one."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def few(names: Iterable[str], most: int = 3) -> str:
    """The first names, each once, and the number of others."""
    each = list(dict.fromkeys(names))
    more = f" and {len(each) - most:,} more" if len(each) > most else ""
    return ", ".join(each[:most]) + more


class Error(Exception):
    """The base class of all exceptions of minihlo."""

    def __str__(self) -> str:
        return _CONTROL.sub(_escape, super().__str__())


class ProgramError(Error, ValueError):
    """The program cannot be read, is not valid, or uses what is not supported. The message starts with the place."""


class UnsupportedError(ProgramError):
    """The program uses an op, a type or an attribute that is not supported."""


class InputError(Error, ValueError):
    """An argument is not valid: the syntax, number, shape, dtype or range of a value, or the name of a function."""


class ResourceError(Error, MemoryError):
    """The program needs more memory than is available, or than `MINIHLO_MEMORY_LIMIT` allows."""


class OutputError(Error, OSError):
    """An output cannot be written: a file, or a standard stream. A command then ends with the exit status 74."""


class ExecutionError(Error, RuntimeError):
    """An operation failed while it ran."""


class CheckFailure(Error, AssertionError):
    """A check in the program does not hold. The message has the index, both values and their distance."""


class LimitError(ExecutionError):
    """The program has reached the limit of steps (`--max-steps`)."""


class WorkersLostError(ExecutionError):
    """No process is left that runs the tasks of a command."""
