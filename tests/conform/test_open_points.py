"""Every row of the table of open points holds for us, and for the implementations it names."""

import importlib.metadata
import platform

import jax
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.minifloat.open_points import ML_DTYPES, OPEN_POINTS, XLA, OpenPoint
from minihlo.ops.types import element_type

CASES = pytest.mark.parametrize("point", OPEN_POINTS, ids=lambda p: f"{p.question[:50]}")


def operands(point: OpenPoint) -> list[np.ndarray]:
    t = element_type(point.operand_type)
    return [np.array([code], t.format.code_dtype).view(t.dtype) for code in point.operands]


def code(result: np.ndarray, point: OpenPoint) -> int:
    return int(np.asarray(result).view(element_type(point.result_type).format.code_dtype)[0])


@CASES
@pytest.mark.parametrize("size", [1, 70_000], ids=["computed", "table"])
def test_ours(point: OpenPoint, size: int) -> None:
    source, target = (f"tensor<{size}x{t}>" for t in (point.operand_type, point.result_type))
    arguments = [f"%a{i}" for i in range(len(point.operands))]
    program = f"""func.func @main({", ".join(f"{a}: {source}" for a in arguments)}) -> {target} {{
      %r = "stablehlo.{point.op}"({", ".join(arguments)}) : ({", ".join([source] * len(arguments))}) -> {target}
      return %r : {target}
    }}"""
    (result,) = interp.load(program)(*(np.repeat(x, size) for x in operands(point)))
    assert code(result, point) == point.code


@CASES
def test_ml_dtypes(point: OpenPoint) -> None:
    if importlib.metadata.version("ml_dtypes") not in ML_DTYPES or platform.machine() != "x86_64":
        pytest.skip(f"the table speaks of {ML_DTYPES}")
    target = element_type(point.result_type).dtype
    with np.errstate(all="ignore"):
        x = operands(point)
        result = x[0].astype(target) if point.op == "convert" else getattr(np, point.op)(*x)
    assert code(result, point) == point.others[ML_DTYPES]


@CASES
def test_xla(point: OpenPoint) -> None:
    if importlib.metadata.version("jaxlib") not in XLA or platform.machine() != "x86_64":
        pytest.skip(f"the table speaks of {XLA}")
    target = element_type(point.result_type).dtype
    functions = {"convert": lambda x: x.astype(target), "divide": jax.lax.div, "multiply": jax.lax.mul}
    result = jax.jit(functions[point.op])(*operands(point))
    assert code(np.asarray(result), point) == point.others[XLA]
