"""Cases of sums of products: dot products, einsums, convolutions.

How a sum is rounded is the implementation's to choose. The operands here are drawn so that every product, and every sum
of some of them, is a number of the format: then all choices agree. What tells them apart has functions of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from minihlo.ops.op import Op
from tests import oracle
from tests.oracle import FORMATS, Fraction, decode, encode

from .catalog import cases, stem
from .chunk import Chunk
from .elementwise import generator
from .numbers import Codes, array, codes_of, each, is_nan, one, share, specials

AGREE = "Every product and every partial sum is a number of the format, so that all ways of summing give the same."
ONCE = (
    "Policy: the sum is exact, or wide enough (f32), and is rounded once. An implementation that rounds to the element "
    "type after each step gives less: it loses the small terms one by one."
)

Index = tuple[int, ...]
#: For each element of a result, the places in the operands whose products are summed.
Terms = dict[Index, list[tuple[Index, Index]]]

#: Numbers to draw operands from: the first list that leads to exact sums is taken.
_NUMBERS = ((1, -1, 2, -2, 0.5, -0.5, 1.5, 3), (1, -1, 2, 0.5, -0.5), (1, -1, 2), (1, -1, 0))


def draw(element: str, shapes: tuple[Index, Index], terms: Terms, salt: str) -> tuple[Codes, Codes]:
    """Operands of these shapes with exact sums. Raises ValueError if none are found."""
    if not FORMATS[element].is_signed:
        one = codes_of(element, 1).item()
        return array([one] * math.prod(shapes[0]), shapes[0]), array([one + 1] * math.prod(shapes[1]), shapes[1])
    rng = generator(salt, element)
    for numbers in _NUMBERS:
        codes = codes_of(element, numbers)
        for _ in range(40):
            x, y = (array(rng.choices(list(codes), k=math.prod(s)), s) for s in shapes)
            if all(is_exact(element, [(x[a], y[b]) for a, b in places]) for places in terms.values()):
                return x, y
    raise ValueError(f"no operands in {element} with exact sums")


def is_exact(element: str, pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether each sum of some of the products is a number of the format; and not all products zeros, of some sign."""
    fmt = FORMATS[element]
    products = [oracle.multiply(decode(fmt, a), decode(fmt, b)) for a, b in pairs]
    sums = {Fraction(0)}
    for p in products:
        sums |= {s + Fraction(p) for s in sums}
    held = all(decode(fmt, encode(fmt, s)) == s for s in sums)
    return held and (not products or any(p != 0 for p in products))


def sum_products(element: str, x: Codes, y: Codes, terms: Terms, shape: Index, result: str | None = None) -> Codes:
    """The sums of products, exact and rounded once."""
    fmt, results = FORMATS[element], np.empty(shape, object)
    for index, places in terms.items():
        total = sum((Fraction(decode(fmt, x[a])) * Fraction(decode(fmt, y[b])) for a, b in places), Fraction(0))
        results[index] = encode(FORMATS[result or element], total)
    return results


# -- einsum, and all that is one ---------------------------------------------------------------------------------------


def einsum_terms(x: str, y: str, out: str, sizes: dict[str, int]) -> Terms:
    """The places of a sum of products by labels: a letter for each dimension."""
    summed_over = "".join(dict.fromkeys(c for c in x + y if c not in out))
    result: Terms = {}
    for index in itertools.product(*(range(sizes[c]) for c in out)):
        places = []
        for inner in itertools.product(*(range(sizes[c]) for c in summed_over)):
            at = dict(zip(out + summed_over, index + inner, strict=True))
            places.append((tuple(at[c] for c in x), tuple(at[c] for c in y)))
        result[index] = places
    return result


def product(
    chunk: Chunk, op: str, element: str, labels: str, sizes: dict[str, int], attributes: str, result: str | None = None
) -> None:
    """A product whose dimensions are labelled as in `ab,bc->ac`."""
    inputs, _, out = labels.partition("->")
    x_labels, _, y_labels = inputs.partition(",")
    shapes = tuple(sizes[c] for c in x_labels), tuple(sizes[c] for c in y_labels)
    terms = einsum_terms(x_labels, y_labels, out, sizes)
    x, y = draw(element, shapes, terms, f"{op} {labels}")
    shape = tuple(sizes[c] for c in out)
    operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
    r = chunk.apply(op, operands, (shape, result or element), attributes=attributes)
    chunk.expect(r, sum_products(element, x, y, terms, shape, result))


def _sizes(element: str, k: int = 3) -> dict[str, int]:
    """Sizes by label: k is summed over."""
    return {"a": 2, "b": 3, "g": 2, "h": 2, "k": k if FORMATS[element].is_signed else 2, "z": 0}


@cases("dot_general")
def dot_general(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"dot_general_{element}", AGREE)
    sizes = _sizes(element)
    for labels, batching, contracting in share(
        element,
        (
            ("ak,kb->ab", ([], []), ([1], [0])),
            ("gak,gkb->gab", ([0], [0]), ([2], [1])),
            ("ka,bk->ab", ([], []), ([0], [1])),
            ("az,zb->ab", ([], []), ([1], [0])),
        ),
    ):
        if labels.startswith("az") and not FORMATS[element].is_signed:
            continue  # a sum of nothing is zero, which the format does not have
        product(chunk, op.name, element, labels, sizes, _numbers(batching, contracting))
    product(chunk, op.name, element, "ak,kb->ab", sizes, _numbers(([], []), ([1], [0])), "f32")
    yield chunk
    yield _outer(op, element)
    if FORMATS[element].bits <= 8 and FORMATS[element].is_signed:
        yield _rounded_once(op, element, _numbers(([], []), ([0], [0])))


