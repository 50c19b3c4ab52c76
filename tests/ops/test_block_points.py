"""The table of what MX leaves open: each case computed again, torchao's where it is installed."""

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.blocks.open_points import BLOCK_POINTS, TORCHAO, BlockPoint

from ..run_op import codes as bits_of


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
    if not torchao.__version__.startswith(TORCHAO.split()[1]):
        pytest.skip(f"the table is of {TORCHAO}, installed is {torchao.__version__}")
    torch = pytest.importorskip("torch")
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    config = pytest.importorskip("torchao.prototype.mx_formats.config")
    x = torch.tensor(operand(point).reshape(1, 32))
    scales, codes = mx.to_mx(x, torch.float8_e4m3fn, 32, config.ScaleCalculationMode(point.rule))
    found = (int(scales.view(torch.uint8)[0, 0]), int(codes.view(torch.uint8)[0, 0]))
    assert found == point.others[TORCHAO]
