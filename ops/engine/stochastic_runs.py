"""Stochastic rounding along runs: a function of two numbers of f16 or bf16, whose results are its next operands."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable

import numpy as np

from ..draws import Draws
from ..minifloat import arithmetic
from ..minifloat.codec import decode
from ..minifloat.formats import Format
from ..minifloat.number import Number
from ..policy import Policy
from .stochastic import FEW, TOGETHER
from .stochastic_arrays import array_value, by_exact, choose, margin_of

#: Python's own operators that compute as the host does in f64, by the exact function.
_PLAIN = {arithmetic.add: operator.add, arithmetic.subtract: operator.sub, arithmetic.multiply: operator.mul}


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
                totals = self._together(totals, some, numbers, bits, draws, place, here)
                continue
            for j in range(width):
                self._one(totals[j : j + 1], some[:, j], numbers[:, j], bits[:, j], draws, place + j, width, here, j)
        return totals

    def _together(
        self,
        totals: np.ndarray,
        codes: np.ndarray,
        numbers: np.ndarray,
        bits: np.ndarray,
        draws: Draws,
        place: int,
        kept: np.ndarray | None,
    ) -> np.ndarray:
        """Many runs: some steps of all as if the first bits of draws decided each, and again the runs where not."""
        fmt, (steps, width) = self.format, numbers.shape
        dropped = 53 - fmt.precision  # of the bits of f64
        # What is added carries into the bits that are kept where there is more to cut off than the draw says.
        added = np.bitwise_not(bits).astype(np.uint64) << np.uint64(dropped - 16)
        mask = np.uint64((1 << 64) - (1 << dropped))
        wide, value = np.empty_like(numbers), totals.view(fmt.dtype).astype(np.float64)
        words, value_words = wide.view(np.uint64), value.view(np.uint64)
        for i in range(steps):
            wide[i] = self.host(value, numbers[i])
            np.add(words[i], added[i], out=value_words)
            np.bitwise_and(value_words, mask, out=value_words)
        size = np.abs(wide)
        unsure = (size < 2.0 ** (fmt.min_exponent + fmt.mantissa_bits)) & (size != 0)
        unsure |= ~(size < float(array_value(fmt, fmt.max_code)))
        words += added
        unsure |= (words >> np.uint64(dropped - 16)).astype(np.uint16) + np.uint16(2) <= 2
        again = np.flatnonzero(unsure.any(axis=0))
        if len(again) > width >> 2:
            for i, row in enumerate(numbers):
                totals = self._step(totals, codes[i], row, bits[i], draws, place + i * width)
                if kept is not None:
                    kept[i] = totals
            return totals
        words &= mask
        ends = value.astype(fmt.dtype).view(fmt.code_dtype)
        if kept is not None:
            kept[...] = wide.astype(fmt.dtype).view(fmt.code_dtype)
        for j in again.tolist():
            first = int(unsure[:, j].argmax())
            if first:
                ends[j : j + 1] = wide[first - 1, j : j + 1].astype(fmt.dtype).view(fmt.code_dtype)
            else:
                ends[j] = totals[j]
            self._one(
                ends[j : j + 1],
                codes[first:, j],
                numbers[first:, j],
                bits[first:, j],
                draws,
                place + first * width + j,
                width,
                None if kept is None else kept[first:],
                j,
            )
        return ends

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
        fmt, host = self.format, _PLAIN.get(self.direct, self.host)
        value, values = float(total.view(fmt.dtype)[0]), total.view(fmt.dtype)
        largest, path = float(array_value(fmt, fmt.max_code)), []
        exact: dict[int, int] = {}  # codes that are not in `path`, of NaN for one
        low, high, unit, units = (
            1.0,
            0.0,
            0.0,
            0.0,
        )  # the powers of two a size lies between, and the format's step there
        for i, (number, drawn) in enumerate(zip(numbers.tolist(), bits.tolist(), strict=True)):
            wide = float(host(value, number))
            size = -wide if wide < 0 else wide
            is_sure = size < largest
            if is_sure:
                if not low <= size < high:
                    exponent = math.frexp(size)[1]
                    quantum = max(exponent - fmt.precision, fmt.min_exponent)
                    unit, units = math.ldexp(1.0, quantum), math.ldexp(1.0, -quantum)
                    low, high = math.ldexp(0.5, exponent), math.ldexp(1.0, exponent)
                scaled = size * units
                whole = int(scaled)
                fraction = int((scaled - whole) * 65536)
                is_sure = (fraction - drawn + 1) & 0xFFFF > 2
                if is_sure:
                    value = math.copysign((whole + (drawn < fraction)) * unit, wide)
            if not is_sure:
                values[0] = value
                total[:] = self._step(
                    total, codes[i : i + 1], numbers[i : i + 1], bits[i : i + 1], draws, place + i * width
                )
                value, exact[i] = float(values[0]), int(total[0])
            if kept is not None:
                path.append(value)
        values[0] = value
        if kept is not None:
            kept[:, column] = np.array(path).astype(fmt.dtype).view(fmt.code_dtype)
            kept[list(exact), column] = list(exact.values())
