"""Why a peer's result differs: each cause recomputes what it says, and explains only the cases it reproduces.

A cause is a model: it takes a case and the operands' codes, and gives the codes that the peer would have for that
reason, or None where it does not apply. Causes are tried in order; the first that gives the peer's own code is the one.
The sentences of the page stand with the models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from minihlo.ops.engine.cast import cast
from minihlo.ops.minifloat.codec import decode
from minihlo.ops.policy import Policy
from minihlo.ops.registry import ops
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from .cases import Case, code_dtype
from .peers import Codes, results
from .registry import Causes

F16, F32, F64, E8M0 = (ELEMENT_TYPES[n] for n in ("f16", "f32", "f64", "f8E8M0FNU"))

#: Formats without NaN and infinities.
NO_NAN = ("f4E2M1FN", "f6E2M3FN", "f6E3M2FN")

#: Functions that are not rational.
FUNCTIONS = tuple(
    sorted(op.name.removeprefix("stablehlo.") for op in ops().values() if op.is_function and op.accuracy.is_near)
)

Model = Callable[[Case, Sequence[Codes]], "Codes | None"]


CAUSES: Causes[Model] = Causes()
cause = CAUSES.declare


# -- what models are made of ------------------------------------------------------------------------------------------


def is_nan(codes: Codes, t: ElementType) -> np.ndarray:
    return decode(codes, t.format).is_nan if t.is_float else np.zeros(codes.shape, bool)


def value(codes: Codes, t: ElementType) -> np.ndarray:
    """The numbers, in f64; those of i1 and integers too."""
    with np.errstate(all="ignore"):  # a signalling NaN
        return np.ascontiguousarray(codes).view(t.dtype).astype(np.float64)


def codes_of(values: np.ndarray, t: ElementType) -> Codes:
    """The codes that numbers of f64 are rounded to."""
    return convert(np.asarray(values, np.float64).view(np.uint64), F64, t)


def convert(codes: Codes, source: ElementType, target: ElementType) -> Codes:
    """Our own conversion."""
    codes = np.ascontiguousarray(codes)
    with np.errstate(all="ignore"):
        return np.asarray(cast(codes.view(source.dtype), source, target, Policy())).view(code_dtype(target))


def direct(case: Case, operands: Sequence[Codes], op: str | None = None, t: ElementType | None = None) -> Codes:
    """Our own result; of another op, or of another type (that of the operands then)."""
    t = t or case.operand_type
    result = case.result if case.result == "i1" or case.op == "convert" else t.name
    changed = Case(op or case.op, t.name, len(operands), result)
    (found,) = results("direct", [changed], operands)
    assert isinstance(found, np.ndarray)
    return found


def rounded_twice(case: Case, wide: ElementType, operands: Sequence[Codes]) -> Codes:
    """The exact result rounded to a wider type and then to the result's."""
    t = case.operand_type
    if case.op == "convert":
        return convert(convert(operands[0], t, wide), wide, case.result_type)
    found = direct(case, [convert(x, t, wide) for x in operands], t=wide)
    return found if case.result == "i1" else convert(found, wide, case.result_type)


def in_f64(case: Case, operands: Sequence[Codes]) -> np.ndarray:
    """The results as numbers of f64."""
    t = case.operand_type
    wide = [value(x, t).view(np.uint64) for x in operands]
    return value(wide[0] if case.op == "convert" else direct(case, wide, t=F64), F64)


def assign(
    peer: str, case: Case, operands: Sequence[Codes], expected: Codes, got: Codes
) -> Iterator[tuple[str, np.ndarray]]:
    """The causes of a peer's differences, each with the places it explains; "" for those that none does.

    A NaN is as good as another.
    """
    t = case.result_type
    nan = is_nan(got, t)
    left = np.flatnonzero((got != expected) & ~(nan & is_nan(expected, t)))
    for c in CAUSES.values():
        if not left.size:
            return
        if peer in c.peers:
            model = c.model(case, [x[left] for x in operands])
            if model is not None:
                hit = (model == got[left]) | (nan[left] & is_nan(model, t))
                if hit.any():
                    yield c.name, left[hit]
                left = left[~hit]
    if left.size:
        yield "", left
