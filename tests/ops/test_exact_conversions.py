"""Rounding and overflow as the policy says, and conversions, exactly as the formats define them."""

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from minihlo.interp import Policy
from minihlo.ops.policy import OVERFLOWS

from .. import oracle
from ..exact_cases import (
    DTYPES,
    INTEGERS,
    SEED,
    SPECIAL,
    array,
    boundary_codes,
    boundary_integers,
    check,
    codes_of,
    run,
    sample,
)
from ..oracle import BINARY, FORMATS, MINIFLOATS, UNARY, Format
from ..thinned import TYPICAL, thinned

exhaustive = pytest.mark.exhaustive

WIDE = ("f16", "bf16", "f32")


# Rounding and overflow as the policy says.

DIRECTED = ("toward_zero", "up", "down", "nearest_away")


@pytest.mark.parametrize(
    ("element", "rounding"),
    thinned(
        itertools.product((*MINIFLOATS, "f16", "bf16"), DIRECTED),
        lambda element, rounding: element in TYPICAL or (element, rounding) == ("f16", "up"),
    ),
)
def test_ops_under_other_roundings(element: str, rounding: str) -> None:
    """Results of products, quotients and functions; what falls below f8E8M0FNU's smallest number is left open."""
    fmt, policy, generator = FORMATS[element], Policy(rounding=rounding), random.Random(SEED)
    codes = range(1 << fmt.bits) if element in MINIFLOATS else sample(element, 200)
    pairs = [[generator.choice(codes) for _ in range(2000 if element in MINIFLOATS else 500)] for _ in range(2)]
    functions = ("sqrt", "exponential", "log", "sine", "tanh", "logistic")
    for ops, operands in ((("multiply", "divide", "power"), pairs), (functions, [list(codes)])):
        arrays = [array(o, element) for o in operands]
        results = run([element] * len(arrays), [(op, range(len(arrays)), element) for op in ops], arrays, policy)
        values = [[oracle.decode(fmt, c) for c in o] for o in operands]
        for op, result in zip(ops, results, strict=True):
            exact = [(UNARY.get(op) or BINARY[op])(*case) for case in zip(*values, strict=True)]
            check_rounded(fmt, result, exact, operands, rounding, "ieee", op)


#: How many numbers of each type are converted.
SOURCES = {"f64": 1500, "f32": 1500, "bf16": 400, "f8E5M2FNUZ": 256, "i32": 300}


@pytest.mark.parametrize(
    ("element", "overflow", "rounding"),
    thinned(
        itertools.product((*MINIFLOATS, "f8E5M3FNU", *WIDE), OVERFLOWS, ("nearest_even", *DIRECTED)),
        lambda element, overflow, rounding: (
            (element in (*TYPICAL, "f8E5M3FNU", "f16") and (rounding in ("nearest_even", "down") or overflow == "ieee"))
            or (rounding, overflow) == ("nearest_even", "ieee")
        ),
    ),
)
def test_conversions_under_every_policy(element: str, rounding: str, overflow: str) -> None:
    policy = Policy(rounding=rounding, overflow=overflow)
    wider = ("f64", "f32")  # `overflow` is for conversions to narrower types
    for source in SOURCES if element not in ("bf16", *wider) else [s for s in wider if s != element]:
        if source in INTEGERS:
            codes = random.Random(SEED).sample(boundary_integers(source), SOURCES[source])
            operand, values = np.array(codes, DTYPES[source]), list(map(oracle.Fraction, codes))
        else:
            codes = random.Random(SEED).sample(boundary_codes(source), SOURCES[source]) + SPECIAL.get(source, [])
            operand, values = array(codes, source), [oracle.decode(FORMATS[source], c) for c in codes]
        (result,) = run([source], [("convert", [0], element)], [operand], policy)
        fmt = oracle.ALL_FORMATS[element]
        check_rounded(fmt, result, values, [codes], rounding, overflow, f"convert {source}")


