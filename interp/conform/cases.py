"""The cases: which ops on which types, in which forms, at which level. Their operands are made in `data`."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
from collections.abc import Iterable, Iterator, Sequence

from .exact import COMPARISONS, FUNCTIONS, OPS, arity
from .formats import FORMATS, INTEGERS, MINIFLOATS

#: How a case is put to a backend, and what each form is to find.
FORMS = {
    "array": "operands at run time: all codes, all pairs",
    "constant": "operands are constants of the program, which compilers fold",
    "scalar": "one operand is a constant broadcast to the other's shape, each side in turn",
    "broadcast": "one operand is a scalar at run time, broadcast",
    "chain": "the first operand is subtracted from the result: is that rounded before?",
    "upcast": "the result is converted to f32: is it rounded before?",
    "size-1": "an array of one element",
    "size-7": "of seven",
    "size-64": "of 64",
    "size-1000": "of a thousand: vector loops and what remains",
    "unaligned": "a slice of an array from its fourth element on",
    "length-3": "rows of three",
    "length-8": "rows of eight",
    "length-64": "rows of 64",
    "length-1000": "rows of a thousand",
    "test": "a program with checks",
}
SIZES = {"size-1": 1, "size-7": 7, "size-64": 64, "size-1000": 1000, "unaligned": 1000}
LENGTHS = {"length-3": 3, "length-8": 8, "length-64": 64, "length-1000": 1000, "constant": 64}

#: The column of the grid of what is about no minifloat.
WIDE = "wide"
#: The types of more than 8 bits and the integers, between which every conversion is a case.
WIDE_TYPES = (*(f for f in reversed(FORMATS) if f not in MINIFLOATS), *INTEGERS, "i1")

#: Ops on rows of numbers: sums and the like, judged by models.
ROW_OPS = ("reduce", "cumulative", "dot_general", "convolution", "sort")
BODIES = ("add", "multiply", "maximum", "minimum")


@dataclasses.dataclass(frozen=True)
class Case:
    """An op on types."""

    op: str
    operands: tuple[str, ...]  #: element types
    result: str
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The op with its attributes: compare_LT, compare_LT_TOTALORDER, reduce_add."""
        if self.op == "test":
            return f"test.{self.attributes[0][1]}"
        words = [value for _, value in self.attributes if value != "FLOAT"]
        return "_".join([self.op, *words])

    @property
    def signature(self) -> str:
        """`type.f8E4M3FN` is the type alone: codes go in and come out."""
        if self.op == "test":
            return self.name
        types = list(dict.fromkeys(t for t in self.operands if t != "i1" or len(self.operands) == 1))
        if self.result not in (*types, "i1") or self.op == "convert":
            types.append(self.result)
        return ".".join([self.name, *types])

    @property
    def is_rows(self) -> bool:
        return self.op in ROW_OPS

    @property
    def has_elements(self) -> bool:
        """Whether each result is that of one element of each operand."""
        return not self.is_rows and self.op != "test"

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
        if self.op != "convert":
            return self.name if self.result in (*self.operands, "i1") else f"{self.name} to {self.result}"
        is_target = self.result in MINIFLOATS or self.column == WIDE
        return f"convert from {self.operands[0]}" if is_target else f"convert to {self.result}"

    @property
    def column(self) -> str:
        """Of the grid: the format it is about; conversions between wider types share one column."""
        types = (self.result, *reversed(self.operands))
        found = next((t for t in types if t in MINIFLOATS), None)
        if found is None and self.op == "convert":
            return WIDE
        return found or next(t for t in types if t in FORMATS)


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
    for element in MINIFLOATS:
        yield from _rows(element)


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


def _rows(element: str) -> Iterator[Case]:
    # A sum starts from zero.
    without = () if FORMATS[element].has_zero else ("add",)
    for body in BODIES:
        if body not in without:
            yield Case("reduce", (element,), element, (("body", body),))
    for body in ("add", "maximum"):
        if body not in without:
            yield Case("cumulative", (element,), element, (("body", body),))
    for op in ("dot_general", "convolution"):
        for result in (element, "f32", "bf16") if op == "dot_general" else (element, "f32"):
            yield Case(op, (element, element), result)
    yield Case("sort", (element,), element)


def forms(case: Case, level: int, takes: str = "programs") -> Sequence[str]:
    """The forms of a case at a level, for a backend that takes programs or operations."""
    found = _forms(case, level)
    if case.op == "type" and takes == "operations":
        return []
    if takes == "operations":  # a scalar at run time is one of rank 0 there
        found = [f for f in found if f not in ("constant", "scalar", "chain", "upcast", "unaligned")]
    return found


#: At level 1 the forms other than `array` are for these: what hardware computes, a function, and conversions.
_COMMON = ("add", "subtract", "multiply", "divide", "maximum", "negate", "sqrt", "exponential", "tanh", "compare")


def _forms(case: Case, level: int) -> list[str]:
    if case.op == "type":
        return ["array"]
    if case.op == "sort":
        return ["length-8", "length-64", "length-1000"]
    if case.is_rows:
        few = case.op == "cumulative"  # whose cost is the length's square
        return [f for f in LENGTHS if not (few and f == "length-1000")]
    found = ["array"]
    if case.column not in MINIFLOATS:
        return found
    if level == 1 and case.op not in _COMMON and not (case.op == "convert" and "f32" in (*case.operands, case.result)):
        return found
    if case.op == "compare" and (level == 1 and case.name != "compare_LT"):
        return found
    found.append("constant")
    if len(case.operands) == 2:
        found += ["scalar", "broadcast"]
    is_rounded = case.result in MINIFLOATS and case.result != "f8E8M0FNU"
    if is_rounded and case.op != "select":
        found.append("upcast")
        if len(case.operands) <= 2 and case.operands[:1] == (case.result,) and not case.is_near:
            found.append("chain")  # of what may be inaccurate there is no one right difference
    return [*found, *SIZES]


# -- choosing ----------------------------------------------------------------------------------------------------------


def chosen(found: Iterable[Case], ops: Sequence[str] = (), formats: Sequence[str] = (), case: str = "") -> list[Case]:
    """The cases that patterns of op names, formats and signatures leave."""

    def fits(c: Case) -> bool:
        names = (c.op, c.name)
        return (
            (not ops or any(fnmatch.fnmatchcase(n, p) for n in names for p in ops))
            and (not formats or any(fnmatch.fnmatchcase(t, p) for t in (*c.operands, c.result) for p in formats))
            and (not case or fnmatch.fnmatchcase(c.signature, case))
        )

    return [c for c in found if fits(c)]


__all__ = ["FORMS", "FUNCTIONS", "LENGTHS", "SIZES", "Case", "cases", "chosen", "forms"]
