"""Verifies a submission: whole, complete, and judged again from its results."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from ...backends import BackendError
from ...errors import InputError, printable
from ...oracle.formats import code_dtype
from .. import conformance, profiles, run, waivers
from ..conformance import Assessment
from ..profiles import Profile
from ..repeats import AnyPart
from ..result import CRASH, FAIL, UNSUPPORTED, CaseResult, Report, StoredCodes, hash_of
from ..run import Choice
from ..tester import RecordedTester, Spec
from ..verdicts import outcome
from ..verdicts.outcome import Settings
from .bundle import CODES, MANIFEST, RESULTS, Submission, nan_codes, read, split_codes

#: The fields of a case that are compared; sentences and pictures may change with versions.
_FACTS = ("verdict", "total", "counts", "worst_ulp", "open_points")
_NONDETERMINISTIC = "nondeterministic"
#: The results of parts of cases, by signature, form and part.
_Codes = Mapping[tuple[str, str, str], tuple[StoredCodes, bytes]]


@dataclasses.dataclass(frozen=True)
class Verification:
    """The outcome of a verification."""

    backend: str
    claim: str  #: the verdict that the submission claims, with its profile and backend
    reasons: tuple[str, ...]  #: why it is refused; empty if it is valid
    assessment: Assessment | None  #: of the results, if they could be judged
    sha256: str


def verify(path: str) -> Verification:
    """Verifies a submission. Raises InputError if the file is none."""
    submission = read(path)
    claim = submission.claim
    backend = printable(claim.backend)
    words = f"{backend}: {printable(claim.verdict)} ({printable(claim.profile)})"
    reasons = list(_changed_members(submission))
    assessment = None
    if not reasons:
        try:
            profile = _profile(submission)
            given = waivers.check(list(claim.waivers), "the claim")
        except InputError as error:
            return Verification(backend, words, (printable(str(error)),), None, submission.manifest.sha256)
        report, wrong = _judge_again(submission, profile)
        reasons += wrong
        if not reasons:
            assessment = conformance.assess(profile, report.cases, given, claim.takes)
            reasons += _check_claim(submission, assessment, report)
    return Verification(backend, words, tuple(map(printable, reasons)), assessment, submission.manifest.sha256)


def _changed_members(submission: Submission) -> Iterator[str]:
    """Members that differ from the list in the manifest."""
    listed, actual = submission.manifest.members, submission.actual.members
    parts = list(split_codes(submission))
    changed = [f"{c.signature} {c.form}" for c, _, k, raw in parts if hashlib.sha256(raw).hexdigest() != k.sha256]
    for name, file in actual.items():
        if listed.get(name) != file:
            of = f" (results of {changed[0]})" if changed and name == CODES else ""
            said = listed[name].sha256 if name in listed else None
            yield f"{name} has been changed{of}: expected the SHA-256 {said}, got {file.sha256}"
    for name in [n for n in listed if n not in actual][:1]:
        yield f"{MANIFEST} lists {name}, which a submission does not have"
    if listed != actual:
        return
    if submission.manifest.sha256 != submission.actual.sha256:
        said, found = submission.manifest.sha256, submission.actual.sha256
        yield f"{MANIFEST} has been changed: expected the SHA-256 {said}, got {found}"
    if changed:
        yield f"{CODES} has been changed: the results of {changed[0]} are not those that {RESULTS} lists"
    if sum(k.size for _, _, k, _ in parts) != len(submission.codes):
        yield f"{CODES} has more results than {RESULTS} lists"


def _profile(submission: Submission) -> Profile:
    """The profile of a submission. Raises InputError if it differs from the claim or from minihlo's."""
    claim = submission.claim
    profile = profiles.parse(submission.profile, "profile.toml")
    if profile.sha256 != claim.profile_sha256 or profile.identifier != claim.profile:
        said = f"{claim.profile} with the hash {claim.profile_sha256}"
        raise InputError(f"another profile: the claim is of {said}, and profile.toml is {_describe(profile)}")
    if profile.identifier in profiles.names() and not profiles.is_ours(profile):
        ours = profiles.load(profile.identifier)
        raise InputError(f"another profile: expected {_describe(ours)}, got {_describe(profile)}")
    if claim.backend != submission.report.run.backend:
        raise InputError(f"the claim is of {claim.backend}, and results.json is of {submission.report.run.backend}")
    if claim.takes not in ("programs", "operations"):
        raise InputError(f"claim.json: takes: expected programs or operations, got {claim.takes}")
    return profile


def _describe(profile: Profile) -> str:
    return f"{profile.identifier} with the hash {profile.sha256}"


# -- judged again ------------------------------------------------------------------------------------------------------


