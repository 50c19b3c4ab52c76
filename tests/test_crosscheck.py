"""Four peers give exactly what the table of divergences says, case by case; and a wrong table is noticed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from tools.crosscheck.cases import Case, batches, elementwise
from tools.crosscheck.causes import CAUSES
from tools.crosscheck.compare import Found, compare
from tools.crosscheck.peers import PEERS
from tools.crosscheck.registry import ACCURACY
from tools.crosscheck.table import DIVERGENCES, Row

from .divergences import skip_unless_about_these

VERSIONS, ROWS = DIVERGENCES.load()
SOURCES = list(dict.fromkeys(batch[0].operand for batch in batches()))
#: Types whose comparison takes a second or two.
QUICK = ("f4E2M1FN", "f8E4M3FN", "f32", "f64", "i8", "ui8", "i32")


def of(source: str) -> list[Sequence[Case]]:
    return [batch for batch in batches() if batch[0].operand == source]


@pytest.fixture(scope="module")
def small() -> Found:
    skip_unless_about_these(VERSIONS)
    return compare(of("f4E2M1FN"))


@pytest.mark.parametrize(
    "source", [s if s in QUICK else pytest.param(s, marks=pytest.mark.exhaustive) for s in SOURCES]
)
def test_peers_differ_as_the_table_says(source: str) -> None:
    """Every op and conversion from a type: all codes, all pairs of codes."""
    skip_unless_about_these(VERSIONS)
    found = compare(of(source))
    assert not found.missing
    wrong = DIVERGENCES.differences([r for r in ROWS if r.operand == source], found.rows)
    assert not wrong, "the table of divergences is not current:\n" + "\n".join(wrong)


# The table itself.


def test_every_row_is_explained_once() -> None:
    assert len({r.order() for r in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.cause in CAUSES, row.name
        assert row.peer in CAUSES[row.cause].peers, row.name
        assert row.cases > 0
        assert row.got != row.expected
        assert (row.ulp > 0) == (CAUSES[row.cause].kind == ACCURACY), row.name
        assert row.ulp < 1 << 32, row.name  # NaN for a number is no matter of accuracy
    assert {r.cause for r in ROWS} == set(CAUSES), "a cause explains nothing"
    assert {r.operand for r in ROWS} <= set(SOURCES)


def test_rows_survive_writing() -> None:
    assert DIVERGENCES.path.read_text() == DIVERGENCES.dump(VERSIONS, ROWS)


def test_all_elementwise_ops_are_compared() -> None:
    names = {name for name, _, _ in elementwise()}
    assert len(names) == 9 + 20 + 12
    compared = {c.op for batch in batches() for c in batch}
    assert compared == names | {"convert"}


# That the comparison notices.


def judged(rows: Sequence[Row], found: Found) -> list[str]:
    return DIVERGENCES.differences(rows, found.rows)


def test_a_row_that_is_deleted_or_added_or_changed_is_noticed(small: Found) -> None:
    rows = [r for r in ROWS if r.operand == "f4E2M1FN"]
    assert not judged(rows, small)
    assert [w.split(":")[0] for w in judged(rows[1:], small)] == ["not in the table"]
    wrong = dataclasses.replace(rows[0], op="add")
    assert [w.split(":")[0] for w in judged([*rows, wrong], small)] == ["no longer happens"]
    for change in ({"cases": rows[0].cases + 1}, {"got": rows[0].got ^ 1}, {"example": (9,)}):
        changed = dataclasses.replace(rows[0], **change)
        assert [w.split(":")[0] for w in judged([changed, *rows[1:]], small)] == ["changed"]


def test_a_result_of_ours_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One code of one op, changed: then all peers differ, and no cause explains it."""
    skip_unless_about_these(VERSIONS)
    from tools.crosscheck import compare as module

    honest = module.results

    def results(peer: str, cases: Sequence[Case], operands: Sequence) -> list:
        found = honest(peer, cases, operands)
        if peer == "direct":
            at = [c.op for c in cases].index("multiply")
            found[at] = found[at].copy()
            found[at][17] ^= 1  # 0.5 * 0.5 = 0.25, a tie
        return found

    monkeypatch.setattr(module, "results", results)
    batch = next(b for b in of("f4E2M1FN") if b[0].arity == 2)
    unexplained = [r for r in compare([batch]).rows if not r.cause]
    assert {(r.peer, r.op, r.example) for r in unexplained} == {(p, "multiply", (1, 1)) for p in PEERS}
