"""`overflow` governs minifloats and conversions to narrower floats: no other result of f16, bf16, f32 or f64 sees it.

Every class of op that rounds, in every rounding mode, against the oracle.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from minihlo.interp import load
from minihlo.ops.minifloat.formats import FORMATS
from minihlo.ops.policy import OVERFLOWS, ROUNDINGS, Policy

from .. import oracle
from ..exact_cases import array, check, codes_of
from ..exact_cases import program as exact_program
from ..run_op import run, tensor

WIDE = ("f16", "bf16", "f32", "f64")
DIRECTED = tuple(r for r in ROUNDINGS if r != "stochastic")


def samples(t: str) -> list[int]:
    """The largest numbers, infinities, NaN, ordinary and small numbers, of both signs."""
    fmt = oracle.FORMATS[t]
    top, one = fmt.max_code, oracle.encode(fmt, Fraction(1))
    result = [top, top - 1, top - (1 << fmt.mantissa_bits), top + 1, top + 2, one, one + 1, 1, 3]
    return [code | sign for code in result for sign in (0, fmt.sign_bit)]


def expected(x: oracle.Value, t: str, rounding: str, overflow: str = "ieee") -> int:
    return oracle.encode(oracle.FORMATS[t], x, rounding if FORMATS[t].bits <= 16 else "nearest_even", overflow)


#: Programs of one value for each pair of operands, by the class of op that they stand for.
_PAIRS = {
    "elementwise": "stablehlo.add %x, %y : tensor<{n}x{t}>",
    "reduce": """stablehlo.reduce(%xy init: %zero) applies stablehlo.add across dimensions = [0] :
        (tensor<2x{n}x{t}>, tensor<{t}>) -> tensor<{n}x{t}>""",
    "reduce, a body of two ops": """stablehlo.reduce(%xy init: %zero) across dimensions = [0] :
        (tensor<2x{n}x{t}>, tensor<{t}>) -> tensor<{n}x{t}>
        reducer(%a: tensor<{t}>, %b: tensor<{t}>) {{
          %m = stablehlo.negate %b : tensor<{t}>
          %s = stablehlo.subtract %a, %m : tensor<{t}>
          stablehlo.return %s : tensor<{t}>
        }}""",
    "reduce_window": """"stablehlo.reduce_window"(%xy, %zero) <{{window_dimensions = array<i64: 2, 1>}}> ({{
        ^bb0(%a: tensor<{t}>, %b: tensor<{t}>):
          %s = stablehlo.add %a, %b : tensor<{t}>
          stablehlo.return %s : tensor<{t}>
        }}) : (tensor<2x{n}x{t}>, tensor<{t}>) -> tensor<1x{n}x{t}>""",
    "scatter": """"stablehlo.scatter"(%x, %index, %y) <{{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}}> ({{
        ^bb0(%a: tensor<{t}>, %b: tensor<{t}>):
          %s = stablehlo.add %a, %b : tensor<{t}>
          stablehlo.return %s : tensor<{t}>
        }}) : (tensor<{n}x{t}>, tensor<1xi64>, tensor<{n}x{t}>) -> tensor<{n}x{t}>""",
    "map": """"stablehlo.map"(%x, %y) <{{dimensions = array<i64: 0>}}> ({{
        ^bb0(%a: tensor<{t}>, %b: tensor<{t}>):
          %s = stablehlo.add %a, %b : tensor<{t}>
          stablehlo.return %s : tensor<{t}>
        }}) : (tensor<{n}x{t}>, tensor<{n}x{t}>) -> tensor<{n}x{t}>""",
    "dot_general": """stablehlo.dot_general %xy, %ones, batching_dims = [1] x [1], contracting_dims = [0] x [0] :
        (tensor<2x{n}x{t}>, tensor<2x{n}x{t}>) -> tensor<{n}x{t}>""",
}


def pairs_program(form: str, t: str, n: int):
    body = _PAIRS[form].format(t=t, n=n)
    result = f"tensor<1x{n}x{t}>" if form == "reduce_window" else f"tensor<{n}x{t}>"
    return load(f"""func.func @main(%x: tensor<{n}x{t}>, %y: tensor<{n}x{t}>) -> {result} {{
        %zero = stablehlo.constant dense<0.0> : tensor<{t}>
        %index = stablehlo.constant dense<0> : tensor<1xi64>
        %ones = stablehlo.constant dense<1.0> : tensor<2x{n}x{t}>
        %rx = stablehlo.reshape %x : (tensor<{n}x{t}>) -> tensor<1x{n}x{t}>
        %ry = stablehlo.reshape %y : (tensor<{n}x{t}>) -> tensor<1x{n}x{t}>
        %xy = stablehlo.concatenate %rx, %ry, dim = 0 : (tensor<1x{n}x{t}>, tensor<1x{n}x{t}>) -> tensor<2x{n}x{t}>
        %r = {body}
        return %r : {result}
    }}""")


@pytest.mark.parametrize("form", _PAIRS)
@pytest.mark.parametrize("t", WIDE)
def test_sums_of_two_do_not_depend_on_overflow(form: str, t: str) -> None:
    fmt = oracle.FORMATS[t]
    pairs = list(itertools.product(samples(t), repeat=2))
    sums = [oracle.add(oracle.decode(fmt, a), oracle.decode(fmt, b)) for a, b in pairs]
    is_dot = form == "dot_general"  # summed in f32, whose own range and rounding are no part of this
    # What the sign of a zero is differs between rounding modes, and overflow has no part in it.
    keep = [s != 0 and (_is_f32(s) or not is_dot) for s in sums]
    pairs = [p for p, k in zip(pairs, keep, strict=True) if k]
    sums = [s for s, k in zip(sums, keep, strict=True) if k]
    x, y = (array([p[i] for p in pairs], t) for i in range(2))
    program = pairs_program(form, t, len(pairs))
    for rounding, overflow in itertools.product(DIRECTED, OVERFLOWS):
        wanted = [expected(s, t, rounding) for s in sums]
        (got,) = program(x, y, policy=Policy(rounding=rounding, overflow=overflow))
        check(fmt, got, wanted, [], f"{rounding} {overflow}")


def _is_f32(x: oracle.Value) -> bool:
    """Whether f32 holds a number, or a sum of numbers of it, so that its own rounding plays no part."""
    f32 = oracle.FORMATS["f32"]
    return not isinstance(x, Fraction) or oracle.decode(f32, oracle.encode(f32, x)) == x


@pytest.mark.parametrize("t", WIDE)
@pytest.mark.parametrize("op", ["multiply", "divide", "remainder", "exponential", "negate", "sqrt", "power", "clamp"])
def test_elementwise_ops_do_not_depend_on_overflow(op: str, t: str) -> None:
    values = [array([code], t) for code in samples(t)]
    count = {"clamp": 3, "exponential": 1, "negate": 1, "sqrt": 1}.get(op, 2)
    operands = list(itertools.product(values, repeat=count)) if count < 3 else [(v, v, v) for v in values]
    columns = [np.concatenate(column) for column in zip(*operands, strict=True)]
    fmt, program = oracle.FORMATS[t], load(exact_program([t] * count, [(op, range(count), t)], len(operands)))
    for rounding in DIRECTED:
        if op in ("multiply", "divide", "remainder"):
            pairs = zip(*(codes_of(c) for c in columns), strict=True)
            exact = [oracle.BINARY[op](*(oracle.decode(fmt, c) for c in pair)) for pair in pairs]
            wanted = [expected(x, t, rounding) for x in exact]
        else:
            wanted = codes_of(program(*columns, policy=Policy(rounding=rounding))[0])
        for overflow in OVERFLOWS:
            (got,) = program(*columns, policy=Policy(rounding=rounding, overflow=overflow))
            check(fmt, got, wanted, [], f"{op} {rounding} {overflow}")


@pytest.mark.parametrize("t", ["f16", "bf16"])
@pytest.mark.parametrize("accumulate", ["exact", "f32", "element"])
def test_products_of_minifloats_into_wide_types(t: str, accumulate: str) -> None:
    """A single product of f8E8M0FNU or f8E5M2, which can be beyond f16 and bf16."""
    source = "f8E5M2" if t == "f16" else "f8E8M0FNU"
    fmt = oracle.FORMATS[source]
    top = [fmt.max_code, fmt.max_code - 1, fmt.max_code >> 1, oracle.encode(fmt, Fraction(2))]
    pairs = list(itertools.product(top, repeat=2))
    exact = [oracle.multiply(*(oracle.decode(fmt, c) for c in p)) for p in pairs]
    n = len(pairs)
    program = load(f"""func.func @main(%x: tensor<{n}x1x{source}>, %y: tensor<{n}x1x{source}>) -> tensor<{n}x{t}> {{
        %r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1] :
            (tensor<{n}x1x{source}>, tensor<{n}x1x{source}>) -> tensor<{n}x{t}>
        return %r : tensor<{n}x{t}>
    }}""")
    x, y = (array([p[i] for p in pairs], source).reshape(n, 1) for i in range(2))
    for rounding, overflow in itertools.product(DIRECTED, OVERFLOWS):
        # The one rounding at the end is a conversion; steps in the type itself are arithmetic.
        wanted_overflow = "ieee" if accumulate == "element" else overflow
        # A sum in f32 that is beyond f32 is an infinity in every rounding.
        beyond = 2**128 if accumulate == "f32" else 2**1000
        wanted = [expected(float("inf") if abs(v) >= beyond else v, t, rounding, wanted_overflow) for v in exact]
        (got,) = program(x, y, policy=Policy(accumulate=accumulate, rounding=rounding, overflow=overflow))
        check(oracle.FORMATS[t], got, wanted, [], f"{rounding} {overflow}")


def test_iota_beyond_f16() -> None:
    n = 70000
    for rounding, overflow in itertools.product(DIRECTED, OVERFLOWS):
        policy = Policy(rounding=rounding, overflow=overflow)
        got = run("iota", iota_dimension=0, result=tensor("f16", n), policy=policy)
        places = [0, 1, 2048, 2049, 2051, 65503, 65504, 65505, 65519, 65520, 65535, 65536, n - 1]
        wanted = [expected(Fraction(i), "f16", rounding) for i in places]
        check(oracle.FORMATS["f16"], got[places], wanted, [], f"{rounding} {overflow}")


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_stochastic_sums_overflow_to_infinity(t: str, overflow: str) -> None:
    top = FORMATS[t].max_code
    program = pairs_program("elementwise", t, 2)
    x = array([top, top | FORMATS[t].sign_bit], t)
    got = codes_of(program(x, x, policy=Policy(rounding="stochastic", overflow=overflow))[0])
    assert got == [top + 1, (top + 1) | FORMATS[t].sign_bit]
