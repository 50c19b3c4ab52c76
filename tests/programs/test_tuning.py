"""Thresholds travel with a plan, are read nowhere else, and change no result."""

import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine import blocks, speed
from minihlo.ops.engine.tuning import DEFAULT, Tuning

from ..conftest import Tune

#: Tests of the interpreter's own limits, which are no matter of speed.
ALLOWED = {"test_depth.py"}

TEXT = """func.func @main(%x: tensor<40x50xf8E4M3FN>, %i: tensor<f32>) -> (tensor<40xf32>, tensor<40x50xf8E4M3FN>) {
  %0 = stablehlo.tanh %x : tensor<40x50xf8E4M3FN>
  %1 = stablehlo.convert %0 : (tensor<40x50xf8E4M3FN>) -> tensor<40x50xf32>
  %2 = stablehlo.reduce(%1 init: %i) applies stablehlo.add across dimensions = [1] :
    (tensor<40x50xf32>, tensor<f32>) -> tensor<40xf32>
  return %2, %0 : tensor<40xf32>, tensor<40x50xf8E4M3FN>
}"""


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULT.block = 5  # type: ignore[misc]
    assert all(np.min(getattr(DEFAULT, f.name)) > 0 for f in dataclasses.fields(Tuning))


def test_a_plan_is_made_and_run_with_its_own_tuning(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    seen: set[int] = set()
    real = blocks.block

    def noted(size: int) -> int:
        seen.add(speed.tuning().block)
        return real(size)

    program = interp.load(TEXT).program
    mine = speed.Speed(tuning=Tuning(block=7, lookup_few=0, group_call_cost=1 << 20))
    plan = planner.plan(program, speed=mine)
    assert plan.speed.tuning.block == 7
    assert speed.tuning() is DEFAULT  # planning leaves nothing behind
    x = np.random.default_rng(0).integers(0, 0x7E, (40, 50), np.uint8).view(interp.cast([0], "f8E4M3FN").dtype)
    wanted = [r.tobytes() for r in machine.run(planner.plan(program), [x, np.float32(0).reshape(())])]
    monkeypatch.setattr("minihlo.ops.engine.lookup.block", noted)
    for _ in range(2):
        assert [r.tobytes() for r in machine.run(plan, [x, np.float32(0).reshape(())])] == wanted
    assert seen == {7}
    tune(block=11)
    assert planner.plan(program).speed.tuning.block == 11  # what the caller has


def test_threads_see_the_tuning_of_their_caller(tune: Tune) -> None:
    tune(block=1)
    seen = []
    blocks.for_each([1, 2, 3, 4], lambda _: seen.append(speed.tuning().block), 4)
    assert seen == [1] * 4
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: speed.tuning().block).result() == DEFAULT.block


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Tuning)])
def test_no_field_changes_a_bit(name: str) -> None:
    """With each threshold at one end, and at the other, results are those of no optimization at all."""
    program = interp.load(TEXT).program
    x = np.random.default_rng(1).integers(0, 0x7F, (40, 50), np.uint8).view(interp.cast([0], "f8E4M3FN").dtype)
    operands = [x, np.float32(1.5).reshape(())]
    wanted = [r.tobytes() for r in machine.run(planner.plan(program, speed=speed.NONE), operands)]
    for number in (1, 1 << 30):
        tuning = dataclasses.replace(Tuning(lookup_few=1, block=64, compiled_worth=1 << 60), **{name: number})
        plan = planner.plan(program, speed=speed.Speed(tuning=tuning))
        for _ in range(2):
            assert [r.tobytes() for r in machine.run(plan, operands)] == wanted, (name, number)


def test_no_test_replaces_a_private_name() -> None:
    """Nor a number: a test asks for another `Tuning`."""
    private = re.compile(r'monkeypatch\.setattr\([^"]*"(?:[\w.]*\.)?_\w+"|monkeypatch\.setattr\(\w+, "[A-Z_]+", ')
    folder = Path(__file__).parent
    actual = {path.name: private.findall(path.read_text()) for path in folder.glob("test_*.py")}
    assert {name: lines for name, lines in actual.items() if lines and name not in ALLOWED} == {}
