"""A case: an op on element types, with its name in reports and its position in their grids."""

from __future__ import annotations

import dataclasses

from ...oracle.case import OpCase
from ...oracle.exact import FUNCTIONS
from ...oracle.formats import ALL_MINIFLOATS, FORMATS, INTEGERS, MINIFLOATS

#: The grid column of cases without minifloats.
WIDE = "wide"
#: Types of more than 8 bits, and integers; every conversion between them is a case.
WIDE_TYPES = (*(f for f in reversed(FORMATS) if f not in ALL_MINIFLOATS), *INTEGERS, "i1")

#: Ops on rows of numbers, such as sums, which are judged by models.
ROW_OPS = ("reduce", "cumulative", "dot_general", "convolution", "sort")
#: Sums of products, which matrix units accumulate in their own ways.
PRODUCT_OPS = ("dot_general", "convolution")
#: Ops on arrays in blocks that share scales.
BLOCK_OPS = ("quantize", "dequantize", "scaled_dot")
#: The rule for scales of a backend that names none.
OWN = "own"


@dataclasses.dataclass(frozen=True)
class Case(OpCase):
    """An op on element types. It has a name in reports, and a row and a column in their grids."""

    @property
    def name(self) -> str:
        """The op with its attributes: compare_LT, compare_LT_TOTALORDER, reduce_add."""
        if self.op == "test":
            return f"test.{self.attributes[0][1]}"
        if self.is_blocks:
            return self.op
        words = [value for _, value in self.attributes if value != "FLOAT"]
        return "_".join([self.op, *words])

    @property
    def signature(self) -> str:
        """The identifier. `type.f8E4M3FN` is the type alone: codes go in and come out."""
        if self.op == "test":
            return self.name
        if self.is_blocks:
            types = self.operands if self.op == "quantize" else (self.result,)
            return ".".join([self.name, *(value for _, value in self.attributes), *types])
        types = list(dict.fromkeys(t for t in self.operands if t != "i1" or len(self.operands) == 1))
        is_told = self.result == "i1" and self.op != "chain"  # comparisons and tests have only one result type
        if (self.result not in types and not is_told) or self.op == "convert":
            types.append(self.result)
        return ".".join([self.name, *types])

    @property
    def is_rows(self) -> bool:
        """Whether it is an op on rows."""
        return self.op in ROW_OPS

    @property
    def is_blocks(self) -> bool:
        """Whether it is an op on blocks that share a scale."""
        return self.op in BLOCK_OPS

    @property
    def types(self) -> tuple[str, ...]:
        """All types by which it is selected: of elements, and of blocks."""
        blocks = (value for name, value in self.attributes if name in ("format", "left", "right"))
        return *self.operands, self.result, *(blocks if self.is_blocks else ())

    @property
    def is_product(self) -> bool:
        """Whether it is a product of arrays without scales."""
        return self.op in PRODUCT_OPS

    @property
    def has_products(self) -> bool:
        """Whether its results are sums of products, of numbers or of blocks."""
        return self.is_product or self.op == "scaled_dot"

    @property
    def has_elements(self) -> bool:
        """Whether each result is that of one element of each operand."""
        return not self.is_rows and not self.is_blocks and self.op != "test"

    @property
    def is_near(self) -> bool:
        """Whether results within some ULP are a matter of accuracy, not of correctness."""
        return self.op in FUNCTIONS

    @property
    def row(self) -> str:
        """The row of the grid."""
        if self.op == "type":
            return "the type itself"
        if self.op == "test":
            return self.name.split(".")[1].removeprefix("interpret_")
        if self.op in ("quantize", "dequantize"):
            return " ".join([self.op, *(value for name, value in self.attributes if name == "scale")])
        if self.has_products:
            wide = [t for t in self.operands if t not in MINIFLOATS]
            others = [self.operands[0]] if wide or len(set(self.operands)) > 1 else []
            return " ".join([self.name, *others, *([f"to {self.result}"] if self.result not in self.operands else [])])
        if self.op != "convert":
            is_usual = self.op == "chain" or self.result in (*self.operands, "i1")
            return self.name if is_usual else f"{self.name} to {self.result}"
        is_target = self.result in ALL_MINIFLOATS or self.column == WIDE
        return f"convert from {self.operands[0]}" if is_target else f"convert to {self.result}"

    @property
    def column(self) -> str:
        """The column of the grid: the format tested; conversions between wider types share one column."""
        types = (self.result, *reversed(self.operands))
        if self.is_blocks:  # the format of the elements
            types = (self.result if self.op == "quantize" else self.operands[0],)
        name = next((t for t in types if t in ALL_MINIFLOATS), None)
        if name is None and (self.op in ("convert", "chain") or self.is_product or self.is_blocks):
            return WIDE
        return name or next(t for t in types if t in FORMATS)