def _numbers(batching: tuple[list[int], list[int]], contracting: tuple[list[int], list[int]]) -> str:
    named = ", ".join(
        f"{side}_{kind}_dimensions = {pair[i]}"
        for kind, pair in (("batching", batching), ("contracting", contracting))
        for i, side in enumerate(("lhs", "rhs"))
    )
    return f"dot_dimension_numbers = #stablehlo.dot<{named}>"


def _outer(op: Op, element: str) -> Chunk:
    """One product for each result: special values, overflow and underflow."""
    chunk = Chunk(f"dot_general_{element}_special", "Sums of one product each: infinities, NaN, overflow, underflow.")
    fmt = FORMATS[element]
    tail = [c for c in specials(element) if is_nan(element, c)][:1]
    tail += [fmt.max_code + 1] if fmt.has_infinity else []
    numbers = [one(element), fmt.max_code, *tail]
    if fmt.is_signed:
        # No product is -0, which some make +0 by adding it to that.
        others = [0, 1, one(element), one(element) | fmt.sign_bit, fmt.max_code | fmt.sign_bit, *tail]
    else:
        others = [0, one(element), fmt.max_code, *tail]
    x, y = array(numbers, (len(numbers), 1)), array(others, (1, len(others)))
    operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
    shape = len(numbers), len(others)
    r = chunk.apply(op.name, operands, (shape, element), attributes=_numbers(([], []), ([1], [0])))
    chunk.expect(r, each(element, oracle.multiply, x, y))
    return chunk


def _rounded_once(op: Op, element: str, attributes: str) -> Chunk:
    chunk = Chunk(f"{stem(op.name)}_{element}_rounded_once", ONCE)
    fmt = FORMATS[element]
    ulp = Fraction(2) ** (1 - fmt.mantissa_bits)  # of 2
    ones = [Fraction(1)]
    for numbers in ([Fraction(2), ulp / 2, ulp / 2], [-Fraction(2), -ulp / 2, -ulp / 2], [Fraction(2), *[ulp / 2] * 3]):
        x, y = codes_of(element, numbers), codes_of(element, ones * len(numbers))
        operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
        r = chunk.apply(op.name, operands, ((), element), attributes=attributes)
        chunk.expect(r, array(encode(fmt, sum(numbers, Fraction(0))), ()))
    return chunk


@cases("dot")
def dot(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"dot_{element}", AGREE)
    for labels in share(element, ("ak,kb->ab", "ak,k->a", "k,k->", "zk,kb->zb")):
        product(chunk, op.name, element, labels, _sizes(element), "")
    yield chunk
    if FORMATS[element].bits <= 8 and FORMATS[element].is_signed:
        yield _rounded_once(op, element, "")


@cases("einsum")
def einsum(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"einsum_{element}", AGREE)
    for labels in share(element, ("ak,kb->ab", "gak,gbk->gab", "a,b->ba", "gh,h->gh")):
        product(chunk, op.name, element, labels, _sizes(element), f'einsum_config = "{labels}"')
    yield chunk


@cases("unary_einsum")
def unary_einsum(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"unary_einsum_{element}", AGREE)
    sizes = _sizes(element)
    for labels in ("ab->ba", "ak->a", "kb->b"):
        inner, out = labels.split("->")
        shape = tuple(sizes[c] for c in inner)
        terms = einsum_terms(inner, "", out, sizes)
        x, y = draw(element, (shape, ()), terms, labels)
        if FORMATS[element].is_signed:
            terms = {index: [(a, ()) for a, _ in places] for index, places in terms.items()}
        y = codes_of(element, 1)
        result = tuple(sizes[c] for c in out)
        r = chunk.apply(
            op.name, [chunk.constant(x, element)], (result, element), attributes=f'einsum_config = "{labels}"'
        )
        chunk.expect(r, sum_products(element, x, y, terms, result))
    yield chunk


@cases("chlo.ragged_dot")
def ragged_dot(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(
        f"{stem(op.name)}_{element}", "Rows in groups of sizes 1 and 2, each times a matrix of its own. " + AGREE
    )
    sizes = {"m": 3, "n": 2, "g": 2, **_sizes(element)}
    group = (0, 1, 1)
    terms: Terms = {(m, n): [((m, k), (group[m], k, n)) for k in range(sizes["k"])] for m in range(3) for n in range(2)}
    x, y = draw(element, ((3, sizes["k"]), (2, sizes["k"], 2)), terms, "ragged")
    operands = [chunk.constant(x, element), chunk.constant(y, element, "y")]
    operands.append(chunk.constant(array([1, 2]), "i64", "sizes"))
    numbers = (
        "lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], "
        "rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]"
    )
    r = chunk.apply(
        op.name, operands, ((3, 2), element), attributes=f"ragged_dot_dimension_numbers = #chlo.ragged_dot<{numbers}>"
    )
    chunk.expect(r, sum_products(element, x, y, terms, (3, 2)))
    yield chunk
