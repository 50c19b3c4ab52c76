"""The main proof: programs give exactly what the formats and the specification define, all codes and all pairs of them.

Every expected code is the oracle's. What cannot be enumerated is sampled with a fixed seed, at the extremes first.
"""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from minihlo.interp import Policy, load

from .. import oracle
from ..exact_cases import (
    SEED,
    all_pairs,
    array,
    check,
    codes_of,
    expected_pairs,
    pairs_of_a_sample,
    run,
    sample,
)
from ..oracle import BINARY, COMPARE, FORMATS, MINIFLOATS, UNARY
from ..thinned import TYPICAL

exhaustive = pytest.mark.exhaustive

WIDE = ("f16", "bf16", "f32")


@pytest.mark.parametrize("element", MINIFLOATS)
def test_unary_ops_of_all_codes(element: str) -> None:
    fmt = FORMATS[element]
    every = range(1 << fmt.bits)
    ops = [(op, [0], element) for op in UNARY] + [("is_finite", [0], "i1")]
    *results, finite = run([element], ops, [array(every, element)])
    for op, result in zip(UNARY, results, strict=True):
        check(fmt, result, oracle.unary_codes(fmt, op), [every], op)
    assert finite.tolist() == [oracle.is_finite(oracle.decode(fmt, code)) for code in every]


#: What takes seconds a format of eight bits is tried on narrower ones, and on samples, unless all is tried.
SLOW = ("power", "atan2")


@pytest.mark.parametrize(
    ("op", "element"),
    [
        pytest.param(op, e, marks=exhaustive if (op in SLOW or e not in TYPICAL) and FORMATS[e].bits == 8 else ())
        for op in BINARY
        for e in MINIFLOATS
    ],
)
def test_binary_ops_of_all_pairs(element: str, op: str) -> None:
    pairs = all_pairs(element)
    (result,) = run([element] * 2, [(op, [0, 1], element)], pairs)
    check(FORMATS[element], result, expected_pairs(element, op), [codes_of(p) for p in pairs], op)


@pytest.mark.parametrize("element", MINIFLOATS)
def test_comparisons_of_all_pairs(element: str) -> None:
    fmt = FORMATS[element]
    every = range(1 << fmt.bits)
    ops = [(comparison(d, t), [0, 1], "i1") for t in ("FLOAT", "TOTALORDER") for d in COMPARE]
    results = run([element] * 2, ops, all_pairs(element))
    # A minifloat is exactly a double.
    values, order = [float(oracle.decode(fmt, c)) for c in every], [oracle.total_order(fmt, c) for c in every]
    keys = np.array(values), np.array(order)
    for places, actual in ((keys[0], results[:6]), (keys[1], results[6:])):
        for direction, result in zip(COMPARE, actual, strict=True):
            expected = COMPARE[direction](places[:, None], places)
            assert np.array_equal(result, expected.ravel()), (direction, places is keys[1])


def comparison(direction: str, kind: str) -> str:
    return (
        f"compare {{comparison_direction = #stablehlo<comparison_direction {direction}>, "
        f"compare_type = #stablehlo<comparison_type {kind}>}}"
    )


