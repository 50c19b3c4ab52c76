"""Waivers: cases of a profile that are known to fail or to be unsupported, each with the reason."""

from __future__ import annotations

import dataclasses
import fnmatch
import tomllib

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

    def parse(raw: bytes) -> list[Waiver]:
        try:
            return files.read(_File, tomllib.loads(raw.decode("utf-8")), "the file").waiver
        except ValueError as error:  # also bytes that cannot be decoded and text that is not TOML
            raise ValueError(f"{error} (expected tables [[waiver]] with case and reason)") from None

    return check(files.load(path, where, parse, _MOST_BYTES), where)


def check(waivers: list[Waiver], where: str) -> tuple[Waiver, ...]:
    """Checks waivers. Raises InputError if one has no reason or no case, or is duplicate."""
    seen: set[tuple[str, str]] = set()
    for i, waiver in enumerate(waivers):
        place = f"{where}: waiver[{i}]"
        for field, what in (("case", "pattern"), ("form", "pattern"), ("reason", "reason")):
            if not getattr(waiver, field).strip():
                at = f"{place} ({waiver})" if field == "reason" else f"{place}.{field}"
                raise InputError(f"{at}: expected a {what}, got an empty one")
        if (waiver.case, waiver.form) in seen:
            raise InputError(f"{place}: expected each once, got {waiver} twice")
        seen.add((waiver.case, waiver.form))
    return tuple(waivers)
