"""Assesses the results of a run against a profile: problems, waivers and declarations."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Iterator, Sequence

from ..errors import count, few, printable
from . import profiles
from .cases.case import PRODUCT_OPS
from .cases.forms import forms
from .profiles import OPTIONAL, REQUIRED, Profile
from .result import ACCURACY, CRASH, FAIL, UNSUPPORTED, CaseResult
from .waivers import Waiver

CONFORMANT, NOT_CONFORMANT = "conformant", "not conformant"
#: Ops, with or without attributes in their names, whose sums have accumulators.
_PRODUCTS = (*PRODUCT_OPS, "scaled_dot")
#: The cause of a product that differs between two runs.
_NONDETERMINISTIC = "nondeterministic"


@dataclasses.dataclass(frozen=True)
class Problem:
    """A case that does not conform to the profile."""

    signature: str
    form: str
    why: str

    def __str__(self) -> str:
        return printable(f"{self.signature} {self.form}: {self.why}")


@dataclasses.dataclass(frozen=True)
class Assessment:
    """The assessment of a run against a profile."""

    profile: Profile
    problems: tuple[Problem, ...]
    used: tuple[Waiver, ...]  #: that waive something
    unused: tuple[Waiver, ...]
    #: The backend's choices where the profile leaves them open: names with phrases.
    declared: tuple[tuple[str, str], ...]

    @property
    def is_conformant(self) -> bool:
        return not self.problems

    @property
    def verdict(self) -> str:
        """`conformant`, `conformant with 2 waivers` or `not conformant`."""
        if self.problems:
            return NOT_CONFORMANT
        return f"{CONFORMANT} with {count(len(self.used), 'waiver')}" if self.used else CONFORMANT

    @property
    def line(self) -> str:
        """The verdict, the profile with its origin, and the declarations."""
        declared = (f"{name}: {phrase}" for name, phrase in self.declared)
        return printable("; ".join([f"{self.verdict} ({profiles.origin(self.profile)})", *declared]))


def assess(profile: Profile, results: Sequence[CaseResult], waivers: Sequence[Waiver], takes: str) -> Assessment:
    """Assesses results against a profile.

    Args:
        profile: the profile.
        results: of all its cases; a missing result is a problem.
        waivers: the cases that may be wrong.
        takes: the kind of the backend, `programs` or `operations`: some forms exist only for programs.
    """
    by_key = {c.key: c for c in results}
    problems: list[Problem] = []
    used: set[Waiver] = set()
    for signature, form, need in expected(profile, takes):
        case = by_key.get((signature, form))
        why = "there is no result" if case is None else _objection(profile, case, need)
        if not why:
            continue
        fitting = [w for w in waivers if w.fits(signature, form)]
        if fitting and need != REQUIRED and case is not None:
            used.update(fitting)
            continue
        if fitting and need == REQUIRED:
            why += f" ({profile.identifier} requires it: it cannot be waived)"
        problems.append(Problem(signature, form, why))
    return Assessment(
        profile,
        tuple(problems),
        tuple(w for w in waivers if w in used),
        tuple(w for w in waivers if w not in used),
        tuple(_declarations(profile, results)),
    )


def expected(profile: Profile, takes: str) -> Iterator[tuple[str, str, str]]:
    """The signature, form and need of every result that a backend has to give."""
    for entry in profile.listed:
        for form in forms(entry.case, 3, takes):
            if form in entry.forms:
                yield entry.signature, form, entry.need


def forbidden(profile: Profile, waivers: Iterable[Waiver], takes: str) -> Iterator[tuple[Waiver, str]]:
    """Waivers of cases that may not be waived, each with the first such case."""
    cases = list(expected(profile, takes))
    for waiver in waivers:
        fitting = [(f"{s} {f}", need) for s, f, need in cases if waiver.fits(s, f)]
        if fitting and all(need == REQUIRED for _, need in fitting):
            yield waiver, fitting[0][0]


def _objection(profile: Profile, case: CaseResult, need: str) -> str:
    """The objection to a case; empty if it conforms to the profile."""
    if case.verdict == UNSUPPORTED:
        return "" if need == OPTIONAL else f"unsupported, and {need}: {case.message or 'without a message'}"
    if case.verdict == CRASH:
        return f"the backend died, or gave no answer: {case.message or 'without a message'}"
    if case.verdict == FAIL:
        why = f": {case.diagnosis}" if case.diagnosis else ""
        return f"{case.counts.get(FAIL, 0):,} of {case.total:,} results are wrong{why}"
    for point, made in case.open_points.items():
        if point not in profile.declare:
            return f"{'; '.join(case.choices)}: {profile.identifier} does not let {point} be declared"
        other = next((c for c in made if c not in profile.choices(point)), None)
        if other is not None:
            return f"{point}: {other} is not among the choices that {profile.identifier} lets be declared"
    accumulator = _accumulator(case)
    if accumulator and not any(fnmatch.fnmatchcase(accumulator, p) for p in profile.accumulators):
        return f"{accumulator}: {profile.identifier} does not let this accumulator be declared ({case.model})"
    if _NONDETERMINISTIC in case.causes and _NONDETERMINISTIC not in profile.accumulators:
        return "the results are not the same in two runs"
    return ""


def _accumulator(case: CaseResult) -> str:
    """The identifier of the accumulator of sums of products; empty for other cases."""
    if not case.op.startswith(_PRODUCTS) or case.verdict in (FAIL, CRASH, UNSUPPORTED):
        return ""
    return next((c for c in case.causes if c != _NONDETERMINISTIC), "exact")


def _declarations(profile: Profile, results: Sequence[CaseResult]) -> Iterator[tuple[str, str]]:
    """Declarations: overflow, other open points with a choice of the backend, accumulators, and the accuracy."""
    has = [c for c in results if c.verdict not in (UNSUPPORTED, CRASH)]
    for point, phrases in profile.declare.items():
        chosen: dict[str, set[str]] = {}
        for case in has:
            for choice in case.open_points.get(point, {}):
                phrase = profile.choices(point).get(choice) or choice
                chosen.setdefault(phrase, set()).add(case.column)
        if chosen or point == "overflow":
            yield point, _phrase(chosen, {c.column for c in has}) or phrases[profiles.DEFAULT]
    names = list(filter(None, map(_accumulator, has)))
    if names:
        yield "accumulator", few(n.removeprefix("unit/") for n in names)
    inaccurate = [c.worst_ulp or 0 for c in has if c.verdict == ACCURACY]
    if inaccurate:
        yield "accuracy", f"up to {max(inaccurate)} ULP"


def _phrase(chosen: dict[str, set[str]], formats: set[str]) -> str:
    """The choices, with the formats if these are not all minifloats of the run."""
    by_formats: dict[tuple[str, ...], list[str]] = {}
    for phrase, of in sorted(chosen.items()):
        by_formats.setdefault(tuple(sorted(of)), []).append(phrase)
    names = {of: "" if set(of) >= formats else f" ({' '.join(of)})" for of in by_formats}
    return ", ".join(" or ".join(phrases) + names[of] for of, phrases in by_formats.items())
