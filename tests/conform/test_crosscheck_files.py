"""Every function of mlir_tests/ on four peers: the table has what it gives otherwise; a wrong table is reported."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.backends import BackendError
from tools.crosscheck.causes import CAUSES
from tools.crosscheck.forked import evaluate
from tools.crosscheck.function_causes import FUNCTION_ABSENCES, FUNCTION_CAUSES, absence_of
from tools.crosscheck.function_compare import compare_functions
from tools.crosscheck.function_table import FUNCTION_DIVERGENCES, FunctionRow
from tools.crosscheck.functions import Function, files, functions
from tools.crosscheck.functions import run as functions_run
from tools.crosscheck.peers import PEERS
from tools.crosscheck.registry import ACCURACY

from .divergences import skip_unless_about_these

VERSIONS, ROWS = FUNCTION_DIVERGENCES.load()
FILES = files()
#: Files that take a second or two on every peer, and between them have most causes.
QUICK = ("chlo_is_inf", "collective_reduce", "dot_general", "dynamic_iota", "logistic")
#: So many files are compared in one test: each starts processes.
_TOGETHER = 12


def groups() -> Iterator[tuple[str, ...]]:
    yield QUICK
    yield ("convert",)
    rest = [f for f in FILES if f not in QUICK and f != "convert"]
    for start in range(0, len(rest), _TOGETHER):
        yield tuple(rest[start : start + _TOGETHER])


GROUPS = [
    pytest.param(group, id=f"{group[0]}…", marks=[] if group == QUICK else pytest.mark.exhaustive) for group in groups()
]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("peer", [p.name for p in PEERS.values() if p.is_in_programs])
def test_functions_differ_as_the_table_says(peer: str, group: tuple[str, ...]) -> None:
    skip_unless_about_these(VERSIONS)
    known = [r for r in ROWS if r.peer == peer and r.file in group]
    wrong = FUNCTION_DIVERGENCES.differences(known, compare_functions(peer, group))
    assert not wrong, "the table of divergences is not current:\n" + "\n".join(wrong)


def test_all_files_are_compared() -> None:
    assert sorted(f for group in groups() for f in group) == sorted(FILES)


def test_every_row_is_explained_once() -> None:
    assert len({r.order() for r in ROWS}) == len(ROWS)
    absences = {a.name: a for a in FUNCTION_ABSENCES}
    assert len(absences) == len(FUNCTION_ABSENCES)
    declared = [*absences, *FUNCTION_CAUSES, *CAUSES]
    assert len(set(declared)) == len(declared)
    for row in ROWS:
        assert row.file in FILES, row.order()
        assert row.functions, row.order()
        if row.cause in absences:
            assert absences[row.cause].peer == row.peer
            assert not row.values
            continue
        cause = FUNCTION_CAUSES.get(row.cause) or CAUSES[row.cause]
        assert row.peer in cause.peers, row.order()
        assert len(row.values) == len(row.functions)
        assert min(row.values) > 0
        assert row.got != row.expected
        assert (row.ulp > 0) == (cause.kind == ACCURACY), row.order()
        assert row.ulp < 1 << 32, row.order()  # NaN for a number is no matter of accuracy
    assert {r.cause for r in ROWS} >= set(FUNCTION_CAUSES) | set(absences), "a cause explains nothing"


def test_functions_of_rows_are_there() -> None:
    names = {file: {f.short for f in functions(file)} for file in FILES}
    for row in ROWS:
        assert set(row.functions) <= names[row.file], row.order()


def test_rows_survive_writing() -> None:
    assert FUNCTION_DIVERGENCES.path.read_text() == FUNCTION_DIVERGENCES.dump(VERSIONS, ROWS)


# That the comparison notices.

_COLD = BackendError("died", "of a cold")


@pytest.fixture(scope="module")
def small() -> list[FunctionRow]:
    skip_unless_about_these(VERSIONS)
    return compare_functions("reference", ["dynamic_iota", "sort", "chlo_erf"])


def kinds(known: Iterable[FunctionRow], result: Iterable[FunctionRow]) -> list[str]:
    return [line.split(":")[0] for line in FUNCTION_DIVERGENCES.differences(known, result)]


def test_changed_rows_are_noticed(small: list[FunctionRow]) -> None:
    rows = [r for r in ROWS if r.peer == "reference" and r.file in ("dynamic_iota", "sort", "chlo_erf")]
    assert len(rows) == 3
    assert not FUNCTION_DIVERGENCES.differences(rows, small)
    for i, row in enumerate(rows):
        others = [*rows[:i], *rows[i + 1 :]]
        assert kinds(others, small) == ["not in the table"]
        changes = [{"functions": row.functions[1:]}, {"says": "nothing"}, {"got": row.got + 1}]
        for change in [*changes, {"values": tuple(v + 1 for v in row.values) or (1,)}]:
            changed = dataclasses.replace(row, **change)
            assert kinds([*others, changed], small) == ["changed"]
    for wrong in ({"file": "add"}, {"cause": "sums-in-steps"}, {"peer": "xla"}):
        added = dataclasses.replace(rows[0], **wrong)
        assert kinds([*rows, added], small) == ["no longer happens"]


def one_wrong(name: str, place: int) -> Callable[[str, list[Function]], list]:
    """As `run`, with another bit in what one function returns first."""

    def run(peer: str, chosen: list[Function]) -> list:
        result = functions_run(peer, chosen)
        (at,) = (i for i, f in enumerate(chosen) if f.name == name)
        changed = np.array(result[at][0])
        changed[place] ^= 1
        return [*result[:at], [changed, *result[at][1:]], *result[at + 1 :]]

    return run


def test_a_difference_without_a_cause_is_a_row_without_one() -> None:
    (row,) = compare_functions("upcast", ["floor"], one_wrong("floor_f8E4M3FN", 5))
    assert (row.cause, row.functions, row.values, row.place) == ("", ("f8E4M3FN",), (1,), 5)


def test_a_number_that_the_format_has_not_is_noticed() -> None:
    """Six bits travel as f32, whose last bit makes no other code."""
    (row,) = compare_functions("upcast", ["floor"], one_wrong("floor_f6E2M3FN", 5))
    assert (row.cause, row.functions, row.values) == ("", ("f6E2M3FN",), ())


def test_a_result_where_none_should_be_is_noticed() -> None:
    """As if the reference interpreter had learned chlo.erf: then no function of the file is in the table's row."""
    (row,) = compare_functions("reference", ["chlo_erf"], lambda _, chosen: [[] for _ in chosen])
    assert (row.cause, row.says) == ("", "a result, where there should be none")


