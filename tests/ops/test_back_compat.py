"""Programs that JAX exported for CPUs, GPUs and TPUs since 2023, which it keeps for its tests, with their results.

Eigenvectors and singular vectors are not compared: their phases are free, and of equal values more than that.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

from minihlo.interp import load

_DATA: Any = pytest.importorskip("jax._src.internal_test_util.export_back_compat_test_data")
#: Where the results depend on what the specification leaves open (how often an initial value is used).
_OPEN = ("tpu_stablehlo_dynamic_reduce_window[data_variadic_2023_06_17]",)
#: The results that are such vectors.
_VECTORS = {"eigh": (0,), "_eig_": (1, 2), "svd": (0, 2), "schur": (1,), "tpu_Eigh": (0,)}


def _modules() -> Iterator[tuple[str, ModuleType]]:
    for found in pkgutil.iter_modules(_DATA.__path__):
        if not found.ispkg:
            yield found.name, importlib.import_module(f"{_DATA.__name__}.{found.name}")


def _programs() -> Iterator[Any]:
    """The last program of every third file is in every run."""
    for number, (name, module) in enumerate(_modules()):
        marks: list[Any] = [pytest.mark.exhaustive] * (number % 3 > 0)
        waiting = [(k, v) for k, v in vars(module).items() if not k.startswith("__")]
        while waiting:
            key, value = waiting.pop()
            if isinstance(value, dict) and "mlir_module_serialized" in value:
                yield pytest.param(name, value, id=f"{name}[{key}]", marks=marks)
                marks = [pytest.mark.exhaustive]
            elif isinstance(value, dict):
                waiting += [(f"{key}.{k}", v) for k, v in value.items()]
            elif isinstance(value, list | tuple):
                waiting += [(f"{key}.{i}", v) for i, v in enumerate(value)]


@pytest.mark.parametrize(("name", "program"), list(_programs()))
def test_programs_of_other_years(name: str, program: dict[str, Any], request: pytest.FixtureRequest) -> None:
    inputs = [np.asarray(x) for x in jax.tree.leaves(program["inputs"])]
    ours = load(program["mlir_module_serialized"])(*inputs)
    theirs = [np.asarray(x) for x in jax.tree.leaves(program["expected_outputs"])]
    assert [(x.shape, x.dtype) for x in ours] == [(x.shape, x.dtype) for x in theirs]
    if request.node.callspec.id in _OPEN:
        return
    free = next((places for part, places in _VECTORS.items() if part in name), ())
    for i, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        if i in free:
            continue
        if mine.dtype.kind not in "fc":
            np.testing.assert_array_equal(mine, yours)
            continue
        tolerance = (1e-4 if mine.dtype in (np.float32, np.complex64) else 1e-9) * max(float(np.abs(yours).max()), 1)
        np.testing.assert_allclose(mine, yours, rtol=1e-4, atol=tolerance)
