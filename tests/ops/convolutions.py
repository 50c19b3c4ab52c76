"""Convolutions as data, random ones, and their results by a plain loop of exact sums written from the specification."""

import dataclasses
from typing import Any

import numpy as np

from minihlo.ops.policy import Policy

from ..places import dims, listed
from ..run_op import run, tensor

SEED = 31
Shape = tuple[int, ...]


@dataclasses.dataclass
class Convolution:
    """The attributes, and the shapes: of lhs and result batch, feature, spatial; of rhs output, input, spatial."""

    lhs: Shape
    rhs: Shape
    lhs_order: Shape  #: the dimension that each of these is
    rhs_order: Shape
    result_order: Shape
    strides: Shape
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: Shape
    rhs_dilation: Shape
    reversal: tuple[bool, ...]
    features: int = 1
    batches: int = 1

    @property
    def result(self) -> Shape:
        results = [self.lhs[0] // self.batches, self.rhs[0]]
        for d, (size, window) in enumerate(zip(self.lhs[2:], self.rhs[2:], strict=True)):
            dilated = (size - 1) * self.lhs_dilation[d] + 1 if size else 0
            padded = self.padding[d][0] + dilated + self.padding[d][1]
            reach = (window - 1) * self.rhs_dilation[d] + 1 if window else 0
            results.append(0 if padded <= 0 or reach > padded else (padded - reach) // self.strides[d] + 1)
        return tuple(results)

    def ordered(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """Operands with batch or output, feature or input, and spatial dimensions, as the program takes them."""
        orders = (x, self.lhs_order), (y, self.rhs_order)
        return [np.ascontiguousarray(v.transpose(np.argsort(o))) for v, o in orders]

    def terms(self, at: Shape) -> list[tuple[Shape | None, Shape]]:
        """The pairs of elements multiplied for one result, in order; None is padding."""
        batch, output, *place = at
        group = output // (self.rhs[0] // (self.features * self.batches))
        first = group * self.rhs[1] if self.features > 1 else 0
        batch += group * self.result[0] if self.batches > 1 else 0
        result = []
        for k in np.ndindex(self.rhs[2:]):
            where: list[int] | None = []
            for d, size in enumerate(self.lhs[2:]):
                offset = self.rhs[2 + d] - 1 - k[d] if self.reversal[d] else k[d]
                p = place[d] * self.strides[d] + offset * self.rhs_dilation[d] - self.padding[d][0]
                inside = p % self.lhs_dilation[d] == 0 and 0 <= p // self.lhs_dilation[d] < size
                where = [*where, p // self.lhs_dilation[d]] if inside and where is not None else None
            for i in range(self.rhs[1]):
                result.append((None if where is None else (batch, first + i, *where), (output, i, *k)))
        return result

    @property
    def attributes(self) -> dict[str, Any]:
        numbers = {}
        for side, first, second, order in (
            ("input", "batch", "feature", self.lhs_order),
            ("kernel", "output_feature", "input_feature", self.rhs_order),
            ("output", "batch", "feature", self.result_order),
        ):
            numbers[f"{side}_{first}_dimension"] = order[0]
            numbers[f"{side}_{second}_dimension"] = order[1]
            numbers[f"{side}_spatial_dimensions"] = order[2:]
        return {
            "dimension_numbers": numbers,
            "window_strides": self.strides,
            "padding": np.array(self.padding, int).reshape(-1, 2),
            "lhs_dilation": self.lhs_dilation,
            "rhs_dilation": self.rhs_dilation,
            "window_reversal": self.reversal,
            "feature_group_count": self.features,
            "batch_group_count": self.batches,
        }

    def text(self, lhs: str, rhs: str, result: str, wrap: bool = False) -> str:
        """A program; `wrap` takes and gives minifloats as their codes."""
        names = ("window_strides", "lhs_dilation", "rhs_dilation")
        lists = [(name, "i64", getattr(self, name.removeprefix("window_"))) for name in names]
        lists.append(("window_reversal", "i1", tuple(str(r).lower() for r in self.reversal)))
        given = [f"{n} = array<{t}: {', '.join(map(str, v))}>" if v else f"{n} = array<{t}>" for n, t, v in lists]
        pads = f"dense<{[list(p) for p in self.padding]}>" if self.padding else "dense<>"
        numbers = ", ".join(
            f"{k} = {v if isinstance(v, int) else listed(v)}" for k, v in self.attributes["dimension_numbers"].items()
        )
        shapes = [
            order(s, o)
            for s, o in ((self.lhs, self.lhs_order), (self.rhs, self.rhs_order), (self.result, self.result_order))
        ]
        types = [f"tensor<{dims(s)}{t}>" for s, t in zip(shapes, (lhs, rhs, result), strict=True)]
        outer = [f"tensor<{dims(s)}ui8>" for s in shapes] if wrap else types
        casts = [f"stablehlo.bitcast_convert {v} : ({a}) -> {b}" for v, a, b in
                 (("%a", outer[0], types[0]), ("%b", outer[1], types[1]), ("%z", types[2], outer[2]))]  # fmt: skip
        return f"""
        func.func @main(%a: {outer[0]}, %b: {outer[1]}) -> {outer[2]} {{
          %x = {casts[0]}
          %y = {casts[1]}
          %z = "stablehlo.convolution"(%x, %y) {{
            {", ".join(given)}, padding = {pads} : tensor<{len(self.padding)}x2xi64>,
            dimension_numbers = #stablehlo.conv<raw {numbers}>,
            feature_group_count = {self.features} : i64, batch_group_count = {self.batches} : i64
          }} : ({types[0]}, {types[1]}) -> {types[2]}
          %r = {casts[2]}
          return %r : {outer[2]}
        }}"""


def order(shape: Shape, places: Shape) -> Shape:
    """A shape in the order of its dimensions."""
    return tuple(shape[places.index(d)] for d in range(len(places)))


def random_convolution(rng: np.random.Generator, empty: bool = False, spatial: int | None = None) -> Convolution:
    spatial = int(rng.integers(0, 4)) if spatial is None else spatial
    low = 0 if empty else 1

    def some(first: int, last: int) -> Shape:
        return tuple(int(n) for n in rng.integers(first, last + 1, spatial))

    features, batches = ((1, 1), (2, 1), (3, 1), (1, 2))[rng.integers(0, 4)]
    inputs, outputs, batch = (int(n) for n in rng.integers(low, 3, 3))
    orders = [tuple(int(d) for d in rng.permutation(spatial + 2)) for _ in range(3)]
    return Convolution(
        (batch * batches, inputs * features, *some(low, 5)),
        (outputs * features * batches, inputs, *some(low, 3)),
        *orders,
        some(1, 3),
        tuple((int(a), int(b)) for a, b in rng.integers(-1, 3, (spatial, 2))),
        some(1, 2),
        some(1, 2),
        tuple(bool(r) for r in rng.integers(0, 2, spatial)),
        features,
        batches,
    )


def convolve(c: Convolution, x: np.ndarray, y: np.ndarray, element: str, policy: Policy | None = None) -> np.ndarray:
    """Arrays with batch or output, feature or input, and then spatial dimensions; the result too."""
    result = tensor(element, *order(c.result, c.result_order))
    return run("convolution", *c.ordered(x, y), policy=policy, result=result, **c.attributes).transpose(c.result_order)


def by_formula(c: Convolution, x: Any, y: Any) -> np.ndarray:
    """Exact sums of Python's numbers."""
    result = np.empty(c.result, object)
    for at in np.ndindex(c.result):
        result[at] = sum((x[i] * y[j] for i, j in c.terms(at) if i is not None), 0)
    return result


def integers(rng: np.random.Generator, c: Convolution, dtype: Any = np.int32, limit: int = 9) -> list[np.ndarray]:
    return [rng.integers(-limit, limit + 1, shape).astype(dtype) for shape in (c.lhs, c.rhs)]
