"""interp.watch: faults of a backend are found while a program runs, of which nothing changes."""

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import pjit

from minihlo import interp
from minihlo.interp.backends import Minihlo
from minihlo.interp.cli import main

OWN = Minihlo("minihlo", interp.Policy())


class Faulty:
    """minihlo, whose results of an op are wrong from some step on."""

    name = "faulty"

    def __init__(self, op: str = r"\.tanh", since: int = 0) -> None:
        self.op, self.since, self.step = op, since, 0

    def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = OWN.evaluate(text, arrays)
        if self.step >= self.since and re.search(self.op, text):
            results = [results[0] + results[0].dtype.type(1 << 10), *results[1:]]
        return results


def make() -> Any:
    @functools.partial(jax.jit, donate_argnums=0)
    def step(w: Any, x: Any) -> Any:
        y = jnp.tanh(x * w)  # the wrong one
        g = jax.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c) + y, y)
        return w - 0.25 * g.astype(jnp.float8_e4m3fn).astype(jnp.float32)

    return step


def loop(step: Any, backend: Faulty, iterations: int = 8) -> bytes:
    w, out = jnp.linspace(-1, 1, 16), []
    for i in range(iterations):
        backend.step = i
        w = step(w, jnp.full(16, 2.0 ** -(i + 1)))
        out.append(np.asarray(w).tobytes())
    return b"".join(out)


def lines(path: Path, event: str) -> list[dict[str, Any]]:
    return [x for x in map(json.loads, path.read_text().splitlines()) if x["event"] == event]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "watch.jsonl"


@pytest.mark.parametrize("explicit", [False, True])
def test_a_fault_is_found_with_its_line_and_no_result_changes(file: Path, explicit: bool) -> None:
    step, backend = make(), Faulty(since=5)
    plain = loop(step, backend)
    originals = [getattr(pjit, n) for n in ("_pjit_call_impl_python", "_get_fastpath_data")]
    with interp.watch(backend, every=1, budget=1e9, file=file) as w:
        watched = loop(w(step) if explicit else step, backend)
    assert plain == watched == loop(step, backend)
    assert originals == [getattr(pjit, n) for n in ("_pjit_call_impl_python", "_get_fastpath_data")]
    found = lines(file, "failure")
    assert [f["call"] for f in found] == [5, 6, 7]
    assert {f["op"] for f in found} == {"stablehlo.tanh"}
    assert all("# the wrong one" in f["source"] for f in found)
    assert {f["location"].partition(":")[0] for f in found} == {__file__}
    assert not lines(file, "error")
    checks = lines(file, "check")
    assert [c["call"] for c in checks] == list(range(8))
    assert all(sum(c["verdicts"].values()) == c["ops"] > 8 for c in checks)
    (end,) = lines(file, "end")
    assert end["checks"] == w.checks == sum(c["ops"] for c in checks)
    assert len(w.failures) == 1
    head, line = str(w).splitlines()
    assert re.fullmatch(rf"{w.checks} operations checked in \d+\.\d\d s, 1 wrong", head)
    assert line.startswith(f"  {found[0]['location']}: stablehlo.tanh: ")


def test_the_operands_of_a_failure_reproduce_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = Faulty()
    with interp.watch(backend, every=4, budget=1e9, file=file, keep=1):
        loop(make(), backend)
    saved = [f["saved"] for f in lines(file, "failure")]
    assert [s is None for s in saved] == [False, True]
    assert [f["call"] for f in lines(file, "failure")] == [0, 4]
    folder = Path(saved[0])
    assert folder.parent == file.with_name("watch.jsonl.failures")
    monkeypatch.chdir(folder)
    Path("faulty.py").write_text(
        "from minihlo.interp import Policy\nfrom minihlo.interp.backends import Minihlo\ndef evaluate(text, arrays):\n"
        "    r = Minihlo('m', Policy()).evaluate(text, arrays)\n    return [r[0] + r[0].dtype.type(1024)]\n"
    )
    assert main(["diff", "op.mlir", "faulty:evaluate", "--input", "@input0.npy"]) == 1
    assert main(["diff", "op.mlir", "minihlo", "--input", "@input0.npy"]) == 0
    assert "stablehlo.tanh" in capfd.readouterr().out


