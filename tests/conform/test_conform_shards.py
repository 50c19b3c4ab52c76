"""Shards of runs, of vectors and of profiles, and the reports that they join to."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from minihlo.interp.cli import main
from minihlo.interp.conform.result import load

from .conform_planted import right
from .vectors_answers import answered, without_times

pytestmark = pytest.mark.usefixtures("in_the_repository")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Vectors of many kinds as arrays, with right results."""
    folder = tmp_path_factory.mktemp("many")
    words = ["--ops", "tanh,maximum,sort,reduce_add,compare_LT,select", "--formats", "f4E2M1FN"]
    assert main(["conform", "export", str(folder / "v"), *words]) == 0
    return folder / "v", answered(folder / "v", folder / "r.txt", lambda operation, x: right(operation, x))


def test_right_results_of_all_kinds_pass(many: tuple[Path, Path], tmp_path: Path) -> None:
    folder, results = many
    assert main(["conform", "judge", str(folder), str(results), "--json", str(tmp_path / "j.json")]) == 0
    report = load(tmp_path / "j.json")
    assert {c.op for c in report.cases} >= {"tanh", "maximum", "sort", "reduce_add", "compare_LT", "select"}
    assert {c.verdict for c in report.cases} <= {"PASS", "DIVERGENT"}
    assert report.run.backend == "chip"


def test_shards_join_to_the_report_of_one_run(many: tuple[Path, Path], tmp_path: Path) -> None:
    folder, results = many
    whole = tmp_path / "whole.json"
    assert main(["conform", "judge", str(folder), str(results), "--json", str(whole)]) == 0
    shards = [tmp_path / f"{i}.json" for i in (1, 2, 3)]
    for i, shard in enumerate(shards, 1):
        words = ["judge", str(folder), str(results), "--shard", f"{i}/3", "--json", str(shard)]
        assert main(["conform", *words]) == 0
        assert load(shard).cases
    joined = tmp_path / "joined.json"
    assert main(["conform", "merge", *map(str, reversed(shards)), "--json", str(joined)]) == 0
    assert without_times(joined) == without_times(whole)


def test_shards_of_vectors_join_too(tmp_path: Path) -> None:
    choice = ["--ops", "add,negate,abs,sign", "--formats", "f4E2M1FN", "--form", "array"]
    reports = []
    for shard in ("", "1/2", "2/2"):
        folder, name = tmp_path / f"v{shard[:1]}", tmp_path / f"{shard[:1]}.json"
        assert main(["conform", "export", str(folder), *choice, *(["--shard", shard] if shard else [])]) == 0
        results = answered(folder, tmp_path / f"{shard[:1]}.txt", lambda operation, x: right(operation, x) ^ 1)
        assert main(["conform", "judge", str(folder), str(results), "--json", str(name)]) == 1
        reports.append(name)
    assert main(["conform", "merge", *map(str, reports[1:]), "--json", str(tmp_path / "m.json")]) == 1
    assert without_times(tmp_path / "m.json") == without_times(reports[0])


def test_live_shards_join(tmp_path: Path) -> None:
    choice = ["minihlo", "--ops", "negate,abs,sign,floor", "--formats", "f4E2M1FN", "-j", "1"]
    names = [str(tmp_path / f"{i}.json") for i in range(6)]
    assert main(["conform", *choice, "--json", names[0]]) == 0
    for i in range(1, 6):  # some have no case
        assert main(["conform", *choice, "--shard", f"{i}/5", "--json", names[i]]) == 0
    assert any(not load(n).cases for n in names[1:])
    assert main(["conform", "merge", *names[1:], "--json", str(tmp_path / "m.json")]) == 0
    assert without_times(tmp_path / "m.json") == without_times(Path(names[0]))


def changed(path: Path, into: Path, **fields: Any) -> str:
    report = load(path)
    report.run = dataclasses.replace(report.run, **fields)
    report.save(into)
    return str(into)


