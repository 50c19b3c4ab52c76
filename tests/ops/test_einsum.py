"""einsum and unary_einsum: against sums of products written out, and exact minifloat sums rounded once."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.op import OpError
from minihlo.ops.policy import Policy
from minihlo.ops.types import TensorType

from .. import oracle
from ..run_op import bind, codes, from_codes, run, tensor

RNG = np.random.default_rng(8)


def written_out(terms: list[str], output: str, arrays: list[np.ndarray]) -> np.ndarray:
    """For each value of all labels, the product of the elements there, added to where the output's labels say."""
    sizes = {n: size for term, x in zip(terms, arrays, strict=True) for n, size in zip(term, x.shape, strict=True)}
    result = np.zeros([sizes[n] for n in output], object)
    names = list(sizes)
    for index in np.ndindex(*sizes.values()):
        at = dict(zip(names, index, strict=True))
        product: Any = 1
        for term, x in zip(terms, arrays, strict=True):
            product = product * x[tuple(at[n] for n in term)]
        result[tuple(at[n] for n in output)] += product
    return result


SIZES = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 1}


@pytest.mark.parametrize(
    "config",
    [
        "ab,bc->ac",
        "ab,bc->ca",
        "ab,cb->ac",
        "dab,dbc->dac",
        "abd,bdc->cda",
        "a,a->",
        "a,b->ab",
        "ab,ab->ab",
        "ab,ab->ba",
        ",ab->ba",
        "ab,->b",
        ",->",
        "ab,c->c",
        "ab,bc->",
        "ab,cd->bd",
        "aab,b->a",
        "aa,bb->",
        "aaa,ae->ea",
        "ab,Ab->Aa",
    ],
)
@pytest.mark.parametrize("element", ["i32", "f32", "f64", "complex<f32>"])
def test_einsum(config: str, element: str) -> None:
    inputs, output = config.split("->")
    terms, sizes = inputs.split(","), SIZES | {"A": 3}
    t = tensor(element)
    arrays = [RNG.integers(-4, 5, [sizes[n] for n in term]) for term in terms]
    if element.startswith("complex"):
        arrays = [x * (1 + 2j) for x in arrays]
    expected = written_out(terms, output, arrays)
    typed = [x.astype(t.element.dtype) for x in arrays]
    actual = run("einsum", *typed, result=tensor(element, *expected.shape), einsum_config=config)
    assert np.array_equal(actual, expected.astype(actual.dtype))


@pytest.mark.parametrize(
    "config", ["ab->a", "ab->b", "ab->", "ab->ba", "abc->ca", "aa->a", "aa->", "abab->ba", "->", "a->a"]
)
@pytest.mark.parametrize("element", ["i8", "f32", "complex<f64>"])
def test_unary_einsum(config: str, element: str) -> None:
    term, output = config.split("->")
    x = RNG.integers(-4, 5, [SIZES[n] for n in term])
    expected = written_out([term], output, [x])
    typed = x.astype(tensor(element).element.dtype)
    actual = run("unary_einsum", typed, result=tensor(element, *expected.shape), einsum_config=config)
    assert np.array_equal(actual, expected.astype(actual.dtype))


@pytest.mark.parametrize(
    ("config", "as_letters"),
    [
        ("...ab,...bc->...ac", "xyab,xybc->xyac"),
        ("a...,...->...a", "axy,xy->xya"),
        ("...a,...->...a", "xya,y->xya"),
        ("...,y->...", "xy,y->xy"),
    ],
)
def test_unnamed_dimensions(config: str, as_letters: str) -> None:
    sizes = SIZES | {"x": 2, "y": 3}
    inputs, output = as_letters.split("->")
    arrays = [RNG.integers(-4, 5, [sizes[n] for n in term]).astype(np.int32) for term in inputs.split(",")]
    expected = written_out(inputs.split(","), output, arrays)
    if "y->" in config:  # where y is a label of its own, it is summed over
        expected = written_out(["xy", "z"], "xy", arrays)
    actual = run("einsum", *arrays, result=tensor("i32", *expected.shape), einsum_config=config)
    assert np.array_equal(actual, expected.astype(np.int32))