def test_by_default_the_budget_says_how_much_is_checked(file: Path) -> None:
    step, backend = make(), Faulty()
    plain = loop(step, backend)
    with interp.watch(backend, budget=1e-12, file=file) as w:
        assert loop(step, backend) == plain
    assert w.checks == 0
    assert [json.loads(x)["event"] for x in file.read_text().splitlines()] == ["start", "end"]
    with interp.watch(backend, budget=1e9, file=file) as w:
        assert loop(step, backend, 2) == plain[: 2 * 64]
    assert w.checks > 8
    assert lines(file, "failure")
    assert [s["budget"] for s in lines(file, "start")] == [1e-12, 1e9]  # the file is appended to


def test_what_a_call_may_keep_limits_what_is_checked(file: Path) -> None:
    backend = Faulty()
    with interp.watch(backend, every=1, budget=1e9, file=file, memory=130) as w:  # one op of 16 f32 to 16 f32
        loop(make(), backend, 1)
    (check,) = lines(file, "check")
    assert 0 < sum(check["verdicts"].values()) < check["ops"]
    assert w.checks == sum(check["verdicts"].values())


def test_the_right_backend_has_no_failures(file: Path) -> None:
    backend = Faulty(since=100)
    with interp.watch("cpu", every=1, budget=1e9, file=file) as w:
        loop(make(), backend, 2)
    assert str(w).endswith(", none wrong")
    assert not lines(file, "failure")
    assert not lines(file, "error")
    assert lines(file, "start")[0]["backend"] == "jax:cpu"
    assert len(lines(file, "check")) == 2


def test_errors_in_checking_are_lines(file: Path) -> None:
    class Broken(Faulty):
        def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            if "tanh" in text:
                raise RuntimeError("out of luck")
            return super().evaluate(text, arrays)

    def printing(x: Any) -> Any:
        jax.debug.print("{}", x[0])
        return jnp.cos(x)

    backend = Broken(op="nothing")
    with interp.watch(backend, every=1, budget=1e9, file=file):
        watched = loop(make(), backend, 2)
        jax.jit(printing)(jnp.ones(3))
        jax.jit(printing)(jnp.ones(3))
    assert watched == loop(make(), backend, 2)
    found = lines(file, "failure")
    assert {(f["op"], f["verdict"]) for f in found} == {("stablehlo.tanh", "CRASH")}
    assert "out of luck" in found[0]["notes"][0]
    errors = lines(file, "error")
    assert len(errors) == 1
    assert "effects" in errors[0]["message"]


def test_interrupt_leaves_a_whole_file(file: Path) -> None:
    class Interrupted(Faulty):
        def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            if self.step == 2:
                raise KeyboardInterrupt
            return super().evaluate(text, arrays)

    backend = Interrupted()
    step = make()
    with pytest.raises(KeyboardInterrupt), interp.watch(backend, every=1, budget=1e9, file=file):
        loop(step, backend)
    assert backend.step == 2
    events = [json.loads(x)["event"] for x in file.read_text().splitlines()]
    assert events[0] == "start"
    assert events[-1] == "end"
    assert "failure" in events
    assert loop(step, Faulty()) == loop(make(), Faulty())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"every": 0}, "watch: every: expected an integer of at least 1, got 0"),
        ({"budget": 0}, "watch: budget: expected a number above 0, got 0"),
        ({"budget": float("nan")}, "watch: budget: expected a number above 0, got nan"),
        ({"memory": -1}, "watch: memory: expected an integer of at least 0, got -1"),
        ({"policy": "h100"}, "watch: policy: expected a minihlo.interp.Policy, got str"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(interp.InputError, match=re.escape(said)):
        interp.watch(**arguments)


def test_what_start_refuses(tmp_path: Path) -> None:
    with pytest.raises(interp.InputError, match="expected a backend"):
        interp.watch("nowhere:at_all", file=tmp_path / "w").start()
    with pytest.raises(interp.OutputError, match="No such file or directory"):
        interp.watch(file=tmp_path / "absent" / "w").start()
    with interp.watch(Faulty(), file=tmp_path / "w") as w, pytest.raises(interp.InputError, match="not running"):
        w.start()
    w.stop()  # nothing
    with pytest.raises(interp.InputError, match="expected a function, got int"):
        w(3)  # type: ignore[arg-type]
