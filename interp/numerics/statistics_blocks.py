"""The losses of a tensor in a block format, counted by elements and by blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.blocks.blockwise import Layout, element_values
from ...ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from ...ops.blocks.scales import decode_f64
from ...ops.cast import codes_of
from ...ops.types import ELEMENT_TYPES
from ..blocks.checks import block_axes, conversion
from .statistics import decibels, range_of


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
    attributes: Mapping[str, Any], x: np.ndarray, results: Sequence[np.ndarray]
) -> tuple[BlockFormat, Layout, np.ndarray]:
    """The format of a call, the layout of its blocks, and the factor of the elements of each block."""
    config, fmt = _config(attributes), call_format(attributes)
    axes = tuple(int(a) for a in np.ravel(config.get("axes", [x.ndim - 1])))
    layout = Layout.of(x.shape, fmt, axes)
    of_tensor = results[2] if len(results) > 2 else None
    return fmt, layout, _factors(fmt, layout, results[1], of_tensor, x.shape[: int(config.get("tensors", 0))])


def _factors(
    fmt: BlockFormat, layout: Layout, scales: np.ndarray, of_tensor: Any, outer: tuple[int, ...]
) -> np.ndarray:
    factors = decode_f64(codes_of(layout.scale_rows(scales), fmt.scale_format), fmt.scale_format)
    if of_tensor is not None:
        factors = factors * layout.of_blocks(np.asarray(of_tensor, np.float64), outer, len(factors))
    return factors


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
        self.scales: dict[int, int] = {}
        self.signal = self.noise = 0.0

    def add(self, x: np.ndarray) -> None:
        """Counts the losses of numbers in f64, in blocks along their last dimension, by the rule of the format's
        source.
        """
        if not x.size:
            return
        options = conversion(self.format, None, "nearest_even", "saturate", 0)
        axes = block_axes(x.ndim, self.format, -1)
        made = options.quantize(x, ELEMENT_TYPES["f64"], self.format, axes, None)
        layout = Layout.of(x.shape, self.format, axes)
        self._count(x, made.codes, layout, _factors(self.format, layout, made.scales, made.tensor_scale, ()))

    def add_call(self, attributes: Mapping[str, Any], x: np.ndarray, results: Sequence[np.ndarray]) -> None:
        """Counts the results of a custom call on an array."""
        if x.size:
            fmt, layout, factors = _parts(attributes, x, results)
            codes = results[0] if results[0].dtype == fmt.element_dtype else results[0].view(fmt.element_dtype)
            self._count(np.asarray(x, np.float64), codes, layout, factors)

    def _count(self, x: np.ndarray, codes: np.ndarray, layout: Layout, factors: np.ndarray) -> None:
        rows, got = layout.rows(x), element_values(layout.rows(codes), self.format).astype(np.float64)
        with np.errstate(all="ignore"):
            wanted = rows / factors[:, None]
            back = got * factors[:, None]
            under = np.isfinite(rows) & (rows != 0) & (got == 0)
            over = np.isfinite(wanted) & (np.abs(wanted) > self._beyond)
            valid = np.isfinite(back) & np.isfinite(rows)
            error = np.where(valid, back - rows, 0.0)
            self.signal += float(np.sum(np.where(valid, rows, 0.0) ** 2))
            self.noise += float(np.sum(error**2))
        self.elements += x.size
        self.blocks += len(rows)
        self.underflows += int(np.count_nonzero(under))
        self.saturations += int(np.count_nonzero(over))
        self.blocks_with_underflow += int(np.count_nonzero(under.any(axis=1)))
        self.blocks_with_saturation += int(np.count_nonzero(over.any(axis=1)))
        self.blocks_lost += int(np.count_nonzero(under.any(axis=1) & (got == 0).all(axis=1)))
        self.blocks_nan += int(np.count_nonzero(np.isnan(factors)))
        exponents = np.frexp(factors[np.isfinite(factors) & (factors > 0)])[1] - 1
        for e, n in zip(*np.unique(exponents, return_counts=True), strict=True):
            self.scales[int(e)] = self.scales.get(int(e), 0) + int(n)

    @property
    def _beyond(self) -> float:
        fmt = self.format.element_format
        if fmt is None:
            return self.format.largest + 2.0**-self.format.fraction_bits / 2
        return range_of(fmt.name).beyond

    @property
    def sqnr(self) -> float | None:
        """10 log10 of signal by noise, in dB; infinite without noise, None without signal."""
        return decibels(self.signal, self.noise)

    def data(self) -> dict[str, Any]:
        """All counts, as `json.dump` takes them."""
        names = (
            "elements", "blocks", "underflows", "saturations", "blocks_with_underflow", "blocks_with_saturation",
            "blocks_lost", "blocks_nan",
        )  # fmt: skip
        sqnr = None if self.sqnr is None or math.isinf(self.sqnr) else self.sqnr
        scales = {str(e): n for e, n in sorted(self.scales.items())}
        return {"format": self.format.name, **{n: getattr(self, n) for n in names}, "scales": scales, "sqnr_db": sqnr}
