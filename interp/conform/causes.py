"""Groups the failures of reports by cause, so that one fault is one entry however many cases it affects.

A case names what explains its results (`causes`, from verdicts.diagnosis). Some identifiers name a fault. Others only
describe the failing elements, or the forms that fail. A case without a named fault joins the cases of the same run
that fail alike; the cause counts it as assumed. Crashes are grouped by their messages, with placeholders for numbers
and names. Nothing here depends on the backend.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ..judging.table import CIRCUMSTANCES, DESCRIPTIONS, GROUPS
from ..oracle.formats import FORMATS, INTEGERS
from .result import ABSENT, CRASH, FAIL, CaseResult, Failure

_CAUSE_OF = {name: (cause, sentence) for cause, sentence, names in GROUPS for name in names}

UNEXPLAINED = "unexplained"
_CRASH = "crash: "


@dataclasses.dataclass(frozen=True)
class Member:
    """A failing case of a cause, in a run."""

    run: str  #: the name of the run
    case: CaseResult
    is_assumed: bool = False  #: the case names no fault, and fails like those that name this one

    @property
    def failure(self) -> Failure | None:
        """The failing element with the fewest operand codes; None if there is none, as in most crashes."""
        failing = [f for f in self.case.failures if f.verdict in (FAIL, CRASH)]
        return min(failing, key=_codes, default=None)


@dataclasses.dataclass(frozen=True)
class Cause:
    """A cause of failures, with its cases: those of the first run first, each run's in its own order."""

    identifier: str
    sentence: str
    members: tuple[Member, ...]

    @property
    def verdict(self) -> str:
        """CRASH or FAIL, whichever is more frequent among its members."""
        return Counter(m.case.verdict for m in self.members).most_common(1)[0][0]

    @property
    def is_of_one_family(self) -> bool:
        """Whether no fault is named: the sentence then begins with its operations."""
        return ": " in self.identifier and not self.identifier.startswith(_CRASH)

    @property
    def signatures(self) -> list[str]:
        """The signatures that fail, each once."""
        return list(dict.fromkeys(m.case.signature for m in self.members))

    @property
    def runs(self) -> list[str]:
        """The names of the runs with this cause."""
        return list(dict.fromkeys(m.run for m in self.members))

    @property
    def assumed(self) -> int:
        """The number of cases that were added because they fail alike."""
        return sum(m.is_assumed for m in self.members)

    @property
    def example(self) -> Member:
        """The smallest member that shows the fault."""
        return min(self.members, key=_size)


def _codes(failure: Failure) -> int:
    return sum(map(len, failure.operands))


def _size(member: Member) -> tuple[object, ...]:
    case, failure = member.case, member.failure
    named = [c for c in case.causes if c not in CIRCUMSTANCES]
    return (
        case.is_expected,
        failure is None and case.verdict == FAIL,
        member.is_assumed,
        len(named) > 1,
        not case.command,
        _codes(failure) if failure else 0,
        not case.program,
        case.form != "array",
        case.form,
        case.total,
    )


def causes(runs: Mapping[str, Sequence[CaseResult]]) -> list[Cause]:
    """The causes of all FAIL and CRASH cases, by name of run: those of most signatures first."""
    members: dict[str, list[Member]] = defaultdict(list)
    sentences: dict[str, Counter[str]] = defaultdict(Counter)
    for run, cases in runs.items():
        for case, (key, sentence, is_assumed) in _assign_keys([c for c in cases if c.verdict in (FAIL, CRASH)]):
            members[key].append(Member(run, case, is_assumed))
            sentences[key][sentence] += 0 if is_assumed else 1 + 1000 * (len(case.causes) == 1)
    made = [Cause(key, _usual(key, sentences[key]), tuple(of)) for key, of in members.items()]
    return sorted(made, key=lambda c: (-len(c.signatures), -len(c.members), c.identifier))


def _usual(key: str, sentences: Counter[str]) -> str:
    """The most frequent sentence; for a mere description the one with placeholders, if sentences differ."""
    if len(sentences) > 1 and ": " in key:
        return key.removeprefix(_CRASH)
    return max(sentences.items(), key=lambda s: s[1])[0]


# -- by the diagnosis of a case ----------------------------------------------------------------------------------------

#: The identifier of a cause, its sentence, and whether it is assumed.
_Key = tuple[str, str, bool]


def _assign_keys(failing: Sequence[CaseResult]) -> Iterator[tuple[CaseResult, _Key]]:
    """The cause of each failing case of one run."""
    named = {c.key: key for c in failing if (key := _fault_key(c)) is not None}
    alike = _SimilarCases((c, named[c.key]) for c in failing if c.key in named and c.verdict == FAIL)
    described = {c.key: key for c in failing if c.key not in named and (key := alike.of(c) or _description_key(c))}
    alike = _SimilarCases((c, described[c.key]) for c in failing if c.key in described)
    for case in failing:
        yield case, named.get(case.key) or described.get(case.key) or alike.of_signature(case) or _unexplained_key(case)


