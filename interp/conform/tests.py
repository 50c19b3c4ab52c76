"""Programs as cases: the tests in a folder of .mlir files with checks, such as minihlo's own mlir_tests.

They contain the ops without cases of their own: ops that move elements, have regions, or consist of steps.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.op import CORRECTLY_ROUNDED, EXACT, EXACT_BUT_COMPLEX, lookup, ops
from ...ops.traits import Effects
from ..backends import BackendError
from ..errors import Error
from ..judging.record import OF_GRADES
from ..oracle.exact import OPS
from ..oracle.expected import Expected
from ..oracle.formats import FORMATS, Format, bits
from ..testing.chunks import Chunk, chunks
from .cases.case import ROW_OPS, Case
from .result import ACCURACY, CRASH, DIVERGENT, FAIL, PASS, UNSUPPORTED, CaseResult, Failure, worst
from .verdicts import outcome
from .verdicts.judge import judge
from .verdicts.outcome import Settings

FORM = "test"
#: Ops that have cases of their own, and ops with only tokens as results.
_OTHERS = ("convert", "compare", "select", "clamp", "is_finite", "chlo_broadcast_compare", "after_all")
_LEFT_OUT = (*OPS, *ROW_OPS, *_OTHERS)
#: Factor on the limit of one function for ops that consist of steps, each rounded.
_STEPS = 16
_FORMAT = re.compile("|".join(sorted(FORMATS, key=len, reverse=True)))


@dataclasses.dataclass(frozen=True)
class _Test:
    chunk: Chunk
    op: str
    name: str


def folder(named: str) -> Path:
    """The folder of tests: the named one, else minihlo's own, which is beside `interp` in a wheel too."""
    return Path(named) if named else Path(__file__).parents[2] / "mlir_tests"


def cases(named: str) -> list[Case]:
    """A case for each test in a folder: `test.interpret_map.map_bf16`."""
    where = folder(named)
    return [_case(t, where) for t in _tests(where)]


@functools.cache
def _tests(where: Path) -> tuple[_Test, ...]:
    left_out, tests = {*_LEFT_OUT, *_not_alone()}, []
    for path in sorted(where.rglob("*.mlir")):
        op = path.stem.removeprefix("interpret_")
        if op not in left_out:
            tests += [_Test(c, op, f"{path.stem}.{c.function}") for c in chunks(path)]
    return tuple(tests)


def _not_alone() -> set[str]:
    """The ops that need other processes or the host, and the checks without results, as files name them."""
    names = (n for n, r in ops().items() if r.values == "checks" or r.traits.effects is not Effects.NOTHING)
    return {re.sub(r"[.-]", "_", name.removeprefix("stablehlo.")) for name in names}


def _case(test: _Test, where: Path) -> Case:
    formats = _FORMAT.findall(test.chunk.function)
    result = next((f for f in formats if FORMATS[f].is_minifloat), formats[-1] if formats else "f32")
    return Case("test", (result,), result, (("file", test.name), ("folder", str(where))))


def run(case: Case, backend: Any, settings: Settings) -> CaseResult:
    """Runs a test on a backend that takes programs."""
    from ..testing import checked

    began = time.perf_counter()
    name, where = (value for _, value in case.attributes)
    test = next(t for t in _tests(Path(where)) if t.name == name)
    try:
        exported = checked.export(test.chunk)
        backend.seconds = settings.timeout
        wrong = checked.judge(exported, iter(backend.evaluate(exported.text, exported.inputs)))
    except BackendError as error:
        if error.how == "absent":
            raise
        return outcome.without_result(case, FORM, error.how, str(error), settings)
    except Error as error:  # minihlo's own, in this process
        return outcome.blank(case, FORM, UNSUPPORTED, message=str(error))
    result = _judge(case, test, wrong, settings)
    inputs = [f"{'x'.join(map(str, x.shape))}… {x.dtype}" for x in exported.inputs]
    is_bad = result.verdict in (FAIL, CRASH, ACCURACY)
    return dataclasses.replace(
        result,
        seconds=round(time.perf_counter() - began, 3),
        command=outcome.command(case, FORM, settings) if is_bad else "",
        program=exported.text if is_bad else "",
        inputs=inputs if is_bad else [],
    )


