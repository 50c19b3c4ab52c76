"""Backends that form sums of products in a way of their own, and the tester run on them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minihlo.interp.backends.operation import Operation
from minihlo.interp.conform.result import CaseResult
from minihlo.interp.oracle.formats import FORMATS
from minihlo.interp.oracle.rounding import Exact, encode
from minihlo.interp.oracle.sums import exact_sums
from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.accumulators.sums import dots

from . import planted

Codes = np.ndarray
#: Gets the rows of both operands, [results, k] of codes, and the types; gives the sums.
Sums = Callable[[Codes, Codes, tuple[str, ...], str], Exact]
FEW = ("length-3", "length-8", "length-64", "length-1000", "transposed", "reversed")


def terms(x: Codes, y: Codes, types: Sequence[str]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return FORMATS[types[0]].decode(x) * FORMATS[types[1]].decode(y)


def exact(x: Codes, y: Codes, types: Sequence[str], *_: str) -> Exact:
    return exact_sums(terms(x, y, types))


def rows(operation: Operation, arrays: Sequence[Codes]) -> tuple[Codes, Codes, tuple[int, ...]]:
    """The operands of each result, and the shape of the results."""
    x, y = arrays
    if operation.op == "dot_general":
        shape = (*x.shape[:-1], y.shape[-1])
        return np.repeat(x, y.shape[1], axis=0), np.tile(y.T, (len(x), 1)), shape
    window = y.shape[0]
    width = x.shape[1] - window + 1
    places = np.stack([x[:, i : i + window].reshape(len(x), -1) for i in range(width)], axis=1)
    flat, kernel = places.reshape(-1, places.shape[-1]), y.reshape(-1, y.shape[-1])
    return (np.repeat(flat, kernel.shape[1], axis=0), np.tile(kernel.T, (len(flat), 1)), (len(x), width, y.shape[-1]))


class Backend(planted.Operations):
    """Products as a function forms their sums, and as another changes the results."""

    def __init__(self, sums: Sums = exact, change: Callable[[Codes], Codes] | None = None, through: str = "") -> None:
        self.sums, self.change, self.through = sums, change, through

    def operate(self, operation: Operation, arrays: Sequence[Codes]) -> Codes:
        x, y, shape = rows(operation, arrays)
        sums = self.sums(x, y, operation.operands, operation.result)
        if self.through:
            fmt = FORMATS[self.through]
            sums = Exact.of(fmt.decode(encode(fmt, sums)[0]))
        with np.errstate(all="ignore"):
            found = encode(FORMATS[operation.result], sums)[0].reshape(shape)
        return found if self.change is None else self.change(found)


def run(backend: Any, signature: str, only: Sequence[str] = FEW, **settings: Any) -> list[CaseResult]:
    """The results of a case in some forms."""
    return planted.run(backend, signature, only, level=2, **settings)


def verdicts(found: Sequence[CaseResult]) -> dict[str, str]:
    return {r.form: r.verdict for r in found}


def in_f32(order: Callable[[int], np.ndarray]) -> Sums:
    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        products = terms(x, y, types).astype(np.float32)
        total = np.zeros(len(products), np.float32)
        with np.errstate(all="ignore"):
            for k in order(products.shape[1]):
                total = total + products[:, k]
        return Exact.of(total.astype(np.float64))

    return sums


def record(name: Accumulator) -> Sums:
    return lambda x, y, types, _: Exact.of(dots(name, x, y, *types).astype(np.float64))
