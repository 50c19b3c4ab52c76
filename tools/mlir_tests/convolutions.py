"""Cases of convolutions: sums of products, as in `linear.py`, and the numbers that meet in them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from minihlo.ops.op import Op
from tests.oracle import FORMATS, encode

from .catalog import cases, stem
from .chunk import Chunk, integer_list
from .linear import AGREE, ONCE, Index, Terms, draw, sum_products
from .numbers import array, codes_of, share


@dataclasses.dataclass(frozen=True)
class Convolution:
    """One use: shapes by dimension (`b0f` and so on, in the order of the numbers), and attributes that differ from the
    default.
    """

    x: Index
    y: Index
    numbers: str  #: as MLIR writes it: `[b, 0, f]x[0, i, o]->[b, 0, f]`
    strides: Index = ()
    padding: tuple[tuple[int, int], ...] = ()
    lhs_dilation: Index = ()
    rhs_dilation: Index = ()
    reversal: tuple[bool, ...] = ()
    groups: int = 1
    batch_groups: int = 1

    @property
    def rank(self) -> int:
        """Of space."""
        return len(self.x) - 2

    def full(self, name: str) -> Any:
        default = {"padding": (0, 0), "reversal": False}.get(name, 1)
        return getattr(self, name) or (default,) * self.rank

    def labels(self) -> list[list[str]]:
        inputs, _, out = self.numbers.partition("->")
        return [part.strip("[]").split(", ") for part in (*inputs.split("x"), out)]

    def attributes(self, with_padding: bool = True) -> str:
        def truth(b: bool) -> str:
            return "true" if b else "false"

        parts = [
            f"window_strides = {integer_list(self.full('strides'))}",
            f"lhs_dilation = {integer_list(self.full('lhs_dilation'))}",
            f"rhs_dilation = {integer_list(self.full('rhs_dilation'))}",
            f"window_reversal = array<i1: {', '.join(map(truth, self.full('reversal')))}>",
            f"dimension_numbers = #stablehlo.conv<{self.numbers}>",
            f"feature_group_count = {self.groups} : i64",
            f"batch_group_count = {self.batch_groups} : i64",
        ]
        if with_padding:
            pairs = [list(p) for p in self.full("padding")]
            parts.append(f"padding = dense<{pairs}> : tensor<{self.rank}x2xi64>")
        return ", ".join(parts)

    def terms(self) -> tuple[Terms, Index]:
        """The pairs of positions that meet for each element of the result, and its shape."""
        x_labels, y_labels, out_labels = self.labels()
        xs, ys = dict(zip(x_labels, self.x, strict=True)), dict(zip(y_labels, self.y, strict=True))
        space = [str(d) for d in range(self.rank)]
        settings = [self.full(n) for n in ("strides", "padding", "lhs_dilation", "rhs_dilation", "reversal")]
        sizes = {"b": xs["b"] // self.batch_groups, "f": ys["o"]}
        for d, stride, (low, high), wide, apart, _ in zip(space, *settings, strict=True):
            whole = low + (xs[d] - 1) * wide + 1 + high
            sizes[d] = (whole - (ys[d] - 1) * apart - 1) // stride + 1
        result: Terms = {}
        for index in itertools.product(*(range(sizes[c]) for c in out_labels)):
            at = dict(zip(out_labels, index, strict=True))
            group, batch_group = at["f"] // (ys["o"] // self.groups), at["f"] // (ys["o"] // self.batch_groups)
            places = []
            for inner in itertools.product(range(ys["i"]), *(range(ys[d]) for d in space)):
                x_at = {"b": at["b"] + batch_group * sizes["b"], "f": inner[0] + group * ys["i"]}
                y_at = {"i": inner[0], "o": at["f"]}
                inside = True
                for d, k, stride, (low, _), wide, apart, is_reversed in zip(space, inner[1:], *settings, strict=True):
                    place = at[d] * stride + k * apart - low
                    inside = inside and place % wide == 0 and 0 <= place // wide < xs[d]
                    x_at[d], y_at[d] = place // wide, ys[d] - 1 - k if is_reversed else k
                if inside:
                    places.append((tuple(x_at[c] for c in x_labels), tuple(y_at[c] for c in y_labels)))
            result[index] = places
        return result, tuple(sizes[c] for c in out_labels)


_USUAL = "[b, 0, f]x[0, i, o]->[b, 0, f]"
CONVOLUTIONS = (
    Convolution((1, 5, 1), (3, 1, 2), _USUAL, strides=(2,)),
    Convolution(
        (1, 3, 2), (2, 2, 1), _USUAL, lhs_dilation=(2,), rhs_dilation=(2,), padding=((1, 0),), reversal=(True,)
    ),
    Convolution((2, 2, 3, 3), (2, 2, 2, 1), "[b, f, 0, 1]x[o, 0, 1, i]->[b, f, 0, 1]", groups=2),
    Convolution((2, 3, 1), (2, 1, 2), _USUAL, batch_groups=2),
)
#: Two products in each sum, and no padding: for a format without zero.
_OF_PAIRS = (
    Convolution((1, 5, 1), (2, 1, 2), _USUAL, strides=(2,)),
    Convolution((1, 4, 2), (1, 2, 1), _USUAL),
    Convolution((1, 4, 1), (2, 1, 1), _USUAL, rhs_dilation=(2,), reversal=(True,)),
)


@cases("convolution", "dynamic_conv")
def convolution(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", AGREE)
    is_dynamic = op.name.endswith("dynamic_conv")
    for case in share(element, CONVOLUTIONS if FORMATS[element].is_signed else _OF_PAIRS):
        terms, shape = case.terms()
        x, y = draw(element, (case.x, case.y), terms, f"convolution {case.numbers}")
        operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
        if is_dynamic:
            operands.append(chunk.constant(array([list(p) for p in case.full("padding")]), "i64", "padding"))
        r = chunk.apply(op.name, operands, (shape, element), attributes=case.attributes(not is_dynamic))
        chunk.expect(r, sum_products(element, x, y, terms, shape))
    yield chunk
    if FORMATS[element].bits <= 8 and FORMATS[element].is_signed:
        yield _convolution_once(op, element, is_dynamic)


def _convolution_once(op: Op, element: str, is_dynamic: bool) -> Chunk:
    chunk = Chunk(f"{stem(op.name)}_{element}_rounded_once", ONCE)
    fmt = FORMATS[element]
    half = Fraction(2) ** -fmt.mantissa_bits
    numbers = [Fraction(2), half, half]
    case = Convolution((1, 3, 1), (3, 1, 1), _USUAL)
    x, y = codes_of(element, numbers).reshape(1, 3, 1), codes_of(element, [1, 1, 1]).reshape(3, 1, 1)
    operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
    operands += [chunk.constant(array([[0, 0]]), "i64", "padding")] * is_dynamic
    r = chunk.apply(op.name, operands, ((1, 1, 1), element), attributes=case.attributes(not is_dynamic))
    chunk.expect(r, array([[[encode(fmt, sum(numbers, Fraction(0)))]]]))
    return chunk