class _SimilarCases:
    """Finds causes of cases by the known causes of other cases of the same run that fail alike."""

    def __init__(self, known: Iterable[tuple[CaseResult, _Key]]) -> None:
        self.sentences: dict[str, str] = {}
        self.signatures: dict[str, set[str]] = defaultdict(set)
        self.ops: dict[str, set[str]] = defaultdict(set)
        self.marks: dict[_Mark, set[str]] = defaultdict(set)
        for case, (key, sentence, _) in known:
            self.sentences[key] = sentence
            self.signatures[case.signature].add(key)
            self.ops[case.op].add(key)
            for mark in itertools.chain.from_iterable(_marks(case)):
                self.marks[mark].add(key)

    def of(self, case: CaseResult) -> _Key | None:
        """The cause of other forms of the case; for rows, of the op; otherwise of all elements with the same marks."""
        if found := self.of_signature(case):
            return found
        if any(len(codes) > 1 for f in case.failures for codes in f.operands):  # rows: kinds of operands tell little
            return self._only(self.ops[case.op])
        elements = [set[str]().union(*(self.marks[m] for m in marks)) for marks in _marks(case)]
        return self._only(set.intersection(*elements)) if elements else None

    def of_signature(self, case: CaseResult) -> _Key | None:
        """The cause of other forms of the case."""
        return self._only(self.signatures[case.signature])

    def _only(self, keys: set[str]) -> _Key | None:
        """The cause, if there is only one."""
        if len(keys) != 1:
            return None
        (key,) = keys
        return key, self.sentences[key], True


def _fault_key(case: CaseResult) -> _Key | None:
    """The cause of a case that names a fault, or crashes."""
    if case.verdict == CRASH:
        words = pattern(case.message) or "the backend gives no answer, and no message"
        return f"{_CRASH}{words}", words, False
    faults = [c for c in case.causes if c not in DESCRIPTIONS and c not in CIRCUMSTANCES]
    if not faults:
        return None
    identifier = re.sub(r":\d[\d:]*$", "", faults[0])  # the kind of a lane or a tail, without its number
    if identifier in _CAUSE_OF:
        return (*_CAUSE_OF[identifier], False)
    return identifier, _sentence(case) or case.model or identifier, False


def _description_key(case: CaseResult) -> _Key | None:
    """The cause of a case that only describes its failing elements."""
    words = _sentence(case)
    return (f"{_family(case)}: {pattern(words)}", f"{_family(case)}: {words}", False) if words else None


def _unexplained_key(case: CaseResult) -> _Key:
    what = "sums that no known accumulator gives" if case.model else "wrong results that no known fault gives"
    return f"{_family(case)}: {UNEXPLAINED}", f"{_family(case)}: {what}", False


def _family(case: CaseResult) -> str:
    """The op without its variant: compare for compare_LT, chain for chain_via_f16."""
    first = case.op.split("_")[0]
    return first if first in ("compare", "reduce", "cumulative", "chain") else case.op


#: Additions to a diagnosis: the number of elements that a fault explains, and the forms in which it shows.
_SHARE = re.compile(r" \([\d,]+ of [\d,]+\)|; something else \([\d,]+\)")
_FORMS = re.compile(r"^only [^:;]*: |; only in [^:;]*$")


def _sentence(case: CaseResult) -> str:
    """The diagnosis without details of the case."""
    return _FORMS.sub("", _SHARE.sub("", case.diagnosis)).strip()


# -- by the kinds of failing elements ----------------------------------------------------------------------------------


#: The format, and the kinds of an operand, of the right result and of the given one.
_Mark = tuple[str, str, str, str]


def _marks(case: CaseResult) -> Iterator[list[_Mark]]:
    """The marks of each failing element shown, one for each kind of operand.

    A positive number beside another kind is ignored.
    """
    for failure in case.failures:
        if failure.verdict != FAIL or failure.error == ABSENT or failure.got is None:
            continue
        pairs = zip(failure.operands, failure.values, case.operands, strict=False)
        read = {_kind(c, v, t) for codes, values, t in pairs for c, v in zip(codes, values, strict=False)}
        right = _kind(failure.expected, failure.expected_value, case.result)
        given = _kind(failure.got, failure.got_value, case.result)
        yield [(case.column, kind, right, given) for kind in sorted(read - {"+"} or read)]


def _kind(code: int, value: str, element: str) -> str:
    """NaN, infinity, zero, a subnormal or another number, each with its sign."""
    sign, word = ("-", value[1:]) if value.startswith("-") else ("+", value)
    if word == "nan":
        return word
    if word in ("inf", "0"):
        return sign + word
    fmt = FORMATS.get(element)
    is_code = fmt is not None and 0 <= code < 1 << fmt.bits  # a report may contain anything
    return sign + ("subnormal" if fmt and is_code and fmt.is_subnormal(np.array([code], fmt.code_dtype))[0] else "")


# -- messages ----------------------------------------------------------------------------------------------------------

_TYPES = sorted((*FORMATS, *INTEGERS, "i1"), key=len, reverse=True)
#: Names in a message and their placeholders, from long to short.
_PLACEHOLDERS = tuple(
    (re.compile(expression), by)
    for expression, by in (
        (r"\b(tensor|vector)<[^<>]*>", r"\1<…>"),
        (rf"\b({'|'.join(_TYPES)})\b", "…"),
        (r"(?<![\w.])(/[\w.+-]+){2,}", "…"),
        (r"\b0x[0-9A-Fa-f]+\b", "…"),
        (r"(?<!\w)-?\d+(\.\d+)?([eE][-+]?\d+)?(?![A-Za-z])", "…"),
        (r"…((x|, ?|:|\^)…)+", "…"),
    )
)
#: Length of a message that suffices to distinguish causes.
_LONGEST = 300


def pattern(message: str) -> str:
    """A message in one line with placeholders for its numbers, element types, shapes and paths, truncated."""
    text = " ".join(message[: 4 * _LONGEST].split())
    for expression, by in _PLACEHOLDERS:
        text = expression.sub(by, text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def of_cases(cases: Iterable[CaseResult]) -> list[Cause]:
    """The causes of one run."""
    return causes({"": list(cases)})
