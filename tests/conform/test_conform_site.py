"""`minihlo conform site`: pages that lead to each other, need nothing else, and say what the reports say."""

import dataclasses
import gzip
import itertools
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from minihlo.interp import cli
from minihlo.interp.conform.result import (
    ACCURACY,
    CRASH,
    DIVERGENT,
    FAIL,
    IS_NAN,
    PASS,
    UNSUPPORTED,
    AccumulatorFacts,
    CaseResult,
    ErrorCurve,
    Failure,
    Report,
    Run,
    dumps,
)
from minihlo.interp.conform.site import build, read
from tools import check_site

from .test_conform_html import CASES, Page

HOSTILE = "<script>alert(1)</script>\"'&../../x"
NAN = Failure(FAIL, 3, 256, [[0x7E]], [["448"]], 0x7F, "nan", 0x7E, "448", IS_NAN)


def case(op: str, fmt: str, verdict: str, form: str = "array", **fields) -> CaseResult:
    return CaseResult(f"{op}.{fmt}", form, op, [fmt], fmt, op, fmt, verdict, total=256, **fields)


def wrong(op: str, fmt: str, form: str = "array", **fields) -> CaseResult:
    known = {"failures": [NAN], "causes": ["nan-as-infinity"], "diagnosis": "NaN is read as infinity"}
    command = f"minihlo conform it --case {op}.{fmt} --form {form}"
    return case(op, fmt, FAIL, form, counts={FAIL: 1}, **{**known, "command": command, "program": "func", **fields})


SUM = CaseResult(
    "dot_general.f8E4M3FN.f32", "length-64", "dot_general", ["f8E4M3FN", "f8E4M3FN"], "f32", "dot_general to f32",
    "f8E4M3FN", PASS, total=8, model="accumulated in f32 in order",
    accumulator=AccumulatorFacts("f32", "f32", 23, 1, record="step=1,keep=f32"),
)  # fmt: skip
ONE = Report(
    Run("one:cpu", 1, versions={"minihlo": "0.1", "one": "1.0"}, host="Linux", started="2026-01-01", complete=True),
    [
        wrong("abs", "f8E4M3FN"), wrong("abs", "f8E4M3FN", "size-7"), wrong("tan", "f8E5M2"), SUM,
        *[c for c in CASES if c.op not in ("abs", "tan")],
        case("exp", "f8E4M3FN", DIVERGENT, choices=["overflow: NaN"], open_points={"overflow": {"nan": 7}}),
        case("log", "f8E4M3FN", CRASH, message="died at 0x12"),
        case("log", "f8E5M2", ACCURACY, worst_ulp=1),
        case("sin", "f8E5M2", UNSUPPORTED, message="no such op"),
        case("cos", "f8E5M2", PASS, curve=ErrorCurve([0], [0.0], [0])),
    ],
)  # fmt: skip
LATER = Report(
    dataclasses.replace(ONE.run, versions={"minihlo": "0.1", "one": "2.0"}, started="2026-02-01"),
    [case("abs", "f8E4M3FN", PASS), *[c for c in ONE.cases if c.op != "abs"], wrong("neg", "f8E4M3FN")],
)
TWO = Report(Run("two", 1, started="2026-01-05"), [case("abs", "f8E4M3FN", PASS), wrong("tan", "f8E5M2")])
EVIL = Report(
    Run(HOSTILE, 1, versions={HOSTILE: HOSTILE}, host=HOSTILE, started=HOSTILE),
    [
        dataclasses.replace(
            wrong("abs", "f8E4M3FN", causes=[HOSTILE], diagnosis=HOSTILE * 9, command=HOSTILE, program=HOSTILE * 999),
            signature=HOSTILE, form=HOSTILE, op=HOSTILE, row=HOSTILE, column=HOSTILE, model=HOSTILE,
            choices=[HOSTILE], open_points={HOSTILE: {HOSTILE: 1}}, inputs=[HOSTILE],
        ),
        dataclasses.replace(case("abs", "f8E4M3FN", CRASH, message=HOSTILE * 4000), row="../../../etc/passwd"),
        dataclasses.replace(case("abs", "f8E4M3FN", UNSUPPORTED, message=HOSTILE), row="..", column=" ", signature=" "),
        dataclasses.replace(case("abs", "f8E4M3FN", PASS), row="content", column="causes", signature="x" * 100_000),
        dataclasses.replace(case("abs", "f8E4M3FN", PASS), row="Content", column="CAUSES", signature="y"),
    ],
)  # fmt: skip
REPORTS = {"one-1": ONE, "one-2": LATER, "two": TWO, "..": EVIL}


