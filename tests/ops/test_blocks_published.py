"""Block formats against cases that PyTorch's torchao has published."""

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.blocks import open_points
from minihlo.ops.blocks.formats import BLOCK_FORMATS
from minihlo.ops.blocks.open_points import BLOCK_POINTS, BlockPoint

from ..run_op import codes as bits_of
from ..run_op import from_codes

MX = tuple(n for n in BLOCK_FORMATS if n.startswith("mx"))

#: pytorch/ao, torchao/testing/_mxfp8_test_utils.py (August 2026): the numbers of a block's first element and of the
#: others, as bits of f32 and of bf16, and the scale and the two elements that `floor` and `rceil` must give for each.
#: NaN of either sign is 0x7F.
_ONE, _ONE_BF16 = 0x3F800000, 0x3F80
TORCHAO = {
    "zero": ((0, 0), (0, 0), (0, 0, 0), (0, 0, 0)),
    "smallest_normal": ((0x00800000,) * 2, (0x0080,) * 2, (0, 0x40, 0x40), (0, 0x40, 0x40)),
    "mixed_inf": ((0x7F800000, _ONE), (0x7F80, _ONE_BF16), (255, 0x7F, 0x7F), (255, 0x7F, 0x7F)),
    "mixed_nan": ((0x7FC00000, _ONE), (0x7FC0, _ONE_BF16), (255, 0x7F, 0x7F), (255, 0x7F, 0x7F)),
    "positive_fp8_max": ((0x43E00000,) * 2, (0x43E0,) * 2, (127, 0x7E, 0x7E), (127, 0x7E, 0x7E)),
    "negative_fp8_max": ((0xC3E00000,) * 2, (0xC3E0,) * 2, (127, 0xFE, 0xFE), (127, 0xFE, 0xFE)),
    "positive_dtype_max": ((0x7F7FFFFF,) * 2, (0x7F7F,) * 2, (246, 0x7E, 0x7E), (247, 0x78, 0x78)),
    "negative_dtype_max": ((0xFF7FFFFF,) * 2, (0xFF7F,) * 2, (246, 0xFE, 0xFE), (247, 0xF8, 0xF8)),
    "positive_smallest_subnormal": ((1, 1), (1, 1), (0, 0x00, 0x00), (0, 0x00, 0x00)),
    "negative_smallest_subnormal": ((0x80000001,) * 2, (0x8001,) * 2, (0, 0x80, 0x80), (0, 0x80, 0x80)),
    "mixed_positive_underflow": ((1, _ONE), (1, _ONE_BF16), (119, 0x00, 0x78), (119, 0x00, 0x78)),
    "mixed_negative_underflow": ((0x80000001, _ONE), (0x8001, _ONE_BF16), (119, 0x80, 0x78), (119, 0x80, 0x78)),
    "mixed_saturation_and_underflow": ((0x7F7FFFFF, _ONE), (0x7F7F, _ONE_BF16), (246, 0x7E, 0x00), (247, 0x78, 0x00)),
    "rceil_premature_bf16_lowers_scale": ((0x40600001,) * 2, (0x4060,) * 2, (120, 0x7E, 0x7E), (121, 0x76, 0x76)),
    "floor_premature_bf16_raises_scale": ((0x43FFFFFF,) * 2, (0x4400,) * 2, (127, 0x7E, 0x7E), (128, 0x78, 0x78)),
    "all_nan": ((0x7FC00000,) * 2, (0x7FC0,) * 2, (255, 0x7F, 0x7F), (255, 0x7F, 0x7F)),
    "positive_satfinite": ((0x43F00000,) * 2, (0x43F0,) * 2, (127, 0x7E, 0x7E), (128, 0x77, 0x77)),
    "negative_satfinite": ((0xC3F00000,) * 2, (0xC3F0,) * 2, (127, 0xFE, 0xFE), (128, 0xF7, 0xF7)),
}  # fmt: skip
#: Where bf16, which has other numbers, gives something else.
TORCHAO_BF16 = {
    ("positive_smallest_subnormal", "floor"): (0, 0x08, 0x08),
    ("positive_smallest_subnormal", "rceil"): (0, 0x08, 0x08),
    ("negative_smallest_subnormal", "floor"): (0, 0x88, 0x88),
    ("negative_smallest_subnormal", "rceil"): (0, 0x88, 0x88),
    ("rceil_premature_bf16_lowers_scale", "rceil"): (120, 0x7E, 0x7E),
    ("floor_premature_bf16_raises_scale", "floor"): (128, 0x78, 0x78),
}
#: The same file: quotients as bits of f32, and the scale that `rceil` must give.
TORCHAO_SCALES = (
    (0x00000000, 0), (0x00000001, 0), (0x00400000, 0), (0x00400001, 1), (0x007FFFFF, 1), (0x00800000, 1),
    (0x1F800000, 63), (0x1F800001, 64), (0x3F7FFFFF, 127), (0x3F800000, 127), (0x3F800001, 128), (0x5F800000, 191),
    (0x5F800001, 192), (0x7F000000, 254), (0x7F000001, 255), (0x7F7FFFFF, 255), (0x7F800000, 255), (0x7FC00000, 255),
)  # fmt: skip


