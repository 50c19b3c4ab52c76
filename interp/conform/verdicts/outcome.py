"""Makes a CaseResult of judged results: counts, some failures, the map or curve, and the command."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backends import BackendError
from ...backends.programs import Builder
from ...errors import printable
from ...judging import open_points as choices
from ...judging.open_points import IDENTIFIERS
from ...judging.record import NEAR, OF_GRADES, Diagnosis
from ..cases.case import PRODUCT_OPS, Case
from ..elementwise import Part
from ..format_text import code_text, input_text, value_text
from ..picture_data import picture_data
from ..repeats import AnyPart
from ..result import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED, CaseResult, Failure, worst
from ..rows import RowPart
from . import diagnosis, sums
from .judge import FAR, Judgement, judge
from .sums import SumResult


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a run that concern a case."""

    backend: str
    level: int = 1
    seed: int = 0
    ulp: int = 4
    errors: int = 5  #: number of failures reported for a case
    timeout: float = 20.0
    operands: tuple[str, ...] = ()  #: as given by --operands: these instead of the case's own
    accumulators: tuple[str, ...] = ()  #: records given by --accumulate
    keeps: bool = False  #: whether results are kept as codes (result.StoredCodes)
    is_recorded: bool = False  #: results come from a file, so that nothing can be run

    @property
    def can_repeat(self) -> bool:
        """Whether cases are run again, to see the conditions of a failure."""
        return not self.operands and not self.is_recorded


def blank(case: Case, form: str, verdict: str, **fields: Any) -> CaseResult:
    """A result with the names and types of its case."""
    types = list(case.operands)
    return CaseResult(case.signature, form, case.name, types, case.result, case.row, case.column, verdict, **fields)


def without_result(case: Case, form: str, how: str, text: str, settings: Settings) -> CaseResult:
    """The result of a case that the backend refused, or died of; some die of cases that they do not support."""
    if BackendError(how, text).is_lack:
        return blank(case, form, UNSUPPORTED, message=printable(text))
    return blank(case, form, CRASH, message=printable(text), command=command(case, form, settings))


def add_diagnosis(result: CaseResult, why: Diagnosis) -> CaseResult:
    """A result with its diagnosis."""
    return dataclasses.replace(result, diagnosis=why.sentence, causes=list(why.causes))


def command(case: Case, form: str, settings: Settings, operands: Sequence[str] = (), beside: Sequence[str] = ()) -> str:
    """What runs a case again, on some operands alone (see `operands_text`) where they are given, beside others."""
    named = ["--case", case.signature, "--form", form]
    if settings.is_recorded:
        return shlex.join(["minihlo", "conform", "judge", "DIR", "RESULTS", *named])
    words = ["minihlo", "conform", settings.backend, *named]
    if operands:
        words += [word for text in operands for word in ("--operands", text)]
    elif settings.level != 1:
        words += ["--level", str(settings.level)]
    for other in beside:
        words += ["--beside", other]
    if settings.seed and not operands:
        words += ["--seed", str(settings.seed)]
    return shlex.join(words)


def operands_text(part: Part, place: int, times: int = 1) -> str:
    """The operands at a place as --operands takes them."""
    codes = (int(x[place]) for x in part.arrays)
    words = [str(c) if t == "i1" else code_text(c, t) for c, t in zip(codes, part.case.operands, strict=True)]
    return ",".join(words) + (f"*{times}" if times > 1 else "")


def of_part(
    part: AnyPart,
    judged: Judgement,
    got: np.ndarray,
    usual: np.ndarray,
    settings: Settings,
    most_open: int | None = None,
    **facts: Any,
) -> CaseResult:
    """The result of a part.

    Args:
        part: the part.
        judged: the verdicts on its results.
        got: its results, as codes.
        usual: the codes that are right as a rule; results that are left open are shown beside them.
        settings: of the run.
        most_open: the number of results shown that are left open; None for as many as of others.
        facts: fields of the result, in place of those that follow from the verdicts.
    """
    counts = {v: n for i, v in enumerate(OF_GRADES) if (n := int(np.count_nonzero(judged.verdicts == i)))}
    verdict = worst(list(counts) or [PASS])
    distances = judged.distances[(judged.verdicts >= NEAR) & (judged.distances != FAR)]
    fields = {
        "total": len(got),
        "counts": counts,
        "worst_ulp": int(distances.max()) if distances.size else None,
        "histogram": histogram(distances),
        "choices": [choices.sentence(p, part.case.result, c) for p, c in judged.choices.items()],
        "open_points": {IDENTIFIERS[p]: c for p, c in judged.choices.items()},
        "failures": _failures(part, judged, got, usual, settings.errors, most_open),
        "command": "" if verdict in (PASS, DIVERGENT) else command(part.case, part.form, settings),
        **picture_data(part, judged),
    }
    return blank(part.case, part.form, verdict, **(fields | facts))


