"""Files from anyone: one line and exit status 2, soon, and with little memory."""

import dataclasses
import gzip
import io
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from minihlo.interp.cli import main
from minihlo.interp.conform import files, profiles
from minihlo.interp.conform.conformance import Problem
from minihlo.interp.conform.report import ci, terminal
from minihlo.interp.conform.result import CaseResult, Report, Run, load
from minihlo.interp.errors import InputError
from minihlo.interp.policies import accumulation

CASE = {"signature": "add.f8E5M2", "form": "array", "op": "add", "operands": ["f8E5M2"] * 2, "result": "f8E5M2"}
CASE |= {"row": "add", "column": "f8E5M2", "verdict": "PASS"}
HUGE = 10**400


def report(cases: Any = (), run: Any = None) -> bytes:
    """The JSON of a report."""
    run = {"backend": "x", "level": 1} if run is None else run
    return json.dumps({"schema": "minihlo.conform/1", "run": run, "cases": list(cases)}).encode()


KEPT = {"operands": "", "sha256": "", "size": 1}
WRONG = {
    "seconds": (report([CASE | {"seconds": HUGE}]), "expected a number of up to 64 bits"),
    "infinite": (report([CASE | {"seconds": float("inf")}]), "expected a number, got inf"),
    "level": (report(run={"backend": "x", "level": HUGE}), "expected a number of up to 64 bits"),
    "counts": (report([CASE | {"counts": {"PASS": -HUGE}}]), "expected a number of up to 64 bits"),
    "part": (report([CASE | {"kept": {"x": KEPT}}]), "expected the number of a part"),
    "digit": (report([CASE | {"kept": {"²": KEPT}}]), "expected the number of a part"),
    "size": (report([CASE | {"kept": {"0": KEPT | {"size": -1}}}]), "expected the number of a part"),
    "surrogate": (report([CASE | {"signature": "\ud800"}]), "expected ASCII"),
    "types": (report([CASE | {"operands": ["f9"]}]), "expected element types, got 'f9'"),
    "operands": (report([CASE | {"operands": ["f8E5M2"]}]), "expected 2 operands of add, got 1"),
    "none": (report([CASE | {"operands": []}]), "operands: expected some, got none"),
    "curve": (
        report([CASE | {"curve": {"codes": [1], "values": [1], "errors": [1000]}}]),
        "curve: expected errors from -128",
    ),
    "nested": (b"[" * 100_000, "nested too deeply"),
    "many": (b'{"schema": [' + b"[]," * 10_000_001 + b"[]]}", "expected JSON of up to"),
    "large": (b" " * (1 << 27) + b"{}", "expected at most 134,217,728 bytes"),
}


@pytest.mark.parametrize(("data", "words"), WRONG.values(), ids=WRONG)
def test_results_that_nobody_writes(
    data: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(data)
    (tmp_path / "in").mkdir()
    os.link(path, tmp_path / "in" / "r.json")
    for arguments in (("diff", path, path), ("merge", path), ("site", tmp_path / "in", tmp_path / "out")):
        assert main(["conform", *map(str, arguments)]) == 2, arguments
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert words in err or (arguments[0] == "site" and "got none" in err)  # no report at all


def test_a_report_cannot_write_to_the_terminal_what_it_likes() -> None:
    text = "[/red]\x1b[31m"
    texts = dict.fromkeys(("row", "column", "diagnosis", "model", "command"), text)
    case = CaseResult(**CASE | {"verdict": "FAIL", "causes": [text]} | texts)
    hostile = Report(
        Run(text, 1), [case, dataclasses.replace(case, form="constant", verdict="DIVERGENT", choices=[text])]
    )
    out = io.StringIO()
    terminal.show(hostile, Console(file=out, width=120))
    problem = Problem("add.f8E5M2", "array", text)
    for shown in (out.getvalue(), *ci.annotate(hostile), str(problem), *ci.annotate(hostile, [problem])):
        assert "\x1b" not in shown
        assert "[/red]\\x1b[31m" in shown


def test_a_profile_cannot_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (profiles.folder() / "mx-1.0.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("title", "sha256"))]
    (tmp_path / "p.toml").write_text("\n".join(['title = "\\u001b[31m"', *lines]))
    assert main(["conform", "profiles", str(tmp_path / "p.toml")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "mx-1.0  \\x1b[31m"


def test_a_pipe_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = str(tmp_path / "pipe.toml")
    os.mkfifo(pipe)
    for arguments in (
        ("diff", pipe, pipe),
        ("merge", pipe),
        ("verify", pipe),
        ("profiles", pipe),
        ("minihlo", "--profile", pipe),
        ("minihlo", "--ops", "add", "--xfail", pipe),
        ("minihlo", "--profile", "mx-1.0", "--waivers", pipe),
    ):
        assert main(["conform", *arguments]) == 2
        err = capsys.readouterr().err
        assert "expected a file, got a pipe or a device" in err
        assert err.count("\n") == 1
    with pytest.raises(InputError):
        accumulation(f"@{pipe}")


def test_a_compressed_file_is_no_larger_than_another(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with gzip.open(folder / "a.json.gz", "wb", 1) as stream:
        stream.write(b'{"schema": "minihlo.conform/1", "run": {}, "cases": [')
        for _ in range(300):
            stream.write(b"[]," * 1_000_000)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "minihlo.interp.cli", "conform", "site", str(folder), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "expected at most 134,217,728 bytes" in done.stderr


def test_many_equal_cases_take_time_in_proportion(tmp_path: Path) -> None:
    seconds = []
    for count in (5_000, 20_000):
        (tmp_path / "r.json").write_bytes(report([CASE] * count))
        began = time.perf_counter()
        assert main(["conform", "diff", *[str(tmp_path / "r.json")] * 2]) == 0
        seconds.append(time.perf_counter() - began)
    assert seconds[1] < 10 * seconds[0]


@pytest.mark.parametrize(
    "text", ['{"step": [1]}', '{"flush": 5}', '{"bits": {}}', '{"keep": []}', "[" * 100_000, "{" * 9]
)
def test_a_record_of_an_accumulator(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=r"^accumulate: "):
        accumulation(f"@{tmp_path / 'a.json'}")


def test_files_beside_the_target_stay(tmp_path: Path) -> None:
    (tmp_path / "q.json.part").write_text("mine")
    files.check(tmp_path / "q.json")
    Report(Run("x", 1)).save(tmp_path / "q.json")
    assert load(tmp_path / "q.json").run.backend == "x"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["q.json", "q.json.part"]
    assert (tmp_path / "q.json.part").read_text() == "mine"
