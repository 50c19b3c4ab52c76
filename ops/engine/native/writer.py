"""Text of functions for LLVM, written line by line, with loops as blocks of `with`.

Values that change from turn to turn of a loop have a place on the stack, of which LLVM's first pass makes a register.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

#: Of every function: registers of 512 bits are used where the processor has them.
_ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }'
#: Of a branch: the first way is rarely taken.
_RARE = "!0", '!0 = !{!"branch_weights", i32 1, i32 1000}'


class Writer:
    """Lines of one function; a value is named by the line that makes it.

    An argument is a type and a name, as `"i64 rows"`, whose value is `%rows` then. `run` is the function that is called
    from outside.
    """

    def __init__(self, *arguments: str, name: str = "run", gives: str = "i64", attribute: str = "") -> None:
        given = ", ".join(" %".join(a.rsplit(" ", 1)) for a in arguments)
        kind = "" if name == "run" else "internal "
        self._head = f"define {kind}{gives} @{name}({given}) {attribute}#0 {{"
        self._outside: set[str] = set()
        self._rooms: list[str] = []
        self._tables: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    # -- lines --

    def line(self, text: str) -> None:
        self._lines.append("  " + text)

    def value(self, text: str) -> str:
        name = self._new()
        self.line(f"{name} = {text}")
        return name

    def _new(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def call(self, gives: str, name: str, *operands: str) -> str:
        """A call of one of LLVM's own functions; an operand is its type and its value."""
        types = ", ".join(_type_of(o) for o in operands)
        self._outside.add(f"declare {gives} @llvm.{name}({types})")
        told = f"call {gives} @llvm.{name}({', '.join(operands)})"
        if gives == "void":
            self.line(told)
            return ""
        return self.value(told)

    # -- blocks --

    def block(self, name: str) -> None:
        self._lines.append(f"{name}:")

    def go(self, name: str) -> None:
        self.line(f"br label %{name}")

    def branch(self, condition: str, then: str, otherwise: str, is_rare: bool = False) -> None:
        """Go to one of two blocks, to the first one rarely if that is known."""
        weights = ""
        if is_rare:
            weights = f", !prof {_RARE[0]}"
            self._outside.add(_RARE[1])
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}{weights}")

    @contextlib.contextmanager
    def when(self, condition: str, name: str) -> Iterator[None]:
        """What is written within runs where a condition holds; `name` is that of its block."""
        self.branch(condition, name, f"{name}.end")
        self.block(name)
        yield
        self.go(f"{name}.end")
        self.block(f"{name}.end")

    @contextlib.contextmanager
    def loop(self, name: str, first: str, stop: str, step: int = 1) -> Iterator[str]:
        """`for %name in range(first, stop, step)`; `%name` is at `stop` or beyond after the loop."""
        self.go(f"{name}.before")
        self.block(f"{name}.before")
        self.go(f"{name}.head")
        self.block(f"{name}.head")
        self.line(f"%{name} = phi i64 [ {first}, %{name}.before ], [ %{name}.next, %{name}.end ]")
        self.line(f"%{name}.goes = icmp slt i64 %{name}, {stop}")
        self.branch(f"%{name}.goes", f"{name}.body", f"{name}.done")
        self.block(f"{name}.body")
        yield f"%{name}"
        self.go(f"{name}.end")
        self.block(f"{name}.end")
        self.line(f"%{name}.next = add i64 %{name}, {step}")
        self.go(f"{name}.head")
        self.block(f"{name}.done")

    # -- memory --

    def room(self, kind: str, align: int = 0) -> str:
        """A place on the stack: a type, and how many if the arguments say that."""
        name = self._new()
        self._rooms.append(f"  {name} = alloca {kind}" + (f", align {align}" if align else ""))
        return name

    def load(self, kind: str, place: str, align: int = 0) -> str:
        return self.value(f"load {kind}, ptr {place}" + (f", align {align}" if align else ""))

    def store(self, value: str, place: str, align: int = 0) -> None:
        """Write a value, given by its type and itself."""
        self.line(f"store {value}, ptr {place}" + (f", align {align}" if align else ""))

    def at(self, base: str, offset: str | int, kind: str = "i8") -> str:
        """The address of what is so many elements behind `base`, bytes if no other type is said."""
        return self.value(f"getelementptr {kind}, ptr {base}, i64 {offset}")

    def table(self, numbers: Sequence[int]) -> str:
        """The place of constants, whole numbers of 64 bits."""
        name = f"@table{len(self._tables)}"
        listed = ", ".join([f"i64 {n}" for n in numbers])
        self._tables.append(f"{name} = internal constant [{len(numbers)} x i64] [{listed}]")
        return name

    # -- numbers and vectors --

    def add(self, x: str, y: str | int) -> str:
        """Of whole numbers of 64 bits, as `subtract` and `multiply` are."""
        return self.value(f"add i64 {x}, {y}")

    def subtract(self, x: str, y: str | int) -> str:
        return self.value(f"sub i64 {x}, {y}")

    def multiply(self, x: str, y: str | int) -> str:
        return self.value(f"mul i64 {x}, {y}")

    def smaller(self, x: str, y: str | int) -> str:
        return self.call("i64", "smin.i64", f"i64 {x}", f"i64 {y}")

    def shuffle(self, kind: str, count: int, a: str, b: str, places: list[int]) -> str:
        mask = ", ".join(f"i32 {p}" for p in places)
        vector = f"<{count} x {kind}>"
        return self.value(f"shufflevector {vector} {a}, {vector} {b}, <{len(places)} x i32> <{mask}>")

    def splat(self, kind: str, count: int, value: str) -> str:
        """A vector of one value."""
        one = self.value(f"insertelement <{count} x {kind}> poison, {kind} {value}, i32 0")
        return self.shuffle(kind, count, one, "poison", [0] * count)

    def first(self, count: int, left: str) -> str:
        """A mask of so many elements, set for the first `left`, which may be more."""
        number = self.smaller(left, count)
        places = ", ".join(f"i64 {i}" for i in range(count))
        return self.value(f"icmp slt <{count} x i64> <{places}>, {self.splat('i64', count, number)}")

    # -- the whole --

    def end(self, result: str) -> None:
        """Give a result, a type and a value, and leave the function."""
        self.line(f"ret {result}")

    def text(self, *others: Writer) -> str:
        """The whole text: this function, and others that it calls."""
        writers = (self, *others)
        functions = [line for w in writers for line in (w._head, "entry:", *w._rooms, *w._lines, "}")]
        outside = {line for w in writers for line in w._outside}
        return "\n".join([*functions, _ATTRIBUTES, *self._tables, *sorted(outside), ""])


def _type_of(operand: str) -> str:
    return operand[: operand.index(">") + 1] if operand[0] == "<" else operand.split(" ", 1)[0]
