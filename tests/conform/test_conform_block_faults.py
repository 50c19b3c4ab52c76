"""Planted faults in operations on blocks are named, and so are choices that the formats leave open."""

import dataclasses
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import BackendError
from minihlo.interp.backends.operation import Operation
from minihlo.interp.conform.result import CRASH, DIVERGENT, FAIL, PASS

from ..thinned import thinned
from .blocks_planted import Planted, bits_of, numbers, run, scales_of, typed

DEEP = "scaled_dot.deepseek_1x128.deepseek_1x128.f32"
FN, MX4, NV = "mxfp8_e4m3", "mxfp4_e2m1", "nvfp4"
QUANTIZE, DEQUANTIZE = f"quantize.{FN}.floor.f32", f"dequantize.{FN}.f32"
DOT = f"scaled_dot.{FN}.{FN}.f32"


def with_scale(rule: str):
    def before(operation: Operation, arrays):
        return dataclasses.replace(operation, attributes={**operation.attributes, "scale": rule}), arrays

    return before


def of_elements(change: Callable) -> Callable:
    """Changes the elements of quantize, of the numbers and the factor of each."""

    def after(operation: Operation, arrays, found):
        if operation.attributes["gives"] != "elements":
            return found
        x = numbers(arrays[0], operation.operands[0])
        name, block = operation.attributes["format"], operation.attributes["block"]
        rule = operation.attributes["scale"]
        parts = interp.quantize(typed(arrays[0], operation.operands[0]), name, scale=rule)
        each = np.repeat(np.asarray(parts[1]).astype(np.float64), block[-1], axis=1)[:, : x.shape[1]]
        each = each * (float(parts[2]) if len(parts) > 2 else 1.0)
        return change(operation, x, each, found)

    return after


def scaled_twice(operation, x, each, _):
    with np.errstate(all="ignore"):
        return bits_of(interp.cast(x / each / each, operation.result, overflow="saturate"))


def last_unscaled(operation, x, each, found):
    size = operation.attributes["block"][-1]
    start = x.shape[1] // size * size
    plain = bits_of(interp.cast(x, operation.result, overflow="saturate"))
    nan = np.isnan(each)
    return np.where((np.arange(x.shape[1]) >= start) & ~nan, plain, found).astype(found.dtype)


def swapped(codes: np.ndarray) -> np.ndarray:
    found, k = codes.copy(), codes.shape[1] // 2 * 2
    found[:, 0:k:2], found[:, 1:k:2] = codes[:, 1:k:2], codes[:, 0:k:2]
    return found


def other_axis(operation: Operation, arrays):
    if arrays[0].shape[0] != arrays[0].shape[1]:
        raise BackendError("refused", "square arrays only")
    return operation, [np.ascontiguousarray(arrays[0].T)]


def turned_back(operation: Operation, _, found):
    return found.T.reshape(found.shape[::-1]) if operation.attributes["gives"] == "elements" else found.T


def square_scales(operation: Operation, arrays, found):
    found = np.asarray(found)
    return found.T if operation.attributes["gives"] == "elements" else found.reshape(arrays[0].shape[0], -1)