@pytest.mark.parametrize("rule", ["floor", "rceil"])
@pytest.mark.parametrize("case", TORCHAO)
def test_cases_of_torchao(case: str, rule: str) -> None:
    wide, narrow, *results = TORCHAO[case]
    of_wide = results[rule == "rceil"]
    of_narrow = TORCHAO_BF16.get((case, rule), of_wide)
    for (first, rest), dtype, result in ((wide, "f32", of_wide), (narrow, "bf16", of_narrow)):
        x = from_codes([first] + [rest] * 31, dtype)
        codes, scales = interp.quantize(x, "mxfp8_e4m3", scale=rule)
        found = (bits_of(scales).tolist()[0], *[0x7F if c == 0xFF else c for c in bits_of(codes).tolist()])
        assert found == (result[0], result[1], *[result[2]] * 31), dtype


@pytest.mark.parametrize("name", MX)
def test_scales_of_torchao(name: str) -> None:
    """A block whose largest magnitude is the quotient times the largest element: in f64 that is exact."""
    for code, scale in TORCHAO_SCALES:
        quotient = float(np.array(code, np.uint32).view(np.float32))
        x = np.array([quotient * BLOCK_FORMATS[name].largest, 0.0])
        assert bits_of(interp.quantize(x, name, scale="rceil")[1]).tolist() == [scale], hex(code)


def operand(point: BlockPoint) -> np.ndarray:
    return np.array([point.first, *[point.rest] * 31], np.uint32).view(np.float32)


@pytest.mark.parametrize("point", BLOCK_POINTS, ids=lambda p: p.identifier)
def test_ours(point: BlockPoint) -> None:
    codes, scales = interp.quantize(operand(point), point.name, scale=point.rule)
    assert (int(bits_of(scales)[0]), int(bits_of(codes)[0])) == point.given


def test_identifiers_are_different() -> None:
    assert len({p.identifier for p in BLOCK_POINTS}) == len(BLOCK_POINTS)


@pytest.mark.parametrize("point", BLOCK_POINTS, ids=lambda p: p.identifier)
def test_torchao(point: BlockPoint) -> None:
    torchao = pytest.importorskip("torchao")
    if not torchao.__version__.startswith(open_points.TORCHAO.split()[1]):
        pytest.skip(f"the table is of {open_points.TORCHAO}, installed is {torchao.__version__}")
    torch = pytest.importorskip("torch")
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    config = pytest.importorskip("torchao.prototype.mx_formats.config")
    x = torch.tensor(operand(point).reshape(1, 32))
    scales, codes = mx.to_mx(x, torch.float8_e4m3fn, 32, config.ScaleCalculationMode(point.rule))
    found = (int(scales.view(torch.uint8)[0, 0]), int(codes.view(torch.uint8)[0, 0]))
    assert found == point.others[open_points.TORCHAO]
