"""Runs one op on a backend and here, compares the results, and keeps a report of each op."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...ops.op import lookup
from ...ops.policy import Policy
from ...ops.types import TensorType, type_of_dtype
from .. import machine, planner, transport
from ..backends import OPERATIONS, Backend, BackendError
from ..enclose import Allowed, Enclosure, enclose
from ..errors import Error, UnsupportedError
from ..judging.equality import GradedResult, distance, is_subnormal
from ..judging.record import CRASH, FAIL, OF_GRADES, OPEN, SAME, UNSUPPORTED, WRONG, worst
from ..program import Location, Operation, Value
from ..testing.failures import format_element
from .diagnosis import explain_unrounded
from .judge import Kind, enclosed, grade_policies, judge, kind_of
from .operations import operate
from .report import ALLOW, FLUSHED, FORBID, REPORT, Example, OpReport
from .source import Source, close, inputs, is_movable

Arrays = Sequence[np.ndarray]

#: Number of elements reported for an op, and the largest operand that is shown whole.
_EXAMPLES, _WHOLE = 4, 8
#: The longest message of another tool in a note.
NOTE = 240
#: `tensor<2x3xf32>` but not `tensor<f32>`.
_SHAPE = re.compile(r"tensor<(?:\d+x)+")


class Examiner:
    """Examines ops of a program on a backend."""

    def __init__(self, source: Source, backend: Backend, policy: Policy, beside: str = "", flush: str = REPORT) -> None:
        """If `beside` is the name of the policy, the backend is another policy: any different result is where they
        part. `flush` says whether subnormal numbers may be taken as zero, one of FLUSHES.
        """
        self.source, self.backend, self._policy, self._beside = source, backend, policy, beside
        self._flush = flush
        self.reports: dict[Operation, OpReport] = {}  #: in the order of their first execution
        #: If values of the program are known, the op that made each, and the values themselves.
        self.makers: dict[Value, Operation] = {}
        self.values: dict[Value, Any] = {}
        self.calls: list[Operation] = []  #: the calls of the functions that are running
        self._texts: dict[Operation, str] = {}
        self._refused: dict[Operation, BackendError] = {}

    def report(self, operation: Operation) -> OpReport:
        """The report of an op, created on first use."""
        if operation not in self.reports:
            made = OpReport(operation.name, place_of(operation, self.calls), types_of(operation))
            types = [v.type for v in operation.results[:1] if isinstance(v.type, TensorType)]
            made.is_float = any(t.element.is_float or t.element.is_complex for t in types)
            self.reports[operation] = made
        return self.reports[operation]

    # -- computing -----------------------------------------------------------------------------------------------------

    def here(self, operation: Operation, values: Arrays) -> list[np.ndarray]:
        """Our results of an op, given its `inputs`."""
        return machine.run(self.source.plan(operation, self._policy), values)

    def all_here(self, arguments: Sequence[Any]) -> list[Any]:
        """Our results of the whole program."""
        return machine.run(planner.plan(self.source.program, self.source.function.name, self._policy), arguments)

    def enclose(self, arguments: Sequence[Any]) -> list[Enclosure]:
        """The enclosures of the program's results. Raises ProgramError, and UnsupportedError under another policy."""
        if self._policy != Policy():
            raise UnsupportedError("the exact results are those of another policy")
        arrays = [np.asarray(x) for x in arguments]
        return enclose(self.source.program, arrays, Allowed(flush=self._flush != FORBID), self.source.function.name)

    def there(self, operation: Operation, values: Arrays) -> list[np.ndarray]:
        """The backend's results of the op alone. Raises BackendError."""
        if operation in self._refused:
            raise self._refused[operation]
        if operation not in self._texts:
            self._texts[operation] = self.source.text(operation, packed=True)
        try:
            if self.backend.takes == OPERATIONS:
                return operate(self.backend, operation, operands_of(operation, values))
            return self._evaluate(self._texts[operation], operation, self.source.select(operation, values))
        except BackendError as error:
            self._refused[operation] = error
            raise

    def _evaluate(self, text: str, operation: Operation, values: Arrays) -> list[np.ndarray]:
        return evaluate(self.backend, text, values, operation.results)

    def run(self, operation: Operation, values: Arrays) -> list[np.ndarray]:
        """The backend's results of an op that it runs alone, examined; ours if it gives none.

        Raises our error if we have no results either.
        """
        try:
            theirs = self.there(operation, values)
        except BackendError as error:
            if error.how == "absent":
                raise
            self._absent(operation, UNSUPPORTED if error.is_lack else CRASH, str(error), values)
            return self.here(operation, values)
        try:
            ours = self.here(operation, values)
        except Error as error:
            self._absent(operation, UNSUPPORTED, f"minihlo gives no result: {error}", values)
            return theirs
        self.compare(operation, values, theirs, ours)
        return theirs

    def rest(self, operation: Operation, values: Arrays, iterations: int) -> list[np.ndarray]:
        """The backend's results of a whole loop after so many iterations."""
        report = self.report(operation)
        note = f"examined for {iterations} iterations; the later ones, run as a whole, are not"
        if note not in report.notes:
            report.notes.append(note)
        if len(set(operation.operands)) == len(operation.operands) and is_movable(operation):
            try:
                return list(self.there(operation, values))
            except BackendError:
                pass
        return list(self.here(operation, values))

    def _absent(self, operation: Operation, verdict: str, note: str, values: Arrays) -> None:
        report = self.report(operation)
        report.executions += 1
        if verdict != report.verdict and (verdict == CRASH or not report.failed):
            report.verdict = verdict
            report.notes.append(textwrap.shorten(note, NOTE, placeholder=" …"))
            self._keep(operation, values, report)

    # -- comparing -----------------------------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def compare(self, operation: Operation, values: Arrays, theirs: Arrays, ours: Arrays) -> None:
        """Compares results of an op with ours, and adds the findings to its report."""
        report = self.report(operation)
        report.executions += 1
        if wrong := type_mismatch(theirs, ours):
            report.verdict = FAIL
            report.notes.append(wrong)
            return self._keep(operation, values, report)
        operands = operands_of(operation, values)
        if self._beside:
            all_graded = grade_policies(theirs, ours)
        else:
            all_graded = judge(close(operation, values), operands, theirs, ours)
        if self._flush != FORBID and any(g.worst == WRONG for g in all_graded):
            self._permit_flushing(operation, values, theirs, all_graded)
        before = report.verdict
        for i, graded in enumerate(all_graded):
            report.elements += graded.grades.size
            if graded.worst == SAME:
                continue
            verdict = OF_GRADES[graded.worst]
            report.verdict = worst([report.verdict, verdict])
            notes = graded.notes
            if verdict == FAIL and not notes and i == 0:
                notes = explain_unrounded(operation, operands, theirs[0], self.makers, self.values)
            if verdict == FAIL:  # these are the reasons of elements that do not fail
                notes = [replace(n, sentence=f"elsewhere: {n.sentence}") if n in graded.reasons else n for n in notes]
            report.add(notes)
            self._count(report, graded, theirs[i], ours[i])
            examples = self._examples(operation, operands, theirs[i], ours[i], graded)
            if report.verdict != before:  # worse results come first
                report.worst, before = [], report.verdict
                self._keep(operation, values, report)
                self._shrink(operation, values, graded, report)
            report.worst = sorted([*report.worst, *examples], key=_severity)[:_EXAMPLES]
        return None

    def _permit_flushing(
        self, operation: Operation, values: Arrays, theirs: Arrays, all_graded: Sequence[GradedResult]
    ) -> None:
        """Grades wrong elements that are right if subnormal numbers may be taken as zeros: not otherwise, or zeros.

        A fault that explains all wrong elements stays, unless this does so too.
        """
        alone, operands, explained = close(operation, values), operands_of(operation, values), []
        for i, (got, right) in enumerate(zip(theirs, self.here(operation, values), strict=True)):
            flushed, kept = (enclosed(alone, operands, i, flush) for flush in (True, False))
            if flushed is None or kept is None:
                return
            t = type_of_dtype(got.dtype)
            is_lost = (got == 0) & is_subnormal(right) if t.is_float and not t.is_minifloat else False
            explained.append(flushed.admits(got) & (~kept.admits(got) | is_lost))
        for graded, found in zip(all_graded, explained, strict=True):
            if found[graded.grades == WRONG].all() or graded.notes == graded.reasons:
                graded.set(found, SAME if self._flush == ALLOW else OPEN, None if self._flush == ALLOW else FLUSHED)
            if graded.worst != WRONG:  # no fault is left to be named
                graded.notes[:] = graded.reasons

    @staticmethod
    def _count(report: OpReport, graded: GradedResult, theirs: np.ndarray, ours: np.ndarray) -> None:
        differs = graded.grades != SAME
        for grade, count in zip(*np.unique(graded.grades[differs], return_counts=True), strict=True):
            report.verdicts[OF_GRADES[int(grade)]] += int(count)
        distances = distance(theirs[differs], ours[differs])
        report.histogram[None] += int(np.isnan(distances).sum())
        for steps, count in zip(*np.unique(distances[~np.isnan(distances)], return_counts=True), strict=True):
            report.histogram[float(steps)] += int(count)
        report.histogram += type(report.histogram)()  # without zeros

    def _examples(
        self, operation: Operation, operands: Arrays, theirs: np.ndarray, ours: np.ndarray, graded: GradedResult
    ) -> list[Example]:
        distances = distance(theirs, ours).reshape(theirs.shape)
        keys = -np.nan_to_num(distances, nan=np.inf).ravel(), -graded.grades.ravel().astype(int)
        order = np.lexsort(keys)[:_EXAMPLES]
        element = type_of_dtype(theirs.dtype)
        examples = []
        for flat in order:
            at = tuple(int(i) for i in np.unravel_index(flat, theirs.shape))
            grade = int(graded.grades[at])
            if grade == SAME:
                break
            texts_of = [_operand(x, at, theirs.shape, is_elementwise(operation)) for x in operands]
            ulp = None if np.isnan(distances[at]) else float(distances[at])
            texts = format_element(theirs[at], element), format_element(ours[at], element).partition(" : ")[0]
            is_exact = kind_of(operation) is Kind.EXACT or (not operation.regions and is_elementwise(operation))
            shorter = texts[0].partition(" : ")[0], texts[1]
            texts = tuple(filter(None, texts_of))
            examples.append(Example(OF_GRADES[grade], at, texts, *shorter, ulp, is_exact, self._beside))
        return examples

    # -- reproduction --------------------------------------------------------------------------------------------------

    def _keep(self, operation: Operation, values: Arrays, report: OpReport) -> None:
        if is_movable(operation):
            report.program = self.source.text(operation, packed=False)
            self._give(report, self.source.select(operation, values))

    @staticmethod
    def _give(report: OpReport, values: Arrays) -> None:
        report.inputs = [np.array(x) for x in values]
        report.input_types = [TensorType(x.shape, type_of_dtype(x.dtype)) for x in values]

    def _shrink(self, operation: Operation, values: Arrays, graded: GradedResult, report: OpReport) -> None:
        """Reduces a wrong elementwise op to its wrong elements, if they are wrong alone too."""
        places = np.argwhere(graded.grades == WRONG)[:_EXAMPLES]
        if not is_elementwise(operation) or not len(places) or graded.grades.ndim == 0 or operation not in self._texts:
            return
        at, shape = tuple(places.T), f"tensor<{len(places)}x"
        few = [x[at] if x.shape == graded.grades.shape else x for x in values]
        text = _SHAPE.sub(shape, self.source.text(operation, packed=False))
        try:
            small = Source.of_text(text, "op.mlir")
            assert small.function.body is not None
            (made,) = small.function.body.operations
            if self.backend.takes == OPERATIONS:
                theirs = operate(self.backend, made, operands_of(made, few))
            else:
                theirs = self._evaluate(_SHAPE.sub(shape, self._texts[operation]), made, few)
            ours = machine.run(small.plan(made, self._policy), few)
        except Error:
            return
        if not type_mismatch(theirs, ours) and judge(made, operands_of(made, few), theirs, ours)[0].worst == WRONG:
            report.program = text
            self._give(report, few)