def through_bf16(operation: Operation, arrays):
    x = np.asarray(arrays[0]).view(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    return operation, [x.view(np.uint32)]


def without_nan(operation: Operation, arrays):
    x = np.asarray(arrays[0]).view(np.float32)
    return operation, [np.where(np.isnan(x), np.float32(0), x).view(np.uint32)]


def gross(kind: str):
    def after(_operation, _arrays, found):
        if kind == "zeros":
            return np.zeros_like(found)
        if kind == "half":
            changed = found.copy().reshape(-1)
            changed[changed.size // 2 :] = 0
            return changed.reshape(found.shape)
        return np.roll(found, 1, axis=-1) if found.ndim else found

    return after


def elements_only(after):
    return lambda o, a, f: after(o, a, f) if o.attributes.get("gives", "elements") == "elements" else f


def nan_as(value: float):
    return lambda s: np.where(np.isnan(s), value, s)


SWAPPED = Planted(None, lambda o, a, f: swapped(f) if o.attributes["gives"] == "elements" else f)
PLANTED = [
    (QUANTIZE, Planted(with_scale("ceil")), "scale-rule-ceil", ("array", "partial", "square", "special")),
    (QUANTIZE, Planted(with_scale("rceil")), "scale-rule-rceil", ("array", "partial", "square")),
    (f"quantize.{FN}.rceil.bf16", Planted(with_scale("floor")), "scale-rule-floor", ("array", "ends")),
    (f"quantize.{NV}.nearest.f32", Planted(with_scale("rceil")), "scale-rounded-up", ("array", "square")),
    (QUANTIZE, Planted(None, of_elements(scaled_twice)), "scale-twice", ("array", "partial", "square", "ends")),
    (QUANTIZE, Planted(other_axis, square_scales), "wrong-axis", ("square",)),
    (QUANTIZE, Planted(other_axis, turned_back), "wrong-axis", ("square",)),
    (QUANTIZE, Planted(None, of_elements(last_unscaled)), "partial-block-unscaled", ("partial",)),
    (QUANTIZE, Planted(through_bf16), "through-bf16", ("array", "partial", "square", "ends")),
    (f"quantize.{NV}.nearest.f32", Planted(through_bf16), "through-bf16", ("array",)),
    (QUANTIZE, Planted(without_nan), "nan-block-not-nan", ("special",)),
    (f"quantize.{MX4}.even.f32", SWAPPED, "nibbles-exchanged", ("array", "ends")),
    (f"quantize.{NV}.nearest.bf16", SWAPPED, "nibbles-exchanged", ("array",)),
    (QUANTIZE, Planted(None, gross("zeros")), "zeros", ("array", "partial", "square", "ends", "special")),
    (QUANTIZE, Planted(None, elements_only(gross("half"))), "half-missing", ("array", "partial", "square")),
    (QUANTIZE, Planted(None, elements_only(gross("shift"))), "element-off-by-one", ("array", "partial", "square")),
]  # fmt: skip


def of_scales(change: Callable[[np.ndarray], np.ndarray]):
    """Changes the factors of dequantize."""

    def after(operation: Operation, arrays, _):
        codes, scales, *rest = arrays
        size = operation.attributes["block"][-1]
        factors = change(numbers(scales, operation.operands[1]))
        each = np.repeat(factors, size, axis=1)[:, : codes.shape[1]]
        with np.errstate(all="ignore"):
            value = numbers(codes, operation.operands[0]) * each * (numbers(rest[0], "f32") if rest else 1.0)
        return bits_of(interp.cast(value, operation.result))

    return after


def plain_tail(operation: Operation, arrays, found):
    codes, size = arrays[0], operation.attributes["block"][-1]
    start = codes.shape[1] // size * size
    plain = bits_of(interp.cast(numbers(codes, operation.operands[0]), operation.result))
    return np.where(np.arange(codes.shape[1]) >= start, plain, found).astype(found.dtype)


def result_in_bf16(_operation, _arrays, found):
    return found.view(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32).view(np.uint32)


def swapped_codes(operation: Operation, arrays):
    return operation, [swapped(arrays[0]), *arrays[1:]]


PLANTED += [
    (DEQUANTIZE, Planted(None, of_scales(lambda s: s * s)), "scale-twice", ("array", "partial", "square")),
    (DEQUANTIZE, Planted(None, of_scales(lambda s: s.reshape(s.shape[::-1]).T)), "wrong-axis", ("array", "square")),
    (DEQUANTIZE, Planted(None, plain_tail), "partial-block-unscaled", ("partial",)),
    (f"dequantize.{NV}.f32", Planted(None, result_in_bf16), "through-bf16", ("array", "partial")),
    ("dequantize.deepseek_1x128.f32", Planted(None, result_in_bf16), "through-bf16", ("partial", "square")),
    (DEQUANTIZE, Planted(None, of_scales(nan_as(2.0**128))), "nan-scale-not-nan", ("array", "special")),
    (DEQUANTIZE, Planted(None, of_scales(nan_as(7.0))), "nan-scale-not-nan", ("array", "special")),
    (f"dequantize.{MX4}.f32", Planted(swapped_codes), "nibbles-exchanged", ("array", "partial")),
    (f"dequantize.{NV}.bf16", Planted(swapped_codes), "nibbles-exchanged", ("array", "partial")),
    (DEQUANTIZE, Planted(None, gross("zeros")), "zeros", ("array", "partial", "square", "special")),
    (DEQUANTIZE, Planted(None, gross("half")), "half-missing", ("partial", "square")),
    (DEQUANTIZE, Planted(None, gross("shift")), "element-off-by-one", ("array", "partial", "square")),
]  # fmt: skip


def of_dot(left: Callable | None = None, right: Callable | None = None, k_of: Callable | None = None):
    """Changes the factors of the sides of a dot; a side is [rows, blocks]."""

    def after(operation: Operation, arrays, _):
        sides = []
        given = ((arrays[0], arrays[2], left), (arrays[1].T, arrays[3].T, right))
        for i, (codes, scales, change) in enumerate(given):
            size, scale = operation.attributes["blocks"][i], operation.operands[2 + i]
            if change is None:
                each = scales_of(scales, scale, size, codes.shape[1])
            else:
                each = np.repeat(change(numbers(scales, scale)), size, axis=1)[:, : codes.shape[1]]
            if k_of is not None:
                each = np.where(k_of(np.arange(codes.shape[1]), size), 1.0, each)
            sides.append(numbers(codes, operation.operands[i]) * each)
        with np.errstate(all="ignore"):
            total = (sides[0][:, None] * sides[1][None]).sum(axis=2)
            return bits_of(total.astype(np.float32))

    return after


def in_bf16(operation: Operation, arrays, _):
    sides = []
    with np.errstate(all="ignore"):
        for i, (codes, scales) in enumerate(((arrays[0], arrays[2]), (arrays[1].T, arrays[3].T))):
            each = scales_of(scales, operation.operands[2 + i], operation.attributes["blocks"][i], codes.shape[1])
            exact = numbers(codes, operation.operands[i]) * each
            sides.append(np.asarray(interp.cast(exact, "bf16")).astype(np.float64))
        return bits_of((sides[0][:, None] * sides[1][None]).sum(axis=2).astype(np.float32))


def left_codes(operation: Operation, arrays):
    return operation, [swapped(arrays[0]), *arrays[1:]]


def other_order(s: np.ndarray) -> np.ndarray:
    return s.reshape(s.shape[::-1]).T


PLANTED += [
    (DOT, Planted(None, of_dot(lambda s: s * s)), "scale-twice", ("array", "partial", "blocks-3")),
    (DOT, Planted(None, of_dot(None, lambda s: s * s)), "scale-twice", ("array", "partial", "blocks-3")),
    (DOT, Planted(None, of_dot(other_order, other_order)), "wrong-axis", ("array", "partial", "blocks-3")),
    (DOT, Planted(None, of_dot(other_order)), "wrong-axis", ("array", "partial", "blocks-3")),
    (DOT, Planted(None, of_dot(k_of=lambda k, size: (k // size == k[-1] // size) & ((k[-1] + 1) % size != 0))),
     "partial-block-unscaled", ("partial",)),
    (DEEP, Planted(None, in_bf16), "scaled-in/bf16", ("array", "partial", "ends")),
    (DOT, Planted(None, in_bf16), "scaled-beyond-range", ("ends",)),
    (DOT, Planted(None, of_dot(nan_as(1), nan_as(1))), "nan-scale-not-nan", ("special",)),
    (DOT, Planted(None, of_dot(nan_as(5), nan_as(3))), "nan-scale-not-nan", ("special",)),
    (f"scaled_dot.{MX4}.{MX4}.f32", Planted(left_codes), "nibbles-exchanged", ("array", "partial", "blocks-3")),
    (f"scaled_dot.{NV}.{NV}.f32", Planted(left_codes), "nibbles-exchanged", ("array", "partial", "blocks-1")),
    (DOT, Planted(None, of_dot(lambda s: s / 2)), "scale-too-small", ("array", "partial", "blocks-3")),
    (DOT, Planted(None, gross("zeros")), "zeros", ("array", "partial", "blocks-1", "ends")),
    (DOT, Planted(None, gross("half")), "half-missing", ("array", "partial", "blocks-1")),
    (DOT, Planted(None, gross("shift")), "result-off-by-one", ("array", "partial", "blocks-1")),
]  # fmt: skip


#: Of each fault the first one is tried in every run.
FIRST = {identifier: signature for signature, _, identifier, _ in reversed(PLANTED)}


@pytest.mark.parametrize(
    ("signature", "backend", "identifier", "fails"),
    thinned(PLANTED, lambda signature, _, identifier, __: FIRST[identifier] == signature),
)
def test_faults_are_named(signature: str, backend: Planted, identifier: str, fails: tuple[str, ...]) -> None:
    found = run(backend, signature)
    for form in fails:
        result = found[form]
        assert result.verdict in (FAIL, CRASH, DIVERGENT), form
        assert result.verdict == FAIL or identifier.startswith("scaled-in"), form
        if identifier:
            assert any(c.startswith(identifier) for c in result.causes), (form, result.diagnosis, result.causes)
            assert result.diagnosis or result.model


@pytest.mark.parametrize("rule", ["ceil", "even", "rceil", "nearest"])
def test_a_rule_without_a_name_is_found(rule: str) -> None:
    for result in run(Planted(with_scale(rule)), f"quantize.{FN}.own.bf16", ("array", "partial", "special")).values():
        assert result.verdict == DIVERGENT
        assert set(result.open_points) == {"scale-rule"}
        assert set(result.open_points["scale-rule"]) == {rule}


def test_the_rule_of_the_source_is_right() -> None:
    assert {r.verdict for r in run(Planted(), f"quantize.{FN}.own.f32").values()} == {PASS}


def test_no_rule_is_wrong() -> None:
    """Scales that are neither of a rule: now those of one, now of another."""

    def after(operation: Operation, arrays, found):
        other = Planted(with_scale("nearest")).operate(operation, arrays)
        odd = np.arange(len(found))[:, None] % 2
        return np.where(odd, other, found)

    found = run(Planted(None, after), f"quantize.{FN}.own.f32", ("array",))["array"]
    assert found.verdict == FAIL


def flushed(operation: Operation, arrays):
    x = arrays[0].view(np.float32)
    return operation, [np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x).view(np.uint32)]


def without_code(code: int):
    return elements_only(lambda o, a, f: np.where(f == code, 0, f).astype(f.dtype))


@pytest.mark.parametrize(
    ("backend", "form", "point", "choice"),
    [
        (Planted(flushed), "special", "subnormal-block", "flushed"),
        (Planted(flushed), "ends", "subnormal-block", "flushed"),
        (Planted(None, without_code(0x7F)), "special", "block-with-nan", "elements"),
        (Planted(None, without_code(0x80)), "special", "negative-zero", "plus-zero"),
    ],
)
def test_open_points_have_their_names(backend: Planted, form: str, point: str, choice: str) -> None:
    result = run(backend, QUANTIZE, (form,))[form]
    assert result.verdict == DIVERGENT, result.diagnosis
    assert choice in result.open_points[point]
