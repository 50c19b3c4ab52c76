"""The table of fault models: faults known from backends, the likeliest first.

Each is a record: an identifier, a sentence, and a function that computes the same wrong results. Tables of causes and
reports refer to a fault by its identifier.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..oracle.case import OpCase
from ..oracle.rounding import AWAY, DOWN, TIES_TO_ODD, TIES_TOWARD_ZERO, TOWARD_ZERO, UP
from . import fault_models as models
from .fault_types import TABLE as MISTAKEN
from .fault_types import limits_in_format, mistaken_formats, round_with, wrap_through
from .record import MANY, Fault

#: Other roundings than to nearest even, by the identifier of the fault, with its sentence.
ROUNDINGS = {
    f"rounded-{words.removeprefix('with ').replace(' ', '-')}": (
        rounding,
        f"results are rounded {words}, and not to nearest even",
    )
    for rounding, words in (
        (TOWARD_ZERO, "toward zero"),
        (AWAY, "with ties away from zero"),
        (TIES_TOWARD_ZERO, "with ties toward zero"),
        (TIES_TO_ODD, "with ties to odd"),
        (UP, "up"),
        (DOWN, "down"),
    )
}
_TO_INTEGERS = (
    ("to-even", np.rint, "to the nearest integer, ties to even"),
    ("ties-away", lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "to the nearest integer, ties away from zero"),
    ("down", np.floor, "down"),
    ("up", np.ceil, "up"),
    ("toward-zero", np.trunc, "toward zero"),
)


def _biases() -> Iterator[Fault]:
    for by, size in ((-1, "smaller"), (1, "larger")):
        for reads, writes, when in ((True, True, ""), (True, False, "read"), (False, True, "written")):
            where = f" where it is {when}" if when else ""
            sentence = f"the format's exponent bias is taken for one {size} than it is{where}: a factor of two"
            name = f"bias-{size}" + (f"-when-{when}" if when else "")
            yield Fault(name, sentence, models.shift_bias(by, reads, writes), MANY)


def _reciprocals() -> Iterator[Fault]:
    for wide in ("", "f16", "bf16", "f32"):
        sentence = f"multiplied by the reciprocal, rounded to {wide or '{result}'}, and not divided"
        named = f"reciprocal-{wide or 'result'}"
        yield Fault(named, sentence, models.reciprocal(wide, False))
        yield Fault(f"{named}-product", sentence, models.reciprocal(wide, True))


def _without_sign(identifier: str, compute: models.Compute, words: str) -> Fault:
    sentence = f"the sign is dropped, as the format has none, and the rest {words}"
    return Fault(f"sign-dropped-and-{identifier}", sentence, models.of_magnitude(compute))


#: Faults of any elementwise op. Mistaken formats come between these and the last.
_FIRST: tuple[Fault, ...] = (
    Fault("subnormal-operands-flushed", "operands that are subnormal are flushed to zero",
          models.flush(models.flush_read, False)),
    Fault("subnormal-results-flushed", "results that are subnormal are flushed to zero",
          models.flush(models.decode, True)),
    Fault("subnormals-flushed", "subnormal operands and results are flushed to zero",
          models.flush(models.flush_read, True)),
    Fault("subnormals-flushed-to-plus-zero", "subnormal operands and results are flushed to +0",
          models.flush(models.flush_read_unsigned, True)),
    Fault("f32-subnormals-flushed", "numbers that are subnormal in f32 are flushed to zero", models.flush_in_f32),
    Fault("between-smallest-up", "numbers between the two smallest are rounded up", models.smallest_up),
    Fault("smallest-normal-lost", "subnormal results that round up to the smallest normal number become zero",
          models.lose_smallest_normal),
    *_biases(),
    Fault("fnuz-nan-as-minus-zero", "0x80, which is NaN, is read as -0", models.fnuz_nan_as_zero),
    Fault("nan-as-infinity", "NaN is read as infinity", models.with_reading(models.nan_as(np.inf))),
    Fault("negative-nan-as-number", "NaN with its sign set is read as a number, the one beyond the largest",
          models.with_reading(models.beyond_the_largest)),
    Fault("nan-as-zero", "NaN is read as zero", models.with_reading(models.nan_as(0.0))),
    *(Fault(f"rounded-twice-{wide}", f"the result is rounded twice, to {wide} first", models.with_rounding_twice(wide))
      for wide in ("f32", "f16", "bf16", "f64")),
    *_reciprocals(),
    *(Fault(name, words, models.with_rounding(rounding)) for name, (rounding, words) in ROUNDINGS.items()),
    Fault("saturated", "results beyond the largest number become the largest number", models.saturate(-1, 1)),
    Fault("saturated-below", "results below the lowest number become the lowest number", models.saturate(-1)),
    Fault("saturated-above", "results above the largest number become the largest number", models.saturate(1)),
    Fault("zeros-lose-sign", "the sign of results that are zero is lost", models.unsigned_zeros),
    Fault("total-order-ignored",
          "TOTALORDER is ignored: compared as FLOAT, by which NaN is unordered and -0 equals +0", models.as_float),
    Fault("sign-in-exponent", "the sign of the result is put into the exponent's first bit", models.sign_in_exponent),
    Fault("sign-dropped", "the sign is dropped, and the format has none", models.without_sign),
    _without_sign("rounded-toward-zero", models.with_rounding(TOWARD_ZERO), "is rounded toward zero"),
    _without_sign("rounded-twice-f32", models.with_rounding_through("f32"), "is rounded twice, to f32 first"),
    _without_sign("between-smallest-up", models.smallest_up, "is rounded up between the two smallest numbers"),
    Fault("integer-limits-in-format",
          "the limits of the integer type are rounded to the format before the number is compared with them",
          limits_in_format),
    *(Fault(f"integers-{name}", f"rounded {words}, and not {{to_integers}}", round_with(to_integer))
      for name, to_integer, words in _TO_INTEGERS),
    Fault("by-32-bit-integer", "converted through a 32-bit integer", wrap_through(32)),
    Fault("logistic-in-steps", "1 / (1 + exp(-x)) with each step rounded to the format", models.logistic("")),
    Fault("logistic-in-steps-f16", "1 / (1 + exp(-x)) with each step rounded to f16", models.logistic("f16")),
    Fault("integral-by-addition",
          "rounded by adding 2^(mantissa bits) and subtracting it, which the format cannot hold",
          models.integral_by_addition),
)  # fmt: skip
_LAST: tuple[Fault, ...] = (
    Fault("first-operand", "the first operand is the result", models.operand(0)),
    Fault("second-operand", "the second operand is the result", models.operand(1)),
    Fault("operands-swapped", "the operands are swapped", models.swap_operands),
)

#: Every fault by its identifier.
FAULTS: dict[str, Fault] = {f.identifier: f for f in (*_FIRST, *MISTAKEN.values(), *_LAST)}


def faults_of(case: OpCase) -> Iterator[Fault]:
    """The faults that may explain a case, the likeliest first."""
    yield from _FIRST
    yield from mistaken_formats(case)
    yield from _LAST
