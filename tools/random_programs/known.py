"""What is known of the peers: what they cannot run, how accurate they are, and where they differ from us, and why.

A difference is held to as narrow a rule as can be written: most say what the peer computes instead, and only a result
that is just that is explained. Measured on jaxlib 0.10.2; a peer that is mended makes its rows idle, not wrong.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np

from .arbiter import sides_with_us
from .compare import Case, absolute, close, epsilon, flushed, has_subnormal, is_nan, same, wide
from .program import Step, codes

Applies = Callable[[Step], bool]


@dataclasses.dataclass(frozen=True)
class Lack:
    """Steps that a peer is not asked to run."""

    peer: str
    why: str
    applies: Applies


@dataclasses.dataclass(frozen=True)
class Failing:
    """A failure of a peer on a step by itself, by what it says."""

    peer: str
    why: str
    applies: Applies
    pattern: str


@dataclasses.dataclass(frozen=True)
class Known:
    """A difference that is no fault of ours."""

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


LACKS: tuple[Lack, ...] = (
    Lack("xla", "has no 6-bit floats", lambda s: any(t.is_float and t.bits == 6 for t in s.elements)),
    Lack("xla", "takes no shapes that are values", _DYNAMIC),
    Lack("xla", "folds in an order of its own", lambda s: "order" in s.notes),
    Lack("xla", "normalizes batches of types under 32 bits in f32 throughout", _both(_BATCH_NORM, _is_narrow)),
    Lack("reference", "has no such op (it aborts)", _SPEC_ONLY),
)

FAILINGS: tuple[Failing, ...] = (
    Failing(
        "reference",
        "dies on an integer division by zero, which the host traps",
        lambda s: any(t.is_integer for t in s.elements),
        r"signal 8",
    ),
    Failing(
        "reference",
        "dies on products with nothing to sum, and on convolutions with some paddings",
        _named("convolution", "dot_general"),
        r"Incompatible index and shape",
    ),
    Failing("xla", "has no dot of types below a byte", _both(_named("dot_general", "convolution"), _SUB_BYTE), r""),
    Failing(
        "xla",
        "asserts on some select_and_scatter",
        _named("select_and_scatter"),
        r"param_instructions_",
    ),
    Failing(
        "xla", "mishandles a scatter of one window", _named("scatter"), r"hlo verifier|RET_CHECK|PjRtStreamExecutor"
    ),
    Failing("xla", "loses track of the types below a byte in sort", _both(_named("sort"), _SUB_BYTE), r"same shape"),
    Failing("xla", "has no cube root of complex numbers", _both(_named("cbrt"), _COMPLEX), r"to be floating"),
    Failing(
        "xla", "asserts on bitcasts between complex types", _both(_named("bitcast_convert"), _COMPLEX), r"unhandled"
    ),
    Failing(
        "xla", "asserts on joining integers of two bits", _both(_named("concatenate"), _of("i2", "ui2")), r"bit_offset"
    ),
    Failing(
        "xla",
        "writes beyond arrays of types below a byte",
        _SUB_BYTE,
        r"corrupted|double free|malloc|free\(\)|signal 11|invalid (size|pointer)",
    ),
    Failing("xla", "has no maximum of complex numbers", _of("complex<f32>", "complex<f64>"), r"complex op"),
    Failing(
        "xla",
        "has no bitcast between complex types",
        _both(_named("bitcast_convert"), _is_inexact),
        r"complex and real",
    ),
)

#: Steps that a peer must be given in a module of their own.
ALONE: dict[str, Applies] = {
    # The C++ interpreter's scatter writes into its operand, which other steps then find changed.
    "reference": _named("scatter"),
    "xla": lambda _: False,
}


def known_failing(peer: str, step: Step, text: str) -> Failing | None:
    """The row that tells of this failure."""
    return next((f for f in FAILINGS if f.peer == peer and f.applies(step) and re.search(f.pattern, text)), None)


# -- what explains a difference ----------------------------------------------------------------------------------------


def _close(case: Case) -> np.ndarray:
    return close(case, case.ours)


def _flushing(case: Case) -> np.ndarray:
    """The peer takes subnormal numbers of f32 and f64 for zero, and gives zero for them."""
    found = np.zeros(case.ours.shape, bool)
    for candidate in (case.ours, case.rerun(flushed)):
        for result in (candidate, flushed(candidate)):
            found |= same(result, case.theirs) | close(case, result)
    return found


def _flushing_in_part(case: Case) -> np.ndarray:
    """In functions made of several steps some of them flush."""
    of_inputs = [has_subnormal(x) for x in case.inputs if x.dtype.kind not in "biu"]
    found = has_subnormal(case.ours)
    for x in of_inputs:
        found = found | (x if x.shape == found.shape else x.any())
    return found


def _unordered(case: Case) -> np.ndarray:
    """A complex NaN has no place in an order."""
    found = is_nan(case.ours) | is_nan(case.theirs)
    if case.step.short in ("reduce", "reduce_window", "scatter", "sort", "map", "while", "case", "if"):
        found |= any(is_nan(x).any() for x in case.inputs)
    return found


def _no_neutral(case: Case) -> np.ndarray:
    """XLA takes the initial value to change nothing, and leaves it out where a window has one element or padding."""
    x, init = (case.inputs[case.step.inputs.index(v)] for v in case.step.operands[:2])
    single = dataclasses.replace(
        case.step, op="stablehlo.reduce", attributes="dimensions = array<i64>", results=(case.step.operands[0],)
    )
    plain = case.again([x, init] if len(case.inputs) == 2 else [x], single)[0]
    is_neutral = same(plain, x).all()
    if is_neutral:
        return np.zeros(case.ours.shape, bool)
    if case.step.short == "reduce" and x.size == case.ours.size:
        return same(case.theirs, x.reshape(case.ours.shape))
    return np.full(case.ours.shape, case.step.short == "reduce_window")


def _scattered_twice(case: Case) -> np.ndarray:
    """The C++ interpreter starts from the initial value and folds it in once more for each source."""
    init = case.inputs[case.step.inputs.index(case.step.operands[2])]
    if not case.element.is_integer:
        return np.asarray((case.theirs.astype(np.float64) != case.ours.astype(np.float64)) & (init != 0))
    mine, yours, start = (np.asarray(x.astype(np.int64)) for x in (case.ours, case.theirs, init))
    mask = (1 << min(case.element.bits, 63)) - 1
    return np.logical_or.reduce([((mine + k * start - yours) & mask) == 0 for k in range(1, 9)])


def _overflowing(case: Case) -> np.ndarray:
    """Formats without infinity and NaN: what an infinite or invalid result becomes is left open."""
    f = case.element.format
    ends = np.array([c | s for c in (0, f.max_code) for s in (0, f.sign_bit)])
    return np.isin(codes(case.ours), ends) & np.isin(codes(case.theirs), ends)


def _ignores_total_order(case: Case) -> np.ndarray:
    """Only where there are NaN or zeros, which the plain comparison tells differently."""
    x = [i for i in case.inputs if i.dtype.kind not in "biuc" or i.dtype.kind == "f"]
    doubtful = [is_nan(i) | (i == 0) for i in x]
    if case.step.short != "compare":
        return np.full(case.ours.shape, any(d.any() for d in doubtful))
    return np.logical_and.reduce([np.broadcast_to(d, case.ours.shape) for d in doubtful]) | np.logical_or.reduce(
        [np.broadcast_to(is_nan(i), case.ours.shape) for i in x]
    )


def _fnuz_nan_order(case: Case) -> np.ndarray:
    """Whether the only NaN comes first or last in the total order is left open."""
    x = [is_nan(i) for i in case.inputs if i.dtype.kind not in "biu"]
    if case.step.short == "compare":
        return np.logical_or.reduce([np.broadcast_to(n, case.ours.shape) for n in x])
    return np.full(case.ours.shape, any(n.any() for n in x))


def _in_operand_type(case: Case) -> np.ndarray:
    """The C++ interpreter convolves in the operands' type and converts the result."""
    t = case.step.operands[0].type.element
    there = case.theirs.astype(np.float64).astype(np.float32).astype(t.dtype)
    return np.asarray(there.astype(np.float64) == case.theirs.astype(np.float64)) | is_nan(case.theirs)


