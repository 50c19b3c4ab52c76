"""Cases of ops that are made of many steps: batch normalization, linear algebra, composites, random numbers.

What each step rounds to is not for all implementations the same. The operands are such that no step has to round.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minihlo.ops.op import Op
from tests import oracle
from tests.oracle import FORMATS, Fraction, Value, encode
from tests.oracle_batch_norm import BatchNorm

from .catalog import cases, extra_cases, stem
from .chunk import Chunk, tensor
from .elementwise import OPEN, generator
from .numbers import Codes, array, codes_of, each, share, some_codes

EXACT = "No step has to round, so that all ways of computing give the same."
NO_SUMS = "This format has no zero to begin a sum with: each sum is NaN. "


class InexactError(ValueError):
    """A step has to round."""


class _Exact(BatchNorm):
    """Batch normalization without rounding in any step."""

    def rounded(self, x: Value) -> Value:
        """The number itself. Raises InexactError if the format does not have it."""
        if super().rounded(x) != x:
            raise InexactError(str(x))
        return x


#: Shapes, the feature's dimension, and epsilon.
_LAYOUTS = (((2, 2), 1, 1.0), ((2, 2, 1), 0, 3.0))
#: Of the format without zero and sign: x, scale, offset, mean, variance.
_POWERS = ((2, 8, 2, 8), (1, 4), (0.5, 8), (1, 4), (2, 2))
_NUMBERS = [Fraction(n, 2) for n in (2, 4, -2, 1, 6, -4, 0, 8)]


@cases("batch_norm_inference", "batch_norm_training", "batch_norm_grad")
def batch_norm(op: Op, element: str) -> Iterator[Chunk]:
    name = op.name.removeprefix("stablehlo.batch_norm_")
    is_signed = FORMATS[element].is_signed
    if not is_signed and name != "inference":
        yield _without_zero(op, element, name)
        return
    chunk = Chunk(f"{stem(op.name)}_{element}", EXACT)
    for shape, feature, epsilon in _LAYOUTS if is_signed else (((2, 2), 1, 2.0),):
        steps = _Exact(FORMATS[element], shape, feature, epsilon)
        operands, expected = _exact_case(element, name, steps, shape)
        _batch_norm(chunk, op, element, operands, expected, feature, epsilon)
    yield chunk


def _exact_case(element: str, name: str, steps: _Exact, shape: tuple[int, ...]) -> tuple[list[Codes], list[Codes]]:
    """Operands for which no step rounds, not all alike. Raises InexactError if none are found."""
    rng = generator(name, element, str(shape))
    per_feature = (steps.features,)
    shapes = [shape, *[per_feature] * {"inference": 4, "training": 2, "grad": 3}[name]]
    shapes += [shape] if name == "grad" else []
    for _ in range(20000):
        drawn: list[list[Value]] = [list(rng.choices(_NUMBERS, k=math.prod(s))) for s in shapes]
        if name != "training":
            drawn[-1 if name == "inference" else 3] = list(
                rng.choices([n for n in _NUMBERS if n >= 0], k=steps.features)
            )
        if not FORMATS[element].is_signed:
            drawn = [[Fraction(n) for n in numbers] for numbers in _POWERS]
        try:
            result = getattr(steps, name)(*drawn)
        except InexactError:
            continue
        if all(x == 0 for x in result[0]) or any(x == 0 and isinstance(x, float) for xs in result for x in xs):
            continue
        results = [shape, per_feature, per_feature]
        return (
            [codes_of(element, [Fraction(x) for x in xs]).reshape(s) for xs, s in zip(drawn, shapes, strict=True)],
            [
                array([encode(FORMATS[element], x) for x in xs], s)
                for xs, s in zip(result, results[: len(result)], strict=True)
            ],
        )
    raise InexactError(f"{name} in {element}: no operands found")


def _batch_norm(
    chunk: Chunk,
    op: Op,
    element: str,
    operands: list[Codes],
    expected: list[Codes],
    feature: int,
    epsilon: float,
) -> None:
    names = {3: ("x", "scale", "offset"), 5: ("x", "scale", "offset", "mean", "variance")}[len(operands)]
    if op.name.endswith("grad"):
        names = ("x", "scale", "mean", "variance", "grad")
    values = [chunk.constant(c, element, n) for c, n in zip(operands, names, strict=True)]
    attributes = f"epsilon = {epsilon} : f32, feature_index = {feature} : i64"
    results = [(e.shape, element) for e in expected]
    for value, codes in zip(chunk.apply_all(op.name, values, results, attributes), expected, strict=True):
        chunk.expect(value, codes)


def _without_zero(op: Op, element: str, name: str) -> Chunk:
    chunk = Chunk(f"{stem(op.name)}_{element}_open", NO_SUMS + OPEN)
    operands = [codes_of(element, [[1, 2], [4, 2]]), *[codes_of(element, [1, 2])] * (2 if name == "training" else 3)]
    operands += [codes_of(element, [[1, 1], [2, 2]])] if name == "grad" else []
    nan = FORMATS[element].ones
    expected = [array([nan] * 4, (2, 2)), array([nan] * 2), array([nan] * 2)]
    _batch_norm(chunk, op, element, operands, expected, 1, 2.0)
    return chunk


# -- linear algebra ----------------------------------------------------------------------------------------------------


def _only(chunk: Chunk, value: Any, mask: Codes, element: str) -> Any:
    """The value where the mask is 1, and one elsewhere."""
    ones = chunk.constant(array([codes_of(element, 1).item()] * mask.size, mask.shape), element, "ones")
    return chunk.apply("select", [chunk.constant(mask, "i1", "triangle"), value, ones], (mask.shape, element))


@cases("cholesky")
def cholesky(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"cholesky_{element}", EXACT, "The other triangle of the result is open: it is set to ones here.")
    is_signed = FORMATS[element].is_signed
    factors = [[[2, 0], [-1, 1]], [[1, 0, 0], [1, 1, 0], [0, -1, 1]]] if is_signed else [[[2]], [[1, 0], [1, 1]]]
    for factor, lower in share(element, list(itertools.product(factors, (True, False)))):
        whole = np.array(factor, dtype=object) * Fraction(1)
        n = len(factor)
        a = np.array([[sum(whole[i, k] * whole[j, k] for k in range(n)) for j in range(n)] for i in range(n)], object)
        known = np.tri(n, dtype=int) if lower else np.tri(n, dtype=int).T
        read = np.where(known == 1, codes_of(element, np.where(known == 1, a, 1)), some_codes(element, n, n, start=1))
        result = np.where(known == 1, whole if lower else whole.T, 1)
        x = chunk.constant(read, element)
        r = chunk.apply(op.name, [x], ((n, n), element), attributes=f"lower = {'true' if lower else 'false'}")
        chunk.expect(_only(chunk, r, array(known), element), codes_of(element, result.tolist()))
    batch = codes_of(element, [[[1]], [[4]], [[1]]])
    r = chunk.apply(op.name, [chunk.constant(batch, element)], ((3, 1, 1), element), attributes="lower = true")
    chunk.expect(r, codes_of(element, [[[1]], [[2]], [[1]]]))
    r = chunk.apply(op.name, [chunk.constant(array([], (0, 2, 2)), element)], ((0, 2, 2), element))
    chunk.expect(r, array([], (0, 2, 2)))
    yield chunk


#: left_side, lower, unit_diagonal, transposed.
_SOLVES = (
    (True, True, False, False),
    (True, False, False, True),
    (True, False, True, False),
    (False, True, False, False),
    (False, False, False, False),
    (False, True, True, True),
)


@cases("triangular_solve")
def triangular_solve(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(
        f"triangular_solve_{element}",
        EXACT,
        "The other triangle of a is not read, nor its diagonal where that is unit.",
    )
    is_signed = FORMATS[element].is_signed
    for left, lower, unit, transpose in share(element, _SOLVES):
        diagonal, corner = ([1, 2], -1) if is_signed else ([1, 1], 1)
        solution = np.array([[1, 0.5], [2, 1]] if is_signed else [[1, 2], [1, 2]])
        solution = solution if is_signed or left else solution.T
        a = np.array([[diagonal[0], 0], [corner, diagonal[1]]] if lower else [[diagonal[0], corner], [0, diagonal[1]]])
        solved = a * (1 - np.eye(2)) + np.eye(2) if unit else a
        solved = solved.T if transpose else solved
        b = solved @ solution if left else solution @ solved
        junk = some_codes(element, 2, 2, start=5)
        seen = np.tri(2, dtype=int) if lower else np.tri(2, dtype=int).T
        seen = seen * (1 - np.eye(2, dtype=int)) if unit else seen
        read = np.where(seen == 1, codes_of(element, np.where(seen == 1, a, 1).tolist()), junk)
        operands = [chunk.constant(read, element, "a"), chunk.constant(codes_of(element, b.tolist()), element, "b")]
        flags = {"left_side": left, "lower": lower, "unit_diagonal": unit}
        attributes = ", ".join(f"{n} = {'true' if v else 'false'}" for n, v in flags.items())
        attributes += f", transpose_a = #stablehlo<transpose {'TRANSPOSE' if transpose else 'NO_TRANSPOSE'}>"
        r = chunk.apply(op.name, operands, ((2, 2), element), attributes=attributes)
        chunk.expect(r, codes_of(element, solution.tolist()))
    yield chunk


# -- others ------------------------------------------------------------------------------------------------------------


@extra_cases("stablehlo.composite")
def composite(element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"composite_{element}", "Its decomposition is run: here, the larger of two numbers.")
    x, y = some_codes(element, 16), some_codes(element, 16, start=5)
    t = tensor((16,), element)
    chunk.functions.append(
        f"func.func private @larger_{element}(%a: {t}, %b: {t}) -> {t} {{\n"
        f"  %c = stablehlo.maximum %a, %b : {t}\n  return %c : {t}\n}}"
    )
    operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
    attributes = (
        f'name = "minihlo.larger", decomposition = @larger_{element}, composite_attributes = {{}}, version = 1 : i32'
    )
    r = chunk.apply("composite", operands, ((16,), element), attributes=attributes)
    chunk.expect(r, each(element, oracle.maximum, x, y))
    yield chunk


@cases("rng")
def rng(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"rng_{element}", "Which numbers these are is open: all of them lie within the bounds.")
    low, high = codes_of(element, 1), codes_of(element, 4)
    operands = [chunk.constant(low, element, "low"), chunk.constant(high, element, "high")]
    operands.append(chunk.constant(array([3, 4]), "i64", "shape"))
    r = chunk.apply(
        op.name, operands, ((3, 4), element), attributes="rng_distribution = #stablehlo<rng_distribution UNIFORM>"
    )
    for direction, bound in (("GE", operands[0]), ("LE", operands[1])):
        whole = chunk.apply("broadcast", [bound], ((3, 4), element), attributes="broadcast_sizes = array<i64: 3, 4>")
        attributes = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
        within = chunk.apply("compare", [r, whole], ((3, 4), "i1"), attributes=attributes, name="within")
        chunk.expect(within, array([1] * 12, (3, 4)))
    yield chunk
