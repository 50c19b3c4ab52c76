"""Runs cases on one backend: many in a program, fewer if it fails, down to the smallest case that fails."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends import BackendError
from ..backends.programs import Builder
from ..judging.groups import group
from ..judging.record import WRONG
from ..oracle.formats import all_codes
from . import repeats, tests
from .block_parts import BlockPart, OtherAxis, ScaledPart
from .cases import block_data, data
from .cases.case import ROW_OPS, Case
from .cases.forms import LAYOUTS
from .cases.row_data import arrays
from .elementwise import Part, of_positions
from .part import or_raise
from .repeats import AnyPart, Results
from .reproduction import Failing, add_explanations, batches, halve
from .result import ACCURACY, CRASH, FAIL, UNSUPPORTED, CaseResult, StoredCodes
from .rows import RowPart
from .support import Types, takes, to_integers
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
        found: dict[int, CaseResult] = {}
        failing: list[Failing] = []
        results = self.results(parts)
        others = self._try_some_again(parts[: len(specs)], results) if self.settings.can_repeat else {}
        formed = _judge_sums(parts[: len(specs)], results[: len(specs)], self.settings.accumulators)
        zeros_are_open = self.kind == "operations"
        for i, (part, got) in enumerate(zip(parts[: len(specs)], results, strict=False)):
            began = time.perf_counter()
            if isinstance(got, BackendError):
                found[i] = self._without(part, got)
                continue
            if isinstance(part, Part):
                judged, codes = part.judge(got, self.settings.ulp, zeros_are_open)
                result = outcome.of_part(part, judged, codes, part.expected.codes, self.settings)
                if result.verdict in (FAIL, ACCURACY):
                    failing.append((i, part, judged, codes))
            elif isinstance(part, BlockPart):
                result = blocks.result_of(part, got, self.settings)
            else:
                result = outcome.of_rows(part, got, self.settings, zeros_are_open, formed.get(i))
            result = outcome.nondeterministic(result) if i in others else result
            found[i] = dataclasses.replace(result, seconds=round(time.perf_counter() - began, 3))
        evidence = self._evidence(parts, results, found, others)
        found.update(add_explanations(self, parts, failing, found, evidence))
        for i, spec in enumerate(specs):
            got = results[i]
            if self.settings.keeps and not isinstance(got, BackendError):
                kept = {str(spec.part): StoredCodes.of(parts[i].arrays, np.asarray(got))}
                found[i] = dataclasses.replace(found[i], kept=kept)
        return [found[i] for i in range(len(specs))]

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
            elif not repeats.alike(parts[i], first, second):
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
        self, parts: Sequence[AnyPart], results: Results, found: dict[int, CaseResult], others: dict[int, np.ndarray]
    ) -> dict[int, repeats.Evidence]:
        """The evidence from further runs of failing parts; for rows it is added to `found`."""
        wrong = [i for i, r in found.items() if r.verdict == FAIL]
        if not wrong or not self.settings.can_repeat:
            return {}
        runs = repeats.runs_of(self, parts, results, wrong, others)
        for i in wrong:
            part = parts[i]
            if not isinstance(part, Part) and len(runs[i]) > 1:
                shown = repeats.intermittent([self._wrong(part, np.asarray(r)) for r in runs[i]], part.size)
                found[i] = outcome.add_diagnosis(dataclasses.replace(found[i], model=""), shown)
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
        return part.result_of_calls(self.backend.operate)

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
        counts = [len(p.outputs) for p in parts]
        if len(found) != sum(counts):
            raise BackendError("died", f"the program has {sum(counts)} results, and the backend gave {len(found)}")
        following = iter(found)
        return [p.collect([next(following) for _ in range(n)]) for n, p in zip(counts, parts, strict=True)]

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
        smallest = self._smallest(part) if isinstance(part, Part) else part
        if isinstance(smallest, Part) and smallest.size == 1 and not of_positions(part.form):
            again = outcome.command(part.case, part.form, self.settings, [outcome.operands_text(smallest, 0)])
            result = dataclasses.replace(result, command=again)
        text, inputs = outcome.as_program(smallest)
        return dataclasses.replace(result, program=text, inputs=inputs)

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

        if crashes(one := part.restrict(np.zeros(1, np.intp))):
            return one
        whole = part
        places = halve(np.arange(part.size), lambda some: crashes(whole.restrict(some)), _TRIES)
        return whole if len(places) == whole.size else whole.restrict(places)


def _judge_sums(parts: Sequence[AnyPart], results: Results, records: Sequence[str]) -> dict[int, SumResult]:
    """The accumulation of sums of products, by the indices of their parts: those of one case are judged together."""
    pairs = enumerate(zip(parts, results, strict=True))
    sums_ = [(i, p, r) for i, (p, r) in pairs if p.case.has_products and not isinstance(r, BackendError)]
    found: dict[int, SumResult] = {}
    for of in group(sums_, lambda s: s[1].case.signature).values():
        rows, got = [p for _, p, _ in of if isinstance(p, RowPart)], [r for *_, r in of]
        scaled = [p for p in rows if isinstance(p, ScaledPart)]
        judged = scaled_sums.judge_scaled_sums(scaled, got, records) if scaled else sums.judge_sums(rows, got, records)
        found |= zip((i for i, *_ in of), judged, strict=True)
    return found


class RecordedTester(Tester):
    """A tester of recorded results, which takes those of each part from a file and runs nothing."""

    def __init__(self, settings: Settings, takes: str, codes: Callable[[Spec, AnyPart], Any]) -> None:
        """`codes` gives the results of a part of a case, as `Tester.results` does."""
        super().__init__(None, settings)
        self.kind = self.takes = takes
        self._codes = codes
        self._specs: dict[AnyPart, Spec] = {}

    def run(self, specs: Sequence[Spec], beside: Sequence[Spec] = ()) -> list[CaseResult]:
        """See Tester."""
        try:
            return super().run(specs, beside)
        finally:
            self._specs.clear()

    def part(self, spec: Spec) -> AnyPart:
        """See Tester."""
        part = super().part(spec)
        self._specs[part] = spec
        return part

    def results(self, parts: Sequence[AnyPart]) -> Results:
        """The recorded results of each part."""
        return [self._codes(self._specs[part], part) for part in parts]
