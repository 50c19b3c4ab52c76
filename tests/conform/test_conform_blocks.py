"""Blocks in the tester: what is right passes, units are named, and every operand matters."""

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import Minihlo
from minihlo.interp.conform import tester
from minihlo.interp.conform.block_parts import BlockPart, ScaledPart
from minihlo.interp.conform.cases import block_data
from minihlo.interp.conform.cases.cases import cases
from minihlo.interp.conform.cases.forms import forms
from minihlo.interp.conform.result import DIVERGENT, FAIL, PASS, CaseResult
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.oracle.blocks import BLOCKS
from minihlo.ops.blocks.formats import BLOCK_FORMATS
from minihlo.ops.policy import Policy

from .. import block_oracle
from . import planted
from .blocks_planted import Planted, run

FN, MX4, NV = "mxfp8_e4m3", "mxfp4_e2m1", "nvfp4"
QUANTIZE, DEQUANTIZE = f"quantize.{FN}.floor.f32", f"dequantize.{FN}.f32"
DOT = f"scaled_dot.{FN}.{FN}.f32"


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
    ours = Minihlo("minihlo", Policy(accumulate=accumulate))
    found = planted.run(ours, signature, backend="minihlo", accumulators=records)
    assert {r.verdict for r in found} <= {PASS, DIVERGENT}
    return found


@pytest.mark.parametrize(
    "signature", [QUANTIZE, f"quantize.{NV}.nearest.bf16", DEQUANTIZE, f"dequantize.{NV}.bf16", DOT]
)
def test_a_right_library_passes(signature: str) -> None:
    assert {r.verdict for r in run(Planted(), signature).values()} == {PASS}


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
    case = planted.case_of(signature)
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
    case = planted.case_of(signature)
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
