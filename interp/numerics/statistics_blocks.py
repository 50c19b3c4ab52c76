"""The losses of a tensor in a block format, counted by elements and by blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.blocks.blockwise import Layout, element_values
from ...ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from ...ops.blocks.scales import decode_f64
from ...ops.cast import codes_of
from ...ops.types import ELEMENT_TYPES
from ..blocks.checks import block_axes, conversion
from .statistics import count_exponents, decibels, exponent_names, finite, range_end


def call_format(attributes: Mapping[str, Any]) -> BlockFormat:
    """The block format of a custom call that converts to it."""
    return BLOCK_FORMATS[str(_config(attributes)["format"])]


def quotients(attributes: Mapping[str, Any], x: np.ndarray, results: Sequence[np.ndarray]) -> np.ndarray:
    """The numbers that elements of blocks are rounded from: an array divided by the scales from a custom call."""
    fmt, layout, factors = _parts(attributes, x, results)
    with np.errstate(all="ignore"):
        return layout.whole(layout.rows(np.asarray(x, np.float64)) / factors[:, None])


def _config(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    return attributes.get("backend_config") or attributes["mhlo.backend_config"]


def _parts(
    attributes: Mapping[str, Any], x: np.ndarray, results: Sequence[Any]
) -> tuple[BlockFormat, Layout, np.ndarray]:
    """The format of a call, the layout of its blocks, and the factor of the elements of each block."""
    config, fmt = _config(attributes), call_format(attributes)
    axes = tuple(int(a) for a in np.ravel(config.get("axes", [x.ndim - 1])))
    layout = Layout.of(x.shape, fmt, axes)
    factors = decode_f64(codes_of(layout.scale_rows(results[1]), fmt.scale_format), fmt.scale_format)
    if len(results) > 2 and results[2] is not None:
        of_tensors, outer = np.asarray(results[2], np.float64), x.shape[: int(config.get("tensors", 0))]
        factors = factors * layout.of_blocks(of_tensors, outer, len(factors))
    return fmt, layout, factors


#: The counts of a tensor in blocks.
_COUNTS = (
    "elements", "blocks", "underflows", "saturations", "blocks_with_underflow", "blocks_with_saturation", "blocks_lost",
    "blocks_nan",
)  # fmt: skip


class BlockStatistics:
    """The counts of tensors in one block format.

    Attributes:
        elements, blocks: Their numbers.
        underflows: Elements that are zero, although their number is not.
        saturations: Elements whose number, divided by the scale, is beyond the largest element by more than half a
            step.
        blocks_with_underflow, blocks_with_saturation: The numbers of blocks with such an element.
        blocks_lost: Blocks with a number other than zero in which every element is zero.
        blocks_nan: Blocks whose scale is NaN.
        scales: The number of blocks for each exponent floor(log2(scale)) of their scale.
        signal, noise: The sums of x^2 and of (element * scale - x)^2, where both are finite.
    """

    def __init__(self, name: str) -> None:
        self.format = BLOCK_FORMATS[name]
        self.elements = self.blocks = self.underflows = self.saturations = 0
        self.blocks_with_underflow = self.blocks_with_saturation = self.blocks_lost = self.blocks_nan = 0
        self.scales: Counter[int] = Counter()
        self.signal = self.noise = 0.0

    def add(self, x: np.ndarray) -> None:
        """Counts the losses of numbers in f64, in blocks along their last dimension, by the rule of the format's
        source.
        """
        if x.size:
            axes = block_axes(x.ndim, self.format, -1)
            options = conversion(self.format, None, "nearest_even", "saturate", 0)
            made = options.quantize(x, ELEMENT_TYPES["f64"], self.format, axes, None)
            config = {"format": self.format.name, "axes": axes}
            self.add_call({"backend_config": config}, x, [made.codes, made.scales, made.tensor_scale])

    def add_call(self, attributes: Mapping[str, Any], x: np.ndarray, results: Sequence[Any]) -> None:
        """Counts the results of a custom call on an array: codes, scales, and the scale of the tensor if there is
        one.
        """
        if not x.size:
            return
        fmt, layout, factors = _parts(attributes, x, results)
        rows, codes = layout.rows(np.asarray(x, np.float64)), layout.rows(results[0].view(fmt.element_dtype))
        got = element_values(codes, fmt).astype(np.float64)
        with np.errstate(all="ignore"):
            wanted, back = rows / factors[:, None], got * factors[:, None]
            under = np.isfinite(rows) & (rows != 0) & (got == 0)
            over = np.isfinite(wanted) & (np.abs(wanted) > self._beyond)
            valid = np.isfinite(back) & np.isfinite(rows)
            self.signal += float(np.sum(np.where(valid, rows, 0.0) ** 2))
            self.noise += float(np.sum(np.where(valid, back - rows, 0.0) ** 2))
        self.elements += x.size
        self.blocks += len(rows)
        self.underflows += int(under.sum())
        self.saturations += int(over.sum())
        self.blocks_with_underflow += int(under.any(axis=1).sum())
        self.blocks_with_saturation += int(over.any(axis=1).sum())
        self.blocks_lost += int((under.any(axis=1) & (got == 0).all(axis=1)).sum())
        self.blocks_nan += int(np.isnan(factors).sum())
        self.scales += count_exponents(factors[np.isfinite(factors) & (factors > 0)])

    @property
    def _beyond(self) -> float:
        fmt = self.format.element_format
        return self.format.largest + 2.0**-self.format.fraction_bits / 2 if fmt is None else range_end(fmt)

    @property
    def sqnr(self) -> float | None:
        """10 log10 of signal by noise, in dB; infinite without noise, None without signal."""
        return decibels(self.signal, self.noise)

    def data(self) -> dict[str, Any]:
        """All counts, as `json.dump` takes them."""
        counts = {n: getattr(self, n) for n in _COUNTS} | {"scales": exponent_names(self.scales)}
        return {"format": self.format.name, **counts, "sqnr_db": finite(self.sqnr)}
