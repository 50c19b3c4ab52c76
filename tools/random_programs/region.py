"""Text of regions: a block of arguments, ops, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence

from minihlo.ops.types import ElementType, Kind, TensorType

from .builder import I1, Builder, Shape
from .program import Step, Value
from .rules_elementwise import comparison


class Region:
    """Builds a region."""

    def __init__(self, b: Builder, arguments: Sequence[tuple[Shape, ElementType]] = ()) -> None:
        self.b = b
        self.arguments = [Value(b.name(), TensorType(shape, t)) for shape, t in arguments]
        self.steps: list[Step] = []

    def add(self, op: str, operands: Sequence[Value], shape: Shape, t: ElementType, attributes: str = "") -> Value:
        result = Value(self.b.name(), TensorType(shape, t))
        self.steps.append(Step(f"stablehlo.{op}", tuple(operands), (result,), attributes))
        return result

    def binary(self, op: str, x: Value, y: Value) -> Value:
        return self.add(op, [x, y], _shape(x), x.type.element)

    def literal(self, number: int, t: ElementType, shape: Shape = ()) -> Value:
        text = {Kind.BOOL: "true" if number else "false", Kind.FLOAT: f"{number}.0"}.get(t.kind, str(number))
        text = f"({number}.0, 0.0)" if t.is_complex else text
        return self.add("constant", [], shape, t, f"value = dense<{text}> : {TensorType(shape, t)}")

    def chosen(self, largest: bool, x: Value, y: Value) -> Value:
        """x or y, as a comparison says."""
        direction = "GT" if largest else "LT"
        kind = {Kind.SIGNED: "SIGNED", Kind.FLOAT: "FLOAT"}.get(x.type.element.kind, "UNSIGNED")
        attributes = (
            f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
            f"compare_type = #stablehlo<comparison_type {kind}>"
        )
        pred = self.add("compare", [x, y], _shape(x), I1, attributes)
        return self.add("select", [pred, x, y], _shape(x), x.type.element)

    def anything(self, values: Sequence[Value], count: int) -> Value:
        """A few elementwise ops, of one type, on values of that type and each other.

        Only ops that every implementation gives exactly, on tame values: a difference inside a region cannot be laid to
        one op, so that here it is regions that are tried, and elsewhere numbers.
        """
        result, b = list(values), self.b
        t, shape = result[0].type.element, _shape(result[0])
        unary, binary = _calm_ops(t)
        for _ in range(count):
            x, y = result[-1] if b.chance(0.6) else b.one_of(result), b.one_of(result)
            if unary and b.chance(0.3):
                result.append(self.add(b.one_of(unary), [x], shape, t))
            elif b.chance(0.2):
                pred = self.add("compare", [x, y], shape, I1, comparison(b, t, total=False))
                result.append(self.add("select", [pred, y, x], shape, t))
            else:
                result.append(self.binary(b.one_of(binary), x, y))
        return result[-1]

    def ops(self) -> set[str]:
        return {s.op.removeprefix("stablehlo.") for s in self.steps}

    def text(self, *returns: Value, end: str = "stablehlo.return") -> str:
        head = f"^bb0({', '.join(f'%{a.name}: {a.type}' for a in self.arguments)}):" if self.arguments else ""
        types = ", ".join(str(r.type) for r in returns)
        last = f'"{end}"({", ".join(f"%{r.name}" for r in returns)}) : ({types}) -> ()'
        return "\n    ".join(["{", *filter(None, [head]), *(s.text() for s in self.steps), last, "}"])

    def function(self, name: str, *returns: Value) -> str:
        """The region as a private function."""
        takes = ", ".join(f"%{a.name}: {a.type}" for a in self.arguments)
        types = ", ".join(str(r.type) for r in returns)
        names = ", ".join(f"%{r.name}" for r in returns)
        lines = [f"func.func private @{name}({takes}) -> ({types}) {{", *(f"  {s.text()}" for s in self.steps)]
        return "\n".join([*lines, f"  func.return {names} : {types}", "}"])


def _calm_ops(t: ElementType) -> tuple[list[str], list[str]]:
    """Unary and binary ops that are exact in every implementation, on small integers."""
    if t.kind is Kind.BOOL:
        return ["not"], ["and", "or", "xor", "maximum", "minimum"]
    if t.is_integer:
        return ["not", "negate"], ["add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor"]
    if t.is_complex:
        return ["negate"], ["add", "subtract"]
    if t.name == "f8E8M0FNU":
        return [], ["maximum", "minimum"]
    if t.bits <= 6:
        return ["negate"], ["maximum", "minimum"]
    return ["negate"], ["add", "subtract", "maximum", "minimum"]


def _shape(v: Value) -> Shape:
    return tuple(int(n) for n in v.type.shape if n is not None)
