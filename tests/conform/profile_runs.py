"""A small profile, waivers for it, and `minihlo conform` on them in a folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from minihlo.interp.cli import main

PROFILE = """
name = "test"
version = "1.0"
title = "some of everything"
sources = ["a test"]
accumulators = ["exact*"]
[[cases]]
need = "required"
ops = ["add", "type"]
formats = ["f8E5M2"]
forms = ["array"]
[[cases]]
need = "required"
ops = ["add"]
formats = ["f8E4M3FN"]
forms = ["array", "upcast", "rank-0", "transposed"]
[[cases]]
need = "waivable"
ops = ["convert"]
formats = ["f64", "f32"]
to = ["f8E5M2"]
forms = ["array", "size-7"]
[[cases]]
need = "optional"
ops = ["subtract"]
formats = ["f8E5M2"]
forms = ["array"]
[[cases]]
need = "optional"
ops = ["dot_general"]
formats = ["f8E4M3FN"]
to = ["f32"]
forms = ["length-3", "length-17"]
[declare.overflow]
default = "infinity or NaN"
largest = "saturates"
[declare.infinite-result]
default = "infinity or NaN"
largest = "saturates"
"""
WAIVERS = """
[[waiver]]
case = "convert.f64.*"
reason = "the chip has no f64"
[[waiver]]
case = "subtract.f8E5M2"
form = "array"
reason = "ticket 7"
"""
Run = Callable[..., tuple[int, list[str], list[str]]]


def conform(folder: Path, *words: str) -> int:
    """The exit status of `minihlo conform`; `@` in a word stands for the folder."""
    return main([w.replace("@", f"{folder}/") for w in ("conform", *words)])


def runner(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command on the profile; the exit status, and the lines of both streams, without the folder."""
    write(folder)

    def command(*words: str) -> tuple[int, list[str], list[str]]:
        capsys.readouterr()
        status = conform(folder, *words)
        streams = capsys.readouterr()
        return status, *(s.replace(f"{folder}/", "@").splitlines() for s in (streams.out, streams.err))

    return command


def write(folder: Path) -> None:
    """Put the profile and its waivers into a folder, as `p.toml` and `w.toml`."""
    (folder / "p.toml").write_text(PROFILE)
    (folder / "w.toml").write_text(WAIVERS)


def on_profile(backend: str, *words: str) -> tuple[str, ...]:
    return backend, "--profile", "@p.toml", "-j", "1", *words
