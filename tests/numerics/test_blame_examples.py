"""The example scripts of blame and watch: the planted mistakes are found."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minihlo import interp

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import numerics_blame
    import numerics_watch

    return numerics_blame, numerics_watch


@pytest.mark.exhaustive
def test_both_mistakes_are_named(scripts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripts[0].main()
    printed = capsys.readouterr().out
    overflow, scale = printed.split("\n\n")[1:]
    assert "1 not finite" in overflow
    assert re.search(r"called in line \d+: e = f8\(jnp.exp\(scores\)\)", overflow)
    assert re.search(r"called in line \d+: .*f8\(small, scale\)", scale)
    assert len(re.findall(r"^  \w+ in line", printed, re.MULTILINE)) == 2


def test_the_fault_of_the_second_machine_is_found(scripts: Any, tmp_path: Path) -> None:
    example = scripts[1]
    rng = np.random.default_rng(0)
    x, y = rng.random((50, 64)).astype(np.float32), rng.integers(0, 10, 50).astype(np.int32)
    example.STEPS = 60
    backend = example.Faulty()
    plain = example.run(x, y, backend)
    with interp.watch(backend, every=29, budget=1e9, file=tmp_path / "w") as w:
        assert example.run(x, y, backend) == plain
    assert {r.op for r in w.failures.values()} == {"stablehlo.tanh"}
    assert all("hidden = jnp.tanh" in r.source for r in w.failures.values())
