"""What a backend is, how it says that it has no results, and what the file of a kind of backends declares."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..errors import Error, printable

if TYPE_CHECKING:
    from .operation import Operation

#: Runs a program: its text and arrays in, arrays out.
Evaluate = Callable[[str, Sequence[np.ndarray]], Sequence[np.ndarray]]
#: Computes one operation, on codes.
Operate = Callable[["Operation", Sequence[np.ndarray]], np.ndarray]

PROGRAMS, OPERATIONS = "programs", "operations"
_LACKS = re.compile("unsupported|not supported|not implemented|unimplemented", re.IGNORECASE)


class BackendError(Error):
    """A backend gave no results.

    `how` is "refused" (it does not have what the program needs), "died" (it crashed, or failed in a way that is its
    own fault), "slow" (no answer in time), or "absent" (it could not be started at all).
    """

    def __init__(self, how: str, text: str) -> None:
        text = printable(text)  # much of it is what the backend has said
        super().__init__(text)
        self.how, self.text = how, text

    @property
    def is_lack(self) -> bool:
        """Whether the backend does not have what it was asked for; some die of that, and say so."""
        return self.how == "refused" or (self.how == "died" and _LACKS.search(self.text) is not None)

    def __reduce__(self) -> tuple[type[BackendError], tuple[str, str]]:
        """How it is made anew in another process."""
        return BackendError, (self.how, self.text)


class Backend(Protocol):
    """Runs programs given as text. (`operation.OperationBackend` is the kind that takes no programs.)"""

    @property
    def name(self) -> str: ...

    @property
    def takes(self) -> str: ...  #: PROGRAMS

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """The results of `@main`, whose arguments and results are of types that numpy has itself.

        Raises BackendError where the backend gives none.
        """
        ...

    def close(self) -> None:
        """Give back what it holds; it can be used again."""
        ...


@dataclasses.dataclass(frozen=True)
class Conversion:
    """How a backend's own specification rounds floats to integers, where StableHLO truncates."""

    targets: tuple[str, ...]  #: the integer types it is about
    rounding: str  #: "to nearest even"
    source: str  #: where that is written


@dataclasses.dataclass(frozen=True)
class Kind:
    """What this process has to know of a kind of backends; `start`, beside it in its file, runs in the child.

    `start(rest)` gets what follows the colon of the name, imports what it needs, and returns `evaluate(text, arrays)`
    or, if the kind takes operations, `operate(operation, arrays)`. What these raise is told as a refusal; a
    BackendError says for itself how it was.
    """

    names: str  #: how they are spelled, for people: "torch:cpu|cuda"
    rest: str = ""  #: a regular expression of what follows the colon
    modules: tuple[str, ...] = ()  #: that have to be there
    extra: str = ""  #: of minihlo, that installs them
    packages: tuple[str, ...] = ()  #: whose versions the results depend on
    takes: str = PROGRAMS
    environment: Callable[[str], Mapping[str, str]] = lambda _: {}  #: variables of the child, by `rest`
    conversions: tuple[Conversion, ...] = ()  #: what its own specification asks for, and not StableHLO

    def accepts(self, rest: str) -> bool:
        return re.fullmatch(self.rest, rest) is not None


def one_line(error: BaseException) -> str:
    """What an exception says, short."""
    return " ".join(str(error).split())[:400] or type(error).__name__


def call(function: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    """How it went and what came: "results" with the value, or a BackendError's `how` with its text."""
    try:
        return "results", function(*arguments)
    except BackendError as error:
        return error.how, one_line(error)
    except Exception as error:
        return "refused", one_line(error)
