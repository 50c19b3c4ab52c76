"""The failures of a report by cause: one fault is one cause, however many cases it fails."""

import dataclasses
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from minihlo.interp.conform import causes
from minihlo.interp.conform.report import html, terminal
from minihlo.interp.conform.result import CRASH, DIVERGENT, FAIL, PASS, CaseResult, Failure, Report, Run
from minihlo.interp.judging import open_points, table
from minihlo.interp.judging.faults import FAULTS
from minihlo.ops.minifloat.open_points import OPEN_POINTS

ROOT = Path(__file__).parents[2]


def failure(operand: tuple[int, str], got: tuple[int, str], expected: tuple[int, str], **fields) -> Failure:
    return Failure(FAIL, 0, 256, [[operand[0]]], [[operand[1]]], *got, *expected, error=1, ulp=1, **fields)


#: In f8E8M0FNU NaN is 0xFF, and 0x80 is 2.
NAN_READ = failure((0xFF, "nan"), (0x7F, "1"), (0xFF, "nan"))
NEGATIVE = failure((0xBF80, "-1"), (0xFF, "nan"), (0x7F, "1"))


def case(op: str, why: str = "", named: str = "", form: str = "array", failures: tuple = (), **fields) -> CaseResult:
    signature = f"{op}.f8E8M0FNU"
    given = {"command": f"minihlo conform it --case {signature} --form {form}", "total": 256, "counts": {FAIL: 1}}
    return CaseResult(
        signature, form, op, ["f8E8M0FNU"], "f8E8M0FNU", op, "f8E8M0FNU", FAIL,
        diagnosis=why, causes=named.split(), failures=list(failures), **{**given, **fields},
    )  # fmt: skip


def groups(*cases: CaseResult) -> dict[str, list[tuple[str, str]]]:
    return {c.identifier: [m.case.key for m in c.members] for c in causes.of_cases(cases)}


def test_cases_that_name_a_fault_go_together() -> None:
    found = causes.of_cases([
        case("tanh", "NaN is read as infinity", "nan-as-infinity"),
        case("exp", "only as constants, which are folded: NaN is read as infinity", "only-in-forms nan-as-infinity"),
        case("atan2", "NaN is read as infinity (256 of 511); something else (255)", "nan-as-infinity"),
        case("log", "TOTALORDER is ignored", "total-order-ignored"),
        case("abs"),
    ])  # fmt: skip
    assert [(c.identifier, c.sentence, len(c.signatures)) for c in found] == [
        ("nan-as-infinity", "NaN is read as infinity", 3),
        ("abs: unexplained", "abs: wrong results that no known fault gives", 1),
        ("total-order-ignored", "TOTALORDER is ignored", 1),
    ]
    assert [c.assumed for c in found] == [0, 0, 0]


def test_a_cause_is_never_without_words() -> None:
    sums = case("dot", named="accumulated/f32", model="accumulated in f32")
    assert [c.sentence for c in causes.of_cases([sums])] == ["accumulated in f32"]
    assert [c.sentence for c in causes.of_cases([case("abs", named="some-fault")])] == ["some-fault"]


def test_what_passes_and_what_is_left_open_have_no_cause() -> None:
    passing = [dataclasses.replace(case("abs", "NaN is read", "nan-as-zero"), verdict=v) for v in (PASS, DIVERGENT)]
    assert causes.of_cases(passing) == []