@pytest.mark.parametrize("element", MINIFLOATS)
def test_clamp_and_select(element: str) -> None:
    """Every code between every two of a few bounds; select moves codes as they are."""
    fmt = FORMATS[element]
    count = 1 << fmt.bits
    bounds = sorted({0, 1, count // 3, fmt.max_code, count // 2, count // 2 + 1, count - 2, count - 1})
    cases = [(low, x, high) for low in bounds for high in bounds for x in range(count)]
    low, x, high = (array(column, element) for column in zip(*cases, strict=True))
    chosen = [i % 3 == 0 for i in range(len(cases))]
    ops = [("clamp", [0, 1, 2], element), ("select", [3, 0, 2], element)]
    clamped, selected = run([element] * 3 + ["i1"], ops, [low, x, high, np.array(chosen)])
    values = [oracle.decode(fmt, code) for code in range(count)]
    expected = [oracle.encode(fmt, oracle.clamp(*(values[c] for c in case))) for case in cases]
    check(fmt, clamped, expected, list(zip(*cases, strict=True)), "clamp")
    assert codes_of(selected) == [case[0] if b else case[2] for b, case in zip(chosen, cases, strict=True)]


@pytest.mark.parametrize("element", MINIFLOATS)
def test_upcast_is_exact_where_float32_is_enough(element: str) -> None:
    """Sums, differences, products, quotients and roots come out right through f32 as well: all pairs, all formats.

    Two roundings do no harm here, as f32 has more than twice the significant bits and two more (f8E8M0FNU's sums and
    differences with far exponents lose the smaller operand in either arithmetic).
    """
    fmt = FORMATS[element]
    pairs, policy, ops = all_pairs(element), Policy(arithmetic="upcast"), ("add", "subtract", "multiply", "divide")
    results = run([element] * 2, [(op, [0, 1], element) for op in ops], pairs, policy)
    for op, result in zip(ops, results, strict=True):
        check(fmt, result, expected_pairs(element, op), [codes_of(p) for p in pairs], f"upcast {op}")
    every = range(1 << fmt.bits)
    (result,) = run([element], [("sqrt", [0], element)], [array(every, element)], policy)
    check(fmt, result, oracle.unary_codes(fmt, "sqrt"), [every], "upcast sqrt")
    values = np.array([float(oracle.decode(fmt, c)) for c in every])
    (result,) = run([element] * 2, [(comparison("LT", "FLOAT"), [0, 1], "i1")], pairs, policy)
    assert np.array_equal(result, (values[:, None] < values).ravel())


@pytest.mark.parametrize("compute", ["f32", "f64", "f16", "bf16"])
def test_extremes_are_exact_in_any_type_that_they_are_cast_to(compute: str) -> None:
    """Of f8E5M2, whose numbers all these types have; -0 is below +0."""
    pairs, ops = all_pairs("f8E5M2"), ("maximum", "minimum")
    results = run(["f8E5M2"] * 2, [(op, [0, 1], "f8E5M2") for op in ops], pairs, Policy(arithmetic=f"upcast:{compute}"))
    for op, result in zip(ops, results, strict=True):
        check(FORMATS["f8E5M2"], result, expected_pairs("f8E5M2", op), [codes_of(p) for p in pairs], op)


@pytest.mark.parametrize("element", MINIFLOATS)
def test_chains_round_after_every_op(element: str) -> None:
    """Groups of elementwise ops may become one table; each op in it still rounds."""
    fmt = FORMATS[element]
    size = 1 << (2 * fmt.bits)
    t, wide = f"tensor<{size}x{element}>", f"tensor<{size}xf32>"
    text = f"""func.func @main(%a: {t}, %b: {t}) -> ({t}, {t}) {{
      %half = stablehlo.constant dense<5.000000e-01> : {t}
      %0 = stablehlo.multiply %a, %half : {t}
      %1 = stablehlo.logistic %0 : {t}
      %2 = stablehlo.multiply %1, %a : {t}
      %3 = stablehlo.add %2, %b : {t}
      %4 = stablehlo.convert %3 : ({t}) -> {wide}
      %5 = stablehlo.multiply %4, %4 : {wide}
      %6 = stablehlo.convert %5 : ({wide}) -> {t}
      %7 = stablehlo.subtract %6, %2 : {t}
      return %2, %7 : {t}, {t}
    }}"""
    pairs = all_pairs(element)
    gated, last = load(text)(*pairs)
    count = 1 << fmt.bits
    added, subtracted, product = (expected_pairs(element, op) for op in ("add", "subtract", "multiply"))
    logistic, half = oracle.unary_codes(fmt, "logistic"), oracle.encode(fmt, oracle.Fraction(1, 2))
    gate = [product[logistic[product[code * count + half]] * count + code] for code in range(count)]
    values = [oracle.decode(fmt, code) for code in range(count)]
    # The square of a minifloat is exact in f32, unless it overflows there.
    single = [oracle.encode(FORMATS["f32"], oracle.multiply(v, v)) for v in values]
    squares = [oracle.encode(fmt, oracle.decode(FORMATS["f32"], code)) for code in single]
    gates = [g for g in gate for _ in range(count)]
    expected = [subtracted[squares[added[g * count + code]] * count + g] for g in gate for code in range(count)]
    operands = [codes_of(p) for p in pairs]
    check(fmt, gated, gates, operands, "gate")
    check(fmt, last, expected, operands, "chain")


@exhaustive
@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_unary_ops_of_all_codes_of_16_bits(element: str, op: str) -> None:
    judge_unary(element, op, range(1 << 16))


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("element", WIDE)
def test_unary_ops_of_a_sample(element: str, op: str) -> None:
    judge_unary(element, op, sample(element, 400))


@pytest.mark.parametrize("op", oracle.FUNCTIONS)
def test_many_elements_are_computed_in_parts(op: str) -> None:
    x = array(sample("f32", 60), "f32")
    few, many = (run(["f32"], [(op, [0], "f32")], [v])[0] for v in (x, np.resize(x, 1 << 15)))
    assert many.tobytes() == np.resize(few, many.size).tobytes()


def test_ties_of_powers() -> None:
    """Squares of 13 bits have 25 or 26: many are ties; so are odd halves of the smallest subnormal number."""
    odd = np.arange(4097, 8192, 22, dtype=np.float32)
    subnormal = np.arange(1, 4096, 34, dtype=np.float32) * np.float32(2.0**-75)
    x = np.concatenate([odd, odd * np.float32(2.0**-60), subnormal])
    judge_pairs("f32", "power", codes_of(x), codes_of(np.full(x.size, 2, np.float32)))


@exhaustive
@pytest.mark.parametrize("op", UNARY)
def test_unary_ops_of_a_large_sample_of_f32(op: str) -> None:
    judge_unary("f32", op, sample("f32", 20_000))


def judge_unary(element: str, op: str, codes: Sequence[int]) -> None:
    fmt = FORMATS[element]
    (result,) = run([element], [(op, [0], element)], [array(codes, element)])
    expected = [oracle.encode(fmt, UNARY[op](oracle.decode(fmt, code))) for code in codes]
    check(fmt, result, expected, [codes], op)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("element", WIDE)
def test_binary_ops_of_a_sample(element: str, op: str) -> None:
    judge_binary(element, op, 400)


@exhaustive
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("element", WIDE)
def test_binary_ops_of_a_large_sample(element: str, op: str) -> None:
    judge_binary(element, op, 20_000)


def judge_binary(element: str, op: str, count: int) -> None:
    judge_pairs(element, op, *pairs_of_a_sample(element, count))


def judge_pairs(element: str, op: str, a: Sequence[int], b: Sequence[int]) -> None:
    fmt = FORMATS[element]
    (result,) = run([element] * 2, [(op, [0, 1], element)], [array(a, element), array(b, element)])
    expected = [
        oracle.encode(fmt, BINARY[op](oracle.decode(fmt, x), oracle.decode(fmt, y))) for x, y in zip(a, b, strict=True)
    ]
    check(fmt, result, expected, [a, b], op)


@pytest.mark.parametrize("op", oracle.FUNCTIONS)
def test_functions_of_few_bits(op: str) -> None:
    """Small multiples of powers of two have results a hair beside a number or a tie: 1 - x**2 / 2, x - x**3 / 3."""
    fmt = FORMATS["f32"]
    numbers = {oracle.encode(fmt, m * oracle.Fraction(2) ** e) for m in (1, 3, 5, 7) for e in range(-149, 30)}
    judge_unary("f32", op, sorted(numbers | {c | fmt.sign_bit for c in numbers}))


@pytest.mark.parametrize("op", ["atan2", "power", "divide", "multiply"])
@pytest.mark.parametrize("element", WIDE)
def test_binary_ops_of_few_bits(element: str, op: str) -> None:
    """The same of pairs, results among the subnormal numbers most of all: atan2(3 * smallest, 2) lies below a tie."""
    fmt, generator = FORMATS[element], random.Random(SEED)
    lowest = 1 - fmt.bias - fmt.mantissa_bits
    cases = []
    while len(cases) < 1500:
        target, e = generator.randrange(lowest - 3, lowest + 8), generator.randrange(lowest, fmt.bias)
        x = generator.randrange(1, 64) * oracle.Fraction(2) ** e
        y = generator.choice((1, 1, 3)) * oracle.Fraction(2) ** (target - e if op == "multiply" else e - target)
        y = generator.randrange(1, 8) * oracle.Fraction(2) ** generator.randrange(-8, 8) if op == "power" else y
        pair = [oracle.encode(fmt, signed) for signed in (x * generator.choice((1, -1)), y * generator.choice((1, -1)))]
        if min(c & fmt.ones for c in pair) > 0 and max(c & fmt.ones for c in pair) <= fmt.max_code:
            cases.append(pair)
    judge_pairs(element, op, *zip(*cases, strict=True))


@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_f64_is_within_4_ulp(op: str) -> None:
    """And exact where the host's arithmetic is."""
    fmt = FORMATS["f64"]
    exact = op in ("sqrt", *(o for o in (*UNARY, *BINARY) if o not in (*oracle.FUNCTIONS, "power", "atan2")))
    operands = [sample("f64", 300)] if op in UNARY else list(pairs_of_a_sample("f64", 300))
    arrays = [array(o, "f64") for o in operands]
    (result,) = run(["f64"] * len(arrays), [(op, range(len(arrays)), "f64")], arrays)
    values = [[oracle.decode(fmt, c) for c in o] for o in operands]
    expected = [oracle.encode(fmt, (UNARY.get(op) or BINARY[op])(*case)) for case in zip(*values, strict=True)]
    if exact:
        check(fmt, result, expected, operands, op)
    wrong = [
        (*(f"{o[i]:#x}" for o in operands), f"{got:#x}", f"{want:#x}")
        for i, (got, want) in enumerate(zip(codes_of(result), expected, strict=True))
        if not oracle.same(fmt, got, want) and abs(oracle.total_order(fmt, got) - oracle.total_order(fmt, want)) > 4
    ]
    assert not wrong, f"{op}: {len(wrong)} wrong: {wrong[:5]}"
