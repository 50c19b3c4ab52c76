"""Functions correctly rounded by way of f64: Ziv's strategy.

The host computes in f64, and the result is rounded. Where it is so near to the midpoint of two numbers of the format
that the error of the host could change the rounding, the exact definition of the function is computed instead. Large
arrays are processed in parts whose f64 values stay in the cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from ..cast import array_of, cast, codes_of
from ..engine.blocks import array_to_fill
from ..engine.speed import tuning
from ..minifloat.codec import decode, round_number
from ..minifloat.formats import Format
from ..minifloat.number import Number
from ..policy import Policy
from ..traits import Run
from ..types import ELEMENT_TYPES

#: Computes f64: takes the operands, which it may write over, and an array for the results, which is the first of them.
Wide = Callable[..., object]

#: Bound on the error, in units of f64's last place, of a host function: numpy's vector library promises 4.
_HOST_ERROR = 16

#: What a result may be too large or too small by, at most: factors as arrays, which numpy need not convert.
_BELOW, _ABOVE = (np.array(1 + sign * _HOST_ERROR * 2.0**-52) for sign in (-1, 1))

_F64 = ELEMENT_TYPES["f64"]
_F32_DTYPE = np.dtype(np.float32)
_POLICY = Policy()


class _Room(threading.local):
    """Memory of a thread for the f64 of one part, used again and again: new memory takes as long as an exponential."""

    def __init__(self) -> None:
        self._rows = np.empty((2, 0))
        self._views: dict[int, tuple[np.ndarray, ...]] = {}
        self._bounds: dict[tuple[int, ...], tuple[np.ndarray, ...]] = {}

    def rows(self, count: int) -> np.ndarray:
        """Two rows of `count` f64, of any values."""
        if self._rows.shape[1] < count:
            self._rows = np.empty((2, max(count, tuning().function_block)))
            self._views.clear()
        return self._rows[:, :count]

    def few(self, count: int) -> tuple[np.ndarray, ...]:
        """The same, each as f64 and as integers."""
        views = self._views.get(count)
        if views is None:
            if len(self._views) > tuning().shapes:
                self._views.clear()
            wide, other = self.rows(count)
            views = self._views[count] = wide, wide.view(np.uint64), other, other.view(np.uint64)
        return views

    def bounds(self, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """An array of f64 of a shape, the same as a row, two other ones, and both together."""
        views = self._bounds.get(shape)
        if views is None:
            if len(self._bounds) > tuning().shapes:
                self._bounds.clear()
            array, both = np.empty(shape), np.empty((2, *shape))
            views = self._bounds[shape] = array, array.reshape(-1), both[0, ...], both[1, ...], both
        return views


_ROOM = _Room()


def ziv(direct: Callable[..., Number], wide: Wide, fmt: Format, arity: int) -> Run:
    """The kernel of a function over arrays of f32, f16 or bf16 that broadcast together.

    `Kernel.fills` is true of it; of one operand `Kernel.has_out` is as well.

    Args:
        direct: the exact definition, on unpacked numbers.
        wide: the function on f64, with an error below 16 units in the last place.
        fmt: the format of operands and result.
        arity: the number of operands.
    """
    step = _Step(direct, wide, fmt)

    def unary(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if step.is_f32 and x.size <= tuning().function_few:
            result = step.few(x)
            if result is not None:
                if out is None:
                    return result
                np.copyto(out, result)
                return out
        if x.size <= tuning().function_small:
            with np.errstate(all="ignore"):
                return step.small(x, out)
        return parts(x, out=None if out is x else out)

    def parts(*arrays: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        shape = arrays[0].shape if len(arrays) == 1 else np.broadcast_shapes(*[x.shape for x in arrays])
        result = array_to_fill(out, shape, fmt.dtype)
        flat, most = result.reshape(-1), tuning().function_block
        rows = [x if x.size == 1 else _flat(x, shape) for x in arrays]
        spare = _ROOM.rows(min(result.size, most))
        with np.errstate(all="ignore"):
            for i in range(0, result.size, most):
                part = slice(i, i + most)
                step([x if x.size == 1 else x[part] for x in rows], flat[part], spare)
        return result

    return unary if arity == 1 else parts


def _flat(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(x if x.shape == shape else np.broadcast_to(x, shape)).reshape(-1)


class _Step:
    """Computes one part."""

    def __init__(self, direct: Callable[..., Number], wide: Wide, fmt: Format) -> None:
        self._direct, self._wide, self._fmt, self._target = direct, wide, fmt, ELEMENT_TYPES[fmt.name]
        dropped = _F64.format.precision - fmt.precision
        # Shifted so far to the left, the bits that are dropped read as an integer whose ends are halfway: of 32 bits,
        # which takes two thirds of the time, where they have no more.
        bits = 32 if dropped <= 32 else 64
        self._distance = np.dtype(f"i{bits // 8}")
        self._shift = bits - dropped
        self._low = self._distance.type(-(1 << bits - 1) + (_HOST_ERROR << self._shift))
        self._high = self._distance.type((1 << bits - 1) - 1 - (_HOST_ERROR << self._shift))
        self._smallest_normal = 2.0 ** (fmt.min_exponent + fmt.mantissa_bits)
        # Of a code without its sign, which stands one bit further left.
        self._normal_code = 2 << fmt.mantissa_bits
        self.is_f32 = fmt.dtype == np.float32
        # Moved so that both ends lie side by side, as integers without sign, what is too near is what is small.
        self._shift_all = np.uint64(64 - dropped)
        error = _HOST_ERROR << 64 - dropped
        self._moved, self._near = np.uint64((1 << 63) + error + 1), np.uint64(2 * error + 1)

    def __call__(self, operands: Sequence[np.ndarray], result: np.ndarray, spare: np.ndarray) -> None:
        wide, other = spare[:, : result.size]
        rows = (wide, other)[: len(operands)]
        for row, x in zip(rows, operands, strict=True):
            np.copyto(row, x.reshape(-1), casting="unsafe")
        self._wide(*rows, wide)
        if self.is_f32:
            np.copyto(result, wide, casting="same_kind")
        else:
            result[...] = self._rounded(wide)
        distance = other.view(self._distance)[: result.size]
        np.copyto(distance, wide.view(np.int64), casting="unsafe")
        distance <<= self._shift
        is_near = np.minimum.reduce(distance) <= self._low or np.maximum.reduce(distance) >= self._high
        near = (distance <= self._low) | (distance >= self._high) if is_near else None
        # Of what is subnormal more bits are dropped. Those rounded to more than the smallest normal number are not.
        if self._has_small(codes_of(result, self._fmt), wide, other):
            small = (np.abs(wide) < self._smallest_normal) & (wide != 0)
            near = small if near is None else near | small
        exact = self._exact(operands, wide, near) if near is not None and near.any() else None
        if exact is not None:
            places, values = exact
            result[places] = values

    def few(self, x: np.ndarray) -> np.ndarray | None:
        """The same for an array of so few elements that calls are all it costs: f32, where numpy does not warn.

        None where the error of the host decides: the least and the largest that a result may be are rounded apart.
        """
        wide, row, low, high, both = _ROOM.bounds(x.shape)
        wide[...] = x
        self._wide(row, row)
        np.multiply(wide, _BELOW, low)
        np.multiply(wide, _ABOVE, high)
        results = both.astype(_F32_DTYPE)
        codes = results.tobytes()
        half = len(codes) >> 1
        return results[0, ...] if codes[:half] == codes[half:] else None

    def small(self, x: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        """The same for an array of few elements, by as few calls as possible; `out` may be the array itself."""
        wide, bits, other, distance = _ROOM.few(x.size)
        np.copyto(wide.reshape(x.shape), x)
        self._wide(wide, wide)
        np.left_shift(bits, self._shift_all, distance)
        distance += self._moved
        near = distance <= self._near if x.size and np.minimum.reduce(distance) <= self._near else None
        # NaN is less than nothing, and tells nothing.
        if not np.minimum.reduce(np.abs(wide, out=other), initial=np.inf) >= self._smallest_normal:
            small = (other < self._smallest_normal) & (wide != 0)
            near = small if near is None else near | small
        exact = self._exact((x,), wide, near) if near is not None and near.any() else None
        if out is None or not self.is_f32:
            result = self._rounded(wide).reshape(x.shape)
        else:
            result = array_to_fill(out, x.shape, self._fmt.dtype)
            np.copyto(result, wide.reshape(x.shape), casting="same_kind")
        if exact is not None:
            places, values = exact
            result.reshape(-1)[places] = values
        return result

    def _has_small(self, codes: np.ndarray, wide: np.ndarray, other: np.ndarray) -> bool:
        """Whether a code may be that of the smallest normal number, or of less; not of what is zero in f64."""
        if np.minimum.reduce(codes.view(f"i{codes.itemsize}")) > self._normal_code >> 1:
            return False  # positive, all of them
        sizes = np.left_shift(codes, 1, out=other.view(codes.dtype)[: codes.size])
        if np.minimum.reduce(sizes) > self._normal_code:
            return False
        return bool(np.count_nonzero(sizes <= self._normal_code) > np.count_nonzero(wide == 0))

    def _exact(
        self, operands: Sequence[np.ndarray], wide: np.ndarray, near: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Where the error of the host matters, of what is near, and the results computed exactly; None if nowhere."""
        slack, suspects = _HOST_ERROR * 2.0**-52, wide[near]
        low, high = self._rounded(suspects * (1 - slack)), self._rounded(suspects * (1 + slack))
        near[near] = codes_of(low, self._fmt) != codes_of(high, self._fmt)
        if not near.any():
            return None
        numbers = [np.broadcast_to(x.reshape(-1), wide.shape)[near] for x in operands]
        exact = self._direct(*[decode(codes_of(x, self._fmt), self._fmt) for x in numbers])
        return near, array_of(round_number(exact, self._fmt, _POLICY), self._fmt)

    def _rounded(self, wide: np.ndarray) -> np.ndarray:
        return wide.astype(np.float32) if self.is_f32 else cast(wide, _F64, self._target, _POLICY)