def _judge_again(submission: Submission, profile: Profile) -> tuple[Report, list[str]]:
    """The report on the codes of a submission, and its differences from the submitted one."""
    claim, report = submission.claim, submission.report
    if (report.run.level, report.run.seed, report.run.ulp) != (profile.level, profile.seed, profile.ulp):
        ours = f"{profile.level}, {profile.seed}, {profile.ulp}"
        given = f"{report.run.level}, {report.run.seed}, {report.run.ulp}"
        return report, [f"results.json: expected level, seed and ulp {ours} as in the profile, got {given}"]
    wanted = {(s, f) for s, f, _ in conformance.expected(profile, claim.takes)}
    has = [c.key for c in report.cases]
    reasons = [f"{s} {f}: the case is missing" for s, f in sorted(wanted - set(has))]
    reasons += [f"{s} {f}: the profile has no such case" for s, f in sorted(set(has) - wanted)]
    reasons += [f"{s} {f}: the case is there twice" for (s, f), n in sorted(Counter(has).items()) if n > 1]
    if reasons:
        return report, reasons
    records = tuple(report.run.options.get("accumulate", ()))
    settings = Settings(claim.backend, profile.level, profile.seed, profile.ulp, accumulators=records, is_recorded=True)
    # Nobody claims failures falsely: a case without results that is claimed to fail is accepted as such.
    without = {c.key for c in report.cases if c.verdict in (UNSUPPORTED, CRASH) or (c.verdict == FAIL and not c.kept)}
    every = split_codes(submission)
    codes = {(*c.key, part): (kept, raw) for c, part, kept, raw in every if c.key not in without}
    again = _judge(profile.choice(), settings, claim.takes, codes, reasons) if codes else Report(report.run)
    by_key = {c.key: c for c in again.cases}
    cases: list[CaseResult] = []
    for case in report.cases:
        found = by_key.get(case.key)
        if case.key in without:
            cases.append(case)
        elif found is None:
            reasons.append(f"{case.signature} {case.form}: it has the verdict {case.verdict}, and there are no results")
        else:
            cases.append(_as_claimed(case, found))
            reasons += _differences(case, cases[-1])
    return Report(report.run, cases), reasons


def _judge(choice: Choice, settings: Settings, takes: str, codes: _Codes, reasons: list[str]) -> Report:
    """The report on codes, without cases that have none. Adds the reasons why some cannot be judged."""

    def codes_of(spec: Spec, part: AnyPart) -> np.ndarray | BackendError:
        def refuse(why: str) -> BackendError:
            reasons.append(f"{spec.case.signature} {spec.form}: {why}")
            return BackendError("refused", why)

        key = spec.case.signature, spec.form, str(spec.part)
        if key not in codes:
            return refuse("there are no results")
        kept, raw = codes[key]
        kind = code_dtype(part.result_type)
        size = kind.itemsize * sum(int(np.prod(shape, dtype=np.int64)) for _, shape in part.outputs)
        if len(raw) != size:
            return refuse(f"expected {size:,} bytes of results, got {len(raw):,}")
        if kept.operands != hash_of(part.arrays):
            return refuse("its operands are not those that this version of minihlo and numpy makes")
        return np.frombuffer(raw, kind.newbyteorder("<")).astype(kind)

    there = {key[:2] for key in codes}
    left = ((s, tuple(f for f in forms if (s, f) in there)) for s, forms in choice.listed)
    choice = dataclasses.replace(choice, listed=tuple((s, forms) for s, forms in left if forms))
    tester = RecordedTester(settings, takes, codes_of)
    work = run.tasks(choice, settings, takes)
    session = run.Session(run.describe_run(settings, choice, tester), settings, work, None)
    return session.run(run.in_this_process(None, tester))


def _as_claimed(case: CaseResult, found: CaseResult) -> CaseResult:
    """The new result, marked as differing between two runs if the claim says so: one run does not show that."""
    found = dataclasses.replace(found, kept=case.kept)
    return outcome.nondeterministic(found) if _NONDETERMINISTIC in case.causes else found


def _differences(case: CaseResult, found: CaseResult) -> Iterator[str]:
    for fact in _FACTS:
        said, seen = getattr(case, fact), getattr(found, fact)
        if said != seen:
            yield f"{case.signature} {case.form}: {fact}: claimed {_show(said)}, but the results give {_show(seen)}"
            return


def _show(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_show(v)}" for k, v in value.items()) or "none"
    return printable(str(value))


# -- the claim ---------------------------------------------------------------------------------------------------------


def _check_claim(submission: Submission, assessment: Assessment, report: Report) -> Iterator[str]:
    """Differences between the claim and the results."""
    claim = submission.claim
    for waiver, case in conformance.forbidden(assessment.profile, claim.waivers, claim.takes):
        yield f"the waiver {waiver} is not permitted: {assessment.profile.identifier} requires {case}"
    for waiver in assessment.unused:
        yield f"the waiver {waiver} is superfluous: it waives nothing"
    if claim.verdict != assessment.verdict:
        because = f" ({assessment.problems[0]})" if assessment.problems else ""
        yield f"the claim is {printable(claim.verdict)!r}, and the results are {assessment.verdict!r}{because}"
    codes = nan_codes((case, raw) for case, *_, raw in split_codes(submission))
    found = {"declared": dict(assessment.declared), "counts": report.counts, "nan_codes": codes}
    for field, seen in found.items():
        said = getattr(claim, field)
        if said != seen:
            yield f"claim.json: {field}: claimed {_show(said)}, but the results give {_show(seen)}"
