"""Several ops in sequence, as in models: their intermediate results must be rounded.

A float is converted through another type; numbers are scaled, clamped to the range of a format and converted to it;
two numbers of a format are widened, added and narrowed; products and sums are computed in bf16. Conversions from and
to complex numbers are included, which a program composes of two parts and splits.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np

from ...backends.programs import Builder, tensor
from ...judging.record import Fault
from ...oracle.case import OpCase, Operands
from ...oracle.exact import estimate, evaluate
from ...oracle.expected import Expected, expected
from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact, encode

#: The scale of quantized numbers, with products that are exact in f32 for minifloats, and its reciprocal in f32.
_SCALES, _INVERSE = (0.75, 0.3125), 1.0 / 0.6875


@dataclasses.dataclass(frozen=True)
class Step:
    """An op of a chain. `takes` counts the case's operands first, then the preceding steps."""

    op: str
    gives: str
    takes: tuple[int, ...] = ()
    value: float = 0.0  #: of a constant


#: The op, its type, where `result` and `operand` are those of the case, what it takes, and the value of
#: a constant, where `low` and `high` are the ends of the result's format.
_Row = tuple[str, str, tuple[int, ...]] | tuple[str, str, tuple[int, ...], float | str]


def _clamp(n: int) -> tuple[_Row, ...]:
    """The steps that clamp the last of n values to the range of the result's format, and convert it."""
    ends: tuple[_Row, ...] = ("constant", "f32", (), "low"), ("constant", "f32", (), "high")
    return *ends, ("clamp", "f32", (n, n - 1, n + 1)), ("convert", "result", (n + 2,))


_CHAINS: dict[str, tuple[_Row, ...]] = {
    **{f"via_{t}": (("convert", t, (0,)), ("convert", "result", (1,))) for t in ("f16", "bf16", "f32")},
    "scale_clamp_convert": (("multiply", "f32", (0, 1)), *_clamp(3)),
    "dequantize_add_quantize": (
        ("convert", "f32", (0,)), ("convert", "f32", (1,)),
        ("constant", "f32", (), _SCALES[0]), ("constant", "f32", (), _SCALES[1]),
        ("multiply", "f32", (2, 4)), ("multiply", "f32", (3, 5)), ("add", "f32", (6, 7)),
        ("constant", "f32", (), _INVERSE), ("multiply", "f32", (8, 9)), *_clamp(11),
    ),
    "multiply_add_in_bf16": (
        ("convert", "bf16", (0,)), ("convert", "bf16", (1,)), ("constant", "bf16", (), 1.171875),
        ("multiply", "bf16", (2, 4)), ("add", "bf16", (5, 3)), ("convert", "result", (6,)),
    ),
    "from_complex": (("complex", "complex<operand>", (0, 1)), ("convert", "result", (2,))),
    **{f"to_complex_{part}": (("convert", "complex<result>", (0,)), (part, "result", (1,)))
       for part in ("real", "imag")},
    **{f"complex_{part}": (("complex", "complex<operand>", (0, 1)), ("convert", "complex<result>", (2,)),
                           (part, "result", (3,))) for part in ("real", "imag")},
}  # fmt: skip


def steps(case: OpCase) -> tuple[Step, ...]:
    """The steps of a chain; the last one gives the result."""
    fmt, found = FORMATS.get(case.result), []
    for op, gives, takes, *value in _CHAINS[dict(case.attributes)["steps"]]:
        number = value[0] if value else 0.0
        if isinstance(number, str) and fmt is not None:
            low = -fmt.max if fmt.is_signed else float(fmt.decode(np.array([0]))[0])
            number = low if number == "low" else fmt.max
        gives = gives.replace("result", case.result).replace("operand", case.operands[0])
        found.append(Step(op, gives, takes, float(number)))
    return tuple(found)


# -- as part of a program ----------------------------------------------------------------------------------------------


def emit(builder: Builder, case: OpCase, values: list[str], shape: tuple[int, ...]) -> str:
    """Adds the chain to a program, on values of a shape; returns the name of its result."""
    names, types = list(values), list(case.operands)
    constants: set[int] = set()
    for step in steps(case):
        if step.op == "constant":
            constants.add(len(names))
            names.append(builder.constant(_constant(step), step.gives))
        else:
            taken = [(names[i], types[i], i in constants) for i in step.takes]
            names.append(_emit(builder, step, taken, shape))
        types.append(step.gives)
    return names[-1]