def _unsigned_starts(case: Case) -> np.ndarray:
    """The C++ interpreter reads unsigned starts as signed ones."""
    wrong = False
    for v, x in zip(case.step.inputs, case.inputs, strict=True):
        t = v.type.element
        if v in case.step.operands[1:] and t.is_integer and x.dtype.kind not in "i" and t.name.startswith("ui"):
            wrong |= bool((x.astype(np.uint64) >> np.uint64(t.bits - 1)).any())
    return np.full(case.ours.shape, wrong)


def _of_subnormals(case: Case) -> np.ndarray:
    """XLA widens the type first, and then a subnormal number has all its mantissa bits."""
    f = case.element.format
    return (codes(case.inputs[0]) & (f.sign_bit - 1 if f.is_signed else 0xFF)) < (1 << f.mantissa_bits) * 2


def _popcnt_of_bytes(case: Case) -> np.ndarray:
    """XLA counts the bits of the byte that the sign is extended to."""
    bits = case.inputs[0].astype(np.int8).view(np.uint8)
    counts = np.bitwise_count(bits).astype(np.int8).astype(case.ours.dtype)
    return same(counts, case.theirs)


def _cast_of_largest(case: Case) -> np.ndarray:
    """XLA takes the largest f4 for an infinity when it converts to an integer."""
    return np.abs(case.inputs[0].astype(np.float32)) == 6


