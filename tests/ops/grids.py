"""Programs that run a function as several processes, and what they give."""

from collections.abc import Sequence

import numpy as np

from minihlo.interp.api import load
from minihlo.ops.policy import Policy

from ..run_op import type_of

#: The body of a reduction over scalars of type T.
ADD = """({
      ^bb0(%a: tensor<T>, %b: tensor<T>):
        %s = stablehlo.add %a, %b : tensor<T>
        stablehlo.return %s : tensor<T>
    })"""

ADD_I64 = ADD.replace("T", "i64")
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>"


def groups(rows: list[list[int]]) -> str:
    """An attribute that names groups of processes."""
    return f"replica_groups = dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def program(
    body: str, result: str, shape: tuple[int, int], inputs: Sequence[Sequence[np.ndarray]], extra: str = ""
) -> str:
    """A program whose @main runs one function, of `body` with arguments %x0, %x1 …, as a grid of processes.

    `body` ends by defining %r, of type `result`, or %r:n of types listed with commas.
    """
    types = [str(type_of(x)) for x in inputs[0]]
    count = len(inputs)
    assert count == shape[0] * shape[1]
    arguments = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types))
    results = [t.strip() for t in result.split(", ")]
    returned = ", ".join(f"%r#{i}" for i in range(len(results)))
    takes = [f"%p{p}_{i}" for p in range(count) for i in range(len(types))]
    rows = ", ".join("[" + ", ".join(["@process"] * shape[1]) + "]" for _ in range(shape[0]))
    all_results = ", ".join(results * count)
    outs = ", ".join(f"%all#{i}" for i in range(count * len(results)))
    return f"""module {{
  {extra}
  func.func @process({arguments}) -> ({result}) {{
    {body}
    return {returned} : {result}
  }}
  func.func @main({", ".join(f"{n}: {t}" for n, t in zip(takes, types * count, strict=True))}) -> ({all_results}) {{
    %all:{count * len(results)} = "interpreter.run_parallel"({", ".join(takes)}) {{programs = [{rows}]}} :
      ({", ".join(types * count)}) -> ({all_results})
    return {outs} : {all_results}
  }}
}}"""


def run(
    body: str, result: str, shape: tuple[int, int], inputs: Sequence[Sequence[np.ndarray]], policy: Policy | None = None
) -> list[list[np.ndarray]]:
    """The results of each process."""
    results = load(program(body, result, shape, inputs))(*(x for xs in inputs for x in xs), policy=policy)
    count = len(result.split(", "))
    return [results[i : i + count] for i in range(0, len(results), count)]
