"""tools/random_programs: a small run of it, and that it would notice."""

import importlib
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minihlo.interp.backends import BackendError
from minihlo.interp.judging.record import WRONG

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool's module of that name."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"tools.random_programs.{name}")


@pytest.mark.parametrize("peer", ["reference", "xla"])
def test_random_programs_agree_with(peer: str) -> None:
    count = {"reference": 6, "xla": 5}[peer]
    command = [sys.executable, "-m", "tools.random_programs", "--seed", "5", "--count", str(count), "--peer", peer]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{count} programs" in result.stdout
    assert f"{peer}: " in result.stdout


def test_a_program_depends_on_its_seed_and_number_alone(tool: Any) -> None:
    make = tool("builder").random_program
    first, again, other = make(3, 4), make(3, 4), make(3, 5)
    assert first.module().named() == again.module().named() != other.module().named()
    assert [a.tobytes() for a in first.arrays] == [a.tobytes() for a in again.arrays]


def test_programs_have_ops_and_types_of_every_kind(tool: Any) -> None:
    make, steps = tool("builder").random_program, []
    for index in range(60):
        program = make(0, index)
        assert 3 <= sum(s.short != "constant" for s in program.steps) <= 27
        steps += program.steps
    from minihlo.ops.types import ELEMENT_TYPES

    assert {t.name for s in steps for t in s.elements} == {t.name for t in ELEMENT_TYPES.values() if t.has_dtype}
    wanted = (
        "add convert compare select reduce sort while case if map scatter gather dot_general convolution fft func.call"
    )
    assert set(wanted.split()) <= {s.short for s in steps}
    shapes = [v.type.shape for s in steps for v in s.results]
    assert {len(shape) for shape in shapes} >= {0, 1, 2, 3, 4}
    assert any(0 in shape for shape in shapes)


class Pretender:
    """A peer that gives our own results, but for one op."""

    def __init__(self, tool: Any, op: str, how: str) -> None:
        self.name, self._tool, self._op, self._how = "reference", tool, op, how

    def run(self, module: Any, arrays: Sequence[np.ndarray]) -> Any:
        lines = [x for x in module.text.splitlines() if x.startswith("  %")]
        if self._how == "dies" and any(f'"stablehlo.{self._op}"' in x for x in lines):
            return BackendError("died", "died (SIGSEGV): Assertion")
        results = self._tool("run").ours(module, arrays)
        for line in lines:
            returned = [r.strip(" %") for r in line.partition("=")[0].split(",")]
            if self._how == "differs" and f'= "stablehlo.{self._op}"' in line and "(%" in line:
                order = module.text.partition("func.return ")[2].partition(" :")[0].replace("%", "").split(", ")
                if returned[0] in order:
                    wrong = results[order.index(returned[0])]
                    wrong.reshape(-1)[:1] = wrong.reshape(-1)[:1] == 0
        return results


def findings(tool: Any, op: str, how: str, kind: str) -> list[Any]:
    """What is found with such a pretender, as soon as there are two."""
    checker = tool("run").Checker([Pretender(tool, op, how)])
    for index in range(120):
        checker.check(tool("builder").random_program(0, index), str(index))
        result = [f for f in checker.tally.findings if f.kind == kind]
        if len(result) >= 2:
            return result
    return []


@pytest.mark.parametrize("op", ["slice", "convert"])
def test_a_wrong_result_is_laid_to_its_op(tool: Any, op: str) -> None:
    actual = findings(tool, op, "differs", "difference")
    assert actual
    assert {f.subject.split()[1] for f in actual} == {op}
    assert all(f"stablehlo.{op}" in f.program for f in actual)


def test_a_death_is_laid_to_its_op(tool: Any) -> None:
    actual = findings(tool, "iota", "dies", "died")
    assert actual
    assert {f.subject.split()[1] for f in actual} == {"iota"}


