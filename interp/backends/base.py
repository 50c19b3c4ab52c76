"""The interface of backends, their errors, and the declaration of a kind of backends."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import Error, printable
from .operation import Operation

#: A function that runs a program: takes its text and arrays, returns arrays.
Evaluate = Callable[[str, Sequence[np.ndarray]], Sequence[np.ndarray]]
#: A function that computes one operation on codes.
Operate = Callable[["Operation", Sequence[np.ndarray]], np.ndarray]

PROGRAMS, OPERATIONS = "programs", "operations"
_LACKS = re.compile("unsupported|not supported|not implemented|unimplemented", re.IGNORECASE)


class BackendError(Error):
    """A backend gave no results.

    `how` is "refused" (it does not support the program), "died" (it crashed or failed by its own fault), "slow" (no
    answer in time), or "absent" (it could not be started).
    """

    def __init__(self, how: str, text: str) -> None:
        text = printable(text)  # the text may come from the backend
        super().__init__(text)
        self.how, self.text = how, text

    @property
    def is_lack(self) -> bool:
        """Whether the backend does not support the request. Some backends crash on it, with a message that says so."""
        return self.how == "refused" or (self.how == "died" and _LACKS.search(self.text) is not None)

    def __reduce__(self) -> tuple[type[BackendError], tuple[str, str]]:
        """Return the arguments to create the error in another process."""
        return BackendError, (self.how, self.text)


class Backend(Protocol):
    """A backend that runs programs given as text. (`operation.OperationBackend` is for libraries of operations.)"""

    @property
    def name(self) -> str:
        """The name that the command line knows it by."""
        ...

    @property
    def takes(self) -> str:
        """`PROGRAMS` or `OPERATIONS`."""
        ...

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Return the results of `@main`. Its arguments and results have types that numpy itself has.

        Raises BackendError if the backend gives no results.
        """
        ...

    def close(self) -> None:
        """Release the resources of the backend. It can be used again."""
        ...


@dataclasses.dataclass(frozen=True)
class Conversion:
    """How the specification of a backend rounds floats to integers; StableHLO truncates."""

    targets: tuple[str, ...]  #: the integer types that it applies to
    rounding: str  #: "to nearest even"
    source: str  #: the source


@dataclasses.dataclass(frozen=True)
class Kind:
    """The declaration of a kind of backends. The function `start` in the same file runs in the child process.

    `start(rest)` gets the part of the name after the colon, imports what it needs, and returns `evaluate(text, arrays)`
    or, if the kind takes operations, `operate(operation, arrays)`. An exception of these counts as a refusal, unless it
    is a BackendError.
    """

    names: str  #: the names in messages and documents: "torch:cpu|cuda"
    rest: str = ""  #: a regular expression for the part after the colon
    modules: tuple[str, ...] = ()  #: modules that must be installed
    extra: str = ""  #: the extra of minihlo that installs them
    packages: tuple[str, ...] = ()  #: packages whose versions the results depend on
    takes: str = PROGRAMS  #: empty: `start` returns it and the function
    environment: Callable[[str], Mapping[str, str]] = lambda _: {}  #: environment variables of the child, by `rest`
    conversions: tuple[Conversion, ...] = ()  #: differences of its specification from StableHLO

    def accepts(self, rest: str) -> bool:
        """Whether a name of this kind may go on so after its colon."""
        return re.fullmatch(self.rest, rest) is not None


def one_line(error: BaseException) -> str:
    """Return a short text for an exception."""
    return " ".join(str(error).split())[:400] or type(error).__name__


def call(function: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    """Call a function. Return "results" and its value, or the `how` and the text of a BackendError."""
    try:
        return "results", function(*arguments)
    except BackendError as error:
        return error.how, one_line(error)
    except Exception as error:
        return "refused", one_line(error)
