"""The example scripts on numerics, on made-up digits: the planted fault is found, and what the tool says helps."""

import re
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import numerics_blame
    import numerics_plan
    import numerics_profile
    import numerics_watch

    return numerics_profile, numerics_plan, numerics_blame, numerics_watch


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Ten patterns of 8x8 with noise."""
    rng = np.random.default_rng(0)
    y = np.arange(900, dtype=np.int32) % 10
    return np.clip(rng.random((10, 64))[y] + rng.normal(size=(900, 64)) / 5, 0, 1).astype(np.float32), y


def test_the_missing_scale_is_found_and_either_help_helps(scripts: Any) -> None:
    example = scripts[0]
    x, y = pictures()
    with interp.profiling(every=20) as p:
        _, stuck = example.train(example.step_of(jnp.float8_e4m3fn), x, y, 30)
    worst = p.findings[0]
    assert "f8E4M3FN results of convert in the backward pass underflow to zero" in worst.sentence()
    assert "f8E5M2 would" in worst.sentence()
    assert "matmul(hidden, weights[1])" in worst.source
    scale = 2.0 ** (worst.statistics.scale or 0) / 4
    for step in (example.step_of(jnp.float8_e5m2), example.step_of(jnp.float8_e4m3fn, scale)):
        assert example.train(step, x, y, 30)[1] < 0.6 * stuck


def test_the_plan_keeps_the_digits(scripts: Any) -> None:
    example, plans, *_ = scripts
    x, y = pictures()
    weights, _ = example.train(plans.step, x[:200], y[:200], 30)
    plan = interp.quantize_plan(plans.network, weights, x[:200], measure=plans.changed, bound=0.005)
    assert plan.bits < 16
    assert plans.changed(plans.network(weights, x[:200]), plan.apply(plans.network)(weights, x[:200])) <= 0.005


def test_without_scikit_learn_one_line_says_so(
    scripts: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    for example in scripts[:2]:
        with pytest.raises(SystemExit) as end:
            example.main([])
        assert end.value.code == 0
        assert capsys.readouterr().out == "this example needs scikit-learn (pip install scikit-learn)\n"


@pytest.mark.exhaustive
def test_both_mistakes_are_named(scripts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripts[2].main()
    printed = capsys.readouterr().out
    overflow, scale = printed.split("\n\n")[1:]
    assert "1 not finite" in overflow
    assert re.search(r"called in line \d+: e = f8\(jnp.exp\(scores\)\)", overflow)
    assert re.search(r"called in line \d+: .*f8\(small, scale\)", scale)
    assert len(re.findall(r"^  \w+ in line", printed, re.MULTILINE)) == 2


def test_the_fault_of_the_second_machine_is_found(scripts: Any, tmp_path: Path) -> None:
    example = scripts[3]
    rng = np.random.default_rng(0)
    x, y = rng.random((50, 64)).astype(np.float32), rng.integers(0, 10, 50).astype(np.int32)
    example.STEPS = 60
    backend = example.Faulty()
    plain = example.run(x, y, backend)
    with interp.watch(backend, every=29, budget=1e9, file=tmp_path / "w") as w:
        assert example.run(x, y, backend) == plain
    assert {r.op for r in w.failures.values()} == {"stablehlo.tanh"}
    assert all("hidden = jnp.tanh" in r.source for r in w.failures.values())
