"""Loops that run compiled once they have taken long, and turns of recurrences; the package has the rule."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.engine.amortised import Amortised
from ....ops.engine.speed import tuning
from ....ops.grid.parallel import current_grid
from ....ops.types import TensorType
from ...program import Region
from ..source.compilable import element_text
from ..source.lines import Compiled
from ..writer import Call, Writer
from .code import Code
from .types import argument, array, compiled_function, is_held

#: The names of a loop's own that are given others where it stands within another loop; `@` is before that one's.
_OWN_NAMES = re.compile(r"(?<![@\w])(?!int64\b)(?:[A-Za-z]+\d\w*|i|empty)\b")


class CompiledLoop:
    """A loop, called before it runs as Python: gives the values that are carried, after some turns or all or none."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._carried: Sequence[TensorType] = ()
        self._copied: Sequence[bool] = ()
        self._code: Code | None = None
        #: Seconds are spent on it.
        self._run: Amortised[Callable[..., tuple[Any, ...]]] = Amortised(self._compiled, lambda: tuning().loop_seconds)
        self._began = 0.0

    @property
    def is_compiled(self) -> bool:
        """Whether it runs compiled from now on."""
        return self._run.value is not None

    @property
    def is_set(self) -> bool:
        """Whether it has the text of a loop."""
        return self._text is not None

    def set(self, carried: Mapping[str, TensorType], code: Code) -> None:
        """`code` has the lines of a turn, which ends where one of them says `break`."""
        names = ", ".join((*carried, *code.captured))
        result = ", ".join(carried)
        lines = [(d, _leaving(text, result) if d == 0 else text) for d, text in code.parts[0]]
        head = [f"def loop(turns, {names}):", "    left = turns", "    for _ in range(turns):"]
        self._text = "\n".join([*head, *_indented(lines, 2, f"(-1, {result})"), f"    return (0, {result})"])
        self._carried, self._code = [*carried.values()], code
        self._copied = [name in code.written for name in carried]

    def __call__(self, *values: Any) -> Sequence[Any]:
        run, count = self._run.value, len(self._carried)
        if run is None:
            run = self._run.get(0) if self._text is not None else None
            if run is None:
                self._began = time.perf_counter()
                return values[:count]
        start, turns = values[:count], self._code.turns if self._code is not None else 1
        captured = [_laid(v) for v in values[count:]]
        carried = [_laid(v, is_new) for v, is_new in zip(start, self._copied, strict=True)]
        while True:
            done, *carried = run(max(tuning().loop_turns // turns, 1), *carried, *captured)
            if done < 0 or any(map(_has_nan, carried)):
                return start
            # Floats come as Python's own.
            carried = [v if t.shape else type(s)(v) for v, s, t in zip(carried, start, self._carried, strict=True)]
            if done:
                return carried
            grid = current_grid()
            if grid is not None and grid.is_stopped:
                grid.stop_here_if_stopped()

    def end(self) -> None:
        """To be called after the loop has run as Python."""
        if self._run.value is None:
            self._run.spend(time.perf_counter() - self._began)

    def _compiled(self) -> Any:
        """The compiled loop; None where there is no compiler for it after all."""
        code = self._code
        assert code is not None
        carried = [argument(t, not new) for t, new in zip(self._carried, self._copied, strict=True)]
        try:
            return compiled_function(self._text or "", code.known, [*carried, *map(argument, code.captured.values())])
        except Exception:  # of a numba that does not fit this Python or numpy: it raises what it likes
            self._text = None
            return None


@dataclasses.dataclass(frozen=True)
class TurnNames:
    """The names in the text of turns: of the states, of an element of each row, and of what a turn gives."""

    states: Sequence[str]
    own: Sequence[str]
    results: Sequence[str]


class CompiledTurns:
    """Many turns of a recurrence over rows, see `executors/recurrence.py`."""

    def __init__(self, states: Sequence[TensorType], rows: Sequence[TensorType], results: Sequence[TensorType]) -> None:
        self._states, self._rows, self._results = states, rows, results
        self._text: str | None = None
        self._names: TurnNames | None = None
        self._code: Code | None = None
        self._copied: Sequence[bool] = ()
        #: Seconds are spent on it.
        self._run: Amortised[Callable[..., tuple[Any, ...]]] = Amortised(self._compiled, lambda: tuning().loop_seconds)

    def set(self, names: TurnNames, code: Code) -> None:
        """`code` has the lines of a turn, and those that give the states their new values after it."""
        rows, outs = [f"row{i}" for i in range(len(names.own))], [f"out{i}" for i in range(len(names.results))]
        failed, result = (f"({', '.join((status, *names.states))},)" for status in ("-1", "0"))
        head = [
            f"def loop({', '.join(('turns', *names.states, *rows, *outs, *code.captured))}):",
            f"    left = {tuning().loop_turns}",
            "    for i in range(turns):",
        ]
        self._names, self._code = names, code
        self._text = "\n".join([*head, *_indented(self._turn(names, code), 2, failed), f"    return {result}"])
        self._copied = [name in code.written for name in names.states]

    def _turn(self, names: TurnNames, code: Code) -> list[tuple[int, str]]:
        """The lines of a turn, which reads its rows and puts its results in place."""
        lines, assigned = code.parts
        loads = [
            (0, f"{name} = {element_text(f'row{k}[i]', t) if not t.shape else f'row{k}[i]'}")
            for k, (name, t) in enumerate(zip(names.own, self._rows, strict=True))
        ]
        stores = [(0, f"out{k}[i] = {name}") for k, name in enumerate(names.results)]
        return [*loads, *lines, *stores, *assigned]

    def within(self, count: int, call: Call, entry: Sequence[str], writer: Writer) -> Compiled | None:
        """What compiled code has for so many turns within the turn of another loop; None where they are called.

        `call` has names of the other loop's, and `entry` those that its captured values have in the turns.
        """
        names, code, prefix = self._names, self._code, writer.fresh()
        if names is None or code is None or not code.keeps_places:
            return None
        width, operands = len(self._states), call.operands
        objects = {name: writer.constant(v, code.captured[name]) for name, v in code.objects.items()}
        taken = (
            dict(zip(names.states, operands, strict=False)) | dict(zip(entry, call.captured, strict=False)) | objects
        )
        rows, outs = [f"row{i}" for i in range(len(names.own))], [f"out{i}" for i in range(len(names.results))]
        if not {*names.states, *code.captured} <= taken.keys():
            return None
        known: dict[str, Any] = {f"type{k}": t.element.dtype.type for k, t in enumerate(self._results)}
        known |= {**code.known, "empty": np.empty} if outs else code.known
        lines = [(0, f"{name} = @{taken[name]}") for name in (*names.states, *code.captured)]
        lines += [(0, f"{row} = @{name}") for row, name in zip(rows, operands[width:], strict=True)]
        lines += [
            (0, f"{out} = empty({(count, *t.shape)}, type{k})")
            for k, (out, t) in enumerate(zip(outs, self._results, strict=True))
        ]  # type: ignore[misc]
        lines.append((0, f"for i in range({count}):"))
        lines += [(d + 1, text) for d, text in self._turn(names, code)]
        lines += [(0, f"@{given} = {name}") for given, name in zip(call.results, (*names.states, *outs), strict=True)]
        own = {word for _, text in lines for word in _OWN_NAMES.findall(text)} | known.keys()

        def renamed(text: str) -> str:
            return _OWN_NAMES.sub(lambda m: f"{prefix}_{m[0]}", text).replace("@", "")

        arrays = [(new, old) for new, old, t in zip(call.results, operands, self._states, strict=False) if t.shape]
        return Compiled(
            tuple([(d, renamed(text)) for d, text in lines]),
            tuple(arrays),
            tuple(new for new, name in zip(call.results, names.states, strict=False) if name in code.written),
            {renamed(name): v for name, v in known.items()},
            frozenset(map(renamed, own)),
            (*operands, *call.captured, *objects.values()),
            count * code.turns,
        )

    @property
    def is_ready(self) -> bool:
        """Whether turns run compiled from now on."""
        return self._text is not None and (self._run.value or self._run.get(0)) is not None

    @property
    def at_a_time(self) -> int:
        """How many turns are to be made before it comes back."""
        return max(tuning().compiled_turns // (self._code.turns if self._code is not None else 1), 1)

    def spend(self, seconds: float) -> None:
        """Add the time that iterations have taken as Python."""
        self._run.spend(seconds)

    @staticmethod
    def takes(first: Any, *_: Any) -> bool:
        """Whether rows are arrays, or there are none and the number of turns says so: as compiled turns take them."""
        return isinstance(first, np.ndarray)

    def __call__(self, count: Any, *values: Any) -> tuple[Any, ...] | None:
        """The states after as many turns and the results of all; None where they have to be made as Python."""
        width = len(self._states)
        first, rows, captured = (
            values[:width],
            values[width : width + len(self._rows)],
            values[width + len(self._rows) :],
        )
        states = [_laid(v, is_new) for v, is_new in zip(first, self._copied, strict=True)]
        outs = [np.empty((int(count), *t.shape), t.element.dtype) for t in self._results]  # type: ignore[arg-type]
        run = self._run.value
        assert run is not None
        status, *states = run(int(count), *states, *rows, *outs, *map(_laid, captured))
        if status < 0 or any(map(_has_nan, (*states, *outs))):
            return None
        kept = [v if t.shape else t.element.dtype.type(v) for v, t in zip(states, self._states, strict=True)]
        return (*kept, *outs)

    def _compiled(self) -> Any:
        code = self._code
        assert code is not None
        states = [argument(t, not new) for t, new in zip(self._states, self._copied, strict=True)]
        rows = [array(t, len(t.shape or ()) + 1, True) for t in self._rows]
        outs = [array(t, len(t.shape or ()) + 1, False) for t in self._results]
        try:
            return compiled_function(
                self._text or "", code.known, [*states, *rows, *outs, *map(argument, code.captured.values())]
            )
        except Exception:  # as above
            self._text = None
            return None


def turns_of(turn: Region, width: int) -> CompiledTurns | None:
    """For turns of `width` states; None where they have values that compiled code does not know."""
    types = [
        [v.type for v in values] for values in (turn.arguments[:width], turn.arguments[width:], turn.returns[width:])
    ]
    if not all(is_held(t) for kind in types for t in kind):
        return None
    return CompiledTurns(*types)  # type: ignore[arg-type]


def _has_nan(x: Any) -> bool:
    return x.dtype.kind == "f" and bool(np.isnan(x).any()) if isinstance(x, np.ndarray) else x != x


def _laid(x: Any, is_new: bool = False) -> Any:
    """A number as it is; an array as compiled code takes it, a new one if that is said."""
    if not isinstance(x, np.ndarray) or not x.shape:
        return x
    return x.copy() if is_new else np.require(x, requirements=("C", "A"))


def _indented(lines: Sequence[tuple[int, str]], depth: int, failed: str) -> list[str]:
    """Lines as text, some levels deep. A loop within them may only make so many turns as there are `left`."""
    text = []
    for d, line in lines:
        text.append(f"{'    ' * (d + depth)}{line}")
        if line == "while True:":
            inside = "    " * (d + depth + 1)
            text += [f"{inside}left -= 1", f"{inside}if left < 0: return {failed}"]
    return text


def _leaving(text: str, result: str) -> str:
    return f"{text.removesuffix('break')}return (True, {result})" if text.endswith(": break") else text
