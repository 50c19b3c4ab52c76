"""Cases on blocks that share scales, as programs, as calls of operations, and with their right results."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from ..backends import BackendError
from ..backends.operation import Operation
from ..backends.programs import Builder
from ..judging.sums.hypotheses import Rows, SumQuery
from ..judging.table import cause
from ..oracle import blocks as oracle
from ..oracle.blocks import BLOCKS, Block, Quantized
from ..oracle.formats import FORMATS
from ..oracle.rounding import Exact, encode
from .cases import block_programs
from .cases.case import OWN
from .part import BasePart, Call
from .rows import RowPart

#: The outputs that an operation `quantize` is asked for, one at a time.
GIVES = ("elements", "scales", "tensor_scale")


class OtherAxis(BackendError):
    """Scales of blocks along the other axis, as their shape shows."""

    why = cause("wrong-axis")

    def __init__(self) -> None:
        super().__init__("died", self.why.sentence)


@dataclasses.dataclass(frozen=True, eq=False)
class BlockPart(BasePart):
    """A case of quantize or dequantize in one form: its operands, as arrays of codes."""

    @property
    def result_type(self) -> str:
        """Results are codes of several types, concatenated."""
        return "ui32"

    @property
    def block(self) -> Block:
        """The block format."""
        return BLOCKS[self.facts["format"]]

    @property
    def facts(self) -> dict[str, str]:
        """The attributes of the case."""
        return dict(self.case.attributes)

    @property
    def rule(self) -> str:
        """The rule for scales: that of the format's source if the backend uses its own."""
        rule = self.facts.get("scale", OWN)
        return self.block.rules[0] if rule == OWN else rule

    @functools.cached_property
    def outputs(self) -> list[tuple[str, tuple[int, ...]]]:
        """The element type and the shape of each result."""
        return block_programs.outputs(self.case, self.arrays)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the elements."""
        return self.outputs[0][1]

    def emit(self, builder: Builder) -> None:
        """Adds the case to a program, as its next results."""
        block_programs.emit(builder, self.case, self.form, self.arrays)

    def operate(self, call: Call) -> list[np.ndarray]:
        """See BasePart."""
        attributes: dict[str, object] = {"format": self.block.name, "block": self.block.shape}
        if self.case.op == "quantize":
            attributes["scale"] = self.facts["scale"]
        found = []
        for gives, (t, _) in zip(GIVES, self.outputs, strict=False):
            words = {**attributes, "gives": gives} if self.case.op == "quantize" else attributes
            found.append(call(Operation(self.case.op, self.case.operands, t, words), list(self.arrays)))
        return found

    def collect(self, found: Sequence[np.ndarray]) -> np.ndarray:
        """See BasePart. Raises OtherAxis if results have the shapes of blocks along the other axis."""
        if self._is_across([np.shape(x) for x in found]):
            raise OtherAxis()
        return super().collect(found)

    def _is_across(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        if self.case.op != "quantize" or len(self.block.shape) == 2 or len(shapes) < 2:
            return False
        rows, k = self.arrays[0].shape
        return shapes[1] != self.outputs[1][1] and shapes[1] == self.block.scale_shape((k, rows))[::-1]

    def concatenate(self, results: Sequence[np.ndarray]) -> np.ndarray:
        """Concatenates results to one array of codes, with one NaN for each type."""
        flat = []
        for codes, (t, _) in zip(results, self.outputs, strict=True):
            codes = np.asarray(codes).reshape(-1)
            if t in FORMATS and FORMATS[t].nan_code is not None:
                codes = np.where(FORMATS[t].is_nan(codes), np.array(FORMATS[t].nan_code, codes.dtype), codes)
            flat.append(codes.astype(np.uint32))
        return np.concatenate(flat)

    def parts_of(self, joined: np.ndarray) -> list[np.ndarray]:
        """Splits a concatenated array into the arrays of the results."""
        sizes = [int(np.prod(shape)) for _, shape in self.outputs]
        pieces = np.split(joined, np.cumsum(sizes)[:-1])
        return [p.reshape(shape) for p, (_, shape) in zip(pieces, self.outputs, strict=True)]

    @functools.cached_property
    def block_of(self) -> np.ndarray:
        """The block of each of the concatenated codes; -1 for codes that belong to all blocks."""
        rows, k = self.shape
        counts = self.block.scale_shape((rows, k))
        blocks = np.arange(counts[0] * counts[1]).reshape(counts)
        each = [self.block.spread(blocks, (rows, k)), blocks, np.array([-1])]
        return np.concatenate([x.ravel() for x in each[: len(self.outputs)]])

    def contributing(self, i: int) -> list[list[int]]:
        """See BasePart: the block; for dequantize the element and its scales."""
        x, *scales = self.arrays
        if self.case.op == "dequantize":
            own, *of_tensor = scales
            return [[int(x.ravel()[i])], [int(own.ravel()[self.block_of[i]])], *([int(t)] for t in of_tensor)]
        if self.block_of[i] < 0:
            return [[]]
        each = self.block.each(x)
        return [each.reshape(-1, each.shape[-1])[self.block_of[i]][:1024].tolist()]

    # -- right results -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """The operand of quantize, exact in f64."""
        return FORMATS[self.case.operands[0]].decode(self.arrays[0])

    @functools.cached_property
    def expected(self) -> np.ndarray:
        """The right codes, concatenated."""
        with np.errstate(all="ignore"):
            if self.case.op == "quantize":
                return self.of(oracle.quantize(self.numbers, self.block, self.rule))
            codes, scales, *of_tensor = self.arrays
            return self.concatenate([oracle.dequantize(codes, scales, self.block, self.case.result, *of_tensor)])

    def of(self, found: Quantized) -> np.ndarray:
        """The concatenated codes of a quantized array."""
        return self.concatenate(found.parts())


@dataclasses.dataclass(frozen=True)
class ScaledRows(Rows):
    """The terms of some results with scales."""

    #: The codes of elements of both operands, [results, terms], and of their scales, [results, blocks].
    blocks: Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = tuple  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True, eq=False)
class ScaledPart(RowPart):
    """A dot of blocks in one form: elements [m, k] and [k, n], scales [m, blocks] and [blocks, n].

    `operands` are the scaled numbers of both sides, in f64, if they differ from the exact ones.
    """

    operands: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """All element types."""
        return *block_programs.operand_types(self.case), self.case.result

    @property
    def sides(self) -> tuple[Block, Block]:
        """The block formats."""
        facts = dict(self.case.attributes)
        return BLOCKS[facts["left"]], BLOCKS[facts["right"]]

    def emit(self, builder: Builder) -> None:
        """Adds the case to a program, as its next result."""
        block_programs.emit(builder, self.case, self.form, self.arrays)

    @property
    def body(self) -> str:
        """The op that combines products."""
        return "add"

    @property
    def operation(self) -> Operation:
        """The operation on arrays."""
        attributes = {"formats": tuple(b.name for b in self.sides), "blocks": tuple(b.size for b in self.sides)}
        return Operation("scaled_dot", block_programs.operand_types(self.case), self.case.result, attributes)

    # -- right results -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def scaled(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of both sides, [m, k] and [n, k]: exact in f64 unless they are given."""
        if self.operands is not None:
            return self.operands
        left, right = self.sides
        x, y, s, t = self.arrays
        return oracle.apply_scales(x, s, left), oracle.apply_scales(y.T, t.T, right)

    @functools.cached_property
    def query(self) -> SumQuery:
        """The query for the sums: a scaled element has at most 8 bits, unless its scale is f32."""
        wide = any(b.scale_fmt.bits > 8 for b in self.sides)
        kind = "f32" if wide else "bf16"
        return SumQuery((kind, kind), self.case.result, "add", (self.arrays[0].shape[1],))

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The products that each result is the sum of: f64 [results, terms]."""
        x, y = self.scaled
        with np.errstate(all="ignore"):
            return (x[:, None, :] * y[None, :, :]).reshape(-1, x.shape[1])

    @functools.cached_property
    def terms(self) -> list[np.ndarray]:
        """The codes of the elements that contribute to each result."""
        x, y = self.arrays[0], self.arrays[1].T
        return [np.repeat(x, len(y), axis=0), np.tile(y, (len(x), 1))]

    def rows(self, flat: np.ndarray) -> Rows:
        """The terms of some results; their factors are scaled numbers as codes."""
        n = self.shape[1]

        def factors() -> tuple[np.ndarray, np.ndarray]:
            places = flat // n, flat % n
            sides = zip(self.scaled, places, self.query.operands, strict=True)
            left, right = (encode(FORMATS[t], Exact.of(x[at]))[0] for x, at, t in sides)
            return left, right

        def blocks() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            x, y, s, t = self.arrays
            i, j = flat // n, flat % n
            return x[i], y.T[j], s[i], t.T[j]

        return ScaledRows(self.values[flat], factors, blocks)
