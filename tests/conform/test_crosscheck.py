"""The peers differ as the table of divergences says, case by case; and a wrong table is noticed."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minihlo.interp.backends import backend
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.judging.open_points import CHOICES, IDENTIFIERS
from minihlo.interp.oracle.exact import OPS
from tools.crosscheck.causes import CAUSES
from tools.crosscheck.compare import Differences, compare, list_cases
from tools.crosscheck.models import FAULTS
from tools.crosscheck.peers import PEERS
from tools.crosscheck.registry import ACCURACY, KINDS
from tools.crosscheck.table import DIVERGENCES, Row

from .divergences import INSTALLED, skip_unless_about_these

VERSIONS, ROWS = DIVERGENCES.load()
SOURCES = list(dict.fromkeys(case.operands[0] for case in list_cases()))
#: Types whose comparison takes some seconds.
QUICK = ("f4E2M1FN", "f8E4M3FN", "f32", "f64", "i8", "ui8", "i32", "i64")


def of(source: str) -> list[Case]:
    return [case for case in list_cases() if case.operands[0] == source]


@pytest.fixture(scope="module")
def small() -> Differences:
    skip_unless_about_these(VERSIONS)
    return compare(of("f4E2M1FN"), INSTALLED)


@pytest.mark.parametrize(
    "source", [s if s in QUICK else pytest.param(s, marks=pytest.mark.exhaustive) for s in SOURCES]
)
def test_peers_differ_as_the_table_says(source: str) -> None:
    """Every op and conversion from a type: all codes, all pairs of codes."""
    skip_unless_about_these(VERSIONS)
    actual = compare(of(source), INSTALLED)
    assert not actual.missing
    wrong = DIVERGENCES.differences([r for r in ROWS if r.operand == source and r.peer in INSTALLED], actual.rows)
    assert not wrong, "the table of divergences is not current:\n" + "\n".join(wrong)


def test_every_row_is_explained_once() -> None:
    assert len({r.order() for r in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.cause in CAUSES, row.name
        assert row.peer in CAUSES[row.cause].peers, row.name
        assert row.cases > 0
        assert row.got != row.expected
        assert (row.ulp > 0) == (CAUSES[row.cause].kind == ACCURACY), row.name
    assert {r.cause for r in ROWS} == set(CAUSES), "a cause explains nothing"
    assert {r.operand for r in ROWS} <= set(SOURCES)


def test_causes_name_what_there_is() -> None:
    points = set(IDENTIFIERS.values())
    choices = {c.identifier for known in CHOICES.values() for c in known}
    for cause in CAUSES.values():
        assert re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", cause.name)
        assert cause.kind in KINDS
        assert set(cause.peers) <= set(PEERS)
        assert bool(cause.faults) != bool(cause.points), cause.name
        assert set(cause.faults) <= set(FAULTS)
        assert set(cause.points) <= points
        assert set(cause.choices) <= choices


def test_rows_survive_writing() -> None:
    assert DIVERGENCES.path.read_text() == DIVERGENCES.dump(VERSIONS, ROWS)


def test_all_elementwise_ops_are_compared() -> None:
    assert {c.op for c in list_cases()} == {*OPS, "is_finite", "compare", "convert"}
    assert sum(c.operands[0] == "f8E4M3FN" for c in list_cases()) == len(OPS) + 1 + 12 + 14 + 4


def test_the_double_rounding_of_wide_types_is_a_row() -> None:
    """Found by the tester: 64 bits by way of f32 to f16 and bf16."""
    actual = {(r.peer, r.operand, r.result) for r in ROWS if r.cause == "conversions-through-f32"}
    assert {("ml_dtypes", "f64", "bf16"), ("ml_dtypes", "i64", "bf16")} <= actual


def judged(rows: Sequence[Row], result: Differences) -> list[str]:
    return DIVERGENCES.differences(rows, result.rows)


def test_changed_rows_are_noticed(small: Differences) -> None:
    rows = [r for r in ROWS if r.operand == "f4E2M1FN" and r.peer in INSTALLED]
    assert not judged(rows, small)
    assert [w.split(":")[0] for w in judged(rows[1:], small)] == ["not in the table"]
    wrong = dataclasses.replace(rows[0], op="add")
    assert [w.split(":")[0] for w in judged([*rows, wrong], small)] == ["no longer happens"]
    for change in ({"cases": rows[0].cases + 1}, {"got": rows[0].got ^ 1}, {"example": (9,)}):
        changed = dataclasses.replace(rows[0], **change)
        assert [w.split(":")[0] for w in judged([changed, *rows[1:]], small)] == ["changed"]


class Wrong:
    """minihlo, with one code of products changed."""

    takes, name, seconds = "programs", "wrong", 60.0

    def __init__(self) -> None:
        self._ours: Any = backend("minihlo")

    def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        result = [np.array(r) for r in self._ours.evaluate(text, arrays)]
        if '"stablehlo.multiply"' in text:
            result[0].reshape(-1)[17] ^= 1  # 0.5 * 0.5 = 0.25, a tie
        return result

    def close(self) -> None:
        pass


def test_a_result_that_no_cause_explains_is_a_row_without_one() -> None:
    case = next(c for c in of("f4E2M1FN") if c.op == "multiply")
    (row,) = compare([case], ["upcast"], {"upcast": Wrong()}).rows
    assert (row.cause, row.op, row.example, row.cases) == ("", "multiply", (1, 1), 1)


def test_unexpected_results_are_noticed() -> None:
    case = next(c for c in of("f6E2M3FN") if c.op == "abs")
    (line,) = compare([case], ["xla"], {"xla": backend("minihlo")}).missing
    assert line == "xla abs.f6E2M3FN: expected no result, got one"
