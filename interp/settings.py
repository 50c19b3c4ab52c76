"""Settings that change how programs run and no result: each can be turned off by name."""

from __future__ import annotations

import dataclasses
import os

from .errors import InputError

#: The environment variable that lists what is turned off by default.
VARIABLE = "MINIHLO_WITHOUT"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a plan.

    Attributes:
        tables: Functions of at most 16 bits become lookup tables once these pay.
        threads: The number of threads that may work on one product; 0 stands for the number of processors, at most 8.
    """

    tables: bool = True
    threads: int = 0

    def without(self, names: str, what: str = "without") -> Settings:
        """Return these settings without those in a list such as `tables,threads`.

        Raises InputError for an unknown name; `what` names the option in the message.
        """
        changes: dict[str, bool | int] = {}
        for name in filter(None, map(str.strip, names.split(","))):
            if name not in NAMES:
                raise InputError(f"{what}: expected an optimization ({', '.join(NAMES)}), got {name!r}")
            changes[name] = 1 if name == "threads" else False
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]


#: The names of what can be turned off.
NAMES = tuple(field.name for field in dataclasses.fields(Settings))


def default_settings() -> Settings:
    """Return the settings that the environment asks for. Raises InputError for an unknown name."""
    return Settings().without(os.environ.get(VARIABLE, ""), VARIABLE)
