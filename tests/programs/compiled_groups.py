"""What tests of compiled groups share: numbers of all kinds, and compiled code beside numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine.fast import run
from minihlo.ops.engine.speed import NONE, Speed
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, type_of_dtype

from ..conftest import Tune, tuned

MINIFLOATS = [t for t in ELEMENT_TYPES.values() if t.is_minifloat]
#: Of either sign: zero, subnormal numbers, whole and broken ones, the largest, infinity, NaN.
SPECIAL = np.array(
    [0, 1, 0x3FFFFF, 0x7FFFFF, 0x800000, 0x3E800000, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FC00000,
     0x40200000, 0x42B00000, 0x42B17218, 0x42CFF1B5, 0x42F00000, 0x4B7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000,
     0x7FC12345],
    np.uint32,
)  # fmt: skip
FLOATS = np.concatenate([SPECIAL, SPECIAL | 0x80000000]).view(np.float32)
_PLAIN = Policy()


def compile_all_groups(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[run.Program]:
    """Every group is for compiled code, in blocks of a few elements; gives the programs that ran."""
    tune(compiled_from=1)
    tune(compiled_worth=0)
    tune(group_call_cost=1 << 20)
    tune(fuse_many=0)
    tune(fast_from=1, fast_few=1)
    tune(fast_short=1, fast_elements=64, fast_calls=64, fast_wide=24, fast_alone=0)
    programs: list[run.Program] = []
    real = run.Runner.run_blocks

    def told(self: run.Runner, call: object, made: run.Program, *rest: object) -> None:
        programs.append(made)
        real(self, call, made, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(run.Runner, "run_blocks", told)
    return programs


def bits(x: np.ndarray) -> bytes:
    """Of two NaN it is the processor's choice which one an op hands on."""
    element = type_of_dtype(x.dtype)
    if element.is_float and element.bits >= 16:
        x = np.where(np.isnan(x), np.array(np.nan).astype(x.dtype), x)
    return x.tobytes()


def check(text: str, *arrays: np.ndarray, policy: Policy = _PLAIN) -> None:
    program = interp.load(text).program
    result, wanted = (
        machine.run(planner.plan(program, policy=policy, speed=tuned(s)), list(arrays))
        for s in (Speed(tables=True), NONE)
    )
    assert [(r.dtype, r.shape, bits(r)) for r in result] == [(r.dtype, r.shape, bits(r)) for r in wanted], text


def function(arguments: str, results: str, body: str, returned: str) -> str:
    return f"func.func @main({arguments}) -> ({results}) {{\n{body}\nreturn {returned} : {results}\n}}"


def numbers_of(dtype: np.dtype) -> np.ndarray:
    """Numbers of all kinds of f32 or bf16; those of f16, which has few exponents, are one in a thousand."""
    if dtype != np.float16:
        return FLOATS.astype(dtype)
    few = np.array([1, 2, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0x7E00, 0x3C00, 0x3C01, *range(0, 0x7C00, 997)], np.uint16)
    return np.concatenate([few, few | 0x8000]).view(np.float16)