def _emit(builder: Builder, step: Step, taken: list[tuple[str, str, bool]], shape: tuple[int, ...]) -> str:
    """One step on values with their types, and whether each is a scalar."""
    names, kinds = [], []
    for name, element, is_scalar in taken:
        own, whole = tensor((), element), tensor(shape, element)
        if is_scalar and step.op != "clamp":  # its limits may be scalars
            name, is_scalar = builder.op(f"stablehlo.broadcast_in_dim {name}, dims = [] : ({own}) -> {whole}"), False
        names.append(name)
        kinds.append(own if is_scalar else whole)
    return builder.generic(step.op, names, kinds, tensor(shape, step.gives))


def _constant(step: Step) -> np.ndarray:
    return encode(FORMATS[step.gives], Exact.of(np.array(step.value)))[0]


# -- right results -----------------------------------------------------------------------------------------------------


#: The parts of a value: one of a real type, two of a complex one.
_Parts = tuple[Expected, ...]


def right(case: OpCase, operands: Operands) -> Expected:
    """The results of a chain with every step rounded to its type."""
    values: list[_Parts] = [(_no_choice(x),) for x in operands]
    types = list(case.operands)
    for step in steps(case):
        taken, sources = [values[i] for i in step.takes], [types[i] for i in step.takes]
        match step.op:
            case "constant":
                result = (_no_choice(np.full(len(operands[0]), _constant(step))),)
            case "complex":
                result = taken[0][0], taken[1][0]
            case "real" | "imag":
                result = (taken[0][step.op == "imag"],)
            case "convert":
                result = _convert(taken[0], sources[0], step.gives)
            case _:
                with np.errstate(all="ignore"):
                    of = OpCase(step.op, tuple(sources), step.gives)
                    result = (expected(of, tuple(x.codes for (x,) in taken)),)
        values.append(result)
        types.append(step.gives)
    return values[-1][0]


def _no_choice(codes: np.ndarray) -> Expected:
    return Expected(codes, np.zeros(len(codes), np.uint8))


def _convert(value: _Parts, source: str, target: str) -> _Parts:
    """A conversion that keeps a NaN's sign; between real and complex types the imaginary part is dropped, or zero."""
    a, b = (t.removeprefix("complex<").removesuffix(">") for t in (source, target))

    def part(x: Expected) -> Expected:
        result = x if a == b else expected(OpCase("convert", (a,), b), (x.codes,))
        if a == b or a not in FORMATS or b not in FORMATS or FORMATS[b].nan != "ieee":
            return result
        has_sign = FORMATS[a].is_nan(x.codes) & np.signbit(FORMATS[a].decode(x.codes))
        sign = np.array(FORMATS[b].sign_bit, result.codes.dtype)
        return dataclasses.replace(result, codes=np.where(has_sign, result.codes | sign, result.codes))

    found = tuple(map(part, value))
    if b == target:
        return found[:1]
    return found if len(found) == 2 else (*found, _no_choice(np.zeros_like(found[0].codes)))


# -- faults ------------------------------------------------------------------------------------------------------------


def faults_of(case: OpCase) -> Iterator[Fault]:
    """Faulty versions of a chain, in which an intermediate result is not rounded, or is rounded to a wider type."""
    links = steps(case)
    if any(t not in FORMATS for t in (*case.operands, *(s.gives for s in links))):
        return
    rounded = [i for i, s in enumerate(links[:-1]) if s.op not in ("constant", "clamp")]
    narrow = [i for i in rounded if FORMATS[links[i].gives].bits < 32]
    for i in rounded:
        step = links[i]
        for wide in ("", *(("f32",) if i in narrow else ())):
            instead = f", but to {wide}" if wide else ""
            sentence = f"the result of {step.op} is not rounded to {step.gives} before the next op{instead}"
            yield Fault("not-rounded-before-next", sentence, functools.partial(_skip, {i: wide}))
    if len(narrow) > 1:
        types = ", ".join(dict.fromkeys(links[i].gives for i in narrow))
        sentence = f"no result is rounded to {types}, but to f32"
        yield Fault("none-rounded", sentence, functools.partial(_skip, dict.fromkeys(narrow, "f32")))


def _skip(wider: dict[int, str], case: OpCase, operands: Operands) -> np.ndarray:
    """The results if some steps are rounded to other types, or only to f64."""
    numbers = [FORMATS[t].decode(x) for x, t in zip(operands, case.operands, strict=True)]
    codes = operands[0]
    for i, step in enumerate(steps(case)):
        taken = [numbers[n] for n in step.takes]
        if step.op == "constant":
            numbers.append(np.full(len(codes), FORMATS[step.gives].decode(_constant(step))))
        elif wider.get(i) == "":
            numbers.append(estimate(step.op, *taken))
        else:
            fmt = FORMATS[wider.get(i, step.gives)]
            codes = evaluate(step.op, fmt, *taken)[0]
            numbers.append(fmt.decode(codes))
    return codes
