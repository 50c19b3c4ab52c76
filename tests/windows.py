"""Sliding windows and bodies, drawn at random, and reductions of them in plain loops written from the specification."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from minihlo.ops.op import Body, Call, lookup
from minihlo.ops.types import ELEMENT_TYPES, TensorType

from .places import dims
from .run_op import tensor

SEED = 21
Combine = Callable[[Any, Any], Any]
Shape = tuple[int, ...]

#: Bodies that compute %z from %x, what there is so far, and %y, the next element.
BODIES: dict[str, tuple[str, Combine]] = {
    "add": ("%z = stablehlo.add %x, %y : T", lambda x, y: x + y),
    "maximum": ("%z = stablehlo.maximum %x, %y : T", max),
    "subtract": ("%z = stablehlo.subtract %x, %y : T", lambda x, y: x - y),
    "two ops": ("%t = stablehlo.add %x, %x : T\n %z = stablehlo.subtract %t, %y : T", lambda x, y: 2 * x - y),
    "constant": ("%z = stablehlo.constant dense<7> : T", lambda x, y: 7),
    "not elementwise": (
        "%t = stablehlo.reshape %x : (T) -> tensor<1xi32>\n %s = stablehlo.reshape %t : (tensor<1xi32>) -> T\n"
        " %z = stablehlo.subtract %y, %s : T",
        lambda x, y: y - x,
    ),
}


I32 = ELEMENT_TYPES["i32"]
ADD = Body((tensor("i32"), tensor("i32")), (tensor("i32"),), "stablehlo.add")
CHOICE = Body((tensor("i32"), tensor("i32")), (tensor("i1"),), "stablehlo.compare")


@dataclasses.dataclass
class Windows:
    """The attributes, and what they mean by the specification's formulas."""

    shape: Shape
    window: Shape
    strides: Shape
    padding: tuple[tuple[int, int], ...]
    base: Shape
    dilation: Shape

    @property
    def counts(self) -> Shape:
        result = []
        for d, size in enumerate(self.shape):
            dilated = (size - 1) * self.base[d] + 1 if size else 0
            padded = self.padding[d][0] + dilated + self.padding[d][1]
            reach = (self.window[d] - 1) * self.dilation[d] + 1
            result.append(0 if padded <= 0 or reach > padded else (padded - reach) // self.strides[d] + 1)
        return tuple(result)

    def element(self, start: Shape, index: Shape) -> Shape | None:
        """Where the element of a window is in the operand; None for padding."""
        result = []
        for d, size in enumerate(self.shape):
            place = start[d] * self.strides[d] + index[d] * self.dilation[d] - self.padding[d][0]
            if place % self.base[d] or not 0 <= place // self.base[d] < size:
                return None
            result.append(place // self.base[d])
        return tuple(result)

    @property
    def attributes(self) -> str:
        lists = {"window_dimensions": self.window, "window_strides": self.strides, "base_dilations": self.base,
                 "window_dilations": self.dilation}  # fmt: skip
        text = [f"{name} = array<i64: {', '.join(map(str, v))}>" for name, v in lists.items()]
        text.append(f"padding = dense<{[list(p) for p in self.padding]}> : tensor<{len(self.shape)}x2xi64>")
        joined = ", ".join(text).replace("<i64: >", "<i64>")
        return joined if self.shape else joined.replace("dense<[]>", "dense<>")


def random_windows(rng: np.random.Generator, empty: bool = False, plain: bool = False) -> Windows:
    """`plain` is without dilation."""
    rank = int(rng.integers(0, 4))
    shape, *lists = (
        tuple(int(n) for n in rng.integers(low, high, rank))
        for low, high in ((0 if empty else 1, 6), (1, 4), (1, 4), (1, 2 if plain else 4), (1, 2 if plain else 4))
    )
    padding = tuple((int(a), int(b)) for a, b in rng.integers(-1, 4, (rank, 2)))
    return Windows(shape, lists[0], lists[1], padding, lists[2], lists[3])


def program(w: Windows, body: str, element: str = "i32", wide: str = "") -> str:
    wide = wide or element
    operand, result = f"tensor<{dims(w.shape)}{element}>", f"tensor<{dims(w.counts)}{wide}>"
    body = re.sub(r"\bT\b", f"tensor<{wide}>", body)
    return f"""
    func.func @main(%a: {operand}, %i: tensor<{element}>) -> {result} {{
      %r = "stablehlo.reduce_window"(%a, %i) ({{
      ^bb0(%x: tensor<{wide}>, %y: tensor<{wide}>):
        {body}
        stablehlo.return %z : tensor<{wide}>
      }}) {{{w.attributes}}} : ({operand}, tensor<{element}>) -> {result}
      return %r : {result}
    }}"""


def by_formula(x: np.ndarray, init: Any, w: Windows, combine: Combine) -> np.ndarray:
    result = np.empty(w.counts, x.dtype)
    for start in np.ndindex(w.counts):
        total = init
        for index in np.ndindex(w.window):
            at = w.element(start, index)
            with np.errstate(all="ignore"):
                total = combine(total, init if at is None else x[at])
        result[start] = total
    return result


def random_case(rng: np.random.Generator, **how: bool) -> tuple[Windows, np.ndarray, np.ndarray]:
    w = random_windows(rng, **how)
    return w, rng.integers(-9, 10, w.shape, np.int32), np.array(rng.integers(-3, 4), np.int32)


def extreme(op: str) -> Combine:
    """The larger or smaller of two floats: the first NaN there is, and +0 above -0."""

    def choose(x: Any, y: Any) -> Any:
        if x != x or y != y:
            return x if x != x else y
        if x == y:
            return x if np.signbit(x) == (op == "minimum") else y
        return max(x, y) if op == "maximum" else min(x, y)

    return choose


def wrapped(combine: Combine) -> Combine:
    return lambda x, y: np.int64(combine(int(x), int(y))).astype(np.int32)


def bind(
    name: str,
    attributes: dict[str, Any],
    operands: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    bodies: tuple[Body, ...],
) -> None:
    record = lookup(name)
    assert record is not None
    record.function(Call(record.name, operands, results, attributes, bodies))
