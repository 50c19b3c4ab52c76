"""Results as text: `dense` as stablehlo-translate prints them, `codes` much as iree-run-module does, and `json`.

`dense` and `codes` can be read back by `values.parse_value`, to the same bits: what is not finite is printed as
a code in both.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ...ops.cast import cast, codes_of
from ...ops.minifloat.codec import decode
from ...ops.minifloat.formats import Format, Nan
from ...ops.minifloat.number import FINITE, NAN
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType, TupleType, Type

#: More elements than this are elided in `dense`, unless all are asked for.
MOST_ELEMENTS = 1000
#: How many are left at each end of a dimension that is elided.
_ENDS = 3
#: A minifloat is printed exactly where that takes no more digits.
_EXACT_DIGITS = 17

Printer = Callable[[Any], str]


def format_value(value: Any, t: Type, form: str = "dense", full: bool = False) -> str:
    """Return the text of a value, without a line break at the end.

    Args:
        value: An array, a tuple of values, or None for a token.
        t: Its type.
        form: `"dense"` as StableHLO's tools print it, `"codes"` as `--input` reads it, or `"json"`, one object on one
            line.
        full: Whether to print all elements of a large array.
    """
    if form == "json":
        return json.dumps(json_value(value, t))
    if isinstance(t, TensorType):
        array = np.asarray(value)
        t = TensorType(array.shape, t.element)  # all sizes are known now
        return _codes(array, t) if form == "codes" else _dense(array, t, full)
    if isinstance(t, TupleType):
        parts = [format_value(v, e, form, full) for v, e in zip(value, t.elements, strict=True)]
        return f"{t} (\n" + ",\n".join(parts) + "\n)"
    return str(t)


def json_value(value: Any, t: Type) -> dict[str, Any]:
    """What `json` prints: type, shape and values; for floats the codes too. NaN and infinities are strings."""
    if isinstance(t, TupleType):
        parts = [json_value(v, e) for v, e in zip(value, t.elements, strict=True)]
        return {"type": str(t), "elements": parts}
    if not isinstance(t, TensorType):
        return {"type": str(t)}
    array = np.asarray(value)
    element = t.element
    result: dict[str, Any] = {
        "type": str(TensorType(array.shape, element)),
        "shape": list(array.shape),
        "element": element.name,
    }
    if element.is_complex:
        array, element = array.copy()[..., None].view(element.part.dtype), element.part
    if element.is_float:
        numbers = array if element.has_dtype else cast(array, element, ELEMENT_TYPES["f32"], Policy())
        return result | {"values": _map(numbers, _json_float), "codes": codes_of(array, element.format).tolist()}
    return result | {"values": array.tolist()}


def _map(array: np.ndarray, function: Callable[[Any], Any]) -> Any:
    """Nested lists of `function` of each element."""
    flat = np.empty(array.size, object)
    flat[:] = [function(x) for x in array.ravel()]
    return flat.reshape(array.shape).tolist()


def _json_float(x: Any) -> float | str:
    # Of f32 the shortest decimal that is no other f32; all narrower types have few digits anyway.
    number = float(str(x)) if x.dtype == np.float32 else float(x)
    return number if math.isfinite(number) else str(number)


def _dense(array: np.ndarray, t: TensorType, full: bool) -> str:
    printer = _printer(t.element)
    if array.shape == ():
        return f"{t} {{{printer(array[()])}}}"
    elided = array.size > MOST_ELEMENTS and not full
    body = _nested(array, printer, 1, elided)
    note = f"  // {array.size:,} elements; --full prints all" if elided else ""
    return f"{t} {{\n{body}\n}}{note}"


def _nested(array: np.ndarray, printer: Printer, indent: int, elided: bool) -> str:
    """The lists of an array, the innermost on one line each."""
    pad = "  " * indent
    count = len(array)
    shown = list(range(count))
    if elided and count > 2 * _ENDS:
        shown[_ENDS:-_ENDS] = [-1]
    if array.ndim == 1:
        return f"{pad}[{', '.join('…' if i < 0 else printer(array[i]) for i in shown)}]"
    if not count:
        return f"{pad}[]"
    inner = ",\n".join(f"{pad}  …" if i < 0 else _nested(array[i], printer, indent + 1, elided) for i in shown)
    return f"{pad}[\n{inner}\n{pad}]"


def _printer(element: ElementType) -> Printer:
    if element.kind is Kind.BOOL:
        return lambda x: "true" if x else "false"
    if element.is_complex:
        part = _printer(element.part)
        return lambda x: f"[{part(x.real)}, {part(x.imag)}]"
    if element.is_float:
        fmt = element.format
        if fmt.is_minifloat:
            texts = minifloat_texts(fmt)
            return lambda x: texts[int(x.view(np.uint8))]
        return functools.partial(_wide_text, fmt=fmt)
    return lambda x: str(int(x))


@functools.cache
def minifloat_texts(fmt: Format) -> tuple[str, ...]:
    """The text of every code of a format of up to eight bits: MLIR's, with as many digits as it takes to be exact."""
    number = decode(np.arange(1 << fmt.bits, dtype=np.uint8), fmt)
    texts = []
    for code in range(1 << fmt.bits):
        if number.kind[code] != FINITE:
            texts.append(code_text(code))
            continue
        value = math.ldexp(int(number.significand[code]), int(number.exponent[code]))
        texts.append(_exact_text(-value if number.sign[code] else value))
    return tuple(texts)


