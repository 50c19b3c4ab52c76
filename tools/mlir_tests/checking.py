"""Cases of the checks themselves: conditions on results."""

from __future__ import annotations

from collections.abc import Iterator

from minihlo.ops.op import Op
from tests.oracle import FORMATS

from .catalog import cases, stem
from .chunk import Chunk
from .numbers import array, is_nan, literal, one, some_codes, specials

HOLDS = "That checks hold where they should. (Where they should not is nothing a passing test can show.)"


@cases("check.expect_eq", "check.expect_eq_const")
def expect_eq(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", HOLDS, "Zeros of either sign are equal; NaN equals nothing.")
    codes = [c for c in some_codes(element, 30) if not is_nan(element, c)][:16]
    fmt = FORMATS[element]
    other = [c if c & fmt.ones or fmt.nan == "sign" or not fmt.is_signed else c ^ fmt.sign_bit for c in codes]
    _check(chunk, op, element, codes, other, "")
    yield chunk


@cases("check.expect_almost_eq", "check.expect_almost_eq_const")
def expect_almost_eq(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", HOLDS, "NaN matches NaN, and equal infinities match.")
    codes = [*specials(element)]
    _check(chunk, op, element, codes, codes, "")
    _check(chunk, op, element, [one(element)], [one(element) + 1], "{tolerance = 1.0}")
    yield chunk


@cases("check.expect_close")
def expect_close(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", HOLDS, "NaN is close to NaN; two neighbours are one ULP apart.")
    codes = [*specials(element)]
    _check(chunk, op, element, codes, codes, "max_ulp_difference = 0")
    _check(chunk, op, element, [one(element)], [one(element) + 1], "max_ulp_difference = 1, min_ulp_difference = 1")
    yield chunk


@cases("check.expect_serialized_eq")
def expect_serialized_eq(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", HOLDS, "What a probe has kept is there bit for bit.")
    x = chunk.constant(some_codes(element, 12), element)
    r = chunk.apply("interpreter.probe", [x], (x.shape, element), attributes='probe_id = "x"')
    chunk.line(f'check.expect_serialized_eq {r.name}, probe_id = "x" : {r.type}')
    yield chunk


def _check(chunk: Chunk, op: Op, element: str, codes: list[int], other: list[int], more: str) -> None:
    x = chunk.constant(array(codes), element)
    if op.name.endswith("_const"):
        dense = f"dense<[{', '.join(literal(element, c) for c in other)}]>"
        chunk.line(f"{op.name} {x.name}, {dense}{' ' + more if more else ''} : {x.type}")
        return
    y = chunk.constant(array(other), element, "y")
    if op.name.endswith("close"):
        chunk.line(f"{op.name} {x.name}, {y.name}, {more} : {x.type}, {y.type}")
    else:
        chunk.line(f"{op.name} {x.name}, {y.name}{' ' + more if more else ''} : {x.type}")
