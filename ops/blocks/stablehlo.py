"""Quantizing an array to a block format, and dequantizing one, as functions of StableHLO.

All of it is exact but the one rounding of each scale and each element: numbers are widened to f64, where quotients by
a scale are exact, or never as near to a border between two results that f64 could take them for it.
"""

from __future__ import annotations

from collections.abc import Callable

from .formats import BlockFormat
from .scales import decode_f64, thresholds

_F64_MANTISSA, _F64_BIAS = 52, 1023


class _Body:
    """Lines of a function, each of which names its result."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def emit(self, name: str, op: str, types: str) -> str:
        self.lines.append(f"    %{name} = {op} : {types}")
        return f"%{name}"

    def constant(self, name: str, value: str, t: str) -> str:
        return self.emit(name, f"stablehlo.constant dense<{value}>", t)

    def spread(self, name: str, value: str, source: str, target: str, dims: list[int]) -> str:
        text = ", ".join(map(str, dims))
        op = f"stablehlo.broadcast_in_dim {value}, dims = [{text}]"
        return self.emit(name, op, f"({source}) -> {target}")

    def pad(self, value: str, shape: tuple[int, ...], whole: tuple[int, ...], t: str) -> str:
        """An array with zeros after its end, so that each block is full."""
        if shape == whole:
            return value
        nothing = self.constant("nothing", "0.0", f"tensor<{t}>")
        none, high = [0] * len(shape), [n - s for n, s in zip(whole, shape, strict=True)]
        pad = f"stablehlo.pad {value}, {nothing}, low = {none}, high = {high}, interior = {none}"
        return self.emit("padded", pad, f"({_tensor(shape, t)}, tensor<{t}>) -> {_tensor(whole, t)}")

    def cut(self, name: str, value: str, whole: tuple[int, ...], shape: tuple[int, ...], t: str) -> str:
        """The array without what `padded` has added."""
        if shape == whole:
            return value
        ranges = ", ".join(f"0:{n}" for n in shape)
        return self.emit(name, f"stablehlo.slice {value} [{ranges}]", f"({_tensor(whole, t)}) -> {_tensor(shape, t)}")

    def function(self, name: str, takes: list[tuple[str, str]], values: list[str], gives: list[str]) -> str:
        """The lines as a function."""
        arguments = ", ".join(f"{value}: {t}" for value, t in takes)
        returned, lines = ", ".join(gives), "\n".join(self.lines)
        private = "" if name == "main" else "private "
        result = returned if len(gives) == 1 else f"({returned})"
        return (
            f"  func.func {private}@{name}({arguments}) -> {result} {{\n{lines}\n"
            f"    return {', '.join(values)} : {returned}\n  }}"
        )


def quantizer(fmt: BlockFormat, shape: tuple[int, ...]) -> str:
    """A module whose function `main` quantizes f32 of a shape by the format's own rule."""
    return f"module {{\n{quantizer_function(fmt, shape)}\n}}"


