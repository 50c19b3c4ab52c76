"""The forms of a case: how its operands come into a program, in arrays of which sizes and memory layouts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from ...backends.programs import Builder, tensor
from ...oracle.formats import CONVERTED, FORMATS, MINIFLOATS
from .case import OWN, WIDE, Case

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
    "partial": "blocks of which the last one is not full",
    "square": "as many rows as columns, so that exchanged dimensions are no other shape",
    "ends": "the largest and the smallest numbers and scales",
    "special": "blocks with NaN, with infinities, of zeros, of subnormal numbers; scales that are NaN",
    **{f"blocks-{n}": f"products of {n} block{'s' * (n > 1)}" for n in (1, 3, 5)},
    "test": "a program with checks",
}
SIZES = {**{f"size-{n}": n for n in _SIZES}, "unaligned": 1000}
OF_BLOCKS = ("array", "constant", "partial", "square", "ends", "special")
OF_BLOCK_PRODUCTS = ("array", "constant", "partial", "blocks-1", "blocks-3", "blocks-5", "ends", "special")
LENGTHS = {**{f"length-{n}": n for n in _LENGTHS}, "constant": 64, "transposed": 17, "reversed": 17, "rank-3": 17}


def forms(case: Case, level: int, takes: str = "programs") -> Sequence[str]:
    """The forms of a case at a level, for a backend that takes programs or operations."""
    if ("scale", OWN) in case.attributes and takes == "programs":
        return []  # a program names the rule for scales, which a backend therefore cannot choose
    names = _forms(case, level)
    if takes != "operations":
        return names
    # There, a scalar at run time has rank 0.
    without = ("constant", "scalar", "chain", "upcast", *(("rank-3",) if case.is_rows else ()))
    return [f for f in names if f not in without and case.op != "type"]


#: Cases with forms beside `array` and `constant` at level 1: common ops in hardware, and a function.
_COMMON = ("add", "subtract", "multiply", "divide", "maximum", "negate", "sqrt", "exponential", "tanh")


def _forms(case: Case, level: int) -> list[str]:
    if case.op == "type":
        return ["array"]
    if case.op == "scaled_dot":
        return list(OF_BLOCK_PRODUCTS)
    if case.is_blocks:
        return [f for f in OF_BLOCKS if f != "ends" or case.op == "quantize"]  # `array` has all scales to dequantize
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


#: Rows of one element more than a vector of 16, and a number of rows that no power of two divides.
_ROWS, _COLUMNS = 9, 17


@dataclasses.dataclass(frozen=True)
class Layout:
    """The storage of an operand of some shape, and the view of it."""

    shape: tuple[int, ...]
    #: From the operand's codes to the stored array.
    store: Callable[[np.ndarray], np.ndarray] = lambda x: x
    #: From the stored array to the operand, as a view.
    view: Callable[[np.ndarray], np.ndarray] = lambda x: x
    #: The op that makes the operand, with a placeholder for the stored array.
    op: str = ""

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_of_one(self) -> bool:
        """Whether one operand at a time is stored in this layout."""
        return bool(self.op)


def _take_strided(x: np.ndarray) -> np.ndarray:
    """Every second row from the second on, and every second column from the third, of a larger stored array."""
    larger = np.resize(x[::-1, ::-1], (2 * _ROWS + 2, 2 * _COLUMNS + 3))
    larger[1 : 2 * _ROWS : 2, 2 : 2 * _COLUMNS + 1 : 2] = x
    return larger


_MATRIX = (_ROWS, _COLUMNS)
LAYOUTS: dict[str, Layout] = {
    "rank-0": Layout(()),
    "rank-2": Layout(_MATRIX),
    "rank-3": Layout((3, 5, _COLUMNS)),
    "transposed": Layout(_MATRIX, lambda x: x.T, lambda x: x.T, "transpose {}, dims = [1, 0]"),
    "reversed": Layout(_MATRIX, lambda x: x[::-1, ::-1], lambda x: x[::-1, ::-1], "reverse {}, dims = [0, 1]"),
    "sliced": Layout(_MATRIX, _take_strided, lambda x: x[1 : 2 * _ROWS : 2, 2 : 2 * _COLUMNS + 1 : 2],
                     f"slice {{}} [1:{2 * _ROWS}:2, 2:{2 * _COLUMNS + 1}:2]"),
    "rows": Layout(_MATRIX, lambda x: x[0], lambda x: np.broadcast_to(x, _MATRIX), "broadcast_in_dim {}, dims = [1]"),
    "columns": Layout(_MATRIX, lambda x: x[:, 0], lambda x: np.broadcast_to(x[:, None], _MATRIX),
                      "broadcast_in_dim {}, dims = [0]"),
}  # fmt: skip


def stored_array(form: str, codes: np.ndarray) -> np.ndarray:
    """The array stored for an operand, contiguous."""
    layout = LAYOUTS[form]
    return np.array(layout.store(codes.reshape(layout.shape)), order="C")


def arrange(form: str, codes: np.ndarray) -> np.ndarray:
    """The codes of an operand in a layout, in the order of the results; a broadcast repeats codes."""
    layout = LAYOUTS[form]
    return np.array(layout.view(stored_array(form, np.resize(codes, layout.size))), order="C").reshape(-1)


def view(form: str, codes: np.ndarray) -> np.ndarray:
    """An operand with the strides of its layout."""
    return LAYOUTS[form].view(stored_array(form, codes))


def emit(builder: Builder, form: str, codes: np.ndarray, element: str) -> str:
    """Adds an operand to a program; returns the name of its value."""
    layout, kept = LAYOUTS[form], stored_array(form, codes)
    value = builder.input(kept, element)
    if not layout.op:
        return value
    takes, gives = tensor(kept.shape, element), tensor(layout.shape, element)
    return builder.op(f"stablehlo.{layout.op.format(value)} : ({takes}) -> {gives}")
