"""What is known of the peers: what they cannot run, how accurate they are, and where they differ from us, and why.

A difference is held to as narrow a rule as can be written: most say what the peer computes instead, and only a result
that is just that is explained. Measured on jaxlib 0.10.2; a peer that is mended makes its rows idle, not wrong.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np

from ..dialects import is_registered
from . import explain
from .compare import Case
from .program import Step, codes

Applies = Callable[[Step], bool]


@dataclasses.dataclass(frozen=True)
class Lack:
    """Steps that a peer is not asked to run."""

    identifier: str
    peer: str
    why: str
    applies: Applies


@dataclasses.dataclass(frozen=True)
class Failing:
    """A failure of a peer on a step by itself, by what it says."""

    identifier: str
    peer: str
    why: str
    applies: Applies
    pattern: str


@dataclasses.dataclass(frozen=True)
class Known:
    """A difference that is no fault of ours."""

    identifier: str
    peers: str
    why: str
    applies: Applies
    explains: Callable[[Case], np.ndarray]  #: for each element, whether this is why it differs


def _named(*names: str) -> Applies:
    return lambda step: step.short in names


def _of(*names: str) -> Applies:
    """Steps with one of these element types."""
    return lambda step: any(t.name in names for t in step.elements)


def _giving(*names: str) -> Applies:
    """Steps with results of these element types only."""
    return lambda step: all(r.type.element.name in names for r in step.results)


def _always(_: Step) -> bool:
    return True


def _both(*tests: Applies) -> Applies:
    return lambda step: all(t(step) for t in tests)


def _is_inexact(step: Step) -> bool:
    return any(r.type.element.is_float or r.type.element.is_complex for r in step.results)


def _is_integral(step: Step) -> bool:
    return all(t.is_integer for t in step.elements)


def _totally_ordered(step: Step) -> bool:
    return any("TOTALORDER" in text for text in (step.attributes, *step.regions, *step.functions))


_DYNAMIC = _named("dynamic_reshape", "dynamic_broadcast_in_dim", "dynamic_iota", "dynamic_pad", "real_dynamic_slice")
_SPEC_ONLY = _named(
    "batch_norm_training", "batch_norm_inference", "batch_norm_grad", "cholesky", "triangular_solve", "fft",
    "rng_bit_generator", "torch_index_select", "real_dynamic_slice",
)  # fmt: skip
_BATCH_NORM = _named("batch_norm_training", "batch_norm_inference", "batch_norm_grad")
_SMALL = _giving("f4E2M1FN", "f6E2M3FN", "f6E3M2FN")
_COMPLEX = _of("complex<f32>", "complex<f64>")
_SUB_BYTE = _of("i2", "i4", "ui2", "ui4", "f4E2M1FN")


def _is_narrow(step: Step) -> bool:
    return any(t.bits < 32 for t in step.elements)


def _is_chlo(step: Step) -> bool:
    return step.op.startswith("chlo.")


def _is_unknown(step: Step) -> bool:
    return not is_registered(step.op)


LACKS: tuple[Lack, ...] = (
    Lack(
        "no-6-bit-floats", "xla", "has no 6-bit floats", lambda s: any(t.is_float and t.bits == 6 for t in s.elements)
    ),
    Lack("no-shapes-as-values", "xla", "takes no shapes that are values", _DYNAMIC),
    Lack("folds-in-own-order", "xla", "folds in an order of its own", lambda s: "order" in s.notes),
    Lack(
        "normalizes-in-f32",
        "xla",
        "normalizes batches of types under 32 bits in f32 throughout",
        _both(_BATCH_NORM, _is_narrow),
    ),
    Lack("no-such-op-aborts", "reference", "has no such op (it aborts)", _SPEC_ONLY),
    *(
        Lack("computes-CHLO-functions-formulas", peer, "computes CHLO's functions by formulas of its own", _is_chlo)
        for peer in ("xla", "reference")
    ),
    *(Lack("no-such-op", peer, "has no such op", _is_unknown) for peer in ("xla", "reference")),
)

FAILINGS: tuple[Failing, ...] = (
    Failing(
        "dies-integer-division-zero",
        "reference",
        "dies on an integer division by zero, which the host traps",
        lambda s: any(t.is_integer for t in s.elements),
        r"SIGFPE",
    ),
    Failing(
        "dies-products-nothing-sum",
        "reference",
        "dies on products with nothing to sum, and on convolutions with some paddings",
        _named("convolution", "dot_general"),
        r"Incompatible index and shape",
    ),
    Failing(
        "dynamic-slice-of-a-scalar-printed",
        "reference",
        "is given a dynamic_slice of a scalar as MLIR prints it, which MLIR does not parse",
        _named("dynamic_slice"),
        r"expected 'sizes'",
    ),
    Failing(
        "no-dot-below-a-byte",
        "xla",
        "has no dot of types below a byte",
        _both(_named("dot_general", "convolution"), _SUB_BYTE),
        r"",
    ),
    Failing(
        "asserts-select-scatter",
        "xla",
        "asserts on some select_and_scatter",
        _named("select_and_scatter"),
        r"param_instructions_",
    ),
    Failing(
        "asserts-reduce-window",
        "xla",
        "asserts on some reduce_window",
        _named("reduce_window"),
        r"algebraic_simplifier",
    ),
    Failing(
        "mishandles-scatter-one-window",
        "xla",
        "mishandles a scatter of one window",
        _named("scatter"),
        r"hlo verifier|RET_CHECK|PjRtStreamExecutor",
    ),
    Failing(
        "loses-track-types-below",
        "xla",
        "loses track of the types below a byte in sort",
        _both(_named("sort"), _SUB_BYTE),
        r"same shape",
    ),
    Failing(
        "no-complex-cbrt",
        "xla",
        "has no cube root of complex numbers",
        _both(_named("cbrt"), _COMPLEX),
        r"to be floating",
    ),
    Failing(
        "asserts-bitcasts-between-complex",
        "xla",
        "asserts on bitcasts between complex types",
        _both(_named("bitcast_convert"), _COMPLEX),
        r"unhandled",
    ),
    Failing(
        "no-joining-of-2-bits",
        "xla",
        "asserts on joining integers of two bits",
        _both(_named("concatenate"), _of("i2", "ui2")),
        r"bit_offset",
    ),
    Failing(
        "writes-beyond-arrays-types",
        "xla",
        "writes beyond arrays of types below a byte",
        _SUB_BYTE,
        r"corrupted|double free|malloc|free\(\)|SIGSEGV|invalid (size|pointer)",
    ),
    Failing(
        "no-complex-maximum",
        "xla",
        "has no maximum of complex numbers",
        _of("complex<f32>", "complex<f64>"),
        r"complex op",
    ),
    Failing(
        "no-complex-bitcast",
        "xla",
        "has no bitcast between complex types",
        _both(_named("bitcast_convert"), _is_inexact),
        r"complex and real",
    ),
)


@dataclasses.dataclass(frozen=True)
class Fused:
    """What differs only where several steps are compiled together."""

    identifier: str
    peer: str
    why: str
    applies: Applies  #: to the step whose result differs


FUSED: tuple[Fused, ...] = (
    Fused(
        "adds-constants-i1-numbers",
        "xla",
        "adds constants of i1 as numbers of one bit",
        lambda s: s.short == "add" and _of("i1")(s),
    ),
    Fused(
        "roundings-left-out",
        "xla",
        "leaves out roundings between steps on f8E8M0FNU, and so flushes 2^-127",
        _of("f8E8M0FNU"),
    ),
)

#: Steps that a peer must be given in a module of their own.
ALONE: dict[str, Applies] = {
    # The C++ interpreter's scatter writes into its operand, which other steps then find changed.
    "reference": _named("scatter"),
    "xla": lambda _: False,
}


def known_failing(peer: str, step: Step, text: str) -> Failing | None:
    """The row of this failure, if it is known."""
    return next((f for f in FAILINGS if f.peer == peer and f.applies(step) and re.search(f.pattern, text)), None)


_ROUNDING = _named("floor", "ceil", "round_nearest_even", "round_nearest_afz")
_FNUZ = _of("f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ", "f8E8M0FNU")

KNOWN: tuple[Known, ...] = (
    Known(
        "subnormals-flushed",
        "xla",
        "flushes subnormal numbers of f32 and f64 to zero",
        _always,
        explain.flushing,
    ),
    Known(
        "subnormals-flushed-between-steps",
        "xla",
        "flushes subnormal numbers between the steps of a function",
        _is_inexact,
        explain.flushing_in_part,
    ),
    Known(
        "initial-values-left-out",
        "xla",
        "takes initial values to be neutral, and leaves them out",
        _both(_named("reduce", "reduce_window")),
        explain.no_neutral,
    ),
    Known(
        "complex-nan-has-no-order",
        "xla reference",
        "complex numbers with a NaN have no order",
        _COMPLEX,
        explain.unordered,
    ),
    Known(
        "not-accurate",
        "xla reference",
        "is not accurate, and mpmath sides with us",
        _is_inexact,
        explain.decided,
    ),
    Known(
        "formulas-complex-functions-part",
        "xla reference",
        "formulas of complex functions part ways for infinite parts",
        _COMPLEX,
        explain.infinite_complex,
    ),
    Known(
        "linear-algebra-transforms-normalization",
        "xla reference",
        "linear algebra, transforms and normalization in the type itself",
        lambda s: s.short in ("cholesky", "triangular_solve", "fft") or _BATCH_NORM(s),
        explain.norm,
    ),
    Known(
        "sums-overflow-in-another-order",
        "xla reference",
        "sums overflow in another order",
        lambda s: "sums" in s.notes,
        explain.overflowing_sums,
    ),
    Known(
        "open-results-of-f4-and-f6",
        "xla reference",
        "infinite and invalid results of f4 and f6 are left open",
        _SMALL,
        explain.overflowing,
    ),
    Known(
        "loses-high-bits-exponent",
        "xla",
        "loses high bits of the exponent in integer powers",
        _both(_named("power"), _is_integral),
        explain.exact_power,
    ),
    Known(
        "logistic-in-steps",
        "reference",
        "takes logistic in steps of the type",
        _named("logistic"),
        explain.by_steps,
    ),
    Known(
        "popcnt-of-extended-signs",
        "xla",
        "counts the bits of extended signs",
        _both(_named("popcnt"), _of("i2", "i4")),
        explain.popcnt_of_bytes,
    ),
    Known(
        "largest-f4-as-infinity",
        "xla",
        "takes the largest f4 for an infinity",
        _both(_named("convert"), _of("f4E2M1FN")),
        explain.cast_of_largest,
    ),
    Known(
        "sorts-integers-two-bits",
        "xla",
        "sorts integers of two bits wrongly",
        _both(_named("sort"), _of("i2", "ui2")),
        explain.everything,
    ),
    Known(
        "puts-NaN-FNUZ-formats",
        "xla",
        "puts the NaN of FNUZ formats elsewhere in the total order",
        _both(_FNUZ, _totally_ordered),
        explain.fnuz_nan_order,
    ),
    Known(
        "complex-powers-f64-exact",
        "xla reference",
        "complex powers in f64 are as exact as their exponents",
        _both(_named("power"), _of("complex<f64>")),
        explain.as_exact_as_exponents,
    ),
    Known(
        "takes-roots-logarithms-from",
        "xla reference",
        "takes roots and logarithms from the wrong side of the cut",
        _both(_named("sqrt", "rsqrt", "cbrt", "log", "log_plus_one"), _COMPLEX),
        explain.from_the_wrong_side,
    ),
    Known(
        "keeps-nan",
        "xla",
        "keeps NaN where no mantissa bit is left for it",
        _named("reduce_precision"),
        explain.nan_without_bits,
    ),
    Known(
        "bounds-exponents-all-formats",
        "xla",
        "bounds the exponents of all formats as of IEEE's",
        _named("reduce_precision"),
        explain.out_of_ieee_range,
    ),
    Known(
        "smallest-of-f8E8M0FNU-flushed",
        "xla",
        "flushes 2^-127 of f8E8M0FNU",
        _both(_named("convert"), _of("f8E8M0FNU")),
        lambda case: np.asarray(codes(case.inputs[0]) == 0),
    ),
    Known(
        "orders-complex-numbers-real",
        "xla",
        "orders complex numbers by their real parts alone",
        _both(_named("minimum", "maximum", "clamp"), _COMPLEX),
        explain.real_parts_alone,
    ),
    Known(
        "empty-index-vectors", "xla", "does not know index vectors of no elements", _named("scatter"), explain.unindexed
    ),
    Known(
        "scatters-into-array-reads",
        "reference",
        "scatters into the array that it reads the updates from",
        _named("scatter"),
        explain.onto_itself,
    ),
    Known(
        "reduces-negative-numbers-FNUZ",
        "xla",
        "reduces negative numbers of FNUZ formats to -0",
        _both(_named("reduce_precision"), _FNUZ),
        explain.minus_zero,
    ),
    Known(
        "zeros-f8E8M0FNU-bits",
        "xla",
        "has zeros of f8E8M0FNU by their bits",
        _both(_named("iota"), _of("f8E8M0FNU")),
        explain.zero_of_e8m0,
    ),
    Known(
        "reduces-precision-subnormal-numbers",
        "xla",
        "reduces the precision of subnormal numbers in a wider type",
        _named("reduce_precision"),
        explain.of_subnormals,
    ),
    Known(
        "ties-mantissa-bits-exponent",
        "xla",
        "ties to no mantissa bits by the exponent codes of IEEE formats",
        _both(_named("reduce_precision"), _FNUZ),
        explain.ties_by_ieee_codes,
    ),
    Known(
        "multiplies-other-batch-groups",
        "xla",
        "multiplies other batch groups by zero",
        _named("convolution"),
        explain.other_groups_by_zero,
    ),
    Known(
        "selects-another-one-equal",
        "xla",
        "selects another one of equal elements",
        _named("select_and_scatter"),
        explain.selected_in_another_order,
    ),
    Known(
        "whole-window-left-out",
        "xla",
        "leaves out a whole update window of which a part is out of bounds",
        lambda s: "windows" in s.notes,
        explain.everything,
    ),
    Known(
        "reads-unsigned-starts-signed",
        "reference",
        "reads unsigned starts as signed",
        _named("dynamic_slice", "dynamic_update_slice", "gather", "scatter"),
        explain.unsigned_starts,
    ),
    Known(
        "initial-value-twice",
        "reference",
        "folds the initial value in twice",
        _named("select_and_scatter"),
        explain.scattered_twice,
    ),
    Known(
        "total-order-ignored",
        "reference",
        "does not know TOTALORDER",
        _totally_ordered,
        explain.ignores_total_order,
    ),
    Known(
        "convolves-operands-type",
        "reference",
        "convolves in the operands' type",
        _named("convolution"),
        explain.in_operand_type,
    ),
    Known(
        "f8E8M0FNU-not-handled",
        "reference",
        "f8E8M0FNU without sign and zero is not handled",
        _of("f8E8M0FNU"),
        explain.e8m0,
    ),
    Known(
        "integral-by-addition",
        "reference",
        "rounds to integers by adding 2^(p-1), which these formats do not hold",
        _both(_ROUNDING, _of("f6E2M3FN", "f8E3M4")),
        explain.everything,
    ),
    Known(
        "reduces-precision-bit-patterns",
        "reference",
        "reduces precision by bit patterns of IEEE formats only",
        _both(
            _named("reduce_precision"),
            lambda s: any(t.is_float and not t.format.has_infinity for t in s.elements),
        ),
        explain.everything,
    ),
)
