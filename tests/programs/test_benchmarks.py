"""The benchmarks run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parents[2]


@pytest.mark.parametrize("option", ["--no-reference", pytest.param("--plugin", marks=pytest.mark.exhaustive)])
def test_a_table_of_one_program(option: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "MINIHLO_"))}
    command = [sys.executable, "-m", "benchmarks", "add, 16", option]
    result = subprocess.run(command, cwd=_HERE, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("add, 16 f8E4M3FNUZ") == 1, result.stdout
    assert "geometric mean of 1 " in result.stdout, result.stdout