def test_undiagnosed_cases_are_grouped_by_pattern() -> None:
    named = case("tanh", "NaN is read as infinity", "nan-as-infinity", failures=(NAN_READ,))
    other = case("negate", "the sign is put", "sign-in-exponent", failures=(NEGATIVE,))
    like = case("rsqrt", "only where the operand is 0xFF (nan)", "one-operand", failures=(NAN_READ,))
    unlike = dataclasses.replace(NAN_READ, got=0xFE, got_value="inf")
    alone = case("power", "only where the operand is 0xFF (nan)", "one-operand", failures=(NAN_READ, unlike))
    assert groups(named, other, like, alone) == {
        "nan-as-infinity": [("tanh.f8E8M0FNU", "array"), ("rsqrt.f8E8M0FNU", "array")],
        "power: only where the operand is … (nan)": [("power.f8E8M0FNU", "array")],
        "sign-in-exponent": [("negate.f8E8M0FNU", "array")],
    }
    (cause,) = (c for c in causes.of_cases([named, like]) if c.identifier == "nan-as-infinity")
    assert (cause.assumed, cause.example.case.op) == (1, "tanh")


def test_what_two_causes_may_explain_is_assumed_of_neither() -> None:
    one = case("tanh", "a", "nan-as-infinity", failures=(NAN_READ,))
    two = case("exp", "b", "nan-as-zero", failures=(NAN_READ,))
    assert groups(one, two, case("abs", "all failing operands are NaN", "operands-alike", failures=(NAN_READ,)))[
        "abs: all failing operands are NaN"
    ] == [("abs.f8E8M0FNU", "array")]


def test_forms_of_a_case_share_its_cause_unless_it_has_two() -> None:
    first = case("tanh", "a", "nan-as-infinity")
    assert len(groups(first, case("tanh", form="size-7"))) == 1
    assert len(groups(first, case("tanh", "b", "nan-as-zero", "constant"), case("tanh", form="size-7"))) == 3


def test_sorts_are_one_cause() -> None:
    row = dataclasses.replace(NAN_READ, operands=[[0xFF, 1, 2]], values=[["nan", "1", "2"]])
    found = groups(
        case("sort", "-0 and +0 count as equal", "sort-zeros-equal", "length-3", (row,)),
        case("sort", "NaN is neither first nor last", "sort-nan-inside", "length-8", (row,)),
        dataclasses.replace(
            case("sort", "only rows with NaN", "rows-alike", "rank-3", (row,)), signature="sort.f8E5M2"
        ),
    )
    assert {k: len(v) for k, v in found.items()} == {"sort-not-total": 3}


def test_crashes_are_grouped_by_message() -> None:
    def died(message: str, op: str) -> CaseResult:
        return dataclasses.replace(case(op), verdict=CRASH, message=message)

    found = causes.of_cases([
        died("exit status 1: cannot reshape array of size 1 into shape (9,17) of f8E4M3FN", "add"),
        died("exit status 2: cannot reshape array of size 5 into shape (3,5,17) of f4E2M1FN", "abs"),
        died("exit status 1: no file /usr/lib/x.so", "tan"),
        died("exit status 1: no file /home/me/lib/y.so", "exp"),
        died("", "log"),
    ])  # fmt: skip
    assert {c.sentence: len(c.members) for c in found} == {
        "exit status …: cannot reshape array of size … into shape (…) of …": 2,
        "exit status …: no file …": 2,
        "the backend gives no answer, and no message": 1,
    }
    assert {c.verdict for c in found} == {CRASH}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("tensor<4x8xf8E4M3FN> and vector<2xi8>", "tensor<…> and vector<…>"),
        ("f16x and xf16 stay, f16 goes", "f16x and xf16 stay, … goes"),
        ("at 0x7fff12 after -1.5e-3 s", "at … after … s"),
        ("x" * 5000, "x" * 299 + "…"),
        ("two\nlines", "two lines"),
    ],
)
def test_patterns(message: str, expected: str) -> None:
    assert causes.pattern(message) == expected


def test_descriptions_that_differ_are_shown_with_placeholders() -> None:
    a = case("convert", "only where the operand is 0x10 (2)", "one-operand", "size-7")
    b = dataclasses.replace(a, signature="convert.f16", diagnosis="only where the operand is 0x11 (3)")
    assert [c.sentence for c in causes.of_cases([a])] == ["convert: only where the operand is 0x10 (2)"]
    assert [c.sentence for c in causes.of_cases([a, b])] == ["convert: only where the operand is … (…)"]


