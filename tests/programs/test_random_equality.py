"""Random programs give the same bits with lookup tables and without."""

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops import tables
from minihlo.ops.policy import Policy
from minihlo.ops.types import type_of_dtype
from tools.random_programs import builder

from ..thinned import thinned

POLICIES = (
    Policy(),
    Policy(rounding="toward_zero", overflow="saturate"),
    Policy(arithmetic="upcast"),
    Policy(rounding="stochastic"),
)


@pytest.fixture(autouse=True)
def tables_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function that can be a table is one from its first element on."""
    monkeypatch.setattr(tables, "CALL_COST", 1 << tables.MOST_BITS)


def bits(x: np.ndarray) -> tuple[np.dtype, tuple[int, ...], bytes]:
    """The sign and payload of NaN are those of any operand in types of 16 bits and more: all NaN are one here."""
    element = type_of_dtype(x.dtype)
    if element.is_complex or (element.is_float and element.bits >= 16):
        x = np.where(np.isnan(x), np.array(np.nan).astype(x.dtype), x)
    return x.dtype, x.shape, x.tobytes()


def check(text: str, arrays: list[np.ndarray], policy: Policy | None = None) -> None:
    before = [a.tobytes() for a in arrays]
    plain, tabled = (interp.load(text, without=without) for without in ("tables", ""))
    wanted = [bits(np.asarray(r)) for r in plain(*arrays, policy=policy)]
    for _ in range(2):  # the second run finds the tables that the first has made
        assert [bits(np.asarray(r)) for r in tabled(*arrays, policy=policy)] == wanted, text
    assert [a.tobytes() for a in arrays] == before


builder.random_program(0, 0)  # declares the rules
ELEMENTWISE = [r for r in builder._RULES if r[1].__module__.endswith("rules_elementwise")]


@pytest.mark.parametrize("index", thinned(range(60), lambda index: index < 12))
def test_programs_of_elementwise_ops(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "_RULES", ELEMENTWISE)
    program = builder.random_program(3, index)
    check(program.module().named(), list(program.arrays), POLICIES[index % len(POLICIES)])


#: Numbers of programs that take some hundred times as long as others.
_LONG = (2, 5)


@pytest.mark.parametrize("index", thinned(range(80), lambda index: index < 12 and index not in _LONG))
def test_programs_of_all_ops(index: int) -> None:
    program = builder.random_program(11, index)
    text = program.module(everything=index % 2 == 0).named()
    check(text, list(program.arrays), POLICIES[index % len(POLICIES)])
