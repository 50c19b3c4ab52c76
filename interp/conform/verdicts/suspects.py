"""Faults that backends are known to have, in words, each with the way to compute that gives the same wrong results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ..cases import chains
from ..cases.cases import Case
from ..cases.exact import FUNCTIONS
from ..cases.formats import FORMATS
from ..cases.rounding import AWAY, DOWN, TIES_TO_ODD, TIES_TOWARD_ZERO, TOWARD_ZERO, UP
from . import faults, format_faults, integer_faults


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A fault: a sentence on what the backend does, and what comes of it, None where it cannot be it.

    Faults of which there are many, that many an op hides but for a few elements, have to explain `least` failures.
    """

    sentence: str
    compute: faults.Compute
    least: int = 1


#: Other formats and biases: some twenty guesses, each of which gives a wrong zero or NaN somewhere.
_MANY = 4


def suspects(case: Case, to_integers: str = "toward zero") -> Iterator[Suspect]:
    """The faults that a case may show, the likeliest first; `to_integers` is how floats are to become integers."""
    if case.op == "chain":
        yield from (Suspect(*found) for found in chains.suspects(case))
        return
    fnuz = any(FORMATS[t].nan == "sign" for t in case.operands if t in FORMATS)
    yield Suspect("operands that are subnormal are flushed to zero", faults.flush(faults.flush_read, False))
    yield Suspect("results that are subnormal are flushed to zero", faults.flush(faults.as_it_is, True))
    yield Suspect("subnormal operands and results are flushed to zero", faults.flush(faults.flush_read, True))
    yield Suspect("subnormal operands and results are flushed to +0", faults.flush(faults.flush_read_unsigned, True))
    yield Suspect("what is subnormal in f32 is flushed to zero", faults.flush_in_f32)
    yield Suspect("numbers between the two smallest are rounded up", faults.smallest_up)
    sentence = "what is rounded up from subnormal to the smallest normal number becomes zero"
    yield Suspect(sentence, faults.lost_at_the_smallest_normal)
    for by, what in ((-1, "smaller"), (1, "larger")):
        for reads, writes, where in (
            (True, True, ""),
            (True, False, " where it is read"),
            (False, True, " where it is written"),
        ):
            sentence = f"the format's exponent bias is taken for one {what} than it is{where}: a factor of two"
            yield Suspect(sentence, faults.biased(by, reads, writes), _MANY)
    if fnuz:
        yield Suspect("0x80, which is NaN, is read as -0", lambda c, x: faults.computed(c, x, faults.nan_as(-0.0)))
    yield Suspect("NaN is read as infinity", lambda c, x: faults.computed(c, x, faults.nan_as(np.inf)))
    sentence = "NaN with its sign set is read as a number, the one beyond the largest"
    yield Suspect(sentence, lambda c, x: faults.computed(c, x, faults.beyond_the_largest))
    yield Suspect("NaN is read as zero", lambda c, x: faults.computed(c, x, faults.nan_as(0.0)))
    for wide in ("f32", "f16", "bf16", "f64"):
        if (wide not in case.operands or case.op != "convert") and (wide != "f64" or case.op not in FUNCTIONS):
            sentence = f"the result is rounded twice, to {wide} first"
            yield Suspect(sentence, lambda c, x, wide=wide: faults.computed(c, x, through=wide))
    for wide in ("", "f16", "bf16", "f32"):
        named = wide or case.result
        sentence = f"multiplied by the reciprocal, rounded to {named}, and not divided"
        yield Suspect(sentence, faults.reciprocal(wide, False))
        yield Suspect(sentence, faults.reciprocal(wide, True))
    for rounding, words in (
        (TOWARD_ZERO, "toward zero"),
        (AWAY, "with ties away from zero"),
        (TIES_TOWARD_ZERO, "with ties toward zero"),
        (TIES_TO_ODD, "with ties to odd"),
        (UP, "up"),
        (DOWN, "down"),
    ):
        sentence = f"results are rounded {words}, and not to nearest even"
        yield Suspect(sentence, lambda c, x, rounding=rounding: faults.computed(c, x, rounding=rounding))
    yield Suspect("what is beyond the largest number becomes the largest number", faults.saturated(-1, 1))
    yield Suspect("what is below the lowest number becomes the lowest number", faults.saturated(-1))
    yield Suspect("what is above the largest number becomes the largest number", faults.saturated(1))
    yield Suspect("the sign of results that are zero is lost", faults.unsigned_zeros)
    yield Suspect(
        "TOTALORDER is ignored: compared as FLOAT, by which NaN is unordered and -0 equals +0", faults.as_float
    )
    yield Suspect("the sign of the result is put into the exponent's first bit", faults.sign_in_exponent)
    yield Suspect("the sign is dropped, and the format has none", faults.without_sign)
    for compute, words in (
        (lambda c, x: faults.computed(c, x, rounding=TOWARD_ZERO), "is rounded toward zero"),
        (lambda c, x: faults.computed(c, x, through="f32"), "is rounded twice, to f32 first"),
        (faults.smallest_up, "is rounded up between the two smallest numbers"),
    ):
        sentence = f"the sign is dropped, as the format has none, and the rest {words}"
        yield Suspect(sentence, faults.of_magnitude(compute))
    yield Suspect(
        "the limits of the integer type are rounded to the format before the number is held to them",
        integer_faults.limits_in_format,
    )
    for to_integer, words in (
        (np.rint, "to the nearest integer, ties to even"),
        (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "to the nearest integer, ties away from zero"),
        (np.floor, "down"),
        (np.ceil, "up"),
        (np.trunc, "toward zero"),
    ):
        usual = "ties to even" if "even" in to_integers else to_integers
        yield Suspect(f"rounded {words}, and not {usual}", integer_faults.rounded(to_integer))
    yield Suspect("converted by way of a 32-bit integer", integer_faults.wrapped(32))
    yield Suspect("1 / (1 + exp(-x)) with each step rounded to the format", faults.logistic(""))
    yield Suspect("1 / (1 + exp(-x)) with each step rounded to f16", faults.logistic("f16"))
    added = "rounded by adding 2^(mantissa bits) and taking it away, which the format cannot hold"
    yield Suspect(added, faults.integral_by_addition)
    for sentence, compute in format_faults.mistaken(case):
        yield Suspect(sentence, compute, _MANY)
    yield Suspect("the first operand is the result", faults.operand(0))
    yield Suspect("the second operand is the result", faults.operand(1))
    yield Suspect("the operands are swapped", faults.swapped)
