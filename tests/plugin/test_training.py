"""A training run with flax and optax, on platform `minihlo` and on the CPU. Skipped where they are not installed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "train_flax.py"
MISSING = [name for name in ("flax", "optax", "orbax") if importlib.util.find_spec(name) is None]


@pytest.mark.exhaustive
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_losses_follow_those_of_the_cpu(tmp_path: Path) -> None:
    losses = []
    for platform in ("cpu", "minihlo"):
        to = tmp_path / platform
        command = [sys.executable, str(SCRIPT), "--steps", "20", "--losses", str(to)]
        result = subprocess.run(command, env={**os.environ, "JAX_PLATFORMS": platform}, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-2000:]
        losses.append(np.loadtxt(to))
    cpu, ours = losses
    # Nothing differs at first but the order of sums in f32; then FP8 makes steps of what has become another number.
    np.testing.assert_allclose(ours[:2], cpu[:2], rtol=1e-5)
    np.testing.assert_allclose(ours, cpu, rtol=0.02)
    assert ours[-1] < ours[0] - 0.3
