"""Sums have a set of right results, not one: of every order, and of every type that is wide enough to add in.

The exact sum is had in f64, and so is the sum of the terms' magnitudes, which bounds what rounding can do: n terms
added in any order in a type of p significant bits are off by at most about n * 2**-p times that, and then rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from ...ops.compare import value_keys
from ...ops.minifloat.cast import cast, codes_of
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType, TensorType, type_of_dtype
from ..program import Operation
from .grades import NEAR, SAME, WRONG, Graded, same
from .terms import terms_of
from .wide import in_f64, sole, with_body

_PRODUCTS = ("dot", "dot_general", "convolution", "einsum", "unary_einsum")
_FOLDS = ("reduce", "reduce_window", "scatter")
_PLAIN, _F64 = Policy(), ELEMENT_TYPES["f64"]
#: Significant bits of a type.
_PRECISION = {name: ELEMENT_TYPES[name].format.precision for name in ("f32", "f64")}
_ADD, _MULTIPLY = "stablehlo.add", "stablehlo.multiply"
#: Of the models those that say how a whole result is had. The others are of compilers that are known; of a few results
#: one of these many gives every one, whatever is wrong.
_ORDERS = (" in order", " pairwise", " in halves")
_CONFORM = {_ADD: "add", _MULTIPLY: "multiply"}

Arrays = Sequence[np.ndarray]


def is_sum(operation: Operation) -> bool:
    """Whether an op adds up, or multiplies, floats or complex numbers in an order that is its own affair."""
    name = operation.name.removeprefix("stablehlo.")
    element = _element(operation)
    if len(operation.results) != 1 or element is None or not (element.is_float or element.is_complex):
        return False
    return name in _PRODUCTS or (name in _FOLDS and _body(operation) in _CONFORM)


def permit(operation: Operation, operands: Arrays, theirs: np.ndarray, found: Graded) -> None:
    """Grade those elements of a sum that are right, or what sums in narrower types, or of narrower operands, give."""
    element = _element(operation)
    sums = _Sums.of(operation, operands, theirs)
    if element is None or sums is None:
        return
    wide = "f64" if element.part.bits == 64 else "f32"
    found.set(sums.within(_PRECISION[wide] - 3 * element.is_complex), SAME)  # complex products are made of four
    if element.is_complex or found.grades.max(initial=SAME) == SAME:
        return
    if element.bits < 32:
        terms = terms_of(operation, operands, np.arange(theirs.size))
        if terms is None:
            told = f"as near as a sum that is rounded to {element} at each step may be, in some order"
            found.set(sums.within(element.format.precision), NEAR, told)
        elif model := _model(operation, terms, theirs.ravel()):
            found.set(found.grades == WRONG, NEAR, f"as if {model}")
    elif element.bits == 32 and not operation.regions and _is_imprecise(operation):
        for name, rounded in _NARROWED.items():
            narrow = _Sums.of(operation, [rounded(x) for x in operands], theirs)
            if narrow is not None:
                told = f"as of operands rounded to {name}, which the default precision permits"
                found.set(narrow.within(_PRECISION["f32"]), NEAR, told)
    found.set(sums.overflows & ~np.isfinite(theirs.astype(np.float64)), NEAR, "it may overflow on the way")


def _model(operation: Operation, terms: np.ndarray, theirs: np.ndarray) -> str:
    """The model of `conform.sums` that gives all these results, empty where none does."""
    from ..conform.sums import Problem, models

    element, result = _element(operation), type_of_dtype(theirs.dtype)
    body = _body(operation)
    assert element is not None
    if not (result.is_float and body in _CONFORM):
        return ""
    if not element.is_minifloat:
        return _step_by_step(terms, body == _ADD, bool(operation.regions), element, theirs)
    problem = Problem(element.name, result.name, _CONFORM[body], terms, is_dot=not operation.regions)
    got = codes_of(theirs, result.format)
    with np.errstate(all="ignore"):
        for name, (codes, _) in models(problem):
            if name.endswith(_ORDERS) and same(codes.astype(got.dtype).view(theirs.dtype), theirs).all():
                return name
    return ""


def _step_by_step(terms: np.ndarray, adds: bool, is_fold: bool, element: ElementType, theirs: np.ndarray) -> str:
    """Whether every step, in order, was rounded to a type of 16 bits, and the products too or not."""
    for products in ("sums", "products and sums"):
        rounded = terms if products == "sums" and not is_fold else terms.astype(np.float32).astype(element.dtype)
        total = rounded[:, 0].astype(np.float32).astype(element.dtype)
        for i in range(1, terms.shape[1]):
            # f32 has bits enough that rounding to it first does no harm.
            step = np.add if adds else np.multiply
            total = step(total.astype(np.float32), rounded[:, i].astype(np.float32)).astype(element.dtype)
        if same(total.astype(theirs.dtype), theirs).all():
            return f"{products} rounded in {element} in order"
    return ""


class _Sums:
    """Exact sums, what bounds the errors of others, and the results to be judged."""

    def __init__(self, theirs: np.ndarray, exact: np.ndarray, sizes: np.ndarray, terms: np.ndarray) -> None:
        """`sizes` are sums of magnitudes, or for products of many the magnitudes; `terms` is how many there are."""
        self._theirs, self._exact, self._sizes, self._terms = theirs, exact, sizes, terms

    @classmethod
    def of(cls, operation: Operation, operands: Arrays, theirs: np.ndarray) -> _Sums | None:
        """None where they cannot be had."""
        exact = in_f64(operation, operands)
        sizes = in_f64(operation, operands, np.abs)
        counted = operation
        if operation.regions:  # ones are to be added up, whatever the body does
            counted = with_body(operation, _ADD)
        terms = in_f64(counted, operands, lambda x: np.ones(x.shape))
        if exact is None or sizes is None or terms is None or exact[0].shape != theirs.shape:
            return None
        return cls(theirs, exact[0], sizes[0], terms[0])

    @property
    def overflows(self) -> np.ndarray:
        """Where a sum in f32 may overflow."""
        return self._sizes > np.finfo(np.float32).max

    def within(self, precision: int) -> np.ndarray:
        """Where the results are no further from the exact ones than sums with so many significant bits can be."""
        error = (self._terms + 1) * 2.0**-precision * self._sizes
        if np.iscomplexobj(self._exact):
            return np.abs(self._theirs - self._exact) <= error
        return between(self._theirs, self._exact - error, self._exact + error)


def between(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Elements that numbers from `low` to `high`, in f64, are rounded to. NaN and infinite bounds have none."""
    element = type_of_dtype(x.dtype)
    known = np.isfinite(low) & np.isfinite(high)
    if element == _F64:
        return known & (low <= x) & (x <= high)
    beyond = element.format.max_code + 1
    places = value_keys(np.asarray(x, order="C"), element).astype(np.int64)
    ends = []
    for bound in (low, high):
        rounded = cast(bound, _F64, element, _PLAIN)
        keys = value_keys(rounded, element).astype(np.int64)
        # In a format without infinity NaN stands for what is beyond the largest number.
        ends.append(np.where(keys > beyond, np.where(bound < 0, -beyond, beyond), keys))
    is_nan = places > beyond
    overflows = (ends[0] == -beyond) | (ends[1] == beyond)
    inside = (ends[0] <= places) & (places <= ends[1])
    return known & np.where(is_nan, overflows & (not element.format.has_infinity), inside)


