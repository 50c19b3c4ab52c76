"""`minihlo conform`: runs that are not finished are kept, and go on."""

import json
from pathlib import Path

import pytest

from minihlo.interp.backends import backend
from minihlo.interp.cli import main
from minihlo.interp.conform import files, run
from minihlo.interp.conform.result import load
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.errors import OutputError


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written now and then may fail; what is written in the end counts."""
    original, calls = files.write, []

    def full(path: str, text: str) -> None:
        calls.append(path)
        if len(calls) < 2:
            raise OutputError(f"{path}: No space left on device")
        original(path, text)

    monkeypatch.setattr(files, "write", full)
    path, made = tmp_path / "r.json", backend("minihlo")
    settings, choice = Settings("minihlo"), run.Choice(("add", "negate", "convert"), ("f8E5M2",))
    work = run.tasks(choice, settings, "programs")
    session = run.Session(run.describe_run(settings, choice, made), settings, work, path, pause=0.0)
    session.run(run.in_this_process(made))
    assert session.failure is None
    assert len(calls) > 2
    assert load(path).run.complete


def test_another_command_keeps_an_unfinished_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.json"
    words = ["conform", "minihlo", "--ops", "add", "--formats", "f8E5M2", "-j", "1", "--json", str(path)]
    assert main(words) == 0
    unfinished = json.loads(path.read_text())
    unfinished["run"]["complete"] = False
    unfinished["cases"] = unfinished["cases"][:3]
    path.write_text(json.dumps(unfinished))
    before = path.read_bytes()
    for more in (["--ops", "negate"], ["--form", "array"], ["--level", "2"], ["--case", "add.f8E5M2"], ["--seed", "3"]):
        capsys.readouterr()
        assert main([*words, *more]) == 2
        error = capsys.readouterr().err
        assert "unfinished run of another command" in error
        assert error.count("\n") == 1
        assert path.read_bytes() == before
    assert main(words) == 0
    assert load(path).run.complete


def test_an_interrupted_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.json"
    words = ["conform", "minihlo", "--ops", "add,negate", "--formats", "f8E5M2,f8E3M4", "-j", "1", "--json", str(path)]
    assert main(words) == 0
    whole = load(path)
    # As Ctrl-C leaves it: some cases, and not complete.
    data = json.loads(path.read_text())
    data["run"]["complete"] = False
    data["cases"] = data["cases"][:5]
    data["cases"][0]["seconds"] = 77.5
    path.write_text(json.dumps(data))
    capsys.readouterr()
    assert main(words) == 0
    assert "continues an unfinished run, which has 5 cases" in capsys.readouterr().err
    resumed = load(path)
    assert [c.key for c in resumed.cases] == [c.key for c in whole.cases]
    assert [c.seconds for c in resumed.cases].count(77.5) == 1
    assert resumed.run.complete


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    made = backend("minihlo")
    settings, choice = Settings("minihlo"), run.Choice(("add", "convert"), ("f8E5M2",))
    tasks = run.tasks(choice, settings, "programs")

    def interrupted(settings: Settings, work):
        for i, done in enumerate(run.in_this_process(made)(settings, work)):
            if i == 2:
                raise KeyboardInterrupt
            yield done

    path = tmp_path / "r.json"
    session = run.Session(run.describe_run(settings, choice, made), settings, tasks, path)
    with pytest.raises(KeyboardInterrupt):
        session.run(interrupted)
    kept = load(path)
    assert not kept.run.complete
    assert 0 < len(kept.cases) < session.total
    again = run.Session(run.describe_run(settings, choice, made), settings, tasks, path)
    assert again.resume() == len(kept.cases)
    wanted = {(s.case.signature, s.form) for task in tasks for s in task.specs}
    assert {c.key for c in again.run(run.in_this_process(made)).cases} == wanted