def test_a_known_failure_of_steps_together_is_left_out(tool: Any) -> None:
    """XLA damages its memory with types below a byte, and dies of it now and then."""

    class Damaged:
        name = "xla"

        def run(self, module: Any, arrays: Sequence[np.ndarray]) -> Any:
            steps = [x for x in module.text.splitlines() if x.startswith("  %")]
            return BackendError("died", "double free") if len(steps) > 1 else tool("run").ours(module, arrays)

    make, checker = tool("builder").random_program, tool("run").Checker([Damaged()])
    programs = [p for i in range(40) if _has_small_types(p := make(0, i), tool("known").LACKS)]
    for i, program in enumerate(programs):
        checker.check(program, str(i))
    assert any("below a byte" in why for why in checker.tally.left_out)
    assert not any(f.subject == "xla steps together" for f in checker.tally.findings)


def _has_small_types(program: Any, lacks: Sequence[Any]) -> bool:
    """Steps that XLA runs on types below a byte, and no products of such, which it is known to refuse."""
    run = [s for s in program.steps if not any("xla" in k.peers and k.applies(s) for k in lacks)]
    small = [s for s in run if any(t.name in ("i2", "i4", "ui2", "ui4", "f4E2M1FN") for t in s.elements)]
    return bool(small) and not any(s.short in ("dot_general", "convolution") for s in small)


def test_what_is_known_is_held_to_its_reason(tool: Any) -> None:
    """XLA may give zero for a subnormal number, and nothing else."""
    compare, known, program = tool("compare"), tool("known"), tool("program")
    from minihlo.ops.types import ELEMENT_TYPES, TensorType

    t = TensorType((3,), ELEMENT_TYPES["f32"])
    x, y = program.Value("x", t), program.Value("y", t)
    step = program.Step("stablehlo.negate", (x,), (y,))
    tiny = np.array([1e-40, 1e-40, 1.0], np.float32)
    theirs = np.array([-0.0, -2e-40, -0.0], np.float32)
    case = compare.Case("xla", step, (tiny,), 0, -tiny, theirs, lambda inputs: [-inputs[0]])
    explained = np.zeros(3, bool)
    for row in known.KNOWN:
        if row.identifier == "subnormals-flushed":
            assert row.applies(step)
            explained |= row.explains(case)
    assert explained.tolist() == [True, False, False]
    assert case.judge_step().grades.tolist() == [WRONG] * 3  # as `interp.diff` judges it


def test_tables_of_what_is_known_have_identifiers(tool: Any) -> None:
    known = tool("known")
    for table in (known.LACKS, known.FAILINGS, known.KNOWN, known.FUSED):
        assert all(re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", row.identifier) for row in table)
    for table in (known.FAILINGS, known.KNOWN, known.FUSED):
        assert len({row.identifier for row in table}) == len(table)


def test_sums_are_judged_as_by_diff(tool: Any) -> None:
    """A sum in another order is near; the same with its last term left out is wrong, and the difference says why."""
    compare, program = tool("compare"), tool("program")
    from minihlo.ops.types import ELEMENT_TYPES, TensorType

    f32 = ELEMENT_TYPES["f32"]
    x, y, r = (program.Value(n, TensorType(s, f32)) for n, s in (("x", (4, 50)), ("y", (50, 6)), ("r", (4, 6))))
    numbers = (
        "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
    )
    step = program.Step("stablehlo.dot_general", (x, y), (r,), numbers, notes=frozenset({"sums"}))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 50)).astype(np.float32), rng.normal(size=(50, 6)).astype(np.float32)

    def ours(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [(inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)).astype(np.float32)]

    total = np.zeros((4, 6), np.float32)
    for k in reversed(range(50)):
        total += np.outer(a[:, k], b[k])
    short = (a[:, :-1].astype(np.float64) @ b[:-1].astype(np.float64)).astype(np.float32)
    for theirs, worst in ((total, 0), (short, WRONG)):
        case = compare.Case("xla", step, (a, b), 0, ours([a, b])[0], theirs, ours)
        judged = case.judge_step()
        assert judged.worst == worst
        assert [n.identifier for n in judged.notes] == (["without-last"] if worst else [])
