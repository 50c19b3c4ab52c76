"""Programs of the machine that get code of their own once they have run for as long as it takes to make it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from ... import speed
from ...native import code
from .. import opcodes as op
from ..recipes import Program
from ..registers import Unknown


class Joined:
    """Takes the machine's place where a program's ops are one loop; leaves and outputs lie as the machine has them."""

    def __init__(self, made: Program, along: np.ndarray, starts: np.ndarray) -> None:
        self._made, self._along, self._starts = made, along, starts
        self._held = np.ascontiguousarray(made.parameters[:, 0])
        self._constants, self._place, self._functions = map(_address, (made.constants, starts, self._held))
        self._work = 0
        self._run = code.NOTHING
        self._is_known = made.segments.shape[0] > 0 and not (made.segments[:, 2] == op.OF_ROWS).any()
        self._is_known &= not made.code[:, 7:].any()

    def is_ready(self, size: int) -> bool:
        """Whether the code is there, for one more call on so many elements."""
        if self._run is code.NOTHING and self._is_known:
            self._work += size * len(self._made.code)
            if self._work > speed.tuning().joined_worth:
                self._make()
        return self._is_known and self._run is not code.NOTHING

    def _make(self) -> None:
        made, text = self._made, importlib.import_module(".text", __package__)
        try:
            lines = text.text(made.code, made.constants, self._along, made.parameters)
            self._run = code.compiled(lines, text.OPERANDS)
        except (Unknown, RuntimeError):  # the second of LLVM
            self._is_known = False

    def on(self, objects: tuple[int, int]) -> Callable[[np.ndarray, object], int]:
        """Does the blocks that the first operand says, as `machine.run` does them.

        `objects`: where the addresses of the objects of leaves and of outputs are.
        """
        leaves, outputs = objects

        def run(where: np.ndarray, _: object) -> int:
            return self._run(
                _address(where), self._constants, leaves, self._place, self._starts.shape[1], outputs, self._functions
            )

        return run


def _address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]