@pytest.mark.parametrize("element", oracle.MINIFLOATS)
@pytest.mark.parametrize("config", ["ab,bc->ac", "ab,c->c", "aab,b->a"])
def test_minifloat_sums_are_rounded_once(element: str, config: str) -> None:
    fmt = oracle.FORMATS[element]
    inputs, output = config.split("->")
    finite = [c for c in range(1 << fmt.bits) if isinstance(oracle.decode(fmt, c), Fraction)]
    drawn = [RNG.choice(finite, [SIZES[n] for n in term]) for term in inputs.split(",")]
    values = [np.vectorize(lambda c: Fraction(oracle.decode(fmt, int(c))), otypes=[object])(x) for x in drawn]
    expected = written_out(inputs.split(","), output, values)
    typed = [from_codes(x, element) for x in drawn]
    actual = codes(run("einsum", *typed, result=tensor(element, *expected.shape), einsum_config=config))
    for ours, exact in zip(actual.ravel().tolist(), expected.ravel().tolist(), strict=True):
        assert oracle.same(fmt, ours, oracle.encode(fmt, exact))


def test_policy_reaches_the_sum() -> None:
    """16 and sixteen times 0.5: a sum rounded at each step stays at 16."""
    x = np.array([[16] + [0.5] * 16]).astype(tensor("f8E4M3FN").element.dtype)
    result = tensor("f8E4M3FN", 1)
    for policy, expected in ((Policy(), 24), (Policy(accumulate="f32"), 24), (Policy(accumulate="element"), 16)):
        actual = run("unary_einsum", x, result=result, policy=policy, einsum_config="ab->a")
        assert actual.astype(float).tolist() == [expected]


def test_sizes_that_are_not_known() -> None:
    program = interp.load("""func.func @main(%x: tensor<?x3xf32>, %y: tensor<3x?xf32>) -> tensor<?x?xf32> {
      %r = stablehlo.einsum %x, %y, config = "ab,bc->ca" : (tensor<?x3xf32>, tensor<3x?xf32>) -> tensor<?x?xf32>
      return %r : tensor<?x?xf32>
    }""")
    for rows, columns in ((2, 4), (0, 1), (3, 3)):
        x, y = RNG.integers(0, 9, (rows, 3)).astype("f4"), RNG.integers(0, 9, (3, columns)).astype("f4")
        assert np.array_equal(program(x, y)[0], (x @ y).T)


X, Y = tensor("f32", 2, 3), tensor("f32", 3, 4)


@pytest.mark.parametrize(
    ("config", "operands", "result", "message"),
    [
        ("ab,bc", [X, Y], tensor("f32", 2, 4), "not of the form"),
        ("ab->ab", [X, Y], X, "not of the form"),
        ("ab,bc,cd->ad", [X, Y], X, "not of the form"),
        ("ab,b1->a1", [X, Y], X, "has a term 'b1'"),
        ("ab,b->a", [X, Y], tensor("f32", 2), "for a tensor of rank 2"),
        ("ab,abc->c", [X, Y], tensor("f32", 4), "for a tensor of rank 2"),
        ("ab,ac->bc", [X, Y], tensor("f32", 3, 4), "sizes 2 and 3"),
        ("ab,bc->ad", [X, Y], tensor("f32", 2, 4), "no operand has"),
        ("ab,bc->aa", [X, Y], tensor("f32", 2, 2), "repeats"),
        ("ab,bc->ac", [X, Y], tensor("f32", 4, 2), "shape"),
        ("a......,bc->ac", [X, Y], X, "'...' once"),
        ("", [X, Y], X, "not of the form"),
    ],
)
def test_errors(config: str, operands: list[TensorType], result: TensorType, message: str) -> None:
    with pytest.raises(OpError, match=message):
        bind("einsum", [*operands], result, einsum_config=config)