def test_causes_of_several_runs_name_the_runs() -> None:
    one = [case("tanh", "a", "nan-as-infinity", failures=(NAN_READ,))]
    two = [case("exp", "a", "nan-as-infinity"), case("abs", "only", "one-operand", failures=(NAN_READ,))]
    found = {c.identifier: c for c in causes.causes({"one": one, "two": two})}
    assert found["nan-as-infinity"].runs == ["one", "two"]
    # Nothing in the second run fails as abs does: the marks of another run say nothing of it.
    assert found["abs: only"].runs == ["two"]


def test_the_example_is_the_smallest() -> None:
    long = dataclasses.replace(NAN_READ, operands=[[0xFF] * 9], values=[["nan"] * 9])
    cases = [
        case("tanh", "a", "nan-as-infinity", failures=(long,)),
        case("exp", "a", "nan-as-infinity", failures=(long, NAN_READ), is_expected=False),
        case("abs", "a", "nan-as-infinity", failures=(NAN_READ,), is_expected=True),
    ]
    (cause,) = causes.of_cases(cases)
    assert (cause.example.case.op, cause.example.failure) == ("exp", NAN_READ)


def test_identifiers_are_rows_of_one_table() -> None:
    text = "".join(p.read_text() for p in (ROOT / "interp").rglob("*.py") if p.name != "table.py")
    used = {*re.findall(r'\b(?:cause|note)\(\s*f?"([a-z0-9-]+)"', text), *open_points.IDENTIFIERS.values()}
    assert used - {p.identifier for p in OPEN_POINTS} <= table.SENTENCES.keys()
    assert {n for n in table.SENTENCES if f'"{n}"' not in text} <= {
        n for n in table.SENTENCES if n.startswith(("sort-nan-", "operands-"))
    }
    assert not table.SENTENCES.keys() & FAULTS.keys()
    parts = (table.DESCRIPTIONS, table.CIRCUMSTANCES, table.FAULTS, table.OPEN_POINTS, table.LIMITS)
    assert len(table.SENTENCES) == sum(map(len, parts))
    assert {n for _, _, names in table.GROUPS for n in names} <= table.SENTENCES.keys() | FAULTS.keys()


MANY = Report(
    Run("it", 1),
    [
        case("tanh", "NaN is read as infinity", "nan-as-infinity", failures=(NAN_READ,)),
        case("exp", "NaN is read as infinity", "nan-as-infinity", failures=(NAN_READ,)),
        case("abs", "<b>bold</b> & so on", "zeros-lose-sign", failures=(NAN_READ,)),
    ],
)


def test_the_terminal_has_causes_before_cases() -> None:
    stream = io.StringIO()
    terminal.show(MANY, Console(file=stream, width=120, highlight=False))
    text = stream.getvalue()
    assert "2 causes of 3 failing signatures\n  NaN is read as infinity  2 signatures" in text
    assert text.index("2 causes") < text.index("FAIL tanh.f8E8M0FNU")
    alone = io.StringIO()
    terminal.show(Report(Run("it", 1), MANY.cases[1:]), Console(file=alone, width=120, highlight=False))
    assert "cause" not in alone.getvalue()  # as many causes as signatures say nothing new


def test_the_page_has_causes_before_cases_and_the_grid() -> None:
    page = html.page(MANY)
    assert page.index('id="causes"') < page.index('id="grid"') < page.index('id="failures"')
    causes_part = page[page.index('id="causes"') : page.index('id="grid"')]
    assert causes_part.count("<article") == 2
    assert "3 signatures fail from 2 causes." in causes_part
    for shown in ("0xFF", "= nan", "--case tanh.f8E8M0FNU", 'href="#failures-exp.f8E8M0FNU"', "&lt;b&gt;bold"):
        assert shown in causes_part