def written(folder: Path, reports: dict[str, Report]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, report in reports.items():
        (folder / f"{name}.json").write_text(dumps(report))
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert cli.main(["conform", "site", str(written(folder / "in", REPORTS)), str(folder / "out")]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {str(p.relative_to(site)): Page(p.read_text()) for p in sorted(site.rglob("*.html"))}


def text_of(page: Page) -> str:
    return " ".join(page.text.split())


def test_every_link_leads_to_a_page_and_a_place_on_it(site: Path, pages: dict[str, Page]) -> None:
    links = 0
    for path, page in pages.items():
        for link in page.of("a"):
            href = link["href"]
            assert href is not None
            file, _, anchor = href.partition("#")
            target = (site / path).parent / unquote(file) if file else site / path
            assert target.is_file(), (path, href)
            name = str(target.resolve().relative_to(site.resolve()))
            assert not anchor or unquote(anchor) in pages[name].ids, (path, href)
            links += 1
    assert links > 300


def test_every_page_is_reached_from_the_first(site: Path, pages: dict[str, Page]) -> None:
    seen, waiting = {"index.html"}, ["index.html"]
    while waiting:
        path = waiting.pop()
        for link in pages[path].of("a"):
            file = (link["href"] or "").partition("#")[0]
            if file:
                name = str(((site / path).parent / unquote(file)).resolve().relative_to(site.resolve()))
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
    assert seen == set(pages)


def test_pages_load_one_style_sheet_and_nothing_else(site: Path, pages: dict[str, Page]) -> None:
    assert [p.name for p in site.rglob("*.css")] == ["site.css"]
    assert not list(check_site.loaded_addresses(site))
    for path, page in pages.items():
        assert not [tag for tag, _ in page.tags if tag in ("script", "iframe", "object", "base", "form")]
        (style,) = page.of("link")
        assert ((site / path).parent / (style["href"] or "")).resolve() == (site / "site.css").resolve()
        for _, attributes in page.tags:
            assert not [a for a in attributes if a.startswith("on")]
            for value in attributes.values():
                assert not re.match(r"\s*(https?:|//|javascript:)", value or "")


def test_pages_have_language_title_landmarks_and_heads(pages: dict[str, Page]) -> None:
    for path, page in pages.items():
        (html,) = page.of("html")
        assert html["lang"] == "en"
        assert len(page.of("title")) - len(page.of("svg")) == 1
        for tag in ("main", "nav", "header", "footer", "h1"):
            assert len(page.of(tag)) == 1, (path, tag)
        first = next(a for tag, a in page.tags if tag == "a")
        assert first["href"] == "#content"
        assert all(th.get("scope") in ("row", "col") for th in page.of("th"))
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels)), (path, levels)


def test_a_verdict_is_told_by_a_sign_and_by_words(site: Path, pages: dict[str, Page]) -> None:
    page = pages["ops/abs.html"]
    (link,) = (a for a in page.of("a") if (a.get("aria-label") or "").startswith("two, f8E4M3FN"))
    assert link["aria-label"] == "two, f8E4M3FN: PASS"
    assert re.search(r'<td class="FAIL"><a [^>]*>✗</a>', (site / "ops/tan.html").read_text())


def test_changes_are_told_between_versions(pages: dict[str, Page]) -> None:
    text = text_of(pages["changes.html"])
    assert "one:cpu (one 1.0) → one:cpu (one 2.0)" in text
    assert "1 got better" in text
    assert "1 are new" in text
    assert "abs.f8E4M3FN array✗ FAIL1 of 256✓ PASS" in text
    assert "neg.f8E4M3FN array" in text


def test_versions_are_in_order_whenever_they_ran(tmp_path: Path) -> None:
    versions = ["0.9.2", "0.10.0.dev20260101", "0.10.0rc1", "0.10.0", "0.10.1+cpu"]
    runs = [
        Report(dataclasses.replace(TWO.run, versions={"minihlo": "0.1", "two": v}, started=f"2026-01-{20 - i}"), [])
        for i, v in enumerate(versions)
    ]
    reports = read.reports(written(tmp_path, {f"r{i}": r for i, r in enumerate(reversed(runs))}))[0]
    ((*ordered,),) = read.by_backend(reports)
    assert [r.report.run.versions["two"] for r in ordered] == versions


