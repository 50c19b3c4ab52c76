"""Runs a piece of Python in a process of its own, with JAX on platform minihlo."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping
from pathlib import Path

_START = """
import os, sys
import jax, jax.numpy as jnp, numpy as np, ml_dtypes
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.config.update("jax_enable_x64", True)

def fails(function, *parts):
    try:
        jax.block_until_ready(function())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        assert all(part in text for part in parts), text
    else:
        raise AssertionError("nothing was raised")
"""


class _Nursery:
    """A process that has imported JAX and minihlo, and forks for each piece: importing them takes most of a second."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, code: str, variables: Mapping[str, str], timeout: float) -> tuple[int, str, str]:
        if self._process is None:
            command = [sys.executable, "-m", "tests.jax_nursery"]
            pipe, root = subprocess.PIPE, Path(__file__).parent.parent
            environment = _without_ours(os.environ) | {"JAX_PLATFORMS": "minihlo"}
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, text=True, cwd=root, env=environment, start_new_session=True
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([code, variables, os.getcwd()]) + "\n")
        process.stdin.flush()
        watch = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        watch.start()
        try:
            answer = process.stdout.readline()
        finally:
            watch.cancel()
        if not answer:
            self.close()
            raise subprocess.TimeoutExpired("a piece of Python", timeout)
        return tuple(json.loads(answer))

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


nursery = _Nursery()


def _without_ours(variables: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in variables.items() if not k.startswith(("JAX_", "MINIHLO_"))}


def run_jax(
    code: str, *, start: str = "", devices: int = 1, timeout: float = 120, is_new: bool = False, **environment: str
) -> str:
    """What the process printed; `start` comes before the code. Fails the test where it ends otherwise than well.

    is_new: Python starts for this piece alone, as it does where JAX might read variables when it is imported.
    """
    number, text = {"MINIHLO_NUM_DEVICES": str(devices)}, _START + textwrap.dedent(start + code)
    if is_new or environment:
        result = subprocess.run(
            [sys.executable, "-c", text],
            env=_without_ours(os.environ) | {"JAX_PLATFORMS": "minihlo"} | number | environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        status, out, err = result.returncode, result.stdout, result.stderr
    else:
        status, out, err = nursery.run(text, number, timeout)
    assert status == 0, f"exit code {status}\n{out}\n{err[-4000:]}"
    return out
