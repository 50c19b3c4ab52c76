"""Elementwise cases as programs, in every form; as calls of single operations; and their judgement."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from ..backends.operation import Operation
from ..backends.programs import Builder, compare_attributes, tensor
from ..judging.functions import sides_of_function
from ..oracle.exact import evaluate
from ..oracle.expected import Expected, expected
from ..oracle.formats import FORMATS, code_dtype
from ..oracle.rounding import Exact, encode
from .cases import chains
from .cases.case import Case
from .cases.forms import LAYOUTS, SIZES, emit, view
from .part import BasePart, Call
from .verdicts.judge import Judgement, judge


@dataclasses.dataclass(frozen=True, eq=False)
class Part(BasePart):
    """One case in one form on some operands: one result of a program."""

    #: For forms with a scalar, the number of elements it is combined with. In their first half it is the first operand.
    segment: int = 1
    #: Permitted conversions of floats to integers: by the backend's own specification, else StableHLO's.
    to_integers: tuple[str, ...] = ("toward zero",)

    #: The operand, for layouts of a single operand.
    side: int = 0

    @property
    def size(self) -> int:
        """The number of results."""
        return len(self.arrays[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return LAYOUTS[self.form].shape if self.form in LAYOUTS else (self.size,)

    # -- as part of a program ------------------------------------------------------------------------------------------

    def emit(self, builder: Builder) -> None:
        """Adds the case to a program, as its next result."""
        t = tensor(self.shape, self.case.result)
        if self.form in ("scalar", "broadcast"):
            value = self._emit_scalars(builder)
        else:
            given = enumerate(zip(self.arrays, self.case.operands, strict=True))
            values = [self._emit_operand(builder, i, x, kind) for i, (x, kind) in given]
            value = emit_op(builder, self.case, values, self.shape)
            if self.form == "chain":
                value = builder.generic("subtract", [value, values[0]], [t, t], t)
            elif self.form == "upcast":
                value = builder.generic("convert", [value], [t], tensor(self.shape, "f32"))
        builder.output(value, self.result_type, self.shape)

    def _emit_operand(self, builder: Builder, i: int, codes: np.ndarray, element: str) -> str:
        """Adds an operand to a program; returns the name of its value."""
        if self.form in LAYOUTS:
            return emit(builder, self._layout(i), codes, element)
        if self.form == "unaligned":
            whole, n = builder.input(np.concatenate([codes[:3], codes]), element), len(codes)
            types = f"({tensor((n + 3,), element)}) -> {tensor((n,), element)}"
            return builder.op(f"stablehlo.slice {whole} [3:{n + 3}] : {types}")
        return (builder.constant if self.form == "constant" else builder.input)(codes, element)

    def _layout(self, operand: int) -> str:
        """The layout of an operand: if the form concerns one operand, the others only have its dimensions."""
        return self.form if operand == self.side or not LAYOUTS[self.form].is_of_one else "rank-2"

    def _emit_scalars(self, builder: Builder) -> str:
        n, pieces = self.segment, []
        make = builder.constant if self.form == "scalar" else builder.input
        for side, place in self._segments():
            values = []
            for i, (codes, element) in enumerate(zip(self.arrays, self.case.operands, strict=True)):
                if i == side:
                    single = make(codes[place.start].reshape(()), element)
                    takes, gives = tensor((), element), tensor((n,), element)
                    text = f"stablehlo.broadcast_in_dim {single}, dims = [] : ({takes}) -> {gives}"
                    values.append(builder.op(text))
                else:
                    values.append(builder.input(codes[place], element))
            pieces.append(emit_op(builder, self.case, values, (n,)))
        if len(pieces) == 1:
            return pieces[0]
        of, gives = ", ".join([tensor((n,), self.case.result)] * len(pieces)), tensor((self.size,), self.case.result)
        return builder.op(f"stablehlo.concatenate {', '.join(pieces)}, dim = 0 : ({of}) -> {gives}")

    def _segments(self) -> Iterator[tuple[int, slice]]:
        """The index of the scalar operand, and its position, for each segment."""
        half = self.size // 2
        for start in range(0, self.size, self.segment):
            yield int(start >= half), slice(start, start + self.segment)

    @property
    def result_type(self) -> str:
        """The element type of the program's result."""
        return "f32" if self.form == "upcast" else self.case.result

    # -- as a call -----------------------------------------------------------------------------------------------------

    def contributing(self, i: int) -> list[list[int]]:
        """See BasePart."""
        return [[int(x[i])] for x in self.arrays]

    def operate(self, call: Call) -> list[np.ndarray]:
        """See BasePart."""
        operation = Operation(self.case.op, self.case.operands, self.case.result, dict(self.case.attributes))
        if self.form != "broadcast":
            given = [np.concatenate([x[:3], x])[3:] if self.form == "unaligned" else x for x in self.arrays]
            given = [view(self._layout(i), x) for i, x in enumerate(given)] if self.form in LAYOUTS else given
            return [call(operation, given)]
        pieces = []
        for side, place in self._segments():
            taken = [x[place.start].reshape(()) if i == side else x[place] for i, x in enumerate(self.arrays)]
            pieces.append(call(operation, taken))
        shapes = {p.shape for p in pieces} - {(self.segment,)}
        return [np.concatenate(pieces) if not shapes else next(p for p in pieces if p.shape in shapes)]

    # -- judgement -----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def expected(self) -> Expected:
        """The right results by the oracle."""
        right = self._right(self.to_integers[0])
        if self.form != "chain":
            return right
        fmt = FORMATS[self.case.result]
        codes, left_open = evaluate("subtract", fmt, fmt.decode(right.codes), fmt.decode(self.arrays[0]))
        return Expected(codes, np.where(right.left_open != 0, right.left_open, left_open))

    def _right(self, to_integers: str) -> Expected:
        if self.case.op == "chain":
            return chains.right(self.case, self.arrays)
        return expected(self.case, self.arrays, to_integers)

    def judge(self, got: np.ndarray, limit: int, zeros_are_open: bool) -> tuple[Judgement, np.ndarray]:
        """The verdicts, and the results as codes of the case's result type."""
        limit = limit if self.case.is_near else 0
        got = np.asarray(got).astype(code_dtype(self.result_type), copy=False)
        right = self._expected_of(got)
        if self.form == "chain":  # if an intermediate result is open, the final one is undetermined
            right = Expected(np.where(right.left_open != 0, got, right.codes), np.zeros_like(right.left_open))
        unrounded = np.zeros(got.shape, bool)
        if self.form == "upcast":
            fmt, wide = FORMATS[self.case.result], FORMATS["f32"].decode(got)
            got = encode(fmt, Exact.of(wide))[0]
            unrounded = (fmt.decode(got) != wide) & ~np.isnan(wide)
        judged = judge(self.case.result, got, right, limit, zeros_are_open, self._sides if limit else None)
        if unrounded.any():
            judged.verdicts[unrounded] = 3
            judged.errors[unrounded] = np.where(judged.errors[unrounded] == 0, 1, judged.errors[unrounded])
        return judged, got

    def _expected_of(self, got: np.ndarray) -> Expected:
        """The right results: by the backend's own specification or StableHLO's, one of them for all elements."""
        first, *others = [self.expected, *map(self._right, self.to_integers[1:])]
        return max([first, *others], key=lambda e: int(((got == e.codes) & (e.left_open == 0)).sum()))

    def _sides(self, places: np.ndarray) -> np.ndarray:
        """The side of the right results, at some indices, on which the exact ones lie."""
        operands = tuple(x[places] for x in self.arrays)
        return sides_of_function(self.case.op, self.case.result, operands, self.expected.codes[places])

    def restrict(self, places: np.ndarray) -> Part:
        """The part reduced to some elements."""
        if self.form in ("scalar", "broadcast"):
            half = self.size // 2
            left, right = places[places < half], places[places >= half]
            # Both halves must have the same number of elements, as each side is one half.
            most = max(len(left), len(right), 1)
            left, right = (np.resize(p if len(p) else q, most) for p, q in ((left, right), (right, left)))
            places = np.concatenate([left, right])
            return dataclasses.replace(self, arrays=tuple(x[places] for x in self.arrays), segment=1)
        form = "array" if self.form in LAYOUTS else self.form  # few elements do not fill such a shape
        return dataclasses.replace(self, form=form, arrays=tuple(x[places] for x in self.arrays))


def emit_op(builder: Builder, case: Case, values: list[str], shape: tuple[int, ...]) -> str:
    """Emits the op of a case on values of a shape."""
    if case.op == "type":
        return values[0]
    if case.op == "chain":
        return chains.emit(builder, case, values, shape)
    takes = [tensor(shape, t) for t in case.operands]
    gives = tensor(shape, case.result)
    attributes = compare_attributes(*(v for _, v in case.attributes)) if case.op == "compare" else ""
    return builder.generic(case.op, values, takes, gives, attributes)


def of_positions(form: str) -> bool:
    """Whether a form depends on the positions of elements."""
    return form in SIZES or form in LAYOUTS
