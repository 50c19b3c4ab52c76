"""Backends with planted faults, for the tester to find: minihlo, but for what each gets wrong."""

import dataclasses
import os
import re
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from minihlo.interp.backends import Minihlo
from minihlo.interp.parse import parser  # noqa: F401  while the backend starts, and not within the time of a program
from minihlo.ops.minifloat import codec, formats, number
from minihlo.ops.op import ops
from minihlo.ops.policy import Policy

Arrays = Sequence[np.ndarray]
_ARRAY = re.compile(r"stablehlo\.constant dense<\"0x[0-9A-F]{8,}\">")


def _run(text: str, arrays: Arrays, arithmetic: str = "direct") -> list[np.ndarray]:
    return Minihlo("minihlo", Policy(arithmetic=arithmetic)).evaluate(text, arrays)


def _replace(old: Callable[..., object], new: Callable[..., object]) -> None:
    ops()  # every module that may have it
    for module in list(sys.modules.values()):
        if module.__name__.startswith("minihlo.ops"):
            for name, value in list(vars(module).items()):
                if value is old:
                    setattr(module, name, new)


class Flushed:
    """Subnormal results are flushed to zero."""

    def __init__(self) -> None:
        def rounded(x: number.Number, fmt: formats.Format, *rest, old=codec.round_number) -> np.ndarray:
            codes = np.array(old(x, fmt, *rest))
            size = codes & (fmt.sign_bit - 1)
            is_subnormal = fmt.is_minifloat & (size > 0) & (size < 1 << fmt.mantissa_bits)
            return np.where(is_subnormal, codes & fmt.sign_bit if fmt.has_negative_zero else 0, codes).astype(
                codes.dtype
            )

        _replace(codec.round_number, rounded)

    def evaluate(self, text: str, arrays: Arrays) -> list[np.ndarray]:
        return _run(text, arrays)


class Biased:
    """f8E4M3FNUZ has the exponent bias of f8E4M3FN."""

    def __init__(self) -> None:
        object.__setattr__(formats.FORMATS["f8E4M3FNUZ"], "bias", 7)

    def evaluate(self, text: str, arrays: Arrays) -> list[np.ndarray]:
        return _run(text, arrays)


class NegativeZero:
    """0x80 of the FNUZ formats is -0."""

    def __init__(self) -> None:
        def decoded(codes: np.ndarray, fmt: formats.Format, old=codec.decode) -> number.Number:
            found = old(codes, fmt)
            if fmt.nan is not formats.Nan.NEGATIVE_ZERO:
                return found
            nan = found.is_nan
            return found.replace(kind=np.where(nan, np.uint8(number.FINITE), found.kind))

        _replace(codec.decode, decoded)

    def evaluate(self, text: str, arrays: Arrays) -> list[np.ndarray]:
        return _run(text, arrays)


def reciprocal(text: str, arrays: Arrays) -> list[np.ndarray]:
    """x / y is x * (1 / y) where y is a scalar that is broadcast."""
    for value in re.findall(r"(%\w+) = stablehlo\.broadcast_in_dim", text):
        pattern = rf'(%\w+) = "stablehlo\.divide"\((%\w+), {value}\)\s*: \((\S+), \S+\) -> \S+'
        new = (
            r'\1one = "stablehlo.divide"(' + value + ", " + value + r") : (\3, \3) -> \3"
            "\n"
            r'  \1inv = "stablehlo.divide"(\1unit, ' + value + r") : (\3, \3) -> \3"
            "\n"
            r'  \1 = "stablehlo.multiply"(\2, \1inv) : (\3, \3) -> \3'
        )
        one = r"\1unit = stablehlo.constant dense<1.0> : \3" + "\n  "
        text = re.sub(pattern, one + new, text)
    return _run(text, arrays)


def last_three(text: str, arrays: Arrays) -> list[np.ndarray]:
    """The last three elements of a sum are wrong: a vector loop's remainder."""
    found = [np.array(r) for r in _run(text, arrays)]
    if '"stablehlo.add"' in text:
        for r in found:
            r.reshape(-1)[-3:] ^= 1
    return found


def folded(text: str, arrays: Arrays) -> list[np.ndarray]:
    """Sums of constants are one code too large."""
    found = [np.array(r) for r in _run(text, arrays)]
    if '"stablehlo.add"' in text and _ARRAY.search(text):
        found = [np.where(r & 0x7F < 0x70, r + 1, r).astype(r.dtype) for r in found]
    return found


def hanging(text: str, arrays: Arrays) -> list[np.ndarray]:
    """tanh never ends."""
    if '"stablehlo.tanh"' in text:
        time.sleep(1000)
    return _run(text, arrays)


def crashing(text: str, arrays: Arrays) -> list[np.ndarray]:
    """sqrt of a negative number ends the process."""
    if '"stablehlo.sqrt"' in text and any((a & 0x80 != 0).any() for a in arrays if a.dtype == np.uint8):
        os.abort()
    return _run(text, arrays)


def falling_short(text: str, arrays: Arrays) -> list[np.ndarray]:
    """Products of numbers in different rows of 16 are right only in arrays of at least 32; a kernel too wide."""
    found = [np.array(r) for r in _run(text, arrays)]
    return [r ^ 1 if '"stablehlo.multiply"' in text and r.size >= 32 else r for r in found]


def with_other_bits(text: str, arrays: Arrays) -> list[np.ndarray]:
    """Sums of less than 8 bits have other bits set in their bytes; of 6 bits they are not rounded."""
    found = [np.array(r) for r in _run(text, arrays)]
    if '"stablehlo.add"' not in text:
        return found
    return [r | 0xF0 if r.dtype == np.uint8 else r + np.float32(0.01) for r in found]


class Wide:
    """What should be bytes are numbers of 64 bits: codes for the most part."""

    def operate(self, operation, codes: Arrays) -> np.ndarray:
        if operation.op not in ("abs", "negate"):
            raise NotImplementedError(operation.op)
        return codes[0].astype(np.int64) & 0x7F if operation.op == "abs" else codes[0].astype(np.int64) + 0x80


@dataclasses.dataclass
class Operations:
    """A backend without StableHLO: sums and conversions of f8E5M2, whose sums forget the sign of zero."""

    def operate(self, operation, codes: Arrays) -> np.ndarray:
        x, *rest = (c.view(formats.FORMATS[t].dtype) for c, t in zip(codes, operation.operands, strict=True))
        if operation.op != "add" or operation.result != "f8E5M2":
            raise NotImplementedError(operation.op)
        with np.errstate(all="ignore"):
            return (x + rest[0] + formats.FORMATS["f8E5M2"].dtype.type(0)).view(np.uint8)
