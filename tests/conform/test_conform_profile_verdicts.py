"""Runs on a profile: the verdict with its choices and waivers, and annotations."""

import re
from pathlib import Path

import pytest

from minihlo.interp.conform import profiles
from minihlo.interp.conform.report import ci
from minihlo.interp.conform.result import CaseResult, Report
from minihlo.interp.conform.result import Run as ReportRun

from .profile_runs import PROFILE, WAIVERS, Run, on_profile, runner

pytestmark = pytest.mark.usefixtures("in_the_repository")

OWN = f"test-1.0, not a profile of minihlo, SHA-256 {profiles.parse(PROFILE.encode(), '').sha256[:12]}"


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(tmp_path, capsys)


def test_a_backend_that_conforms(run: Run) -> None:
    status, out, err = run(*on_profile("minihlo"))
    assert (status, out[-1]) == (0, f"conformant ({OWN}); overflow: infinity or NaN; accumulator: exact")
    assert err == []


def test_a_choice_is_declared(run: Run) -> None:
    status, out, _ = run(*on_profile("tests.conform_profile_backends:saturating"))
    assert status == 0
    assert out[-1].startswith(f"conformant ({OWN}); overflow: saturates; infinite-result: saturates (f8E5M2);")


def test_a_choice_that_may_not_be_declared(run: Run, tmp_path: Path) -> None:
    other = PROFILE.replace('largest = "saturates"', 'infinity = "infinity"')
    (tmp_path / "q.toml").write_text(other)
    status, out, _ = run("tests.conform_profile_backends:saturating", "--profile", "@q.toml", "-j", "1")
    assert status == 1
    assert out[-1].startswith("not conformant (test-1.0, not a profile of minihlo, SHA-256 ")
    assert "overflow: largest is not among the choices that test-1.0 lets be declared" in "\n".join(out)


def test_a_point_of_which_nothing_may_be_declared(run: Run, tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(PROFILE[: PROFILE.index("[declare")])
    status, out, _ = run("tests.conform_profile_backends:saturating", "--profile", "@q.toml", "-j", "1")
    assert status == 1
    assert "test-1.0 does not let overflow be declared" in "\n".join(out)


def test_an_accumulator_that_may_not_be_declared(run: Run, tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(PROFILE.replace('["exact*"]', '["unit/*"]'))
    status, out, _ = run("minihlo", "--profile", "@q.toml", "-j", "1")
    assert status == 1
    assert any("exact: test-1.0 does not let this accumulator be declared" in line for line in out)


def test_waivers(run: Run) -> None:
    words = on_profile("tests.conform_profile_backends:without_f64")
    status, out, _ = run(*words)
    assert status == 1
    assert out[-1].startswith("not conformant (test-1.0, not a profile of minihlo, SHA-256 ")
    assert any(w.startswith("against test-1.0: convert.f64.f8E5M2 array: unsupported, and waivable: ") for w in out)
    assert any(w.startswith("against test-1.0: subtract.f8E5M2 array: 65") or "results are wrong" in w for w in out)
    status, out, err = run(*words, "--waivers", "@w.toml")
    assert (status, out[-1].partition(";")[0]) == (0, f"conformant with 2 waivers ({OWN})")
    assert err == []


def test_what_is_required_cannot_be_waived(run: Run, tmp_path: Path) -> None:
    words = on_profile("tests.conform_profile_backends:wrong_addition")
    (tmp_path / "w.toml").write_text('[[waiver]]\ncase = "add.*"\nreason = "no"\n')
    status, out, err = run(*words, "--waivers", "@w.toml")
    assert (status, out) == (2, [])
    assert err[0].endswith(
        "--waivers: add.*: expected cases that may be waived, got add.f8E4M3FN array (test-1.0 requires it)"
    )
    (tmp_path / "w.toml").write_text('[[waiver]]\ncase = "*"\nreason = "no"\n')
    status, out, _ = run(*words, "--waivers", "@w.toml")
    assert status == 1
    assert any("(test-1.0 requires it: it cannot be waived)" in line for line in out)


def test_a_waiver_that_waives_nothing_is_told(run: Run) -> None:
    status, out, err = run(*on_profile("minihlo", "--waivers", "@w.toml"))
    assert (status, out[-1].partition(" (")[0]) == (0, "conformant")
    assert err == [
        "--waivers @w.toml: convert.f64.*: it waives nothing",
        "--waivers @w.toml: subtract.f8E5M2 array: it waives nothing",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[waiver]]\ncase = "add.*"\n', "waiver[0]: the field 'reason' is missing"),
        ('[[waiver]]\ncase = "add.*"\nreason = " "\n', "waiver[0] (add.*): expected a reason, got an empty one"),
        ('[[waiver]]\ncase = ""\nreason = "x"\n', "waiver[0].case: expected a pattern, got an empty one"),
        (WAIVERS + WAIVERS, "waiver[2]: expected each once, got convert.f64.* twice"),
        ("add.f8E5M2", "(expected tables [[waiver]] with case and reason)"),
        ("", "the field 'waiver' is missing"),
        ("x = " + "[" * 9999, "nested"),
    ],
)
def test_waivers_that_are_none(run: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "w.toml").write_text(text)
    status, out, err = run(*on_profile("minihlo", "--waivers", "@w.toml"))
    assert (status, out, len(err)) == (2, [], 1)
    assert message in err[0]