def test_a_failure_for_another_reason_is_noticed() -> None:
    (row,) = compare_functions("reference", ["chlo_erf"], lambda _, chosen: [_COLD for _ in chosen])
    assert (row.cause, row.says) == ("", "of a cold")


def test_ops_are_found_by_their_whole_names() -> None:
    actual = {name: absence_of("reference", functions(name)[0]) for name in ("dot", "dot_general", "broadcast_in_dim")}
    assert [a is not None and a.name for a in actual.values()] == ["op-not-evaluated", "sums-of-nothing", False]


# The process that may die.

_PROGRAM = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n  %r = {} %a : {}\n  return %r : tensor<2xf32>\n}}"


def test_a_program_that_ends_the_process_ends_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good = _PROGRAM.format("stablehlo.negate", "tensor<2xf32>")
    deadly = _PROGRAM.format("chlo.tan", "tensor<2xf32> -> tensor<2xf32>")
    x = [np.array([1, 2], np.float32)]
    actual = evaluate([(p, x) for p in (good, deadly, "not MLIR", deadly, good)])
    assert [getattr(r, "how", "results") for r in actual] == ["results", "died", "refused", "died", "results"]
    for r in (actual[0], actual[4]):
        assert not isinstance(r, BackendError)
        assert (r[0] == -x[0]).all()
    assert "SIGABRT" in str(actual[1])
    assert "chlo.tan" in str(actual[1])
    assert not list(tmp_path.iterdir())
