"""Stochastic rounding along runs: a function of two numbers of f16 or bf16, whose results are its next operands."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..draws import Draws
from ..minifloat.codec import decode
from ..minifloat.formats import Format
from ..minifloat.number import Number
from ..policy import Policy
from .stochastic import FEW, TOGETHER
from .stochastic_arrays import array_value, by_exact, choose, margin_of


@dataclasses.dataclass(frozen=True)
class Steps:
    """A function of two numbers of f16 or bf16, along runs: `host` computes it in f64, `direct` exactly."""

    host: Callable[..., np.ndarray]
    direct: Callable[..., Number]
    format: Format
    policy: Policy

    def along(self, starts: np.ndarray, rows: np.ndarray, draws: Draws, kept: np.ndarray | None = None) -> np.ndarray:
        """As `Choices.along`; codes in, codes out."""
        dtype, (steps, width), first = self.format.dtype, rows.shape, draws.take(rows.size)
        totals, step = starts.copy(), max(TOGETHER // width, 1)
        for begin in range(0, steps, step):
            some = rows[begin : begin + step]
            place = first + begin * width
            bits = draws.bits(place, some.size).reshape(some.shape)
            numbers = some.view(dtype).astype(np.float64)
            here = None if kept is None else kept[begin : begin + step]
            if width > FEW:
                for i, row in enumerate(numbers):
                    totals = self._step(totals, some[i], row, bits[i], draws, place + i * width)
                    if here is not None:
                        here[i] = totals
                continue
            for j in range(width):
                self._one(totals[j : j + 1], some[:, j], numbers[:, j], bits[:, j], draws, place + j, width, here, j)
        return totals

    def _step(
        self, totals: np.ndarray, codes: np.ndarray, row: np.ndarray, bits: np.ndarray, draws: Draws, place: int
    ) -> np.ndarray:
        fmt = self.format
        wide = self.host(totals.view(fmt.dtype).astype(np.float64), row)
        found, doubtful = choose(wide, fmt, self.policy, bits, 1 + margin_of(fmt))
        if len(doubtful):
            exact = self.direct(decode(totals[doubtful], fmt), decode(codes[doubtful], fmt))
            found[doubtful] = by_exact(exact, fmt, self.policy, draws, place + doubtful, bits[doubtful])
        return found

    def _one(
        self,
        total: np.ndarray,
        codes: np.ndarray,
        numbers: np.ndarray,
        bits: np.ndarray,
        draws: Draws,
        place: int,
        width: int,
        kept: np.ndarray | None,
        column: int,
    ) -> None:
        """A single run, in Python; `total` is its first accumulator, and then its last."""
        fmt, host = self.format, self.host
        value, values = float(total.view(fmt.dtype)[0]), total.view(fmt.dtype)
        largest = float(array_value(fmt, fmt.max_code))
        for i, (number, drawn) in enumerate(zip(numbers.tolist(), bits.tolist(), strict=True)):
            wide = float(host(value, number))
            size = abs(wide)
            is_sure = size < largest
            if is_sure:
                quantum = max(math.frexp(size)[1] - fmt.precision, fmt.min_exponent)
                scaled = math.ldexp(size, -quantum)
                low = int(scaled)
                fraction = int((scaled - low) * 65536)
                is_sure = (fraction - drawn + 1) & 0xFFFF > 2
                size = math.ldexp(low + (drawn < fraction), quantum)
            if is_sure:
                value = math.copysign(size, wide)
                if kept is not None:
                    values[0] = value
            else:
                values[0] = value
                total[:] = self._step(
                    total, codes[i : i + 1], numbers[i : i + 1], bits[i : i + 1], draws, place + i * width
                )
                value = float(values[0])
            if kept is not None:
                kept[i, column] = total[0]
        values[0] = value
