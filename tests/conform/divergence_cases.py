"""What the tests of interp.compare share: minihlo with a fault in one op, and what a report says."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from minihlo import interp
from minihlo.interp.backends import Minihlo
from minihlo.interp.conform.result import FAIL, PASS
from minihlo.interp.diff.report import OpReport, Report

F8, FNUZ = jnp.float8_e4m3fn, jnp.float8_e4m3fnuz


Results = list[np.ndarray]


@dataclasses.dataclass
class Faulty:
    """minihlo with a fault in one op: where a program's text matches, its results are changed."""

    op: str  #: a regular expression
    change: Callable[[Results], Any]
    name: str = "faulty"

    def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> Any:
        results = Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)
        return self.change(results) if re.search(self.op, text) else results


def next_code(results: Results) -> Results:
    """The last element of the first result is one code, or number, larger."""
    first = results[0].copy()
    first.reshape(-1)[-1:] += first.dtype.type(1) if first.dtype != bool else first.reshape(-1)[-1:] ^ True
    return [first, *results[1:]]


def line_of(op: OpReport) -> str:
    """The line of the tests that an op stands for."""
    path = Path(op.location.file)
    assert path.parent == Path(__file__).parent
    return path.read_text().splitlines()[op.location.line - 1].strip()


def verdicts(report: Report) -> list[str]:
    return [o.verdict for o in report.ops]


def sole_failure(report: Report) -> OpReport:
    assert [v for v in verdicts(report) if v != PASS] == [FAIL], str(report)
    return report.failures[0]


X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)


W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)