def test_a_submission_that_cannot_be_written_is_one_line(run: Run) -> None:
    status, out, err = run(*on_profile("minihlo", "--submit", "@none/s.zip"))
    assert (status, out, len(err)) == (74, [], 1)
    assert "--submit @none/s.zip: No such file" in err[0]


def test_known_failures_of_the_adopter_do_not_fail_its_ci(run: Run, tmp_path: Path) -> None:
    (tmp_path / "known.txt").write_text("add.*\n")
    words = on_profile("tests.conform_profile_backends:wrong_addition", "--xfail", "@known.txt")
    status, out, _ = run(*words)
    assert status == 0
    assert out[-1].startswith("not conformant (test-1.0, not a profile of minihlo, SHA-256 ")
    assert out[-1].endswith("; --xfail lists all its problems")
    (tmp_path / "known.txt").write_text("add.f8E5M2\n")
    assert run(*words)[0] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("minihlo", "--submit", "@s.zip"), "--submit: expected --profile with it, got none"),
        (("minihlo", "--badge", "@s.svg"), "--badge: expected --profile with it, got none"),
        (("minihlo", "--waivers", "@w.toml"), "--waivers: expected --profile with it, got none"),
        (on_profile("minihlo", "--ops", "add"), "--ops: expected none with --profile"),
        (on_profile("minihlo", "--level", "2"), "--level: expected 1, as in test-1.0, got 2"),
        (on_profile("minihlo", "--badge", "@s.png"), "--badge: expected a file named .svg or .json, got @s.png"),
        (("minihlo", "--profile", "ocp"), "expected a profile or a TOML file, got ocp"),
        (("profiles", "ocp"), "expected a profile or a TOML file, got ocp"),
        (("verify", "@none.zip"), "@none.zip: No such file"),
        (("verify", "@p.toml"), "@p.toml: expected a submission, got a file that is no zip"),
    ],
)
def test_wrong_command_lines_are_one_line(run: Run, words: tuple[str, ...], message: str) -> None:
    status, out, err = run(*words)
    assert (status, out, len(err)) == (2, [], 1)
    assert message in err[0]


def test_the_profiles_are_listed(run: Run) -> None:
    status, out, _ = run("profiles")
    assert status == 0
    assert any(re.fullmatch(r"ocp-fp8-1\.0  .*", line) for line in out)
    status, out, _ = run("profiles", "@p.toml")
    assert status == 0
    assert any(re.fullmatch(r"required  add\.f8E5M2 +array", line) for line in out)
    assert "may declare overflow: infinity or NaN; largest (saturates)" in out


def test_annotations_of_failures_by_cause(run: Run) -> None:
    words = "--ops", "add,negate", "--formats", "f8E5M2,f8E4M3FN", "--form", "array", "-j", "1", "--github"
    status, out, _ = run("tests.conform_profile_backends:wrong_addition", *words)
    errors = [line for line in out if line.startswith("::error")]
    assert status == 1
    assert len(errors) == 1
    title, _, message = errors[0].removeprefix("::error title=").partition("::")
    assert title == "minihlo conform tests.conform_profile_backends%3Awrong_addition%3A 2 cases"
    assert "add.f8E5M2" in message
    assert "To reproduce: minihlo conform tests.conform_profile_backends:wrong_addition --case add." in message
    assert run("minihlo", *words)[1][-1].startswith("minihlo: ")


def test_profile_annotations(run: Run, tmp_path: Path) -> None:
    words = on_profile("tests.conform_profile_backends:without_f64", "--github")
    status, out, _ = run(*words)
    errors = [line for line in out if line.startswith("::error")]
    assert (status, len(errors)) == (1, 2)
    assert any("unsupported, and waivable" in e and "convert.f64.f8E5M2" in e for e in errors)
    assert out[-1].startswith("not conformant")
    assert not any(line.startswith("::error") for line in run(*words, "--waivers", "@w.toml")[1])
    (tmp_path / "known.txt").write_text("subtract.*\n")
    assert sum(line.startswith("::error") for line in run(*words, "--xfail", "@known.txt")[1]) == 1


def test_there_are_ten_annotations_at_most() -> None:
    cases = [
        CaseResult(
            f"op{i}.f8E5M2",
            "array",
            f"op{i}",
            ["f8E5M2"],
            "f8E5M2",
            "op",
            "f8E5M2",
            "FAIL",
            diagnosis=f"100% wrong\nin way {i}",
            causes=[f"way-{i}"],
        )
        for i in range(14)
    ]
    lines = list(ci.annotate(Report(ReportRun("chip:a,b", 1), cases)))
    assert len(lines) == ci.MOST
    assert lines[0].startswith("::error title=minihlo conform chip%3Aa%2Cb%3A 1 case::100%25 wrong%0Ain way ")
    assert lines[-1] == "::error title=minihlo conform chip%3Aa%2Cb::5 more causes"