def place_of(operation: Operation, calls: Sequence[Operation]) -> Location:
    """The location of an op. A function that JAX makes has no location of its own, but that of its call."""
    places = [o.location for o in (operation, *reversed(calls))]
    return next((p for p in places if p.line), operation.location)


def types_of(operation: Operation) -> str:
    """The types of an op's operands and results, in MLIR's notation."""
    takes, gives = (", ".join(str(v.type) for v in vs) for vs in (operation.operands, operation.results))
    return f"({takes}) -> {gives if len(operation.results) == 1 else f'({gives})'}"


def operands_of(operation: Operation, values: Arrays) -> list[np.ndarray]:
    """The operands of an op, from the values of its `inputs`."""
    known = dict(zip(inputs(operation), values, strict=True))
    return [known[v] for v in operation.operands]


def evaluate(backend: Backend, text: str, arrays: Arrays, wanted: Iterable[Value]) -> list[np.ndarray]:
    """The values that a program gives on a backend; it takes and gives them in transport form. Raises BackendError."""
    packed = [a for x in arrays for a in transport.pack(x, type_of_dtype(x.dtype))]
    left = iter(backend.evaluate(text, packed))
    try:
        return [transport.unpack(left, v.type.element) for v in wanted if isinstance(v.type, TensorType)]
    except (StopIteration, RuntimeError, TypeError, ValueError) as error:
        why = f"{backend.name} gave results of other types or fewer than asked for: {error}"
        raise BackendError("died", why) from None