def _everything(case: Case) -> np.ndarray:
    return np.ones(case.ours.shape, bool)


def _infinite_complex(case: Case) -> np.ndarray:
    """Complex functions of infinities, NaN and zeros, and such that overflow: ours is no finite number."""
    found = ~np.isfinite(wide(case.ours))
    for x in case.inputs:
        if x.dtype.kind == "c":
            bad = ~np.isfinite(x) | (x == 0) | (np.abs(wide(x)) > _FAR)
            found = found & (bad if bad.shape == found.shape else bad.any())
    return found


def _exact_power(case: Case) -> np.ndarray:
    """Where Python's own integers give what we give."""
    x, y = (case.inputs[case.step.inputs.index(v)] for v in case.step.operands)
    modulus = 1 << case.element.bits
    exact = [
        pow(int(a), int(b), modulus) == int(c) % modulus if int(b) >= 0 else abs(int(a)) <= 1 or int(c) == 0
        for a, b, c in zip(x.reshape(-1), y.reshape(-1), case.ours.reshape(-1), strict=True)
    ]
    return np.array(exact, bool).reshape(case.ours.shape)


def _by_steps(case: Case) -> np.ndarray:
    """The C++ interpreter gives 0 or NaN where the exponential it divides by is infinite in the type."""
    return ((case.theirs == 0) | is_nan(case.theirs)) & (case.inputs[0] < 0)


def _decided(case: Case) -> np.ndarray:
    return sides_with_us(case, ~same(case.ours, case.theirs))


def _norm(case: Case) -> np.ndarray:
    """Within what rounding does to a whole that is computed together."""
    mine, yours = wide(case.ours), wide(case.theirs)
    finite = np.abs(mine[np.isfinite(mine)])
    scale = max(
        [float(finite.max(initial=0.0)), *(float(np.nanmax(np.abs(wide(x)), initial=0.0)) for x in case.inputs)]
    )
    return np.asarray(np.abs(mine - yours) <= 256 * epsilon(case.element) * scale)


def _overflowing_sums(case: Case) -> np.ndarray:
    """In another order a sum may overflow, or an infinity meet its opposite."""
    return ~np.isfinite(wide(case.rerun(absolute)))


