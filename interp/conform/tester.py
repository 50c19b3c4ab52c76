"""Runs cases on one backend: many in a program, fewer if it fails, down to the smallest case that fails."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends import BackendError
from ..backends.programs import Builder
from ..judging.record import WRONG
from ..oracle.formats import all_codes
from . import repeats, tests
from .block_parts import BlockPart, ScaledPart
from .cases import block_data, data
from .cases.case import ROW_OPS, Case
from .cases.forms import LAYOUTS
from .cases.row_data import arrays
from .elementwise import Part, of_positions
from .repeats import AnyPart, Results
from .reproduction import Failing, add_explanations, batches
from .result import ACCURACY, CRASH, FAIL, UNSUPPORTED, CaseResult, StoredCodes
from .rows import RowPart
from .support import OtherAxis, Types, collect, operate, or_raise, outputs, takes, to_integers
from .verdicts import blocks, outcome, scaled_sums, sums
from .verdicts.outcome import Settings
from .verdicts.sums import SumResult

#: Number of attempts to reproduce a crash on fewer operands.
_TRIES = 24
#: One in this many parts of a program runs a second time, if it has at most this many elements.
_SAMPLED, _SAMPLED_ELEMENTS = 4, 1 << 17


@dataclasses.dataclass(frozen=True)
class Spec:
    """One case in one form, and the part of its operands."""

    case: Case
    form: str
    part: int = 0

    @property
    def group(self) -> tuple[object, ...]:
        """The key of cases that may share a program: the same operands in similar forms."""
        if self.case.op == "test":
            return (self.case.name.rsplit(".", 1)[0],)
        kind = self.form if self.form in ("array", "constant", "scalar", "broadcast") else "small"
        part = 0 if self.form in LAYOUTS else self.part
        if self.case.has_products:  # all shapes of it are judged together
            return (self.case.signature,)
        rows = self.case.op == "cumulative" if self.case.op in ROW_OPS else None
        alone = self.case.op if self.case.is_blocks else self.case.op == "convert"
        return self.case.column, len(self.case.operands), kind, rows, part, alone


class Tester:
    """Runs cases on a backend, which it restarts if it dies."""

    def __init__(self, backend: Any, settings: Settings) -> None:
        self.backend, self.settings = backend, settings
        self.kind = takes(backend)
        self._types = Types(lambda part: self._evaluate([part], settings.timeout), settings)
        self._longest = 0.0

    def run(self, specs: Sequence[Spec], beside: Sequence[Spec] = ()) -> list[CaseResult]:
        """The results of cases, in order; those `beside` them run in the same programs and are not reported."""
        if specs[0].case.op == "test":
            return [self._test(s.case) for s in specs]
        parts = [self.part(s) for s in (*specs, *beside)]
        found: list[CaseResult | None] = [None] * len(parts)
        failing: list[Failing] = []
        results = self.results(parts)
        others = self._try_some_again(parts[: len(specs)], results) if self.settings.can_repeat else {}
        formed = _judge_sums(parts[: len(specs)], results[: len(specs)], self.settings.accumulators)
        zeros_are_open = self.kind == "operations"
        for i, (part, got) in enumerate(zip(parts[: len(specs)], results, strict=False)):
            began = time.perf_counter()
            if isinstance(got, BackendError):
                found[i] = self._without(part, got)
            elif isinstance(part, Part):
                judged, codes = part.judge(got, self.settings.ulp, zeros_are_open)
                seconds = time.perf_counter() - began
                found[i] = result = outcome.of_elements(part, judged, codes, self.settings, seconds)
                if result.verdict in (FAIL, ACCURACY):
                    failing.append((i, part, judged, codes))
            else:
                if isinstance(part, BlockPart):
                    result = blocks.result_of(part, got, self.settings)
                else:
                    result = outcome.of_rows(part, got, self.settings, zeros_are_open, formed.get(i))
                result = outcome.nondeterministic(result) if i in others else result
                found[i] = dataclasses.replace(result, seconds=round(time.perf_counter() - began, 3))
        evidence = self._evidence(parts, results, found, others)
        for i, result in add_explanations(self, parts, failing, found, evidence):
            found[i] = result
        if self.settings.keeps:
            for i, spec in enumerate(specs):
                found[i] = _with_codes(found[i], spec, parts[i], results[i])
        return [r for r in found[: len(specs)] if r is not None]

    def _try_some_again(self, parts: Sequence[AnyPart], results: Results) -> dict[int, np.ndarray]:
        """Runs a sample of parts a second time. A worse outcome replaces the first; returns the better outcomes."""
        others: dict[int, np.ndarray] = {}
        # Long sums show whether their order is always the same.
        terms = {i: p.query.counts[0] for i, p in enumerate(parts) if isinstance(p, RowPart) and p.case.has_products}
        longest = max(terms, key=lambda i: terms[i], default=0)
        tried = sorted({*range(0, len(parts), _SAMPLED), longest} if parts else ())
        some = [i for i in tried if parts[i].size <= _SAMPLED_ELEMENTS]
        some = [i for i in some if not isinstance(results[i], BackendError)]
        for i, second in zip(some, self.results([parts[i] for i in some]), strict=True):
            first = results[i]
            assert not isinstance(first, BackendError)
            if isinstance(second, BackendError):
                results[i] = BackendError(second.how, f"in one of two runs: {second}")
            elif not repeats.same(parts[i].result_type, first, second):
                others[i], results[i] = sorted((first, second), key=lambda r, p=parts[i]: self._wrong(p, r))
        return others

    def _wrong(self, part: AnyPart, got: np.ndarray) -> int:
        """The number of wrong results."""
        zeros_are_open = self.kind == "operations"
        if isinstance(part, BlockPart):
            return int((got != part.expected).sum())
        if isinstance(part, RowPart) and part.case.has_products:
            return int((got != part.exact.codes).sum())
        if isinstance(part, RowPart):
            return outcome.of_rows(part, got, self.settings, zeros_are_open).counts.get(FAIL, 0)
        return int((part.judge(got, self.settings.ulp, zeros_are_open)[0].verdicts == WRONG).sum())

    def _evidence(
        self, parts: Sequence[AnyPart], results: Results, found: list[CaseResult | None], others: dict[int, np.ndarray]
    ) -> dict[int, repeats.Evidence]:
        """The evidence from further runs of failing parts; for rows it is added to `found`."""
        wrong = [i for i, r in enumerate(found) if r is not None and r.verdict == FAIL]
        if not wrong or not self.settings.can_repeat:
            return {}
        runs = repeats.runs_of(self, parts, results, wrong, others)
        for i in wrong:
            part, result = parts[i], found[i]
            if isinstance(part, (RowPart, BlockPart)) and len(runs[i]) > 1:
                shown = repeats.intermittent([self._wrong(part, np.asarray(r)) for r in runs[i]], part.size)
                assert result is not None
                found[i] = outcome.add_diagnosis(dataclasses.replace(result, model=""), shown)
        elementwise = [(i, p) for i in wrong if isinstance(p := parts[i], Part)]
        shown = repeats.evidence(self, [p for _, p in elementwise], [runs[i] for i, _ in elementwise])
        return dict(zip((i for i, _ in elementwise), shown, strict=True))

    def _test(self, case: Case) -> CaseResult:
        lacks = self._types.reason_to_skip_types((case.result,))
        if lacks is not None:
            return outcome.without_result(case, tests.FORM, "refused", str(lacks), self.settings)
        return tests.run(case, self.backend, self.settings)

    def part(self, spec: Spec) -> AnyPart:
        """The operands of a spec, with the right results."""
        settings = self.settings
        if spec.case.is_blocks:
            made = ScaledPart if spec.case.has_products else BlockPart
            return made(spec.case, spec.form, block_data.arrays(spec.case, spec.form, settings.seed))
        if spec.case.is_rows:
            return RowPart(spec.case, spec.form, arrays(spec.case, spec.form, settings.seed))
        if settings.operands:
            given = data.tuples(spec.case, list(settings.operands))
            if spec.form in ("scalar", "broadcast"):
                given = tuple(np.concatenate([x, x]) for x in given)
            if spec.form in LAYOUTS:
                given = data.apply_layout(spec.form, 0, given)
            return Part(spec.case, spec.form, given, to_integers=to_integers(settings.backend, spec.case.result))
        operands = data.operands(spec.case, spec.form, settings.level, settings.seed, spec.part)
        segment = len(all_codes(spec.case.operands[0])) if spec.form in ("scalar", "broadcast") else 1
        right = to_integers(settings.backend, spec.case.result)
        return Part(spec.case, spec.form, operands, segment, right, spec.part if spec.form in LAYOUTS else 0)

    # -- results -------------------------------------------------------------------------------------------------------

    def results(self, parts: Sequence[AnyPart]) -> Results:
        """The backend's results for each part."""
        if self.kind == "operations":
            return [self._operate(p) for p in parts]
        lacking = [self._types.reason_to_skip(p) for p in parts]
        left = [p for p, lacks in zip(parts, lacking, strict=True) if lacks is None]
        there: Results = []
        for batch in batches(left):
            is_doubtful = any(map(self._types.is_doubtful, batch))
            there += self._doubtful(batch) if is_doubtful else self.batch(batch, self.settings.timeout)
        following = iter(there)
        return [next(following) if lacks is None else lacks for lacks in lacking]

    def _doubtful(self, parts: Sequence[AnyPart]) -> Results:
        """Results of parts of a type whose probe died: some are tried before the type is given up."""
        batch = list(parts)
        with contextlib.suppress(BackendError):
            return self._evaluate(batch, self.settings.timeout)
        found: Results = []
        for part in batch:
            lacks = self._types.reason_to_skip(part)
            result = lacks if lacks is not None else self.batch([part], self.settings.timeout)[0]
            found.append(result)
            if lacks is None:
                self._types.count(part, isinstance(result, BackendError) and result.how != "refused")
        # While no part of a type has a result, the type is at fault, not the op.
        pairs = zip(batch, found, strict=True)
        return [self._types.blame_type(p, r) if isinstance(r, BackendError) else r for p, r in pairs]

    def _operate(self, part: AnyPart) -> np.ndarray | BackendError:
        self.backend.seconds = self.settings.timeout
        return operate(part, self.backend.operate)

    def batch(self, parts: Sequence[AnyPart], seconds: float) -> Results:
        """Runs all parts in one program; if it fails, each half in a program of its own."""
        try:
            return self._evaluate(parts, seconds)
        except BackendError as error:
            if len(parts) == 1:
                if error.how == "slow" and seconds < self.settings.timeout:
                    return self.batch(parts, self.settings.timeout)
                return [error]
        half, less = len(parts) // 2, min(self.settings.timeout, max(3.0, 10 * self._longest))
        return self.batch(parts[:half], less) + self.batch(parts[half:], less)

    def _evaluate(self, parts: Sequence[AnyPart], seconds: float) -> Results:
        builder = Builder()
        for part in parts:
            part.emit(builder)
        began = time.perf_counter()
        self.backend.seconds = seconds
        found = self.backend.evaluate(builder.text(), builder.arguments)
        self._longest = max(self._longest, time.perf_counter() - began)
        counts = [len(outputs(p)) for p in parts]
        if len(found) != sum(counts):
            raise BackendError("died", f"the program has {sum(counts)} results, and the backend gave {len(found)}")
        following = iter(found)
        return [collect([np.asarray(next(following)) for _ in range(n)], p) for n, p in zip(counts, parts, strict=True)]

    # -- cases without a result ----------------------------------------------------------------------------------------

    def _without(self, part: AnyPart, error: BackendError) -> CaseResult:
        or_raise(error)
        if isinstance(error, OtherAxis):
            result = outcome.blank(part.case, part.form, FAIL, total=part.size, counts={FAIL: part.size})
            again = outcome.command(part.case, part.form, self.settings)
            return dataclasses.replace(outcome.add_diagnosis(result, OtherAxis.why), command=again)
        result = outcome.without_result(part.case, part.form, error.how, str(error), self.settings)
        if result.verdict == UNSUPPORTED and part.case.op != "type":
            result = dataclasses.replace(result, command=self._types.shows_death(part))
        if result.verdict != CRASH or self.kind == "operations" or part.case.op == "type":
            return result
        if not isinstance(part, Part):
            text, inputs = outcome.as_program(part)
            return dataclasses.replace(result, program=text, inputs=inputs)
        smallest = self._smallest(part)
        text, inputs = outcome.as_program(smallest)
        result = dataclasses.replace(result, program=text, inputs=inputs)
        if smallest.size == 1 and not of_positions(part.form):
            again = outcome.command(part.case, part.form, self.settings, [outcome.operands_text(smallest, 0)])
            result = dataclasses.replace(result, command=again)
        return result

    def _smallest(self, part: Part) -> Part:
        """The fewest operands on which a part crashes, as far as some attempts show."""
        if not part.size:
            return part
        least = min(self.settings.timeout, max(3.0, 10 * self._longest))

        def crashes(smaller: Part) -> bool:
            try:
                self._evaluate([smaller], least)
            except BackendError as error:
                return error.how in ("died", "slow")
            return False

        one = part.restrict(np.zeros(1, np.intp))
        if crashes(one):
            return one
        for _ in range(_TRIES):
            places = np.arange(part.size)
            half = part.size // 2
            if half == 0:
                break
            halves = part.restrict(places[:half]), part.restrict(places[half:])
            smaller = next((p for p in halves if crashes(p)), None)
            if smaller is None:
                break
            part = smaller
        return part


