"""Blocks in the tester: what is right passes, planted faults are named, and every operand matters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import BackendError, Minihlo
from minihlo.interp.backends.operation import Operation
from minihlo.interp.conform import tester
from minihlo.interp.conform.block_parts import BlockPart, ScaledPart
from minihlo.interp.conform.cases import block_data
from minihlo.interp.conform.cases.cases import cases, forms
from minihlo.interp.conform.result import CRASH, DIVERGENT, FAIL, PASS, CaseResult
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.oracle.blocks import BLOCKS
from minihlo.ops.blocks.formats import BLOCK_FORMATS
from minihlo.ops.policy import Policy

from . import block_oracle
from .blocks_planted import Planted, bits_of, numbers, run, scales_of, typed

DEEP = "scaled_dot.deepseek_1x128.deepseek_1x128.f32"
FN, MX4, NV = "mxfp8_e4m3", "mxfp4_e2m1", "nvfp4"
QUANTIZE, DEQUANTIZE = f"quantize.{FN}.floor.f32", f"dequantize.{FN}.f32"
DOT = f"scaled_dot.{FN}.{FN}.f32"


# -- what is right -----------------------------------------------------------------------------------------------------


def test_facts_are_those_of_the_other_oracle() -> None:
    for name, (element, size, scale, has_tensor_scale) in block_oracle.FACTS.items():
        block = BLOCKS[name]
        assert (block.element, block.size, block.scale, block.has_tensor_scale) == (
            element, size, scale, has_tensor_scale,
        )  # fmt: skip
        assert block.largest == block_oracle.LARGEST[element]
        assert block.shape == BLOCK_FORMATS[name].block
    assert list(BLOCKS) == list(BLOCK_FORMATS)


@pytest.mark.parametrize("op", ["quantize", "dequantize", "scaled_dot"])
@pytest.mark.parametrize("name", [FN, "mxfp6_e3m2", "mxint8", NV, "deepseek_1x128"])
def test_minihlo_passes(op: str, name: str) -> None:
    ours = tester.Tester(Minihlo("minihlo", Policy()), Settings(backend="minihlo"))
    chosen = [
        c
        for c in cases(1)
        if c.op == op and dict(c.attributes).get("format", c.attributes[0][1]) == name and forms(c, 1)
    ][:2]
    for case in chosen:
        found = ours.run([tester.Spec(case, f) for f in forms(case, 1)])
        assert [(r.form, r.verdict) for r in found if r.verdict != PASS] == []


@pytest.mark.exhaustive
def test_minihlo_passes_all() -> None:
    ours = tester.Tester(Minihlo("minihlo", Policy()), Settings(backend="minihlo"))
    for case in (c for c in cases(2) if c.is_blocks):
        names = forms(case, 2)
        found = ours.run([tester.Spec(case, f) for f in names]) if names else []
        assert [(r.signature, r.form, r.verdict) for r in found if r.verdict != PASS] == []


@pytest.mark.parametrize("signature", [DOT, f"scaled_dot.{FN}.{MX4}.bf16"])
def test_a_unit_is_told_by_name(signature: str) -> None:
    """On all shapes, zeros of either sign among the results: not as sums in f32 in some order."""
    found = _summed("b200", signature)
    assert {r.model.split(":")[0] for r in found if r.verdict == DIVERGENT} == {"summed as by b200.tcgen05"}


def test_a_record_that_is_given_explains_scaled_products() -> None:
    given = interp.Accumulator(8, bits=14, keep="f32", rounding="toward_zero")
    found = _summed(given, DOT, "step=4,bits=9", given.to_text())
    assert {r.model for r in found if r.verdict == DIVERGENT} == {f"summed as the given record: {given.to_text()}"}


def _summed(accumulate: str | interp.Accumulator, signature: str, *records: str) -> list[CaseResult]:
    """What the tester says of sums as a unit or a record forms them."""
    (case,) = [c for c in cases(1) if c.signature == signature]
    backend = Minihlo("minihlo", Policy(accumulate=accumulate))
    ours = tester.Tester(backend, Settings(backend="minihlo", accumulators=records))
    found = ours.run([tester.Spec(case, f) for f in forms(case, 1)])
    assert {r.verdict for r in found} <= {PASS, DIVERGENT}
    return found


@pytest.mark.parametrize(
    "signature", [QUANTIZE, f"quantize.{NV}.nearest.bf16", DEQUANTIZE, f"dequantize.{NV}.bf16", DOT]
)
def test_a_right_library_passes(signature: str) -> None:
    assert {r.verdict for r in run(Planted(), signature).values()} == {PASS}


# -- operands ----------------------------------------------------------------------------------------------------------


def test_all_codes_are_dequantized_with_all_scales() -> None:
    for case in (c for c in cases(1) if c.op == "dequantize"):
        block = BLOCKS[dict(case.attributes)["format"]]
        codes, scales, *_ = block_data.arrays(case, "array", 0)
        each = block.spread(scales, codes.shape)
        if block.scale_fmt.bits == 8:
            bits = 8 if block.fmt is None else block.fmt.bits
            assert len(set(zip(codes.ravel().tolist(), each.ravel().tolist(), strict=True))) == 256 << bits
        else:
            assert len(np.unique(codes)) == 256


@pytest.mark.parametrize("signature", [QUANTIZE, f"quantize.{NV}.nearest.f32", "quantize.deepseek_1x128.nearest.f32"])
def test_every_place_of_a_block_decides_a_scale(signature: str) -> None:
    """Without the number at any one place of all blocks some scale is another."""
    (case,) = [c for c in cases(1) if c.signature == signature]
    (x,) = block_data.arrays(case, "array", 0)
    part = BlockPart(case, "array", (x,))
    scales = part.parts_of(part.expected)[1]
    for place in range(part.block.size):
        less = x.copy()
        less[:, place :: part.block.size] = 0
        assert (part.parts_of(BlockPart(case, "array", (less,)).expected)[1] != scales).any()
    used = np.bitwise_or.reduce(scales.ravel()), np.bitwise_and.reduce(scales.ravel())
    bits = 8 if part.block.scale_fmt.bits == 8 else 31
    assert bin(int(used[0] ^ used[1])).count("1") >= bits - 2  # both values of nearly every bit
    assert len(np.unique(part.parts_of(part.expected)[0])) > 0.9 * (1 << part.block.fmt.bits) - 4  # elements


@pytest.mark.parametrize("form", ["array", "partial", "blocks-1", "blocks-3", "blocks-5", "ends", "special"])
@pytest.mark.parametrize("signature", [DOT, f"scaled_dot.{NV}.{NV}.bf16", f"scaled_dot.{FN}.mxfp4_e2m1.bf16"])
def test_every_operand_of_a_dot_matters(signature: str, form: str) -> None:
    """With another number at any place of k, another row, column or scale, some exact result is another."""
    (case,) = [c for c in cases(1) if c.signature == signature]
    arrays = block_data.arrays(case, form, 0)
    with np.errstate(all="ignore"):
        exact = ScaledPart(case, form, arrays).exact.codes

        def differs(which: int, index) -> bool:
            changed = [a.copy() for a in arrays]
            changed[which][index] ^= 1
            return bool((ScaledPart(case, form, tuple(changed)).exact.codes != exact).any())

        for which, array in enumerate(arrays):
            for axis in (0, 1):
                count = array.shape[axis]
                for at in range(count) if count < 12 else range(0, count, 5):
                    assert differs(which, (at,) if axis == 0 else (slice(None), at)), (which, axis, at)


# -- planted faults ----------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("signature", "backend", "identifier", "fails"), PLANTED)
def test_faults_are_named(signature: str, backend: Planted, identifier: str, fails: tuple[str, ...]) -> None:
    found = run(backend, signature)
    for form in fails:
        result = found[form]
        assert result.verdict in (FAIL, CRASH, DIVERGENT), form
        assert result.verdict == FAIL or identifier.startswith("scaled-in"), form
        if identifier:
            assert any(c.startswith(identifier) for c in result.causes), (form, result.diagnosis, result.causes)
            assert result.diagnosis or result.model


# -- rules without a name, and open points -----------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", [FN, "mxfp6_e2m3", MX4])
def test_onnx_dequantizes(name: str) -> None:
    pytest.importorskip("onnx")
    from minihlo.interp.backends import backend

    onnx = backend("onnx")
    try:
        assert {r.verdict for r in run(onnx, f"dequantize.{name}.f32").values()} == {PASS}
    finally:
        onnx.close()


def test_torchao() -> None:
    """torchao 0.18: right in the middle of the range, and wrong where the scale is 2^-127."""
    torchao = pytest.importorskip("torchao")
    from minihlo.interp.backends import backend

    if not torchao.__version__.startswith("0.18"):
        pytest.skip(f"the verdicts are those of torchao 0.18, got {torchao.__version__}")
    ao = backend("torchao:cpu")
    try:
        found = run(ao, QUANTIZE)
        assert found["array"].verdict == found["square"].verdict == PASS
        assert (found["ends"].verdict, found["ends"].causes) == (FAIL, ["smallest-scale"])
        assert found["special"].open_points["block-with-infinity"] == {"next-power": 19}
        rceil = run(ao, f"quantize.{FN}.rceil.f32", ("array",))["array"]
        assert (rceil.verdict, set(rceil.open_points)) == (DIVERGENT, {"scale-rceil"})
        dot = run(ao, DOT)
        assert {dot[f].verdict for f in ("array", "blocks-3", "blocks-5")} == {DIVERGENT}
        assert dot["ends"].causes[0] == "scaled-beyond-range"
    finally:
        ao.close()


def test_beside_others_and_chosen_by_block_formats(capsys: pytest.CaptureFixture[str]) -> None:
    from minihlo.interp.cli import main

    assert main(["conform", "minihlo", "--case", QUANTIZE, "--form", "array", "--beside", f"{DOT}:blocks-1"]) == 0
    assert main(["conform", "minihlo", "--ops", "dequantize", "--formats", "nvfp4", "--form", "square"]) == 0
    assert "2 cases, 2 PASS" in capsys.readouterr().out