def quantizer_function(
    fmt: BlockFormat, shape: tuple[int, ...], rule: str = "", source: str = "f32", name: str = "main"
) -> str:
    """A function that quantizes an array: its elements, its scales, and the scale of the tensor if there is one.

    Args:
        fmt: the block format.
        shape: of the array. Blocks lie along its last dimensions; the last one may be shorter.
        rule: for the scale; where empty the format's own. Of scales that are no powers of two `nearest` alone.
        source: the element type of the array, a float of at most 32 bits.
        name: of the function.
    """
    first = len(shape) - len(fmt.block)
    counts = tuple(-(-n // b) for n, b in zip(shape[first:], fmt.block, strict=True))
    whole = (*shape[:first], *(n * b for n, b in zip(counts, fmt.block, strict=True)))
    split = (*shape[:first], *(n for pair in zip(counts, fmt.block, strict=True) for n in pair))
    within = [first + 2 * i + 1 for i in range(len(fmt.block))]
    outside = [d for d in range(len(split)) if d not in within]
    few = (*shape[:first], *counts)

    def wide(element: str) -> str:
        return _tensor(split, element)

    def small(element: str) -> str:
        return _tensor(few, element)

    body = _Body()
    operand = body.pad("%x", shape, whole, source)
    body.emit("blocks", f"stablehlo.reshape {operand}", f"({_tensor(whole, source)}) -> {wide(source)}")
    body.emit("wide", "stablehlo.convert %blocks", f"({wide(source)}) -> {wide('f64')}")
    body.emit("magnitudes", "stablehlo.abs %wide", wide("f64"))
    body.constant("zero", "0.0", "tensor<f64>")
    reduce = f"stablehlo.reduce(%magnitudes init: %zero) applies stablehlo.maximum across dimensions = {within}"
    body.emit("amax", reduce, f"({wide('f64')}, tensor<f64>) -> {small('f64')}")
    results = [_tensor(shape, fmt.element), small(fmt.scale)]
    names = ["%codes", "%scales"]
    if fmt.has_power_scale:
        _power_scale(body, fmt, rule or fmt.rule, small)
    elif rule not in ("", "nearest"):
        raise ValueError(f"expected the rule nearest for scales of {fmt.scale}, got {rule!r}")
    else:
        divisor = _tensor_scale(body, fmt, few) if fmt.tensor_scale else None
        _quotient_scale(body, fmt, small, divisor)
        if divisor is not None:
            results.append("tensor<f32>")
            names.append("%tensor_scale")
    factor = "%factor_of_block"
    body.emit("factor_of_block", "stablehlo.convert %scales", f"({small(fmt.scale)}) -> {small('f64')}")
    if fmt.tensor_scale:
        body.spread("tensor_factors", "%tensor_factor", "tensor<f64>", small("f64"), [])
        factor = body.emit("factor", "stablehlo.multiply %factor_of_block, %tensor_factors", small("f64"))
    body.spread("factors", factor, small("f64"), wide("f64"), outside)
    _elements(body, fmt, wide)
    kind = "codes" if whole == shape else "all_codes"
    found = body.emit(kind, "stablehlo.reshape %elements", f"({wide(fmt.element)}) -> {_tensor(whole, fmt.element)}")
    body.cut("codes", found, whole, shape, fmt.element)
    return body.function(name, [("%x", _tensor(shape, source))], names, results)


def dequantizer_function(fmt: BlockFormat, shape: tuple[int, ...], result: str = "f32", name: str = "main") -> str:
    """A function of elements and scales, and of the scale of the tensor if there is one: the numbers they stand for.

    A product of an element and one scale is rounded once in f32; any other is formed in f64, exact but of a scale in
    f32, and rounded to the result.
    """
    first = len(shape) - len(fmt.block)
    counts = tuple(-(-n // b) for n, b in zip(shape[first:], fmt.block, strict=True))
    whole = (*shape[:first], *(n * b for n, b in zip(counts, fmt.block, strict=True)))
    split = (*shape[:first], *(n for pair in zip(counts, fmt.block, strict=True) for n in pair))
    outside = [d for d in range(len(split)) if (d - first) % 2 == 0 or d < first]
    few, t = (*shape[:first], *counts), "f32" if result == "f32" and fmt.tensor_scale is None else "f64"
    body = _Body()
    takes = [("%codes", _tensor(shape, fmt.element)), ("%scales", _tensor(few, fmt.scale))]
    body.emit("elements", "stablehlo.convert %codes", f"({takes[0][1]}) -> {_tensor(shape, t)}")
    elements = body.pad("%elements", shape, whole, t)
    body.emit("blocks", f"stablehlo.reshape {elements}", f"({_tensor(whole, t)}) -> {_tensor(split, t)}")
    value = "%blocks"
    if fmt.element_format is None:
        body.constant("unit", repr(0.5**fmt.fraction_bits), _tensor(split, t))
        value = body.emit("fractions", "stablehlo.multiply %blocks, %unit", _tensor(split, t))
    factor = body.emit("factor_of_block", "stablehlo.convert %scales", f"({takes[1][1]}) -> {_tensor(few, t)}")
    if fmt.tensor_scale is not None:
        takes.append(("%tensor_scale", "tensor<f32>"))
        body.emit("tensor_factor", "stablehlo.convert %tensor_scale", f"(tensor<f32>) -> tensor<{t}>")
        body.spread("tensor_factors", "%tensor_factor", f"tensor<{t}>", _tensor(few, t), [])
        factor = body.emit("factor", f"stablehlo.multiply {factor}, %tensor_factors", _tensor(few, t))
    body.spread("factors", factor, _tensor(few, t), _tensor(split, t), outside)
    body.emit("products", f"stablehlo.multiply {value}, %factors", _tensor(split, t))
    found = body.emit("flat", "stablehlo.reshape %products", f"({_tensor(split, t)}) -> {_tensor(whole, t)}")
    found = body.cut("numbers", found, whole, shape, t)
    if t != result:
        found = body.emit("rounded", f"stablehlo.convert {found}", f"({_tensor(shape, t)}) -> {_tensor(shape, result)}")
    return body.function(name, takes, [found], [_tensor(shape, result)])


def _power_scale(body: _Body, fmt: BlockFormat, rule: str, small: Callable[[str], str]) -> None:
    """The code of a power of two: the exponent field of amax, and how far its mantissa reaches."""
    i64 = small("i64")
    body.emit("bits", "stablehlo.bitcast_convert %amax", f"({small('f64')}) -> {i64}")
    body.constant("width", str(_F64_MANTISSA), i64)
    total = body.emit("field", "stablehlo.shift_right_logical %bits, %width", i64)
    offset, reached = thresholds(fmt, rule)
    # The field counts from the exponent of a mantissa from 1 to 2.
    body.constant("offset", str(offset + 1 - _F64_BIAS - fmt.scale_format.min_exponent), i64)
    total = body.emit("exponent", f"stablehlo.add {total}, %offset", i64)
    if reached:
        body.constant("mask", str((1 << _F64_MANTISSA) - 1), i64)
        body.emit("mantissa", "stablehlo.and %bits, %mask", i64)
    for i, threshold in enumerate(t for t in reached if t < 1):
        body.constant(f"threshold{i}", str(max(int((2 * threshold - 1) * 2**_F64_MANTISSA), 0)), i64)
        compared = f"stablehlo.compare GE, %mantissa, %threshold{i}, SIGNED"
        body.emit(f"reached{i}", compared, f"({i64}, {i64}) -> {small('i1')}")
        body.emit(f"step{i}", f"stablehlo.convert %reached{i}", f"({small('i1')}) -> {i64}")
        total = body.emit(f"exponent{i}", f"stablehlo.add {total}, %step{i}", i64)
    body.constant("least", "0", "tensor<i64>")
    body.constant("nan", str(fmt.scale_format.nan_code), "tensor<i64>")
    body.emit("clamped", f"stablehlo.clamp %least, {total}, %nan", f"(tensor<i64>, {i64}, tensor<i64>) -> {i64}")
    body.emit("scale_codes", "stablehlo.convert %clamped", f"({i64}) -> {small('ui8')}")
    body.emit("scales", "stablehlo.bitcast_convert %scale_codes", f"({small('ui8')}) -> {small(fmt.scale)}")


def _tensor_scale(body: _Body, fmt: BlockFormat, few: tuple[int, ...]) -> str:
    """The scale of the tensor, from the blocks that are finite."""
    f64, i1 = _tensor(few, "f64"), _tensor(few, "i1")
    body.emit("finite", "stablehlo.is_finite %amax", f"({f64}) -> {i1}")
    body.constant("zeros", "0.0", f64)
    body.emit("measured", "stablehlo.select %finite, %amax, %zeros", f"{i1}, {f64}")
    dims = ", ".join(map(str, range(len(few))))
    reduce = f"stablehlo.reduce(%measured init: %zero) applies stablehlo.maximum across dimensions = [{dims}]"
    body.emit("largest_of_all", reduce, f"({f64}, tensor<f64>) -> tensor<f64>")
    top = fmt.largest * fmt.scale_format.largest
    body.constant("both_largest", repr(top), "tensor<f64>")
    body.emit("tensor_quotient", "stablehlo.divide %largest_of_all, %both_largest", "tensor<f64>")
    body.emit("tensor_rounded", "stablehlo.convert %tensor_quotient", "(tensor<f64>) -> tensor<f32>")
    body.constant("tensor_least", "0x00000001", "tensor<f32>")
    body.emit("tensor_positive", "stablehlo.maximum %tensor_rounded, %tensor_least", "tensor<f32>")
    body.constant("one", "1.0", "tensor<f32>")
    body.emit("empty", "stablehlo.compare EQ, %largest_of_all, %zero", "(tensor<f64>, tensor<f64>) -> tensor<i1>")
    body.emit("tensor_scale", "stablehlo.select %empty, %one, %tensor_positive", "tensor<i1>, tensor<f32>")
    body.emit("tensor_factor", "stablehlo.convert %tensor_scale", "(tensor<f32>) -> tensor<f64>")
    body.constant("largest_element", repr(fmt.largest), "tensor<f64>")
    return body.emit("divisor", "stablehlo.multiply %largest_element, %tensor_factor", "tensor<f64>")


def _quotient_scale(body: _Body, fmt: BlockFormat, small: Callable[[str], str], divisor: str | None) -> None:
    """amax / largest, rounded to the scale's format."""
    f64 = small("f64")
    if divisor is None:
        body.constant("divisors", repr(fmt.largest), f64)
    else:
        body.spread("divisors", divisor, "tensor<f64>", f64, [])
    quotient = body.emit("quotient", "stablehlo.divide %amax, %divisors", f64)
    body.constant("scale_least", repr(float(decode_f64(1, fmt.scale_format))), "tensor<f64>")
    body.constant("scale_most", repr(fmt.scale_format.largest), "tensor<f64>")
    clamp = f"stablehlo.clamp %scale_least, {quotient}, %scale_most"
    exact = body.emit("scale_clamped", clamp, f"(tensor<f64>, {f64}, tensor<f64>) -> {f64}")
    if divisor is None:
        body.emit("finite", "stablehlo.is_finite %amax", f"({f64}) -> {small('i1')}")
    body.constant("nan", "0x7FF8000000000000", f64)  # also of a block with an infinity
    exact = body.emit("scale_or_nan", f"stablehlo.select %finite, {exact}, %nan", f"{small('i1')}, {f64}")
    if fmt.zero_scale is not None:
        body.constant("of_zeros", repr(fmt.zero_scale), f64)
        body.constant("no_number", "0.0", f64)
        compared = "stablehlo.compare EQ, %amax, %no_number"
        body.emit("is_zero", compared, f"({f64}, {f64}) -> {small('i1')}")
        exact = body.emit("scale_value", f"stablehlo.select %is_zero, %of_zeros, {exact}", f"{small('i1')}, {f64}")
    body.emit("scales", f"stablehlo.convert {exact}", f"({f64}) -> {small(fmt.scale)}")


def _elements(body: _Body, fmt: BlockFormat, wide: Callable[[str], str]) -> None:
    """The quotients by the scales, saturated and rounded to elements."""
    f64, limit = wide("f64"), fmt.largest
    body.emit("scaled", "stablehlo.divide %wide, %factors", f64)
    exact = "%scaled"
    if fmt.element_format is None:
        limit = fmt.largest * 2**fmt.fraction_bits
        body.constant("unit", repr(float(2**fmt.fraction_bits)), f64)
        body.emit("counted", "stablehlo.multiply %scaled, %unit", f64)
        exact = body.emit("whole", "stablehlo.round_nearest_even %counted", f64)
    body.constant("low", repr(-limit), "tensor<f64>")
    body.constant("high", repr(limit), "tensor<f64>")
    body.emit("saturated", f"stablehlo.clamp %low, {exact}, %high", f"(tensor<f64>, {f64}, tensor<f64>) -> {f64}")
    exact = "%saturated"
    if fmt.element_format is not None:  # the sign of NaN depends on the operand
        i1 = wide("i1")
        body.emit("known", "stablehlo.compare EQ, %factors, %factors", f"({f64}, {f64}) -> {i1}")
        body.constant("unknown", "0x7FF8000000000000", f64)
        exact = body.emit("canonical", "stablehlo.select %known, %saturated, %unknown", f"{i1}, {f64}")
    body.emit("elements", f"stablehlo.convert {exact}", f"({f64}) -> {wide(fmt.element)}")


def _tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"
