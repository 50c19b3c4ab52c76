"""The table of fault models: faults known from backends, the likeliest first.

Each is an immutable record: an identifier, a sentence, and a function that computes the same wrong results. Tables
of causes and reports refer to a fault by its identifier.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...oracle.case import OpCase
from ...oracle.rounding import AWAY, DOWN, TIES_TO_ODD, TIES_TOWARD_ZERO, TOWARD_ZERO, UP
from . import formats, integers, models
from .record import MANY, Fault


def _flushing() -> Iterator[Fault]:
    flush = models.flush
    yield Fault(
        "subnormal-operands-flushed",
        "operands that are subnormal are flushed to zero",
        flush(models.flush_read, False),
    )
    yield Fault(
        "subnormal-results-flushed", "results that are subnormal are flushed to zero", flush(models.decode, True)
    )
    yield Fault(
        "subnormals-flushed", "subnormal operands and results are flushed to zero", flush(models.flush_read, True)
    )
    yield Fault(
        "subnormals-flushed-to-plus-zero",
        "subnormal operands and results are flushed to +0",
        flush(models.flush_read_unsigned, True),
    )
    yield Fault("f32-subnormals-flushed", "numbers that are subnormal in f32 are flushed to zero", models.flush_in_f32)
    yield Fault("between-smallest-up", "numbers between the two smallest are rounded up", models.smallest_up)
    yield Fault(
        "smallest-normal-lost",
        "subnormal results that round up to the smallest normal number become zero",
        models.lose_smallest_normal,
    )


def _reading() -> Iterator[Fault]:
    for by, size in ((-1, "smaller"), (1, "larger")):
        for reads, writes, where in (
            (True, True, ""),
            (True, False, " where it is read"),
            (False, True, " where it is written"),
        ):
            yield Fault(
                f"bias-{size}{where.replace(' where it is ', '-when-')}",
                f"the format's exponent bias is taken for one {size} than it is{where}: a factor of two",
                models.shift_bias(by, reads, writes),
                MANY,
            )
    yield Fault("fnuz-nan-as-minus-zero", "0x80, which is NaN, is read as -0", models.fnuz_nan_as_zero)
    yield Fault("nan-as-infinity", "NaN is read as infinity", models.with_reading(models.nan_as(np.inf)))
    yield Fault(
        "negative-nan-as-number",
        "NaN with its sign set is read as a number, the one beyond the largest",
        models.with_reading(models.beyond_the_largest),
    )
    yield Fault("nan-as-zero", "NaN is read as zero", models.with_reading(models.nan_as(0.0)))


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


def _rounding() -> Iterator[Fault]:
    for wide in ("f32", "f16", "bf16", "f64"):
        yield Fault(
            f"rounded-twice-{wide}", f"the result is rounded twice, to {wide} first", models.with_rounding_twice(wide)
        )
    for wide in ("", "f16", "bf16", "f32"):
        sentence = f"multiplied by the reciprocal, rounded to {wide or '{result}'}, and not divided"
        named = f"reciprocal-{wide or 'result'}"
        yield Fault(named, sentence, models.reciprocal(wide, False))
        yield Fault(f"{named}-product", sentence, models.reciprocal(wide, True))
    for identifier, (rounding, sentence) in ROUNDINGS.items():
        yield Fault(identifier, sentence, models.with_rounding(rounding))


SATURATED = "results beyond the largest number become the largest number"


def _ends_and_signs() -> Iterator[Fault]:
    yield Fault("saturated", SATURATED, models.saturate(-1, 1))
    yield Fault("saturated-below", "results below the lowest number become the lowest number", models.saturate(-1))
    yield Fault("saturated-above", "results above the largest number become the largest number", models.saturate(1))
    yield Fault("zeros-lose-sign", "the sign of results that are zero is lost", models.unsigned_zeros)
    yield Fault(
        "total-order-ignored",
        "TOTALORDER is ignored: compared as FLOAT, by which NaN is unordered and -0 equals +0",
        models.as_float,
    )
    yield Fault(
        "sign-in-exponent", "the sign of the result is put into the exponent's first bit", models.sign_in_exponent
    )
    yield Fault("sign-dropped", "the sign is dropped, and the format has none", models.without_sign)
    for identifier, compute, words in (
        ("rounded-toward-zero", models.with_rounding(TOWARD_ZERO), "is rounded toward zero"),
        ("rounded-twice-f32", models.with_rounding_through("f32"), "is rounded twice, to f32 first"),
        ("between-smallest-up", models.smallest_up, "is rounded up between the two smallest numbers"),
    ):
        sentence = f"the sign is dropped, as the format has none, and the rest {words}"
        yield Fault(f"sign-dropped-and-{identifier}", sentence, models.of_magnitude(compute))


def _integers() -> Iterator[Fault]:
    yield Fault(
        "integer-limits-in-format",
        "the limits of the integer type are rounded to the format before the number is compared with them",
        integers.limits_in_format,
    )
    for identifier, to_integer, words in (
        ("to-even", np.rint, "to the nearest integer, ties to even"),
        (
            "ties-away",
            lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
            "to the nearest integer, ties away from zero",
        ),
        ("down", np.floor, "down"),
        ("up", np.ceil, "up"),
        ("toward-zero", np.trunc, "toward zero"),
    ):
        sentence = f"rounded {words}, and not {{to_integers}}"
        yield Fault(f"integers-{identifier}", sentence, integers.round_with(to_integer))
    yield Fault("by-32-bit-integer", "converted through a 32-bit integer", integers.wrap_through(32))


def _steps() -> Iterator[Fault]:
    yield Fault("logistic-in-steps", "1 / (1 + exp(-x)) with each step rounded to the format", models.logistic(""))
    yield Fault("logistic-in-steps-f16", "1 / (1 + exp(-x)) with each step rounded to f16", models.logistic("f16"))
    yield Fault(
        "integral-by-addition",
        "rounded by adding 2^(mantissa bits) and subtracting it, which the format cannot hold",
        models.integral_by_addition,
    )


def _operands() -> Iterator[Fault]:
    yield Fault("first-operand", "the first operand is the result", models.operand(0))
    yield Fault("second-operand", "the second operand is the result", models.operand(1))
    yield Fault("operands-swapped", "the operands are swapped", models.swap_operands)


#: Faults of any elementwise op. Mistaken formats come between these and the last.
_FIRST: tuple[Fault, ...] = (*_flushing(), *_reading(), *_rounding(), *_ends_and_signs(), *_integers(), *_steps())
_LAST: tuple[Fault, ...] = tuple(_operands())

#: Every fault by its identifier.
FAULTS: dict[str, Fault] = {f.identifier: f for f in (*_FIRST, *formats.TABLE.values(), *_LAST)}


def faults_of(case: OpCase) -> Iterator[Fault]:
    """The faults that may explain a case, the likeliest first."""
    yield from _FIRST
    yield from formats.mistaken_formats(case)
    yield from _LAST