def _e8m0(case: Case) -> np.ndarray:
    """Of numbers that the format does not have, the C++ interpreter gives the magnitude or the smallest."""
    return is_nan(case.ours) & ~is_nan(case.theirs)


_FAR = 1e5  #: where arbiter.py does not judge exponentials
_ROUNDING = _named("floor", "ceil", "round_nearest_even", "round_nearest_afz")
_FNUZ = _of("f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ", "f8E8M0FNU")

KNOWN: tuple[Known, ...] = (
    Known("xla reference", "functions and sums are rounded at other steps", _is_inexact, _close),
    Known("xla", "flushes subnormal numbers of f32 and f64 to zero", _always, _flushing),
    Known("xla", "flushes subnormal numbers between the steps of a function", _is_inexact, _flushing_in_part),
    Known(
        "xla",
        "takes initial values to be neutral, and leaves them out",
        _both(_named("reduce", "reduce_window")),
        _no_neutral,
    ),
    Known("xla reference", "complex numbers with a NaN have no order", _COMPLEX, _unordered),
    Known("xla reference", "is not accurate, and mpmath sides with us", _is_inexact, _decided),
    Known("xla reference", "formulas of complex functions part ways for infinite parts", _COMPLEX, _infinite_complex),
    Known(
        "xla reference",
        "linear algebra, transforms and normalization in the type itself",
        lambda s: s.short in ("cholesky", "triangular_solve", "fft") or _BATCH_NORM(s),
        _norm,
    ),
    Known(
        "xla reference",
        "sums overflow in another order",
        lambda s: "sums" in s.notes,
        _overflowing_sums,
    ),
    Known("xla reference", "infinite and invalid results of f4 and f6 are left open", _SMALL, _overflowing),
    Known(
        "xla", "loses high bits of the exponent in integer powers", _both(_named("power"), _is_integral), _exact_power
    ),
    Known("reference", "takes logistic in steps of the type", _named("logistic"), _by_steps),
    Known("xla", "counts the bits of extended signs", _both(_named("popcnt"), _of("i2", "i4")), _popcnt_of_bytes),
    Known("xla", "takes the largest f4 for an infinity", _both(_named("convert"), _of("f4E2M1FN")), _cast_of_largest),
    Known("xla", "sorts integers of two bits wrongly", _both(_named("sort"), _of("i2", "ui2")), _everything),
    Known(
        "xla",
        "puts the NaN of FNUZ formats elsewhere in the total order",
        _both(_FNUZ, _totally_ordered),
        _fnuz_nan_order,
    ),
    Known(
        "xla", "reduces the precision of subnormal numbers in a wider type", _named("reduce_precision"), _of_subnormals
    ),
    Known(
        "xla",
        "leaves out a whole update window of which a part is out of bounds",
        lambda s: "windows" in s.notes,
        _everything,
    ),
    Known(
        "reference",
        "reads unsigned starts as signed",
        _named("dynamic_slice", "dynamic_update_slice", "gather", "scatter"),
        _unsigned_starts,
    ),
    Known("reference", "folds the initial value in twice", _named("select_and_scatter"), _scattered_twice),
    Known("reference", "does not know TOTALORDER", _totally_ordered, _ignores_total_order),
    Known("reference", "convolves in the operands' type", _named("convolution"), _in_operand_type),
    Known("reference", "f8E8M0FNU without sign and zero is not handled", _of("f8E8M0FNU"), _e8m0),
    Known(
        "reference",
        "rounds to integers by adding 2^(p-1), which these formats do not hold",
        _both(_ROUNDING, _of("f6E2M3FN", "f8E3M4")),
        _everything,
    ),
    Known(
        "reference",
        "reduces precision by bit patterns of IEEE formats only",
        _both(
            _named("reduce_precision"),
            lambda s: any(t.is_float and not t.format.has_infinity for t in s.elements),
        ),
        _everything,
    ),
)
