"""Cases that are known to fail: of a run (--xfail), and of a profile (--waivers), where each has a reason."""

from __future__ import annotations

import dataclasses
import fnmatch
import tomllib
from collections.abc import Iterable, Iterator

from ..errors import InputError, printable
from . import files
from .result import CRASH, FAIL, UNSUPPORTED, CaseResult

#: A file of waivers is a few pages of text; larger files are not waivers.
_MOST_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Waiver:
    """A pattern of signatures, a pattern of forms, and the reason why matching cases fail."""

    case: str
    reason: str  #: empty for a line of --xfail
    form: str = "*"

    def fits(self, signature: str, form: str) -> bool:
        """Whether it waives a case."""
        return self.names(signature) and fnmatch.fnmatchcase(form, self.form)

    def names(self, signature: str) -> bool:
        """Whether it waives a signature in some form."""
        return fnmatch.fnmatchcase(signature, self.case)

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


# -- known failures of a run -------------------------------------------------------------------------------------------


def read_known(path: str | None) -> list[Waiver]:
    """The lines of a file of --xfail; # begins a comment. Raises InputError if it cannot be read or a line has more
    words."""
    if path is None:
        return []
    lines = files.load(path, f"--xfail {path}", lambda raw: raw.decode("utf-8").splitlines())
    words = [line.partition("#")[0].split() for line in lines]
    wrong = next((w for w in words if len(w) > 2), None)
    if wrong:
        raise InputError(f"--xfail {path}: {' '.join(wrong)!r} (a line is SIGNATURE or SIGNATURE FORM)")
    return [Waiver(w[0], "", *w[1:]) for w in words if w]


def mark_expected(case: CaseResult, known: Iterable[Waiver]) -> CaseResult:
    """The case, marked as expected if a line names it."""
    return dataclasses.replace(case, is_expected=True) if any(k.fits(*case.key) for k in known) else case


def outdated_lines(known: Iterable[Waiver], cases: Iterable[CaseResult], signatures: Iterable[str]) -> Iterator[str]:
    """Messages on lines that name no case, or cases of the run that all are right now."""
    cases, signatures = list(cases), list(signatures)
    for line in known:
        verdicts = {c.verdict for c in cases if line.fits(*c.key)}
        if not verdicts and not fnmatch.filter(signatures, line.case):
            yield f"{line}: there is no such case"
        elif verdicts and not verdicts & {FAIL, CRASH, UNSUPPORTED}:
            yield f"{line}: does not fail any more"