def code_text(code: int, bits: int = 0) -> str:
    """A code in hexadecimal; with `bits`, padded to the width of the type."""
    return f"0x{code:0{(bits + 3) // 4}X}"


def _wide_text(x: Any, fmt: Format) -> str:
    """A number as MLIR prints attributes: six digits if no other number has these, else as many as it takes."""
    number = float(x)
    if not math.isfinite(number):
        return code_text(int(x.view(fmt.code_dtype)))
    text = _scientific(*_decimal(number, 6))
    # Six digits are enough for all formats of up to 16 bits. They never lie so near to a tie between two f32 that
    # reading them as f64 first would matter.
    if fmt.bits == 16 or (np.float32(text) == x if fmt.bits == 32 else float(text) == number):
        return text
    return _general(*_decimal(number, 2 + fmt.precision * 59 // 196))


def _exact_text(number: float) -> str:
    exact = Decimal(number).normalize()
    sign, digits, exponent = exact.as_tuple()
    if len(digits) > _EXACT_DIGITS:
        return _scientific(*_decimal(number, 6))
    return _scientific("-" * sign, "".join(map(str, digits)), int(exponent) if number else 0)


def _decimal(number: float, precision: int) -> tuple[str, str, int]:
    """Sign, at most `precision` digits without zeros at the end, and the power of ten of the last digit.

    Nearest or one below, as LLVM's APFloat::toString, so that our output and MLIR's are the same to the byte: surplus
    digits are cut off while more than `precision` are left for sure, the rest is rounded half up.
    """
    sign = "-" * (math.copysign(1, number) < 0)
    if not number:
        return sign, "0", 0
    numerator, denominator = abs(number).as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    value = numerator * 5**-exponent
    surplus = value.bit_length() - (precision * 196 + 58) // 59
    if surplus > 0:
        cut = surplus * 59 // 196
        value //= 10**cut
        exponent += cut
    digits = str(value)
    if (rest := len(digits.rstrip("0")) - precision) > 0:
        rest += len(digits) - len(digits.rstrip("0"))
        value = (value // 10 ** (rest - 1) + 5) // 10
        exponent += rest
        digits = str(value)
    kept = digits.rstrip("0")
    return sign, kept, exponent + len(digits) - len(kept)


def _scientific(sign: str, digits: str, exponent: int) -> str:
    """In the form `1.234560e-01`, with at least six digits after the point."""
    return f"{sign}{digits[0]}.{digits[1:]:0<6}e{exponent + len(digits) - 1:+03d}"


def _general(sign: str, digits: str, exponent: int) -> str:
    """Plain where that takes few zeros, else with an exponent."""
    power = exponent + len(digits) - 1
    if exponent < 0 and power >= -3:
        plain = digits if power >= 0 else "0" * -power + digits
        point = max(power, 0) + 1
        return f"{sign}{plain[:point]}.{plain[point:]}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power:+d}"


def _codes(array: np.ndarray, t: TensorType) -> str:
    element = t.element
    head = "".join(f"{d}x" for d in array.shape) + element.name
    if element.is_complex:
        fmt = element.part.format
        pairs = codes_of(np.ascontiguousarray(array)[..., None].view(element.part.dtype), fmt).reshape(-1, 2).tolist()
        texts = [f"({code_text(re, fmt.bits)},{code_text(im, fmt.bits)})" for re, im in pairs]
    elif element.is_float:
        texts = [code_text(code, element.bits) for code in codes_of(array, element.format).ravel().tolist()]
    else:
        texts = [str(int(x)) for x in array.ravel()]
    return f"{head}={_bracketed(texts, array.shape)}"


def _bracketed(texts: Sequence[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return texts[0]
    if len(shape) == 1:
        return f"[{' '.join(texts)}]"
    step = math.prod(shape[1:])
    return f"[{''.join(_bracketed(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))}]"


def number_text(fmt: Format, code: int) -> str:
    """The value of a code for people: exact where short, `nan`, `inf`, else the shortest decimal that reads back."""
    return number_texts(fmt, np.array([code], fmt.code_dtype))[0]


def number_texts(fmt: Format, codes: np.ndarray) -> list[str]:
    """`number_text` of each code of a one-dimensional array."""
    number = decode(codes, fmt)
    # Of the formats with one NaN, its sign means nothing.
    sign = number.sign & ~(number.is_nan & (fmt.nan in (Nan.NEGATIVE_ZERO, Nan.LAST)))
    parts = (number.kind, sign, number.significand, number.exponent)
    return [_number_text(*of_one) for of_one in zip(*(p.tolist() for p in parts), codes.view(fmt.dtype), strict=True)]


def _number_text(kind: int, negative: bool, significand: int, exponent: int, stored: Any) -> str:
    sign = "-" * negative
    if kind != FINITE:
        return sign + ("nan" if kind == NAN else "inf")
    if stored.dtype.itemsize >= 4:
        return str(stored)
    value = math.ldexp(significand, exponent)
    return sign + (str(int(value)) if value < 1e6 and value.is_integer() else repr(value))