def _judge(case: Case, test: _Test, wrong: Sequence[Any], settings: Settings) -> CaseResult:
    verdicts, failures, distances, messages = [PASS], [], [], []
    for mismatch in wrong:
        limit = _limit(test.op, settings.ulp)
        verdict, failure, steps = _mismatch(case, mismatch, limit)
        # The rounding of sums is open; the cases on rows judge it.
        if test.chunk.function.endswith(("_open", "_rounded_once")) and verdict == FAIL:
            verdict = DIVERGENT
        if verdict == FAIL and test.op in _OPEN and _is_open(test.op, case, mismatch):
            verdict = DIVERGENT
        verdicts.append(verdict)
        failures += [dataclasses.replace(f, verdict=verdict) for f in failure]
        distances += steps
        messages.append(mismatch.message if verdict == FAIL else "")
    verdict = worst(verdicts)
    return outcome.blank(
        case, FORM, verdict,
        total=max(1, len(verdicts) - 1),
        counts={verdict: 1},
        worst_ulp=max(distances, default=None),
        choices=[f"left open by {test.op}"] if verdict == DIVERGENT else [],
        failures=[f for f in failures if f.verdict == verdict][: settings.errors],
        diagnosis=next((m for m in messages if m), ""),
    )  # fmt: skip


def _limit(op: str, limit: int) -> int:
    """The distance that an op may have: none if it is exact or correctly rounded."""
    name = op.replace("chlo_", "chlo.", 1)
    record = lookup(name)
    if record is None or record.accuracy in (EXACT, CORRECTLY_ROUNDED, EXACT_BUT_COMPLEX):
        return 0 if not op.startswith("chlo_") else limit * _STEPS
    return limit * _STEPS


def _mismatch(case: Case, mismatch: Any, limit: int) -> tuple[str, list[Failure], list[int]]:
    """The verdict on the results of a check, the elements that differ, and their distances."""
    got, right = mismatch.actual, mismatch.expected
    if got is None or right is None:
        return FAIL, [], []
    element = mismatch.check.operands[0].type.element.name
    got = np.asarray(got)
    arrays = got, np.broadcast_to(np.asarray(right), got.shape)
    if element.startswith("ui") and bits(element) in (bits(case.result), max(8, bits(case.result))):
        element = case.result
    elif element in FORMATS:
        arrays = [np.ascontiguousarray(x).view(FORMATS[element].code_dtype) for x in arrays]
    else:
        return FAIL, [], []
    a, b = (x.ravel().astype(FORMATS[element].code_dtype) for x in arrays)
    judged = judge(element, a, Expected(b, np.zeros(len(b), np.uint8)), limit)
    at = np.flatnonzero(judged.verdicts)
    verdict = worst([OF_GRADES[v] for v in judged.verdicts[at]] or [PASS])
    failures = [outcome.failure("", i, a, b, judged, [[int(b[i])]], [["-"]], element) for i in map(int, at)]
    return verdict, failures, [f.ulp for f in failures if f.ulp is not None]


def _is_open(op: str, case: Case, mismatch: Any) -> bool:
    """Whether an op leaves all the differences open."""
    if mismatch.actual is None or mismatch.expected is None or not FORMATS[case.result].is_minifloat:
        return False
    fmt = FORMATS[case.result]
    got, right = (np.ascontiguousarray(x).view(np.uint8).ravel() for x in (mismatch.actual, mismatch.expected))
    differs = (got != right) & ~fmt.is_none(got)
    return bool(_OPEN[op](fmt, fmt.decode(got[differs]), fmt.decode(right[differs])).all()) and bool(differs.any())


def _ends_of_reduced_types(fmt: Format, got: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Results of reduced precision at the ends of the range: f16, in which they may be computed, has more subnormal
    numbers, and it is unspecified whether the largest exponent has numbers, as in types without infinity.
    """
    near_zero = np.maximum(np.abs(got), np.abs(right)) <= 4 * 2.0**fmt.min_exponent
    overflows = ~np.isfinite(got) | (np.abs(got) == fmt.max)
    return near_zero | (overflows & (np.abs(right) > fmt.max / 2) & (not fmt.has_infinity))


def _poles(_: Format, got: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Results of a function where it is undefined or infinite: there is no specification."""
    return ~np.isfinite(got) & ~np.isfinite(right)


_OPEN = {"reduce_precision": _ends_of_reduced_types, "chlo_zeta": _poles, "chlo_polygamma": _poles}