def test_a_cell_leads_to_codes_and_to_the_command(pages: dict[str, Page]) -> None:
    (link,) = (a for a in pages["formats/f8E5M2.html"].of("a") if a.get("aria-label") == "two, tan: FAIL")
    assert link["href"] == "../cells/two/tan.html#f8E5M2"
    text = text_of(pages["cells/two/tan.html"])
    for shown in ("0x7E = 448", "0x7F = nan", "minihlo conform it --case tan.f8E5M2 --form array", "func"):
        assert shown in text
    assert "minihlo conform two --case abs.f8E4M3FN" in text_of(pages["cells/two/abs.html"])


def test_texts_of_reports_are_escaped_and_cut(site: Path, pages: dict[str, Page]) -> None:
    everything = "".join(p.read_text() for p in site.rglob("*.html"))
    assert "<script" not in everything
    assert "&lt;script&gt;" in everything
    assert HOSTILE in pages["index.html"].text
    assert "x" * 1000 not in everything
    assert max(p.stat().st_size for p in site.rglob("*")) < 1_000_000


def test_names_of_files_are_plain_and_differ_without_case(site: Path, pages: dict[str, Page]) -> None:
    for path in pages:
        assert re.fullmatch(r"[A-Za-z0-9_/.-]+", path)
        assert ".." not in path
    assert len({p.casefold() for p in pages}) == len(pages)
    assert {p.name for p in site.parent.iterdir()} == {"in", "out"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operands": ["f9"]}, "expected element types, got 'f9'"),
        ({"result": "tensor"}, "expected element types, got 'tensor'"),
        ({"failures": [dataclasses.replace(NAN, operands=[[1 << 60]])]}, "expected a code of f8E4M3FN"),
        ({"failures": [dataclasses.replace(NAN, values=[])]}, "expected codes and values for each operand"),
        (
            {"failures": [dataclasses.replace(NAN, operands=[], values=[])]},
            "expected codes and values for each operand",
        ),
        ({"histogram": {"1": 0}}, "histogram: expected"),
        ({"curve": ErrorCurve([1], ["x"], [0])}, "could not convert"),
        ({"curve": ErrorCurve([1, 2], [1.0], [0])}, "as many values and errors as codes"),
        ({"accumulator": AccumulatorFacts("a", "f32", 10**9)}, "accumulator: expected"),
        ({"accumulator": AccumulatorFacts("a", "f32", 1, drop="x")}, "accumulator: expected"),
        ({"map": CASES[0].map}, "map: expected two operands"),
        ({"op": "divide"}, "expected 2 operands of divide, got 1"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict, message: str
) -> None:
    report = Report(Run("one", 1), [dataclasses.replace(wrong("abs", "f8E4M3FN"), **change)])
    assert cli.main(["conform", "site", str(written(tmp_path / "in", {"a": report})), str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "a.json is not a result of minihlo conform: cases[0]" in line
    assert message in line
    assert not (tmp_path / "out").exists()


def test_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: Path) -> str:
        assert cli.main(["conform", "site", *map(str, arguments)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    out, empty = tmp_path / "out", tmp_path / "empty"
    empty.mkdir()
    assert "expected a folder with results" in refused(tmp_path / "none", out)
    assert "got none" in refused(empty, out)
    (empty / "broken.json").write_text('{"schema": "minihlo.conform/1", ')
    assert "broken.json is not a result" in refused(empty, out)
    (empty / "broken.json").unlink()
    (empty / "cut.json.gz").write_bytes(gzip.compress(dumps(TWO).encode())[:-20])
    assert "cut.json.gz" in refused(empty, out)
    (tmp_path / "file").write_text("")
    assert "expected a folder, got a file" in refused(written(tmp_path / "in", {"two": TWO}), tmp_path / "file")
    assert "got other files" in refused(tmp_path / "in", tmp_path)


def test_files_of_an_earlier_site_are_taken_away_and_no_others(tmp_path: Path) -> None:
    out = tmp_path / "out"
    build.build(read.reports(written(tmp_path / "in", {"one-1": ONE, "two": TWO}))[0], out)
    (out / "mine.txt").write_text("kept")
    (tmp_path / "outside.html").write_text("kept")
    with (out / "files.txt").open("a") as listed:
        listed.write("../outside.html\n/etc/passwd.html\nmine.txt\n")
    build.build(read.reports(written(tmp_path / "new", {"two": TWO}))[0], out)
    assert not (out / "runs" / "one-1.html").exists()
    assert (out / "mine.txt").exists()
    assert (tmp_path / "outside.html").exists()