def _judge_sums(parts: Sequence[AnyPart], results: Results, records: Sequence[str]) -> dict[int, SumResult]:
    """The accumulation of sums of products, by the indices of their parts: those of one case are judged together."""
    groups: dict[str, list[int]] = {}
    for i, (part, got) in enumerate(zip(parts, results, strict=True)):
        if isinstance(part, RowPart) and part.case.has_products and not isinstance(got, BackendError):
            groups.setdefault(part.case.signature, []).append(i)
    found: dict[int, SumResult] = {}
    for at in groups.values():
        rows = [p for p in (parts[i] for i in at) if isinstance(p, RowPart)]
        got = [np.asarray(results[i]) for i in at]
        scaled = [p for p in rows if isinstance(p, ScaledPart)]
        judged = scaled_sums.judge_scaled_sums(scaled, got, records) if scaled else sums.judge_sums(rows, got, records)
        found |= zip(at, judged, strict=True)
    return found


def _with_codes(result: CaseResult | None, spec: Spec, part: AnyPart, got: np.ndarray | BackendError) -> CaseResult:
    """A result with the codes from which it was judged."""
    assert result is not None
    if isinstance(got, BackendError):
        return result
    return dataclasses.replace(result, kept={str(spec.part): StoredCodes.of(operands_of(part), np.asarray(got))})


def operands_of(part: AnyPart) -> Sequence[np.ndarray]:
    """The operands of a part, as codes."""
    return part.operands if isinstance(part, Part) else part.arrays
