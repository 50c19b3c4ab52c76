"""Complex numbers: results do not depend on how the operands lie in memory."""

import numpy as np
import pytest

from minihlo import interp


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "sign", "abs", "sqrt"])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_operands_that_lie_backwards(name: str, element: str) -> None:
    rng, dtype = np.random.default_rng(0), np.complex64 if element == "f32" else np.complex128
    x, y = ((rng.standard_normal(999) + 1j * rng.standard_normal(999)).astype(dtype) for _ in range(2))
    t, result = f"tensor<999xcomplex<{element}>>", f"tensor<999x{element}>" if name == "abs" else None
    operands = [x, y] if name in ("add", "subtract", "multiply", "divide") else [x]
    names, result = [f"%a{i}" for i in range(len(operands))], result or t
    text = f"""func.func @main({", ".join(f"{n}: {t}" for n in names)}) -> {result} {{
      %r = "stablehlo.{name}"({", ".join(names)}) : ({", ".join([t] * len(names))}) -> {result}
      return %r : {result}
    }}"""
    run = interp.load(text)
    forward = np.asarray(run(*operands)[0])
    backward = np.asarray(run(*(v[::-1] for v in operands))[0])
    assert forward.tobytes() == backward[::-1].tobytes()
