"""The list of cases: the ops, types and forms of each level. `data` makes their operands."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
from collections.abc import Iterable, Iterator, Sequence

from ...oracle.case import OpCase
from ...oracle.exact import COMPARISONS, FUNCTIONS, OPS, arity
from ...oracle.formats import FORMATS, INTEGERS, MINIFLOATS
from .block_list import BLOCK_FORMS, BLOCK_OPS, block_cases, block_forms
from .layouts import LAYOUTS

_SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127, 128, 129, 1000)
_LENGTHS = (1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127, 128, 129, 1000, 4096)
#: Of these lengths are rows at level 1: sums have many models, which take time.
_FEW_LENGTHS = tuple(f"length-{n}" for n in (1, 3, 8, 17, 64, 1000))

#: How a case is put to a backend, and what each form is to find.
FORMS = {
    "array": "operands at run time: all codes, all pairs",
    "constant": "operands are constants of the program, which compilers fold",
    "scalar": "one operand is a constant broadcast to the other's shape, each side in turn",
    "broadcast": "one operand is a scalar at run time, broadcast",
    "chain": "the first operand is subtracted from the result: is that rounded before?",
    "upcast": "the result is converted to f32: is it rounded before?",
    **{f"size-{n}": f"an array of {n} elements: around the sizes of vectors and tiles" for n in _SIZES},
    "unaligned": "a slice of an array from its fourth element on",
    "rank-0": "operands without dimensions",
    "rank-2": "operands of two dimensions",
    "rank-3": "operands of three dimensions; rows are summed along the middle one, products are of batches",
    "transposed": "one operand is a transposed array; rows are columns",
    "reversed": "one operand is an array reversed in both dimensions; of products both are",
    "sliced": "one operand is a slice of every second row and column",
    "rows": "one operand is a row, broadcast",
    "columns": "one operand is a column, broadcast",
    **{f"length-{n}": f"rows of {n} elements" for n in _LENGTHS},
    **BLOCK_FORMS,
    "test": "a program with checks",
}
SIZES = {**{f"size-{n}": n for n in _SIZES}, "unaligned": 1000}
LENGTHS = {**{f"length-{n}": n for n in _LENGTHS}, "constant": 64, "transposed": 17, "reversed": 17, "rank-3": 17}

#: The column of the grid of what is about no minifloat.
WIDE = "wide"
#: The types of more than 8 bits and the integers, between which every conversion is a case.
WIDE_TYPES = (*(f for f in reversed(FORMATS) if f not in MINIFLOATS), *INTEGERS, "i1")

#: Ops on rows of numbers: sums and the like, judged by models.
ROW_OPS = ("reduce", "cumulative", "dot_general", "convolution", "sort")
#: Of these the sums of products, which matrix units form in their own ways.
PRODUCT_OPS = ("dot_general", "convolution")
BODIES = ("add", "multiply", "maximum", "minimum")


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
        """`type.f8E4M3FN` is the type alone: codes go in and come out."""
        if self.op == "test":
            return self.name
        if self.is_blocks:
            types = self.operands if self.op == "quantize" else (self.result,)
            return ".".join([self.name, *(value for _, value in self.attributes), *types])
        types = list(dict.fromkeys(t for t in self.operands if t != "i1" or len(self.operands) == 1))
        is_told = self.result == "i1" and self.op != "chain"  # of comparisons and tests, which give nothing else
        if (self.result not in types and not is_told) or self.op == "convert":
            types.append(self.result)
        return ".".join([self.name, *types])

    @property
    def is_rows(self) -> bool:
        """Whether it is of an op on rows."""
        return self.op in ROW_OPS

    @property
    def is_blocks(self) -> bool:
        """Whether it is of an op on blocks that share a scale."""
        return self.op in BLOCK_OPS

    @property
    def types(self) -> tuple[str, ...]:
        """All types that it is chosen by: of elements, and of blocks."""
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
        """Whether results within some ULP are a matter of accuracy, not of right and wrong."""
        return self.op in FUNCTIONS

    @property
    def row(self) -> str:
        """Of the grid."""
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
            return (
                self.name
                if self.op == "chain" or self.result in (*self.operands, "i1")
                else f"{self.name} to {self.result}"
            )
        is_target = self.result in MINIFLOATS or self.column == WIDE
        return f"convert from {self.operands[0]}" if is_target else f"convert to {self.result}"

    @property
    def column(self) -> str:
        """Of the grid: the format it is about; conversions between wider types share one column."""
        types = (self.result, *reversed(self.operands))
        if self.is_blocks:  # that of the elements
            types = (self.result if self.op == "quantize" else self.operands[0],)
        name = next((t for t in types if t in MINIFLOATS), None)
        if name is None and (self.op in ("convert", "chain") or self.is_product or self.is_blocks):
            return WIDE
        return name or next(t for t in types if t in FORMATS)


# -- the list ----------------------------------------------------------------------------------------------------------


def cases(level: int) -> list[Case]:
    """Every case of a level."""
    return list(_cases(level))


def _cases(level: int) -> Iterator[Case]:
    wide = ("f16", "bf16") if level >= 2 else ()
    for element in (*MINIFLOATS, *wide):
        yield Case("type", (element,), element)
    for element in (*MINIFLOATS, *wide, *(("f32",) if level >= 3 else ())):
        yield from _elementwise(element)
    for element in MINIFLOATS:
        yield from _conversions(element)
    for source, target in itertools.permutations(WIDE_TYPES, 2):
        yield Case("convert", (source,), target)
    yield from _chains()
    for element in MINIFLOATS:
        yield from _rows(element, level)
    for operands, results in _PRODUCTS.items():
        for op in PRODUCT_OPS if len(set(operands)) == 1 else ("dot_general",):  # (C27): one type in a convolution
            for result in results if op == "dot_general" or level >= 2 else results[:1]:
                yield Case(op, operands, result)
    for facts in block_cases(level):
        yield Case(*facts)


def _elementwise(element: str) -> Iterator[Case]:
    for op in OPS:
        yield Case(op, (element,) * arity(op), element)
    yield Case("is_finite", (element,), "i1")
    for kind in ("FLOAT", "TOTALORDER"):
        for direction in COMPARISONS:
            named = (("comparison_direction", direction), ("compare_type", kind))
            yield Case("compare", (element, element), "i1", named)
    yield Case("select", ("i1", element, element), element)
    yield Case("clamp", (element,) * 3, element)


def _conversions(element: str) -> Iterator[Case]:
    others = [*FORMATS, *INTEGERS, "i1"]
    for source in others:
        if source != element:
            yield Case("convert", (source,), element)
    for target in others:
        if target not in MINIFLOATS:
            yield Case("convert", (element,), target)


def _chains() -> Iterator[Case]:
    """The cases of several ops in sequence (`chains.py`)."""

    def chain(steps: str, operands: tuple[str, ...], result: str) -> Case:
        return Case("chain", operands, result, (("steps", steps),))

    for element in MINIFLOATS:
        for between, source in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f32", element)):
            yield chain(f"via_{between}", (source,), element)
        yield chain("scale_clamp_convert", ("f32", "f32"), element)
        yield chain("dequantize_add_quantize", (element, element), element)
        yield chain("multiply_add_in_bf16", (element, element), element)
    for source, between, result in (
        *(("f32", t, "f32") for t in ("f16", "bf16")),
        *(("f64", "f32", t) for t in ("f64", "f16", "bf16")),
    ):
        yield chain(f"via_{between}", (source,), result)
    for part in ("f64", "f32"):
        other = "f32" if part == "f64" else "f64"
        for element in (*MINIFLOATS, *WIDE_TYPES):
            yield chain("to_complex_real", (element,), part)
            yield chain("from_complex", (part, part), element)
        yield chain("to_complex_imag", (other,), part)
        yield from (chain(f"complex_{half}", (part, part), other) for half in ("real", "imag"))


def _rows(element: str, level: int) -> Iterator[Case]:
    # A sum starts from zero.
    without = () if FORMATS[element].has_zero else ("add",)
    for body in BODIES:
        if body not in without:
            yield Case("reduce", (element,), element, (("body", body),))
    for body in ("add", "maximum"):
        if body not in without:
            yield Case("cumulative", (element,), element, (("body", body),))
    for op in PRODUCT_OPS:
        for result in (element, "f32", "bf16", "f16") if op == "dot_general" or level >= 2 else (element, "f32"):
            yield Case(op, (element, element), result)
    yield Case("sort", (element,), element)


def forms(case: Case, level: int, takes: str = "programs") -> Sequence[str]:
    """The forms of a case at a level, for a backend that takes programs or operations."""
    if case.is_blocks:
        return block_forms(case.op, dict(case.attributes).get("scale", ""), takes)
    names = _forms(case, level)
    if case.op == "type" and takes == "operations":
        return []
    if takes == "operations":  # a scalar at run time is one of rank 0 there
        without = ("constant", "scalar", "chain", "upcast", *(("rank-3",) if case.is_rows else ()))
        names = [f for f in names if f not in without]
    return names


#: Products of two formats, and of wider ones, with the types of their results, the usual one first.
_PRODUCTS = {
    ("f8E4M3FN", "f8E5M2"): ("f32", "bf16", "f16"),
    ("f8E5M2", "f8E4M3FN"): ("f32", "bf16", "f16"),
    ("f8E4M3FNUZ", "f8E5M2FNUZ"): ("f32", "bf16", "f16"),
    ("f8E5M2FNUZ", "f8E4M3FNUZ"): ("f32", "bf16", "f16"),
    ("f8E4M3FN", "f4E2M1FN"): ("f32", "bf16", "f16"),
    ("f16", "f16"): ("f32", "f16"),
    ("bf16", "bf16"): ("f32", "bf16"),
}

#: At level 1 the forms other than `array` and `constant` are for these: what hardware computes, and a function.
_COMMON = ("add", "subtract", "multiply", "divide", "maximum", "negate", "sqrt", "exponential", "tanh")


def _forms(case: Case, level: int) -> list[str]:
    if case.op == "type":
        return ["array"]
    if case.is_rows:
        return _of_rows(case, level)
    if case.column not in (*MINIFLOATS, WIDE):
        return ["array"]
    names = ["array", "constant"]
    if case.op == "chain":
        return names if level == 1 else [*names, *SIZES, *LAYOUTS]
    if level == 1 and not is_common(case):
        return names
    if case.op == "compare" and case.name != "compare_LT":
        return names
    if len(case.operands) == 2:
        names += ["scalar", "broadcast"]
    is_rounded = case.result in MINIFLOATS and case.result != "f8E8M0FNU"
    if is_rounded and case.op != "select":
        names.append("upcast")
        if len(case.operands) <= 2 and case.operands[:1] == (case.result,) and not case.is_near:
            names.append("chain")  # of what may be inaccurate there is no one right difference
    return [*names, *SIZES, *LAYOUTS]


def is_common(case: Case) -> bool:
    """Whether the case has all its forms at level 1. Conversions are those from and to f32, and between wide floats."""
    if case.op == "convert":
        types = (*case.operands, case.result)
        return "f32" in types and all(t in FORMATS for t in types)
    return case.op in _COMMON


#: At level 1 results of these types, of other operands, are asked of a few lengths alone.
_SECONDARY, _SECONDARY_LENGTHS = ("f16", "bf16"), ("length-17", "length-1000")
#: The longest rows are of products alone.
_LONGEST = "length-4096"


def _of_rows(case: Case, level: int) -> list[str]:
    if case.is_product:
        names = [f for f in LENGTHS if f != "reversed" or case.op == "dot_general"]
        if level == 1 and case.result in _SECONDARY and case.result not in case.operands:
            return [f for f in names if f in _SECONDARY_LENGTHS]
        if level == 1:
            names = [f for f in names if not f.startswith("length") or f in (*_FEW_LENGTHS, _LONGEST)]
        return names
    if case.op == "sort":
        names = [f for f in LENGTHS if f != "constant"]
    elif case.op == "cumulative":  # whose cost is the square of the length
        names = [f for f in LENGTHS if LENGTHS[f] < 1000]
    else:
        names = list(LENGTHS)
    names = [f for f in names if f not in ("reversed", _LONGEST)]
    if level == 1:
        names = [f for f in names if not f.startswith("length") or f in _FEW_LENGTHS]
    return names


# -- choosing ----------------------------------------------------------------------------------------------------------


def chosen(every: Iterable[Case], ops: Sequence[str] = (), formats: Sequence[str] = (), case: str = "") -> list[Case]:
    """The cases that match patterns of op names, formats and signatures."""

    def fits(c: Case) -> bool:
        names = (c.op, c.name)
        return (
            (not ops or any(fnmatch.fnmatchcase(n, p) for n in names for p in ops))
            and (not formats or any(fnmatch.fnmatchcase(t, p) for t in c.types for p in formats))
            and (not case or fnmatch.fnmatchcase(c.signature, case))
        )

    return [c for c in every if fits(c)]


__all__ = ["FORMS", "FUNCTIONS", "LAYOUTS", "LENGTHS", "SIZES", "Case", "cases", "chosen", "forms", "is_common"]
