"""An exact judge of block formats, in integers and fractions. Written from OCP MX 1.0; shares no line with the package.

A number is a Fraction, or a float that is NaN, infinite or -0.0, as in `oracle_numbers`.
"""

import dataclasses
import math
from fractions import Fraction

from . import oracle

#: Elements, their count in a block, the scale's format, whether there is a scale of the tensor.
FACTS = {
    "mxfp8_e4m3": ("f8E4M3FN", 32, "f8E8M0FNU", False),
    "mxfp8_e5m2": ("f8E5M2", 32, "f8E8M0FNU", False),
    "mxfp6_e2m3": ("f6E2M3FN", 32, "f8E8M0FNU", False),
    "mxfp6_e3m2": ("f6E3M2FN", 32, "f8E8M0FNU", False),
    "mxfp4_e2m1": ("f4E2M1FN", 32, "f8E8M0FNU", False),
    "mxint8": ("i8", 32, "f8E8M0FNU", False),
    "nvfp4": ("f4E2M1FN", 16, "f8E4M3FN", True),
    "fp4_ue5m3": ("f4E2M1FN", 16, "f8E5M3FNU", False),
    "deepseek_1x128": ("f8E4M3FN", 128, "f32", False),
    "deepseek_128x128": ("f8E4M3FN", 128, "f32", False),
}
LARGEST = {
    "f8E4M3FN": Fraction(448),
    "f8E5M2": Fraction(57344),
    "f6E2M3FN": Fraction(15, 2),
    "f6E3M2FN": Fraction(28),
    "f4E2M1FN": Fraction(6),
    "i8": Fraction(127, 64),
}
MANTISSA = {"f8E4M3FN": 3, "f8E5M2": 2, "f6E2M3FN": 3, "f6E3M2FN": 2, "f4E2M1FN": 1, "i8": 6}
RULES = ("floor", "ceil", "even", "rceil", "nearest")


@dataclasses.dataclass(frozen=True)
class Block:
    scale: int  #: a code
    elements: list[int]  #: codes; of integers two's complement in eight bits


def floor_log2(x: Fraction) -> int:
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def power(x: Fraction, element: str, rule: str) -> int:
    """The exponent of the power of two of a block whose largest magnitude is `x`."""
    emax = floor_log2(LARGEST[element])
    e = floor_log2(x)
    match rule:
        case "floor":
            return e - emax
        case "ceil":
            return e - emax + (x != Fraction(2) ** e)
        case "even":  # to the mantissa's bits, half away from zero
            unit = Fraction(2) ** (e - MANTISSA[element])
            return floor_log2(math.floor(x / unit + Fraction(1, 2)) * unit) - emax
        case "rceil":
            k = e - emax - 2
            while LARGEST[element] * Fraction(2) ** k < x:
                k += 1
            return k
        case "nearest":
            ratio = x / LARGEST[element]
            below = floor_log2(ratio)
            return below + (ratio - Fraction(2) ** below >= Fraction(2) ** (below + 1) - ratio)
    raise ValueError(rule)


def scale_code(amax: Fraction, name: str, rule: str, of_tensor: Fraction = Fraction(1)) -> int:
    """The scale of a block without NaN and infinity."""
    element, _, scale, _ = FACTS[name]
    if scale == "f8E8M0FNU":
        if amax == 0:
            return 0
        k = power(amax / of_tensor, element, rule)
        return 255 if k > 127 else max(k, -127) + 127
    fmt = oracle.ALL_FORMATS[scale]
    if amax == 0:
        return 1 if scale in ("f8E4M3FN", "f8E5M3FNU") else oracle.encode(fmt, Fraction(1))
    overflow = "saturate" if scale in ("f8E4M3FN", "f8E5M3FNU") else "ieee"
    if rule in ("floor", "ceil", "even"):
        exact = Fraction(2) ** power(amax / of_tensor, element, rule)
        code = oracle.encode(fmt, exact, "nearest_even", overflow)
    else:
        exact = amax / LARGEST[element] / of_tensor
        code = oracle.encode(fmt, exact, "up" if rule == "rceil" else "nearest_even", overflow)
    infinite = scale == "f32" and code == 0x7F800000
    return nan_code(scale) if infinite else max(code, 1)


def nan_code(scale: str) -> int:
    return {"f8E8M0FNU": 0xFF, "f8E4M3FN": 0x7F, "f8E5M3FNU": 0xFF, "f32": 0x7FC00000}[scale]


def tensor_scale(amax: Fraction) -> Fraction:
    """NVFP4's: the largest magnitude over 6 * 448, rounded to f32."""
    if amax == 0:
        return Fraction(1)
    fmt = oracle.FORMATS["f32"]
    code = oracle.encode(fmt, amax / (6 * 448))
    return Fraction(oracle.decode(fmt, max(min(code, 0x7F7FFFFF), 1)))


def element_code(value: oracle.Value, element: str, rounding: str = "nearest_even", overflow: str = "saturate") -> int:
    """The element that a number rounds to, which is already divided by the scale."""
    if element != "i8":
        return oracle.encode(oracle.FORMATS[element], value, rounding, overflow)
    if isinstance(value, float):
        return 0  # -0
    x = value * 64
    match rounding:
        case "nearest_even":
            whole = round(x)
        case "toward_zero":
            whole = math.trunc(x)
        case "up":
            whole = math.ceil(x)
        case "down":
            whole = math.floor(x)
        case _:
            whole = int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x))
    return max(-127, min(127, whole)) & 0xFF


def block(
    values: list[oracle.Value],
    name: str,
    rule: str,
    rounding: str = "nearest_even",
    overflow: str = "saturate",
    of_tensor: Fraction = Fraction(1),
) -> Block:
    """The scale and the elements of one block."""
    element, _, scale, _ = FACTS[name]
    if any(math.isnan(v) or math.isinf(v) for v in values):
        nan = 0 if element == "i8" else oracle.encode(oracle.FORMATS[element], math.nan, rounding, overflow)
        return Block(nan_code(scale), [nan] * len(values))
    code = scale_code(Fraction(max(map(abs, values), default=0)), name, rule, of_tensor)
    if code == nan_code(scale):
        nan = 0 if element == "i8" else oracle.encode(oracle.FORMATS[element], math.nan, rounding, overflow)
        return Block(code, [nan] * len(values))
    factor = Fraction(oracle.decode(oracle.ALL_FORMATS[scale], code)) * of_tensor
    scaled = [v if v == 0 else Fraction(v) / factor for v in values]
    return Block(code, [element_code(v, element, rounding, overflow) for v in scaled])
