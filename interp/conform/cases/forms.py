"""The forms of a case: how its operands are passed to a backend, and the faults each form finds."""

from __future__ import annotations

from collections.abc import Sequence

from ...oracle.formats import CONVERTED, FORMATS, MINIFLOATS
from .block_list import BLOCK_FORMS, block_forms
from .case import WIDE, Case
from .layouts import LAYOUTS

_SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127, 128, 129, 1000)
_LENGTHS = (1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127, 128, 129, 1000, 4096)
#: The lengths of rows at level 1: sums have many models, which take time.
_FEW_LENGTHS = tuple(f"length-{n}" for n in (1, 3, 8, 17, 64, 1000))

#: How operands are passed to a backend in each form.
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


def forms(case: Case, level: int, takes: str = "programs") -> Sequence[str]:
    """The forms of a case at a level, for a backend that takes programs or operations."""
    if case.is_blocks:
        return block_forms(case.op, dict(case.attributes).get("scale", ""), takes)
    names = _forms(case, level)
    if case.op == "type" and takes == "operations":
        return []
    if takes == "operations":  # there, a scalar at run time has rank 0
        without = ("constant", "scalar", "chain", "upcast", *(("rank-3",) if case.is_rows else ()))
        names = [f for f in names if f not in without]
    return names


#: Cases with forms beside `array` and `constant` at level 1: common ops in hardware, and a function.
_COMMON = ("add", "subtract", "multiply", "divide", "maximum", "negate", "sqrt", "exponential", "tanh")


def _forms(case: Case, level: int) -> list[str]:
    if case.op == "type":
        return ["array"]
    if case.is_rows:
        return _of_rows(case, level)
    if case.column not in (*MINIFLOATS, WIDE) or not set(CONVERTED).isdisjoint(case.types):
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
            names.append("chain")  # an inaccurate result has no single right difference
    return [*names, *SIZES, *LAYOUTS]


def is_common(case: Case) -> bool:
    """Whether the case has all its forms at level 1. For conversions: from and to f32, and between wide floats."""
    if case.op == "convert":
        types = (*case.operands, case.result)
        return "f32" in types and all(t in FORMATS for t in types)
    return case.op in _COMMON


#: At level 1 results of these types, from other operands, have only a few lengths.
_SECONDARY, _SECONDARY_LENGTHS = ("f16", "bf16"), ("length-17", "length-1000")
#: The longest rows are only for products.
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
    elif case.op == "cumulative":  # its cost is the square of the length
        names = [f for f in LENGTHS if LENGTHS[f] < 1000]
    else:
        names = list(LENGTHS)
    names = [f for f in names if f not in ("reversed", _LONGEST)]
    if level == 1:
        names = [f for f in names if not f.startswith("length") or f in _FEW_LENGTHS]
    return names
