"""A backend that runs programs here with planted faults, and a program for it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minihlo import interp
from minihlo.interp.judgement.verdicts import Judgement
from minihlo.interp.loaded import LoadedProgram
from minihlo.interp.parse import parser
from minihlo.interp.program import Operation

Rewrite = Callable[[list[Operation]], bool]
Run = Callable[[Any, Sequence[Any]], list[Any]]


class Compiler:
    """A backend that runs programs here, after a rewrite of their operations, and changes results."""

    name = "planted"

    def __init__(self, rewrite: Rewrite | None = None, run: Run | None = None) -> None:
        self._rewrite, self._run = rewrite, run

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        program = parser.parse(text)
        for function in program.functions.values():
            if self._rewrite is not None and function.body is not None:
                self._rewrite(function.body.operations)
        found = (self._run or (lambda p, a: p(*a)))(LoadedProgram(program), arrays)  # floats travel as their bits
        return [np.asarray(x) for x in (found if isinstance(found, list | tuple) else [found])]


def judged(text: str, backend: Any, *arrays: np.ndarray, **options: Any) -> Judgement:
    return interp.judge(text, *arrays, backend=backend, **options)


CHAIN = """
func.func @main(%x: tensor<6x8xf32>, %y: tensor<8x4xf32>) -> (tensor<4xf8E4M3FN>, tensor<6x4xf32>) {
  %z = stablehlo.constant dense<0.5> : tensor<f32>
  %d = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %t = stablehlo.tanh %d : tensor<6x4xf32>
  %a = stablehlo.add %t, %d : tensor<6x4xf32>
  %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<6x4xf32>, tensor<f32>) -> tensor<4xf32>
  %c = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  %r = stablehlo.reverse %a, dims = [1] : tensor<6x4xf32>
  %b = stablehlo.negate %r : tensor<6x4xf32>
  return %c, %b : tensor<4xf8E4M3FN>, tensor<6x4xf32>
}"""


def find(operations: list[Operation], name: str) -> Operation | None:
    return next((o for o in operations if o.name == f"stablehlo.{name}"), None)


def replace(name: str, change: Callable[[Operation], None]) -> Rewrite:
    def rewrite(operations: list[Operation]) -> bool:
        found = find(operations, name)
        if found is not None:
            change(found)
        return found is not None

    return rewrite