def _body(operation: Operation) -> str | None:
    """What a fold does with its elements; of products it is that they are added."""
    return sole(operation.regions[0]) if operation.regions else _ADD


def _element(operation: Operation) -> ElementType | None:
    t = operation.operands[0].type if operation.operands else None
    return t.element if isinstance(t, TensorType) else None


def _is_imprecise(operation: Operation) -> bool:
    """Whether a product of f32 may be computed of operands with fewer bits."""
    precision = operation.attributes.get("precision_config") or ()
    return "algorithm" not in operation.attributes and all(p == "DEFAULT" for p in precision)


def _rounded_bits(bits: int, half: int) -> Callable[[np.ndarray], np.ndarray]:
    """f32 with so many bits less, where `half` is what is added before they are cut off."""

    def rounded(x: np.ndarray) -> np.ndarray:
        if x.dtype != np.float32:
            return x
        codes = np.ascontiguousarray(x).view(np.uint32)
        cut = (codes + np.uint32(half)) & np.uint32(~((1 << bits) - 1) & 0xFFFFFFFF)
        return np.where(np.isfinite(x), cut.view(np.float32), x)

    return rounded


#: What operands of f32 are rounded to by matrix units.
_NARROWED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "TF32": _rounded_bits(13, 1 << 12),
    "TF32, towards zero": _rounded_bits(13, 0),
    "bf16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32) if x.dtype == np.float32 else x,
}