def test_reports_that_are_no_shards_of_one_run_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = ["minihlo", "--ops", "negate,abs,sign", "--formats", "f4E2M1FN", "--form", "array", "-j", "1"]
    whole, one, two = (tmp_path / f"{n}.json" for n in ("whole", "one", "two"))
    for name, shard in ((whole, []), (one, ["--shard", "1/2"]), (two, ["--shard", "2/2"])):
        assert main(["conform", *choice, *shard, "--json", str(name)]) == 0
    other, few = tmp_path / "other.json", tmp_path / "few.json"
    lines = two.read_text().splitlines()
    few.write_text("\n".join([*lines[:-2], "]}"]).replace(",\n]}", "\n]}"))
    refused = {
        "expected the report of a shard": [whole],
        "expected all shards, got none for 2/2": [one],
        "expected each shard once, got 1/2": [one, one],
        "expected the same seed as": [one, changed(two, other, seed=3)],
        "expected the same backend as": [one, changed(two, tmp_path / "b.json", backend="jax:cpu")],
        "expected a complete run": [one, changed(two, tmp_path / "c.json", complete=False)],
        "expected one of 2 shards": [one, changed(two, tmp_path / "d.json", options={
            "form": ["array"], "shard": ["2/3"]})],
        "is not a result of minihlo conform": [one, Path(__file__)],
        "No such file": [one, tmp_path / "none.json"],
    }  # fmt: skip
    refused["expected all cases of the run, got none for"] = [one, few]
    capsys.readouterr()
    for reason, names in refused.items():
        assert main(["conform", "merge", *map(str, names)]) == 2, reason
        told = capsys.readouterr()
        assert reason in told.err
        assert told.err.count("\n") == 1
        assert not told.out


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2", "1/20000", "1/2/3"])
def test_shards_that_are_none(shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "minihlo", "--case", "negate.f4E2M1FN", f"--shard={shard}"]) == 2
    assert capsys.readouterr().err.startswith("--shard: expected I/N")


PROFILE = """name = "signs"
version = "1.0"
title = "Signs"
sources = ["none"]
[[cases]]
need = "required"
ops = ["negate", "abs", "sign", "floor"]
formats = ["f4E2M1FN"]
forms = ["array", "size-7"]
"""


def test_a_profile_by_way_of_files_and_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict is that of all cases; a shard has none."""
    profile = tmp_path / "signs.toml"
    profile.write_text(PROFILE)
    folder, results = tmp_path / "v", tmp_path / "r.txt"
    assert main(["conform", "export", str(folder), "--profile", str(profile)]) == 0
    answered(folder, results, lambda operation, x: right(operation, x))
    words = ["conform", "judge", str(folder), str(results)]
    capsys.readouterr()
    assert main(words) == 2
    assert "expected a profile" in capsys.readouterr().err  # it is none of minihlo's own
    words += ["--profile", str(profile)]
    assert main([*words, "--submit", str(tmp_path / "s.zip")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("conformant")
    assert main(["conform", "verify", str(tmp_path / "s.zip")]) == 0
    assert main([*words, "--json", str(tmp_path / "whole.json")]) == 0
    capsys.readouterr()
    shards = [str(tmp_path / f"{i}.json") for i in (1, 2)]
    for i, name in enumerate(shards, 1):
        assert main([*words, "--shard", f"{i}/2", "--json", name]) == 0
        assert "conformant" not in capsys.readouterr().out
        assert main([*words, "--shard", f"{i}/2", "--badge", str(tmp_path / "b.svg")]) == 2
        capsys.readouterr()
    joined = tmp_path / "joined.json"
    assert main(["conform", "merge", *shards, "--profile", str(profile), "--json", str(joined)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("conformant")
    assert without_times(joined) == without_times(tmp_path / "whole.json")
    live = ["conform", "minihlo", "--profile", str(profile), "-j", "1"]
    for i, name in enumerate(shards, 1):
        assert main([*live, "--shard", f"{i}/2", "--json", name]) == 0
        assert "conformant" not in capsys.readouterr().out
    assert main(["conform", "merge", *shards, "--profile", str(profile)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("conformant")


def test_options_beside_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "signs.toml").write_text(PROFILE)
    given = ["--profile", str(tmp_path / "signs.toml")]
    for words, reason in (
        (["export", str(tmp_path / "v"), *given, "--ops", "add"], "--ops: expected none with --profile"),
        (["export", str(tmp_path / "v"), "--profile", "none"], "expected a profile"),
        (["minihlo", *given, "--shard", "1/2", "--submit", str(tmp_path / "x.zip")], "--submit: expected none with"),
    ):
        assert main(["conform", *words]) == 2
        told = capsys.readouterr().err
        assert reason in told
        assert told.count("\n") == 1
