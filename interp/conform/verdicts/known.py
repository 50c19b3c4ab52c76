"""Known failures: reads and writes the file of --xfail, and finds entries that no longer fail."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Iterator

from ...errors import InputError
from .. import files
from ..result import CRASH, FAIL, UNSUPPORTED, CaseResult


@dataclasses.dataclass(frozen=True)
class Known:
    """A line of the file: the pattern of a signature, and of a form."""

    signature: str
    form: str = "*"

    def fits(self, case: CaseResult) -> bool:
        """Whether the line lists a case."""
        return self.names(case.signature) and fnmatch.fnmatchcase(case.form, self.form)

    def names(self, signature: str) -> bool:
        """Whether the line lists a signature, in some form."""
        return fnmatch.fnmatchcase(signature, self.signature)

    def __str__(self) -> str:
        return self.signature if self.form == "*" else f"{self.signature} {self.form}"


def read(path: str | None) -> list[Known]:
    """The lines of a file; # begins a comment. Raises InputError if it cannot be read or a line has more words."""
    if path is None:
        return []
    lines = files.load(path, f"--xfail {path}", lambda raw: raw.decode("utf-8").splitlines())
    words = [line.partition("#")[0].split() for line in lines]
    wrong = next((w for w in words if len(w) > 2), None)
    if wrong:
        raise InputError(f"--xfail {path}: {' '.join(wrong)!r} (a line is SIGNATURE or SIGNATURE FORM)")
    return [Known(*w) for w in words if w]


def mark_expected(case: CaseResult, known: Iterable[Known]) -> CaseResult:
    """The case, marked as expected if a line names it."""
    return dataclasses.replace(case, is_expected=True) if any(k.fits(case) for k in known) else case


def outdated_lines(known: Iterable[Known], cases: Iterable[CaseResult], signatures: Iterable[str]) -> Iterator[str]:
    """Messages on lines that name no case, or cases of the run that all are right now."""
    cases, signatures = list(cases), list(signatures)
    for line in known:
        verdicts = {c.verdict for c in cases if line.fits(c)}
        if not verdicts and not fnmatch.filter(signatures, line.signature):
            yield f"{line}: there is no such case"
        elif verdicts and not verdicts & {FAIL, CRASH, UNSUPPORTED}:
            yield f"{line}: does not fail any more"
