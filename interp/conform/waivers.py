"""Waivers: cases of a profile that are known to fail or to be unsupported, each with the reason."""

from __future__ import annotations

import dataclasses
import fnmatch
import tomllib
from typing import Any

from .. import foreign
from ..errors import InputError, printable
from . import files

#: A file of waivers is a few pages of text; larger files are not waivers.
_MOST_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Waiver:
    """A pattern of signatures, a pattern of forms, and the reason why matching cases fail."""

    case: str
    reason: str
    form: str = "*"

    def fits(self, signature: str, form: str) -> bool:
        """Whether it waives a case."""
        return fnmatch.fnmatchcase(signature, self.case) and fnmatch.fnmatchcase(form, self.form)

    def __str__(self) -> str:
        return printable(self.case if self.form == "*" else f"{self.case} {self.form}")


@dataclasses.dataclass(frozen=True)
class _File:
    waiver: list[Waiver]


def read(path: str | None) -> tuple[Waiver, ...]:
    """The waivers of a TOML file, a table `[[waiver]]` each. Raises InputError if one is invalid."""
    if path is None:
        return ()
    where = f"--waivers {printable(path)}"
    try:
        raw = foreign.read_bytes(path, _MOST_BYTES)
        return check(files.read(_File, tomllib.loads(raw.decode("utf-8")), "the file").waiver, where)
    except OSError as error:
        raise InputError(f"{where}: {error.strerror or error}") from None
    except RecursionError:
        raise InputError(f"{where}: expected waivers, got a file that is nested too deeply") from None
    except InputError:
        raise
    except ValueError as error:  # also bytes that cannot be decoded and text that is not TOML
        raise InputError(
            f"{where}: {printable(str(error))} (expected tables [[waiver]] with case and reason)"
        ) from None


def check(waivers: list[Waiver], where: str) -> tuple[Waiver, ...]:
    """Checks waivers. Raises InputError if one has no reason or no case, or is duplicate."""
    seen: set[tuple[str, str]] = set()
    for i, waiver in enumerate(waivers):
        for field, value in (("case", waiver.case), ("form", waiver.form)):
            _expect(bool(value.strip()), f"{where}: waiver[{i}].{field}", "a pattern", "an empty one")
        _expect(bool(waiver.reason.strip()), f"{where}: waiver[{i}] ({waiver})", "a reason", "an empty one")
        _expect((waiver.case, waiver.form) not in seen, f"{where}: waiver[{i}]", "each once", f"{waiver} twice")
        seen.add((waiver.case, waiver.form))
    return tuple(waivers)


def _expect(is_so: bool, place: str, expected: str, got: Any) -> None:
    if not is_so:
        raise InputError(f"{place}: expected {expected}, got {got}")