def check_rounded(
    fmt: Format,
    got: np.ndarray,
    exact: Sequence[oracle.Value],
    operands: Sequence[Sequence[int]],
    rounding: str,
    overflow: str,
    what: str,
) -> None:
    known = [
        i
        for i, v in enumerate(exact)
        if rounding == "nearest_even" or fmt.is_signed or not 0 < v < oracle.Fraction(1, 1 << 127)
    ]
    expected = [oracle.encode(fmt, exact[i], rounding, overflow) for i in known]
    check(fmt, got[known], expected, [[o[i] for i in known] for o in operands], f"{rounding} {overflow} {what}")


@pytest.mark.parametrize("element", FORMATS)
def test_conversions_from_floats(element: str) -> None:
    judge_float_conversions(element, limit=4000)


@exhaustive
@pytest.mark.parametrize("element", [name for name in FORMATS if name not in MINIFLOATS])
def test_all_conversions_from_floats(element: str) -> None:
    judge_float_conversions(element)


def judge_float_conversions(element: str, limit: int | None = None) -> None:
    codes = boundary_codes(element)
    if limit and len(codes) > limit:
        codes = random.Random(SEED).sample(codes, limit) + SPECIAL[element]
    values = [oracle.decode(FORMATS[element], code) for code in codes]
    targets = [*FORMATS, *INTEGERS, "i1"]
    results = run([element], [("convert", [0], t) for t in targets], [array(codes, element)])
    for target, result in zip(targets, results, strict=True):
        if target == "i1":
            assert result.tolist() == [v != 0 for v in values]
        elif target in INTEGERS:
            expected = [oracle.to_integer(v, *INTEGERS[target]) for v in values]
            check_integers(result, expected, codes, f"{element} to {target}")
        elif target != element:
            expected = [oracle.encode(FORMATS[target], v) for v in values]
            check(FORMATS[target], result, expected, [codes], f"{element} to")
        else:
            assert codes_of(result) == codes


@pytest.mark.parametrize("element", [*INTEGERS, "i1"])
def test_conversions_from_integers(element: str) -> None:
    judge_integer_conversions(element, limit=4000)


@exhaustive
@pytest.mark.parametrize("element", [name for name, (bits, _) in INTEGERS.items() if bits > 8])
def test_all_conversions_from_integers(element: str) -> None:
    judge_integer_conversions(element)


def judge_integer_conversions(element: str, limit: int | None = None) -> None:
    numbers = [0, 1] if element == "i1" else boundary_integers(element)
    if limit and len(numbers) > limit:
        numbers = random.Random(SEED).sample(numbers, limit) + numbers[:2] + numbers[-2:]
    dtype = bool if element == "i1" else DTYPES[element]
    operand = np.array(numbers, np.int64 if min(numbers) < 0 else np.uint64).astype(dtype)
    results = run([element], [("convert", [0], t) for t in FORMATS], [operand])
    for target, result in zip(FORMATS, results, strict=True):
        expected = [oracle.encode_ratio(FORMATS[target], n, 1) for n in numbers]
        check(FORMATS[target], result, expected, [numbers], f"{element} to")


def check_integers(got: np.ndarray, expected: list[int], codes: list[int], what: str) -> None:
    result = [int(v) for v in got]
    wrong = [f"{c:#x} = {a}, not {b}" for a, b, c in zip(result, expected, codes, strict=True) if a != b]
    assert not wrong, f"{what}: {len(wrong)} of {len(codes)} wrong: {'; '.join(wrong[:5])}"


def test_overflow_into_nan_keeps_the_sign() -> None:
    operand = np.array([465.0, -465.0, np.inf, -np.inf, 464.0, -464.0], np.float32)
    (result,) = run(["f32"], [("convert", [0], "f8E4M3FN")], [operand])
    assert codes_of(result) == [0x7F, 0xFF, 0x7F, 0xFF, 0x7E, 0xFE]
