"""Text of a function for LLVM, written line by line, with loops as blocks of `with`.

Values that change from turn to turn of a loop are kept by `alloca`, of which LLVM's first pass makes registers.
"""

from __future__ import annotations

_ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }\n'


class Writer:
    """Lines of one function; a value is named by the line that makes it."""

    def __init__(self, *arguments: str) -> None:
        given = ", ".join(f"i64 %{name}" for name in arguments)
        self._declared: set[str] = set()
        self._lines, self._count = [f"define i64 @run({given}) #0 {{", "entry:"], 0

    def line(self, text: str) -> None:
        self._lines.append("  " + text)

    def block(self, name: str) -> None:
        self._lines.append(f"{name}:")

    def value(self, text: str) -> str:
        self._count += 1
        self.line(f"%v{self._count} = {text}")
        return f"%v{self._count}"

    def shuffle(self, kind: str, count: int, a: str, b: str, places: list[int]) -> str:
        mask = ", ".join(f"i32 {p}" for p in places)
        vector = f"<{count} x {kind}>"
        return self.value(f"shufflevector {vector} {a}, {vector} {b}, <{len(places)} x i32> <{mask}>")

    def at(self, base: str, offset: str) -> str:
        """The address of what is so many bytes behind `base`."""
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def pointer(self, name: str) -> str:
        return self.value(f"inttoptr i64 %{name} to ptr")

    def loop(self, name: str, first: str, stop: str, step: int = 1) -> Loop:
        return Loop(self, name, first, stop, step)

    def call(self, gives: str, name: str, *operands: str) -> str:
        """A call of one of LLVM's own functions; an operand is its type and its value."""
        types = ", ".join(_type_of(o) for o in operands)
        self._declared.add(f"declare {gives} @llvm.{name}({types})")
        told = f"call {gives} @llvm.{name}({', '.join(operands)})"
        if gives == "void":
            self.line(told)
            return ""
        return self.value(told)

    def splat(self, kind: str, count: int, value: str) -> str:
        """A vector of one value."""
        one = self.value(f"insertelement <{count} x {kind}> poison, {kind} {value}, i32 0")
        return self.shuffle(kind, count, one, "poison", [0] * count)

    def first(self, count: int, left: str) -> str:
        """A mask of so many elements, set for the first `left`, which may be more."""
        number = self.call("i64", "smin.i64", f"i64 {left}", f"i64 {count}")
        places = ", ".join(f"i64 {i}" for i in range(count))
        return self.value(f"icmp slt <{count} x i64> <{places}>, {self.splat('i64', count, number)}")

    def text(self) -> str:
        """The whole: the function gives 0."""
        return "\n".join([*self._lines, "  ret i64 0", "}", _ATTRIBUTES, *sorted(self._declared), ""])


def _type_of(operand: str) -> str:
    return operand[: operand.index(">") + 1] if operand[0] == "<" else operand.split(" ", 1)[0]


class Loop:
    """`for %name in range(first, stop, step)`."""

    def __init__(self, text: Writer, name: str, first: str, stop: str, step: int) -> None:
        self._text, self._name, self._first, self._stop, self._step = text, name, first, stop, step

    def __enter__(self) -> str:
        text, name = self._text, self._name
        text.line(f"br label %{name}.before")
        text.block(f"{name}.before")
        text.line(f"br label %{name}.head")
        text.block(f"{name}.head")
        text.line(f"%{name} = phi i64 [ {self._first}, %{name}.before ], [ %{name}.next, %{name}.end ]")
        text.line(f"%{name}.goes = icmp slt i64 %{name}, {self._stop}")
        text.line(f"br i1 %{name}.goes, label %{name}.body, label %{name}.done")
        text.block(f"{name}.body")
        return f"%{name}"

    def __exit__(self, *_: object) -> None:
        text, name = self._text, self._name
        text.line(f"br label %{name}.end")
        text.block(f"{name}.end")
        text.line(f"%{name}.next = add i64 %{name}, {self._step}")
        text.line(f"br label %{name}.head")
        text.block(f"{name}.done")