def of_rows(
    part: RowPart, got: np.ndarray, settings: Settings, zeros_are_open: bool, formed: SumResult | None = None
) -> CaseResult:
    """The result of a case on rows; `formed` is what is known of its sums, together with those of other shapes."""
    sentence, facts, causes = "", None, ()
    if not is_sum(part):
        expected = part.with_nan_first(got) if part.case.op == "sort" else part.expected
        judged = judge(part.case.result, got, expected, 0, zeros_are_open)
        why = diagnosis.explain_rows(part, judged, got)
    else:
        (formed,) = sums.judge_sums([part], [got]) if formed is None else (formed,)
        expected, judged, why = part.exact, formed.judged, formed.why
        sentence, facts, causes = formed.sentence, formed.accumulator, (formed.identifier,) if formed.identifier else ()
        if not formed.identifier and not why:
            why = diagnosis.of_sums(part, got)
    known = {"model": sentence, "accumulator": facts, "diagnosis": why.sentence, "causes": [*why.causes, *causes]}
    # Of sums that are explained one is enough: each has all of its terms.
    return of_part(part, judged, got, expected.codes, settings, 1, **known)


def nondeterministic(result: CaseResult) -> CaseResult:
    """The result of sums that are right, or explained, and not the same in two runs: of products that is no PASS."""
    if result.op not in (*PRODUCT_OPS, "scaled_dot") or result.verdict not in (PASS, DIVERGENT):
        return result
    model = f"{result.model}; not the same in two runs"
    return dataclasses.replace(result, verdict=DIVERGENT, model=model, causes=[*result.causes, "nondeterministic"])


def is_sum(part: RowPart) -> bool:
    """Whether results are sums, or products of many numbers, whose order is a backend's own affair."""
    return part.case.op != "sort" and part.body in ("add", "multiply")


def histogram(distances: np.ndarray) -> dict[str, int]:
    """How many are so far off; from 10 ULP on in powers of two."""
    binned = np.where(distances < 10, distances, 1 << np.int64(np.log2(np.maximum(distances, 1).astype(np.float64))))
    return {str(d): n for d, n in sorted(Counter(binned.tolist()).items()) if d}


def _failures(
    part: AnyPart, judged: Judgement, got: np.ndarray, usual: np.ndarray, most: int, most_open: int | None
) -> list[Failure]:
    """The first of each verdict, FAIL before ACCURACY before DIVERGENT."""
    found: list[Failure] = []
    for verdict in (FAIL, ACCURACY, DIVERGENT):
        at = np.flatnonzero(judged.verdicts == OF_GRADES.index(verdict))
        limit = most if verdict != DIVERGENT or most_open is None else min(most, most_open)
        for i in map(int, at[: max(limit - len(found), 0)]):
            codes, right = part.contributing(i), usual if verdict == DIVERGENT else judged.right
            values = [[value_text(c, t) for c in cs] for cs, t in zip(codes, part.case.operands, strict=True)]
            found.append(failure(verdict, i, got, right, judged, codes, values, *part.kind_at(i)))
    return found


def failure(
    verdict: str, i: int, got: np.ndarray, right: np.ndarray, judged: Judgement, operands: list[list[int]],
    values: list[list[str]], element: str, kind: str = "",
) -> Failure:  # fmt: skip
    """The unexpected result at an index of the codes `got`, with its operands; `kind` is a word for what it is."""
    given, wanted, distance = int(got[i]), int(right[i]), int(judged.distances[i])
    words = kind + value_text(given, element), kind + value_text(wanted, element)
    ulp, error = None if distance == FAR else distance, int(judged.errors[i])
    return Failure(verdict, i, len(got), operands, values, given, words[0], wanted, words[1], error, ulp)


def as_program(part: AnyPart) -> tuple[str, list[str]]:
    """A part as a StableHLO program, and its inputs as `minihlo run --input` takes them."""
    builder = Builder()
    part.emit(builder)
    inputs = [input_text(codes, element, codes.shape) for codes, element in builder.inputs]
    return builder.text(), inputs


def merge_parts(a: CaseResult, b: CaseResult, errors: int) -> CaseResult:
    """Two parts of one case as one."""
    steps = Counter(a.histogram) + Counter(b.histogram)
    points = dict.fromkeys([*a.open_points, *b.open_points])
    first = a if a.verdict == worst([a.verdict, b.verdict]) else b
    order = (FAIL, CRASH, ACCURACY, DIVERGENT)
    return dataclasses.replace(
        first,
        total=a.total + b.total,
        counts=dict(Counter(a.counts) + Counter(b.counts)),
        histogram={d: steps[d] for d in sorted(steps, key=int)},
        worst_ulp=max((d for d in (a.worst_ulp, b.worst_ulp) if d is not None), default=None),
        choices=list(dict.fromkeys([*a.choices, *b.choices])),
        open_points={p: dict(Counter(a.open_points.get(p)) + Counter(b.open_points.get(p))) for p in points},
        failures=sorted([*a.failures, *b.failures], key=lambda f: order.index(f.verdict))[:errors],
        seconds=round(a.seconds + b.seconds, 3),
        kept=a.kept | b.kept,
    )