def type_mismatch(theirs: Arrays, ours: Arrays) -> str:
    """The error in the results' types or number, empty if there is none."""
    types = [[f"{type_of_dtype(np.asarray(x).dtype)}{list(x.shape)}" for x in xs] for xs in (theirs, ours)]
    return "" if types[0] == types[1] else f"gives {', '.join(types[0])} where {', '.join(types[1])} is right"


def is_elementwise(operation: Operation) -> bool:
    """Whether each element of a result depends on the same element of the operands."""
    record = lookup(operation.name)
    return record is not None and record.is_elementwise


def _operand(x: np.ndarray, at: tuple[int, ...], shape: tuple[int, ...], elementwise: bool) -> str:
    """The part of an operand that contributes to an element of a result, if it is short."""
    element = type_of_dtype(x.dtype)
    if elementwise and x.shape == shape:
        return format_element(x[at], element)
    if x.size > _WHOLE:
        return ""
    if not x.shape:
        return format_element(x[()], element)
    texts = (format_element(e, element).partition(" : ")[0] for e in x.ravel())
    return f"[{', '.join(texts)}] : {TensorType(x.shape, element)}"


def _severity(example: Example) -> tuple[int, float]:
    return -OF_GRADES.index(example.verdict), -(np.inf if example.ulp is None else example.ulp)
