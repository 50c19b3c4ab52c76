"""Writes the Python function of a function or region: one line for each op, `results = kernel(regions, operands)`.

A value of rank 0 can be written as a plain number instead of an array (see `scalars.py`); where a kernel needs the
array it is made. Values are dropped after their last use. Names are ours alone: nothing of the program's text is in the
source.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ...ops.engine.speed import tuning
from ...ops.types import ElementType, Kind, TensorType, Type
from ..errors import shown
from ..program import Operation, Value
from . import scalars
from .source.inlining import inlined
from .source.intervals import Range, known_range
from .source.lines import Compiled, Line, with_drops
from .source.ranges import Expression, simplified


@dataclasses.dataclass(frozen=True)
class Source:
    """A generated function: what it is, its text, the op of each line, and of a group why it runs as it does."""

    label: str
    text: str
    operations: list[Operation | None]
    reason: str


#: The generated functions by the names of their files, which tracebacks have.
Sources = dict[str, Source]


class Call(NamedTuple):
    """The names that a call has: of its results, of its operands, and of what its regions take first."""

    results: Sequence[str]
    operands: Sequence[str]
    captured: Sequence[str]


class Writer:
    """Writes the text of one Python function and collects the objects it names."""

    _numbers = itertools.count()

    def __init__(self, constants: Mapping[Value, Any]) -> None:
        self.constants = constants
        self._names: dict[Value, str] = {}  # of arrays
        self._plain: dict[Value, str] = {}  # of plain numbers
        self._types: dict[str, Type] = {}  # of plain numbers, those too that are defined no more
        self._arrays: dict[str, TensorType] = {}  # the types of arrays, those too that are defined no more
        self._ranges: dict[str, Range] = {}  # of plain numbers, where it is not that of their types
        self._lines: list[Line] = []
        self._large: set[str] = set()
        self._globals: dict[str, Any] = {}
        self._count = 0
        self._blocks: list[tuple[int, int]] = []  # the lines of loops and branches
        self.depth = 0

    # -- values --------------------------------------------------------------------------------------------------------

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"v{self._count - 1}"

    def define(self, value: Value) -> str:
        """A new name for the array of a value."""
        name = self._names[value] = self.fresh()
        self._plain.pop(value, None)
        self._note_array(name, value.type)
        return name

    def _note_array(self, name: str, t: Type, is_dropped: bool = True) -> None:
        """Record the type of an array, and that it is dropped when nothing needs it."""
        if isinstance(t, TensorType) and t.shape:
            self._arrays[name] = t
        if is_dropped and _is_large(t):
            self._large.add(name)

    def define_plain(self, value: Value) -> str:
        """A new name for the plain number of a value."""
        name = self._plain[value] = self.fresh()
        self._types[name] = value.type
        self._names.pop(value, None)
        return name

    def let(self, value: Value, name: str, is_plain: bool) -> None:
        """Give a value a name that there is."""
        (self._plain if is_plain else self._names)[value] = name
        (self._names if is_plain else self._plain).pop(value, None)
        if is_plain:
            self._types[name] = value.type
        else:
            self._note_array(name, value.type)

    def is_plain(self, value: Value) -> bool:
        """Whether a value is there as a plain number, and no constant."""
        return value in self._plain and value not in self.constants

    def use(self, value: Value) -> str:
        """The name of the array of a value that is defined, or a constant."""
        if value in self._names:
            return self._names[value]
        if value in self._plain and value not in self.constants:
            form, name, plain = scalars.form(value.type), self.fresh(), self._plain[value]
            assert form is not None
            self._same(name, form.boxed(plain, self.name_of), plain)
        else:
            name = self.name_of(self.constants[value])
            self._note_array(name, value.type, is_dropped=False)
        self._names[value] = name
        return name

    def use_plain(self, value: Value) -> str:
        """The name of the plain number of a value that is defined, or the number itself of a constant."""
        if value in self._plain:
            return self._plain[value]
        form = scalars.form(value.type)
        assert form is not None
        if value in self.constants:
            name = form.literal(self.constants[value], self.name_of)
        else:
            name, array = self.fresh(), self._names[value]
            self._same(name, form.unboxed(array), array)
        self._plain[value], self._types[name] = name, value.type
        return name

    def _same(self, name: str, expression: str, other: str) -> None:
        """Write that a name is an array of rank 0 of a number, or the other way round: compiled code has numbers."""
        self.line(f"{name} = {expression}", None, (name,), (other,), compiled=Compiled(((0, f"{name} = {other}"),)))

    def constant(self, value: Any, t: TensorType) -> str:
        """The name of a number or an array that is no value of this function's."""
        name = self.name_of(value)
        if t.shape:
            self._arrays[name] = t
        else:
            self._types[name] = t
        return name

    def objects_of(self, names: Iterable[str]) -> dict[str, Any]:
        """Those names that are of objects, with these."""
        return {name: self._globals[name] for name in names if name in self._globals}

    def name_of(self, value: Any) -> str:
        """The name of an object."""
        name = f"k{len(self._globals)}"
        self._globals[name] = value
        return name

    # -- lines ---------------------------------------------------------------------------------------------------------

    def line(
        self,
        text: str,
        operation: Operation | None,
        defines: Sequence[str] = (),
        uses: Sequence[str] = (),
        over: Sequence[str] = (),
        ends_turn: bool = False,
        compiled: Compiled | None = None,
    ) -> None:
        """Write a line, and record the names that it defines and uses; `compiled` is what compiled code has for it."""
        names = tuple(defines), tuple(uses), tuple(over)
        self._lines.append(Line(text, operation, self.depth, *names, ends_turn=ends_turn, compiled=compiled))

    def remark(self, text: str, operation: Operation) -> None:
        """Write a line that does nothing but say something."""
        self.line(f"pass  # {text}", operation, compiled=Compiled())

    def look(self, text: str, operation: Operation, defines: Sequence[str] = (), uses: Sequence[str] = ()) -> None:
        """Write a line that only looks whether to go on."""
        self._lines.append(Line(text, operation, self.depth, tuple(defines), tuple(uses), is_look=True))

    @property
    def count(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def reserve(self, operation: Operation) -> int:
        """The place of a line that is filled in later, or does nothing; compiled code leaves it out."""
        self.look("pass", operation)
        return len(self._lines) - 1

    def fill(self, place: int, text: str, defines: Sequence[str], uses: Sequence[str]) -> None:
        """Write a line at a place that has been reserved."""
        line = self._lines[place]
        line.text, line.defines, line.uses = text, tuple(defines), (*defines, *uses)

    def since(self, start: int, end: int | None = None) -> list[Line]:
        """The lines from one on, with their depths from there.

        Those that look for the end of a grid's process are left out: what is compiled is not stopped by them.
        """
        lines = [line for line in self._lines[start:end] if not line.is_look]
        return [dataclasses.replace(line, depth=line.depth - self.depth) for line in lines]

    def types_of(self, names: Iterable[str]) -> dict[str, TensorType] | None:
        """The types of numbers and arrays; None where a name is that of something else."""
        types = {name: self._types.get(name) or self._arrays.get(name) for name in names}
        known = {name: t for name, t in types.items() if isinstance(t, TensorType)}
        return known if len(known) == len(types) else None

    def arrays_of(self, names: Iterable[str]) -> set[str]:
        """Those names that are of arrays with elements."""
        return {name for name in names if name in self._arrays and name not in self._types}

    def are_short(self, names: Iterable[str]) -> bool:
        """Whether all numbers of these names that are integers fit 32 bits, signed or not."""
        whole = [n for n in names if (t := self._types.get(n)) is not None and not t.element.is_float]  # type: ignore[union-attr]
        return all(low >= -(1 << 31) and high < 1 << 32 for low, high in map(self.range, whole))

    def constants_in(self, lines: Iterable[Line]) -> dict[str, Any]:
        """The constants that lines name which compiled code knows too: types of floats, and tuples of such floats."""
        words = {word for line in lines for word in re.findall(r"\bk\d+\b", line.text)}
        return {w: v for w in words if _is_known(v := self._globals.get(w))}

    def call(
        self,
        target: Callable[..., Any],
        operation: Operation,
        operands: Sequence[Value],
        results: Sequence[Value],
        *,
        regions: Sequence[tuple[Callable[..., Any], tuple[Value, ...]]] = (),
        always_tuple: bool = False,
        takes_plain: bool = False,
        over: str = "",
        compiled: Callable[[Call], Compiled | None] = lambda _: None,
    ) -> None:
        """`results = target(regions, operands)`; errors name `operation`.

        Scalars that it `takes_plain` are numbers; the first result is the array of the name `over`, if there is one.
        `compiled` gives what compiled code has for the call.
        """
        arguments = [self._plain[v] if takes_plain and self.is_plain(v) else self.use(v) for v in operands]
        uses = (*arguments, *(self.use(v) for _, captures in regions for v in captures))
        if regions:
            arguments.insert(0, f"({', '.join(self._region(f, captures) for f, captures in regions)},)")
        text = f"{self.name_of(target)}({', '.join(arguments)})"
        names = tuple([self.define(r) for r in results])
        if over:
            self.let(results[0], over, False)
            names = (over, *names[1:])
        if names:
            comma = "," if always_tuple and len(names) == 1 else ""
            text = f"{', '.join(names)}{comma} = {text}"
        taken = [v for _, captures in regions for v in captures]
        call = Call(names, *([self._plain.get(v) or self.use(v) for v in values] for values in (operands, taken)))
        self.line(text, operation, names, uses, compiled=compiled(call))

    def drop_views(self, operation: Operation) -> None:
        """Drop small results as soon as large ones if they may be views of a large operand, which they keep."""
        if not self._large.isdisjoint([self._names.get(v, "") for v in operation.operands]):
            self._large.update([self._names[v] for v in operation.results])

    def call_function(self, function: Any, operation: Operation) -> None:
        """`results = function.target(operands)`, which is not there yet.

        Python calls it without the C stack, that a call by way of `*values` takes: chains of thousands are possible.
        """
        arguments = [self.use(v) for v in operation.operands]
        names = tuple([self.define(r) for r in operation.results])
        left = f"{', '.join(names)}, = " if names else ""
        text = f"{left}{self.name_of(function)}.target({', '.join(arguments)})"
        self.line(text, operation, names, arguments)

    def apply(
        self, target: Callable[..., Any], operation: Operation, operands: Sequence[str], over: Sequence[str] = ()
    ) -> str:
        """The name of `target(operands)`, which has one result.

        It may be written over one of the operands `over` that nothing needs afterwards, if there is one: `target` takes
        that as its last argument then.
        """
        name = self.fresh()
        self._large.add(name)
        self.line(f"{name} = {self.name_of(target)}({', '.join(operands)})", operation, (name,), operands, over)
        return name

    def put_into(self, name: str, array: str) -> None:
        """Have the call that gives a value, which takes `out`, put its result into an array."""
        next(line for line in self._lines if name in line.defines).into = array

    def plain(self, expression: str, operation: Operation, uses: Sequence[str]) -> None:
        """`result = expression`, a plain number."""
        (value,) = operation.results
        assert isinstance(value.type, TensorType)
        name = self.number(expression, value.type.element, operation, uses)
        self._plain[value] = name
        self._types.setdefault(name, value.type)
        self._names.pop(value, None)

    def number(self, expression: str, element: ElementType, operation: Operation, uses: Sequence[str]) -> str:
        """The name of a plain number that an expression gives; it may be that of another one, or the number itself."""
        t = TensorType((), element)
        given = Expression(expression, known_range(t))
        if element.is_integer or element.kind is Kind.BOOL:
            given = simplified(expression, element, {name: self.range(name) for name in uses})
            if given.text in self._types:
                return given.text
        name = self.fresh()
        self._types[name], self._ranges[name] = t, given.range
        text = f"{name} = {given.text}"
        self._lines.append(Line(text, operation, self.depth, (name,), tuple(uses), expression=given))
        return name

    def range(self, name: str) -> Range:
        """The range of the number of that name."""
        return self._ranges.get(name) or known_range(self._types.get(name))

    def range_before(self, value: Value) -> Range:
        """The range of a single number that is defined, as far as it is known."""
        name = self._plain.get(value, "")
        return self._ranges.get(name) or known_range(value.type)

    def narrow(self, name: str, within: Range) -> None:
        """Say that the number of that name lies within a range from here on."""
        self._ranges[name] = within

    def forget(self, names: Sequence[str], operation: Operation) -> None:
        """Drop names for good, but those of objects."""
        names = [name for name in names if name not in self._globals]
        if names:
            self._large.difference_update(names)
            self.line(f"del {', '.join(names)}", operation, compiled=Compiled())

    @contextmanager
    def block(self, header: str, operation: Operation, uses: Sequence[str] = ()) -> Iterator[None]:
        """Lines within a loop or branch. What is defined there is not known after it."""
        self.line(header, operation, (), uses)
        names, plain = self._names.copy(), self._plain.copy()
        self.depth += 1
        yield
        self.depth -= 1
        self._names, self._plain = names, plain

    @contextmanager
    def together(self) -> Iterator[None]:
        """A loop, or a branch and its alternatives: nothing is dropped in it that was there before."""
        start = len(self._lines)
        yield
        self._blocks.append((start, len(self._lines)))

    # -- the function --------------------------------------------------------------------------------------------------

    def function(
        self,
        parameters: Sequence[str],
        returns: Sequence[str],
        label: str,
        sources: Sources,
        writes_over: bool = False,
        reason: str = "",
    ) -> Callable[..., tuple[Any, ...]]:
        """The function of these parameters that gives a tuple.

        With `writes_over` results may be written over operands, as `apply` says; `reason` is for listings.
        """
        result = "".join(f"{name}, " for name in returns)
        self.line(f"return ({result})", None, (), returns)
        head = Line(f"def run({', '.join(parameters)}):", None, -1, tuple(parameters))
        kept = inlined(self._lines)
        places = [0, *itertools.accumulate(line is not None for line in kept)]
        self._blocks = [(places[start], places[end]) for start, end in self._blocks]
        lines = with_drops([head, *(line for line in kept if line is not None)], self._large, self._blocks, writes_over)
        text = "".join(f"{'    ' * (line.depth + 1)}{line.text}\n" for line in lines)
        file = f"<minihlo plan {next(self._numbers)} {shown(label)}>"
        sources[file] = Source(shown(label), text, [line.operation for line in lines], reason)
        exec(compile(text, file, "exec"), self._globals)
        return self._globals["run"]

    def _region(self, function: Callable[..., Any], captures: tuple[Value, ...]) -> str:
        name = self.name_of(function)
        if not captures:
            return name
        self._globals["partial"] = functools.partial
        return f"partial({', '.join([name, *map(self.use, captures)])})"


def _is_known(value: Any) -> bool:
    """Whether compiled code knows a constant that is no number."""
    if isinstance(value, tuple):
        return all(type(v) in (np.float32, np.float64) for v in value)
    return value is np.float32 or value is np.float64


def _is_large(t: Type) -> bool:
    return isinstance(t, TensorType) and (not t.is_static or t.nbytes >= tuning().drop_bytes)
