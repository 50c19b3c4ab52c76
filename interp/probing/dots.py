"""The dots of a probe: packed into matrix products, so that one call answers thousands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from ..backends import OPERATIONS, BackendError
from ..backends.operation import Operation
from ..backends.programs import Builder, decode, tensor
from ..errors import CheckFailure

#: Rows and columns of a matrix product: one tile of chip units, so that every dot is summed in one way.
TILE = 32
#: Matrix products in one program. A backend that starts a process for each program is called less often.
PRODUCTS = 8


@dataclasses.dataclass(frozen=True)
class Signature:
    """The types of a dot and its number of products."""

    lhs: str  #: element types, by MLIR's names
    rhs: str
    result: str
    k: int

    def __str__(self) -> str:
        operands = self.lhs if self.lhs == self.rhs else f"{self.lhs} by {self.rhs}"
        return f"{operands} into {self.result}, k = {self.k}"


class Asker:
    """Asks a backend for dots, counts them, and reports the state of a probe to `progress`."""

    def __init__(self, backend: Any, signature: Signature, progress: Callable[[str], None] | None = None) -> None:
        self.signature, self._progress = signature, progress
        self.dots = self.calls = self._compared = 0
        self._name = str(getattr(backend, "name", type(backend).__name__))
        takes_operations = getattr(backend, "takes", "") == OPERATIONS
        self._products: Callable[[np.ndarray, np.ndarray], list[np.ndarray]] = (
            _Operations(backend, signature) if takes_operations else _Programs(backend, signature)
        )

    def ask(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the codes of dots.

        Args:
            x: The codes of the left operands, [dots, k].
            y: Those of the right operands.

        Returns:
            Codes of the result type, [dots].

        Raises:
            BackendError: The backend does not take such dots, or does not exist.
            ProbeFailure: It crashed, or results have another shape or type than the program's.
        """
        if not len(x):
            return np.zeros(0, ELEMENT_TYPES[self.signature.result].format.code_dtype)
        (rows, row), (columns, column) = _number_rows(x), _number_rows(y)
        tiles, tile = np.unique(np.stack([row // TILE, column // TILE], 1), axis=0, return_inverse=True)
        lhs = np.stack([_pad(rows[i * TILE : (i + 1) * TILE]) for i in tiles[:, 0]])
        rhs = np.stack([_pad(columns[i * TILE : (i + 1) * TILE]) for i in tiles[:, 1]])
        self.dots += len(x)
        return self._matrices(lhs, rhs)[tile.reshape(-1), row % TILE, column % TILE]

    def matrices(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the codes of whole products of [n, TILE, k] and [n, TILE, k], each row with each, [n, TILE, TILE]."""
        self.dots += x.shape[0] * TILE * TILE
        return self._matrices(x, y)

    def count_compared(self, records: int) -> None:
        """Count records that have been compared with the answers."""
        self._compared += records
        if self._progress is not None:
            self._progress(f"{self.dots:,} dots asked, {self._compared:,} accumulators compared")

    def _matrices(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        n = len(x)
        size = PRODUCTS if n > 1 else 1
        short = -n % size
        if short:
            x, y = (np.concatenate([a, np.repeat(a[-1:], short, axis=0)]) for a in (x, y))
        results = []
        for i in range(0, len(x), size):
            self.calls += 1
            results.append(self._answer(x[i : i + size], y[i : i + size].swapaxes(1, 2)))
            self.count_compared(0)
        return np.concatenate(results)[:n]

    def _answer(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        try:
            results = list(self._products(x, y))
        except BackendError as error:
            if error.is_lack or error.how == "absent":
                raise
            raise ProbeFailure(str(error)) from None
        shapes = [np.shape(r) for r in results]
        if shapes != [(TILE, TILE)] * len(x):
            kind = tensor((TILE, TILE), self.signature.result)
            raise ProbeFailure(
                f"{self._name}: expected {len(x)} result{'s' * (len(x) > 1)} of {kind}, "
                f"got shapes {', '.join(map(str, shapes)) or 'none'}"
            )
        dtype = ELEMENT_TYPES[self.signature.result].format.code_dtype
        for r in results:
            if np.asarray(r).dtype != dtype:
                raise ProbeFailure(f"{self._name}: expected results of {dtype}, got {np.asarray(r).dtype}")
        return np.stack(results)


class _Programs:
    """Matrix products as programs."""

    def __init__(self, backend: Any, signature: Signature) -> None:
        self._backend, self._signature = backend, signature

    def __call__(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        s, builder = self._signature, _Distinct()
        gives = tensor((TILE, TILE), s.result)
        for a, b in zip(x, y, strict=True):
            values = builder.input(a, s.lhs), builder.input(b, s.rhs)
            kinds = f"({tensor(a.shape, s.lhs)}, {tensor(b.shape, s.rhs)})"
            text = f"stablehlo.dot_general {values[0]}, {values[1]}, contracting_dims = [1] x [0] : {kinds} -> {gives}"
            builder.output(builder.op(text), s.result, (TILE, TILE))
        results = self._backend.evaluate(builder.text(), builder.arguments)
        return [decode(np.asarray(r), s.result) for r in results]


class _Distinct(Builder):
    """A program whose text does not depend on the values of its arguments, so that it is compiled once."""

    def input(self, codes: np.ndarray, element: str) -> str:
        return self._argument(codes, element)


class _Operations:
    """Matrix products as single operations."""

    def __init__(self, backend: Any, signature: Signature) -> None:
        self._backend = backend
        self._operation = Operation("dot_general", (signature.lhs, signature.rhs), signature.result)

    def __call__(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        return [np.asarray(self._backend.operate(self._operation, [a, b])) for a, b in zip(x, y, strict=True)]


def _number_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows in order of first occurrence, and the index of each row among them."""
    numbers: dict[bytes, int] = {}
    wide = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    number = np.array([numbers.setdefault(row, len(numbers)) for row in wide.tolist()], np.intp)
    first = np.empty(len(numbers), np.intp)
    first[number[::-1]] = np.arange(len(rows))[::-1]
    return rows[first], number


def _pad(rows: np.ndarray) -> np.ndarray:
    """Return TILE rows: the given ones, and copies of the last."""
    return rows if len(rows) == TILE else np.concatenate([rows, np.repeat(rows[-1:], TILE - len(rows), axis=0)])


class ProbeFailure(CheckFailure):
    """No accumulator gives the backend's answers. The message shows the operands and results."""
