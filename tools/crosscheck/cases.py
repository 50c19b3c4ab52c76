"""The cases: elementwise ops on float types with all their operands, and programs that compute many of them at once."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from minihlo.ops.elementwise.compare import DIRECTIONS
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS
from minihlo.ops.registry import ops
from minihlo.ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType

#: Float types whose codes are enumerated as operands of a conversion; of the wider ones a sample is.
NARROW = (*MINIFLOATS, "f16", "bf16")


@dataclasses.dataclass(frozen=True)
class Case:
    """One op with the types of its operands, which are alike, and of its result."""

    op: str  #: "add"; "compare LT" and "compare LT TOTALORDER"; "convert"
    operand: str
    arity: int
    result: str

    @property
    def name(self) -> str:
        """The op and, of a conversion, what to."""
        return f"convert to {self.result}" if self.op == "convert" else self.op

    @property
    def operand_type(self) -> ElementType:
        return ELEMENT_TYPES[self.operand]

    @property
    def result_type(self) -> ElementType:
        return ELEMENT_TYPES[self.result]

    def line(self, number: int, size: int) -> str:
        """The op in MLIR, on %x0 and %x1."""
        name, *words = self.op.split()
        attributes = ""
        if name == "compare":
            kind = words[1] if len(words) > 1 else "FLOAT"
            attributes = (
                f"{{comparison_direction = #stablehlo<comparison_direction {words[0]}>, "
                f"compare_type = #stablehlo<comparison_type {kind}>}}"
            )
        takes = ", ".join([f"tensor<{size}x{self.operand}>"] * self.arity)
        values = ", ".join(f"%x{i}" for i in range(self.arity))
        return f'%r{number} = "stablehlo.{name}"({values}) {attributes} : ({takes}) -> tensor<{size}x{self.result}>'


@functools.cache
def elementwise() -> tuple[tuple[str, int, bool], ...]:
    """Name, arity and whether the result is boolean, of every op of floats that works element by element."""
    named = {"abs": 1, "is_finite": 1}
    for op in ops().values():
        dialect, _, name = op.name.partition(".")
        if dialect == "stablehlo" and op.is_function and all(ELEMENT_TYPES[t] in op.types for t in MINIFLOATS):
            named[name] = op.operands or 0
    comparisons = [(f"compare {d}{kind}", 2, True) for d in DIRECTIONS for kind in ("", " TOTALORDER")]
    return (*((name, arity, name == "is_finite") for name, arity in sorted(named.items())), *comparisons)


def batches() -> list[tuple[Case, ...]]:
    """All cases, those with the same operands together."""
    found = []
    for element in MINIFLOATS:
        for arity in (1, 2):
            cases = [
                Case(name, element, n, "i1" if boolean else element) for name, n, boolean in elementwise() if n == arity
            ]
            found.append(tuple(cases))
    for element in FORMATS:
        targets = FORMATS if element in MINIFLOATS else MINIFLOATS
        found.append(tuple(Case("convert", element, 1, t) for t in targets if t != element))
    for element in ("i8", "ui8", "i32"):
        found.append(tuple(Case("convert", element, 1, t) for t in MINIFLOATS))
    for element in MINIFLOATS:
        found.append(tuple(Case("convert", element, 1, t) for t in ("i8", "ui8", "i32", "i1")))
    return found


def operands(element: str, arity: int) -> tuple[np.ndarray, ...]:
    """The operands of a batch, as codes: all, or all pairs; of wide types those at and near boundaries."""
    t = ELEMENT_TYPES[element]
    codes = _boundary_codes(element) if t.bits > 16 else np.arange(1 << t.bits, dtype=code_dtype(t))
    if arity == 1:
        return (codes,)
    return tuple(g.ravel() for g in np.meshgrid(codes, codes, indexing="ij"))


@functools.cache
def _boundary_codes(element: str) -> np.ndarray:
    """Codes of a wide type at and next to every number of every minifloat and every midpoint of two, of both signs."""
    t = ELEMENT_TYPES[element]
    values = [0.0, np.inf]
    for name in MINIFLOATS:
        fmt = FORMATS[name]
        wide = np.arange(1 << fmt.bits, dtype=np.uint8).view(fmt.dtype).astype(np.float64)
        own = np.unique(np.abs(wide[np.isfinite(wide)]))
        own = np.append(own, 2 * own[-1] - own[-2])
        values += [*own, *((own[1:] + own[:-1]) / 2), own[own > 0][0] / 2]
    values += [2.0**-p for p in (127, 128, 149, 150, 151, 1022, 1074)] + [2.0**p for p in (127, 128)]
    numbers = np.array(sorted({v for v in values if v < 2.0**129 or element == "f64"}))
    if t.is_integer:
        whole = np.unique(np.rint(numbers[numbers < 2.0**30]).astype(np.int64))
        near = np.unique((whole[:, None] + np.arange(-2, 3)).ravel())
        return np.concatenate([near, -near, [-(2**31), 2**31 - 1]]).astype(t.dtype).view(code_dtype(t))
    with np.errstate(over="ignore"):  # what is beyond f32 is infinite there
        exact = numbers.astype(t.dtype).view(code_dtype(t)).astype(np.int64)
    # Beyond f32's neighbours also those that f32 cannot tell from a boundary: there two roundings show.
    near = np.unique((exact[:, None] + [-(1 << 20), -9, -1, 0, 1, 9, 1 << 20]).ravel())
    near = near[(near >= 0) & (near <= exact.max())]
    nan = exact.max() + np.array([1, 1 << (t.format.mantissa_bits - 1)])
    both = np.concatenate([near, nan]).astype(np.uint64)
    return np.concatenate([both, both | np.uint64(t.format.sign_bit)]).astype(code_dtype(t))


def carrier(t: ElementType) -> ElementType:
    """The type in which values travel: numpy, JAX and the reference interpreter all have it.

    Codes, but of six bits: there is no integer of that size, and f32 holds all these numbers.
    """
    if t.kind is Kind.BOOL:
        return t
    return ELEMENT_TYPES["f32" if t.is_float and t.bits == 6 else f"ui{max(8, t.bits)}"]


def code_dtype(t: ElementType) -> np.dtype:
    """The numpy type of codes."""
    return t.dtype if t.kind is Kind.BOOL else np.dtype(f"u{t.dtype.itemsize}")


def encoded(codes: np.ndarray, t: ElementType) -> np.ndarray:
    """Codes as they travel."""
    return codes.view(t.dtype).astype(np.float32) if carrier(t).is_float else codes


def decoded(values: np.ndarray, t: ElementType) -> np.ndarray:
    """The codes of what has travelled."""
    return values.astype(t.dtype).view(np.uint8) if carrier(t).is_float else values


def program(cases: Sequence[Case], size: int) -> str:
    """A program that takes the operands as they travel and gives each case's results as they travel."""
    first = cases[0]
    t = first.operand_type
    lines: list[str] = []
    for i in range(first.arity):
        _turn(lines, f"%a{i}", carrier(t), t, f"%x{i}", size)
    returned, gives = [], []
    for number, case in enumerate(cases):
        lines.append(case.line(number, size))
        returned.append(_turn(lines, f"%r{number}", case.result_type, carrier(case.result_type), f"%o{number}", size))
        gives.append(str(TensorType((size,), carrier(case.result_type))))
    takes = ", ".join(f"%a{i}: tensor<{size}x{carrier(t)}>" for i in range(first.arity))
    body = "\n  ".join([*lines, f"return {', '.join(returned or ())} : {', '.join(gives)}"])
    return f"func.func @main({takes}) -> ({', '.join(gives)}) {{\n  {body}\n}}\n"


def _turn(lines: list[str], value: str, source: ElementType, target: ElementType, name: str, size: int) -> str:
    """Between a type and its carrier; returns the name of the value."""
    of = f"tensor<{size}x{{}}>".format
    if source == target:
        lines.append(f"{name} = stablehlo.optimization_barrier {value} : {of(source)}")
    elif source.bits == 6 or target.bits == 6:
        lines.append(f"{name} = stablehlo.convert {value} : ({of(source)}) -> {of(target)}")
    elif source.bits in (2, 4):
        small = of(f"ui{source.bits}")
        lines.append(f"{name}n = stablehlo.bitcast_convert {value} : ({of(source)}) -> {small}")
        lines.append(f"{name} = stablehlo.convert {name}n : ({small}) -> {of(target)}")
    elif target.bits in (2, 4):
        small = of(f"ui{target.bits}")
        lines.append(f"{name}n = stablehlo.convert {value} : ({of(source)}) -> {small}")
        lines.append(f"{name} = stablehlo.bitcast_convert {name}n : ({small}) -> {of(target)}")
    else:
        lines.append(f"{name} = stablehlo.bitcast_convert {value} : ({of(source)}) -> {of(target)}")
    return name
