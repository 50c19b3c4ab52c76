"""A plugin of pytest for the processes that run JAX's tests: it notes when a test starts, and how it ended.

A line of JSON each, written at once, so that what a process did is known when it dies. The file is `RECORD`; tests that
are listed in the file `DONE` are left out. What JAX's tests do by the name of the platform they do as on its CPU: they
would skip whole files on a platform that they do not know.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

RECORD, DONE = "MINIHLO_TESTS_RECORD", "MINIHLO_TESTS_DONE"
_LONGEST = 300


def _name(nodeid: str) -> str:
    return nodeid.partition("::")[2]


def _write(**fields: Any) -> None:
    with open(os.environ[RECORD], "a") as file:
        file.write(json.dumps(fields) + "\n")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_make_collect_report(collector: Any) -> Generator[None, Any, Any]:
    """Just before a file is imported: JAX's module of tools keeps the `sys.stdout` that it is imported with."""
    if isinstance(collector, pytest.File):
        with contextlib.suppress(ImportError):  # the tool's own test needs no JAX
            from jax._src import test_util

            getattr(test_util, "_TEST_DUT")._set("cpu")  # noqa: B009 (private)
    return (yield)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    done = set(Path(os.environ[DONE]).read_text().splitlines())
    left_out = [i for i in items if _name(i.nodeid) in done]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [i for i in items if _name(i.nodeid) not in done]


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(start=_name(nodeid))


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr)
        _write(name=_name(report.nodeid), outcome="failed", message=" ".join(text.split())[:_LONGEST])
    elif report.skipped:
        _write(name=_name(report.nodeid), outcome="skipped")
    elif report.when == "call":
        _write(name=_name(report.nodeid), outcome="passed")


def pytest_runtest_logfinish(nodeid: str) -> None:
    _write(end=_name(nodeid))


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write(name="(collection)", outcome="failed", message=" ".join(str(report.longrepr).split())[-_LONGEST:])
