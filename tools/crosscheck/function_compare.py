"""Runs the functions of mlir_tests/ on the peers and makes rows of their differences."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from minihlo.interp.backends import BackendError
from minihlo.ops.programs.checks import ulp_distance

from .causes import CAUSES
from .causes import absence_of as absence_of_case
from .function_causes import FUNCTION_CAUSES, FunctionAbsence, absence_of, explain
from .function_table import FunctionRow
from .functions import CheckedValues, Function, by_ml_dtypes, differing, functions, run
from .peers import PEERS
from .registry import ACCURACY


@dataclasses.dataclass(frozen=True, eq=False)
class _Difference:
    """Values of a function that differ for one cause, all of one check."""

    function: Function
    checked: CheckedValues
    places: np.ndarray


#: What each function returns on a peer, or why it returns nothing.
Run = Callable[[str, Sequence[Function]], "list[list[np.ndarray] | BackendError]"]


def compare_functions(peer: str, files: Iterable[str], run: Run = run) -> list[FunctionRow]:
    """The rows of a peer for some files. `run` runs functions on a peer that takes programs."""
    chosen = [f for file in files for f in functions(file)]
    if peer == "ml_dtypes":
        return _rows(peer, chosen, {}, {f: list(_by_ml_dtypes(f)) for f in chosen})
    absent = {f: a for f in chosen if (a := absence_of(peer, f)) is not None}
    first: dict[tuple[str, str], Function] = {}
    for function, absence in absent.items():
        if absence.tried is None or function.file in absence.tried:
            first.setdefault((absence.name, function.file), function)
    tried = [f for f in chosen if f not in absent or f in first.values()]
    failed: dict[Function, str] = {}
    result: dict[Function, list[CheckedValues]] = {}
    for function, returned in zip(tried, run(peer, tried), strict=True):
        if isinstance(returned, BackendError):
            failed[function] = str(returned)
        else:
            result[function] = differing(function, returned)
    return _rows(peer, chosen, _absences(absent, first, failed), result)


def _by_ml_dtypes(function: Function) -> Iterator[CheckedValues]:
    for case, got in by_ml_dtypes(function):
        if isinstance(got, CheckedValues):
            if (got.got != got.expected).any():
                yield got
        elif absence_of_case("ml_dtypes", case.signature) is None:
            raise AssertionError(f"ml_dtypes gives no {case.signature}: {got}")


def _absences(
    absent: dict[Function, FunctionAbsence], first: dict[tuple[str, str], Function], failed: dict[Function, str]
) -> dict[Function, tuple[str, str]]:
    """The cause and the peer's message for each function without results. The cause is empty if unknown."""
    result = {f: ("", said) for f, said in failed.items() if f not in absent}
    for function, absence in absent.items():
        tried = first.get((absence.name, function.file))
        match = re.search(absence.says, failed.get(tried, "")) if tried else re.match("", "")
        if match is not None:
            result[function] = absence.name, match[0]
        else:
            result[function] = "", failed.get(tried, "a result, where there should be none") if tried else ""
    return result


def _rows(
    peer: str,
    chosen: Sequence[Function],
    absences: dict[Function, tuple[str, str]],
    result: dict[Function, list[CheckedValues]],
) -> list[FunctionRow]:
    silent: dict[tuple[str, str], list[Function]] = defaultdict(list)
    differ: dict[tuple[str, str], list[_Difference]] = defaultdict(list)
    for function in chosen:
        if function in absences:
            silent[absences[function][0], function.file].append(function)
        explanations = [
            (cause, _Difference(function, checked, places))
            for checked in result.get(function, ())
            for cause, places in explain(peer, checked)
        ]
        for cause, difference in explanations:
            differ[cause, function.file].append(difference)
        if result.get(function) and not explanations:  # such as a number of f32 that stands for none of six bits
            silent["", function.file].append(function)
            absences = {**absences, function: ("", "a check fails, and all codes are right")}
    rows = [
        FunctionRow(peer, cause, file, tuple(f.short for f in some), says=absences[some[0]][1])
        for (cause, file), some in silent.items()
    ]
    return [*rows, *(_row(peer, cause, file, some) for (cause, file), some in differ.items())]


def _row(peer: str, cause: str, file: str, some: Sequence[_Difference]) -> FunctionRow:
    counted: dict[str, int] = defaultdict(int)
    for d in some:
        counted[d.function.short] += len(d.places)
    checked, place = some[0].checked, some[0].places[0]
    declared = CAUSES.get(cause) or FUNCTION_CAUSES.get(cause)
    return FunctionRow(
        peer,
        cause,
        file,
        tuple(counted),
        tuple(counted.values()),
        place=int(place),
        operands=tuple(int(x[place]) for x in checked.case[1]) if checked.case else (),
        got=int(checked.got[place]),
        expected=int(checked.expected[place]),
        ulp=max(map(_farthest, some)) if declared is not None and declared.kind == ACCURACY else 0,
    )


def _farthest(d: _Difference) -> int:
    t = d.checked.element
    return int(ulp_distance(d.checked.got[d.places].view(t.dtype), d.checked.expected[d.places].view(t.dtype)).max())


def all_rows(files: Iterable[str]) -> list[FunctionRow]:
    """The rows of all peers."""
    files = list(files)
    return [row for peer in PEERS.values() if peer.is_in_programs for row in compare_functions(peer.name, files)]
