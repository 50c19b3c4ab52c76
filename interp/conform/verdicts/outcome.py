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
from ..block_parts import BlockPart
from ..cases.case import PRODUCT_OPS, Case
from ..elementwise import Part
from ..format_text import code_text, input_text, value_text
from ..picture_data import picture_data
from ..result import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED, CaseResult, Failure, worst
from ..rows import RowPart
from . import diagnosis, sums
from .judge import FAR, Judgement, judge
from .sums import SumResult

AnyPart = Part | RowPart | BlockPart


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
    codes = (int(x[place]) for x in part.operands)
    words = [str(c) if t == "i1" else code_text(c, t) for c, t in zip(codes, part.case.operands, strict=True)]
    return ",".join(words) + (f"*{times}" if times > 1 else "")


def of_elements(part: Part, judged: Judgement, got: np.ndarray, settings: Settings, seconds: float) -> CaseResult:
    """The result of an elementwise part; the diagnosis and the command are for the caller to add."""
    found = _count(part, judged, len(got), seconds)
    found = dataclasses.replace(found, failures=_failures(part, judged, got, part.expected.codes, settings.errors))
    return dataclasses.replace(found, **picture_data(part, judged))


def _count(part: Part | RowPart, judged: Judgement, total: int, seconds: float) -> CaseResult:
    counts = {v: int(np.count_nonzero(judged.verdicts == i)) for i, v in enumerate(OF_GRADES)}
    wrong = judged.verdicts >= NEAR
    distances = judged.distances[wrong & (judged.distances != FAR)]
    return blank(
        part.case, part.form, worst([v for v, n in counts.items() if n] or [PASS]),
        total=total,
        counts={v: n for v, n in counts.items() if n},
        worst_ulp=int(distances.max()) if distances.size else None,
        histogram=histogram(distances),
        choices=[choices.sentence(p, part.case.result, c) for p, c in judged.choices.items()],
        open_points={IDENTIFIERS[p]: c for p, c in judged.choices.items()},
        seconds=round(seconds, 3),
    )  # fmt: skip


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
    found = _count(part, judged, len(got), 0.0)
    return dataclasses.replace(
        found,
        model=sentence,
        accumulator=facts,
        diagnosis=why.sentence,
        causes=[*why.causes, *causes],
        failures=_failures(part, judged, got, expected.codes, settings.errors),
        **picture_data(part, judged),
        command="" if found.verdict in (PASS, DIVERGENT) else command(part.case, part.form, settings),
    )


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


def _failures(part: Part | RowPart, judged: Judgement, got: np.ndarray, usual: np.ndarray, most: int) -> list[Failure]:
    """The first of each verdict, FAIL before ACCURACY before DIVERGENT, which are held to what is right as a rule."""
    found: list[Failure] = []
    for verdict in (FAIL, ACCURACY, DIVERGENT):
        at = np.flatnonzero(judged.verdicts == OF_GRADES.index(verdict))
        # Of sums that are explained one is enough: each has all of its terms.
        limit = min(most, 1) if verdict == DIVERGENT and isinstance(part, RowPart) else most
        for i in at[: max(limit - len(found), 0)]:
            codes, right = _operands_of(part, int(i)), usual if verdict == DIVERGENT else judged.right
            values = [[value_text(c, t) for c in cs] for cs, t in zip(codes, part.case.operands, strict=True)]
            found.append(failure(verdict, int(i), got, right, judged, codes, values, part.case.result))
    return found


def failure(
    verdict: str, i: int, got: np.ndarray, right: np.ndarray, judged: Judgement, operands: list[list[int]],
    values: list[list[str]], element: str,
) -> Failure:  # fmt: skip
    """The unexpected result at an index of the codes `got`, with its operands."""
    given, wanted, distance = int(got[i]), int(right[i]), int(judged.distances[i])
    words = value_text(given, element), value_text(wanted, element)
    ulp, error = None if distance == FAR else distance, int(judged.errors[i])
    return Failure(verdict, i, len(got), operands, values, given, words[0], wanted, words[1], error, ulp)


def _operands_of(part: Part | RowPart, i: int) -> list[list[int]]:
    """The codes that go into a result."""
    if isinstance(part, Part):
        return [[int(x[i])] for x in part.operands]
    if part.case.op == "sort":
        return [part.arrays[0][i // part.arrays[0].shape[1]].tolist()]
    if part.case.op == "cumulative":
        rows = part.arrays[0]
        return [rows[i // rows.shape[1], : i % rows.shape[1] + 1].tolist()]
    return [t[i].tolist() for t in part.terms]


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
