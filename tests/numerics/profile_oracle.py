"""The counts of a profile once more: element by element, in fractions, without a line of the package."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.oracle_numbers import FORMATS, Value, decode


def exponent(x: Fraction) -> int:
    """The exponent of the largest power of two that is not above |x|."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= Fraction(2) ** e else e - 1


def is_finite(x: Value) -> bool:
    return not (math.isnan(x) or math.isinf(x))


def counts(name: str, codes: Sequence[int], exact: Sequence[Value] | None = None) -> dict[str, Any]:
    """What `Statistics.data` should give for these codes; the error's numbers as fractions, sums and maxima."""
    fmt = FORMATS[name]
    values = [decode(fmt, c & ((1 << fmt.bits) - 1)) for c in codes]
    found: Counter[str] = Counter()
    histogram: Counter[str] = Counter()
    magnitudes = []
    lowest_normal = 1 - fmt.bias if name != "f8E8M0FNU" else -127
    highest = exponent(fmt.max)
    for v in values:
        found["nans"] += math.isnan(v)
        found["infinities"] += math.isinf(v)
        found["zeros"] += v == 0
        if is_finite(v) and v != 0:
            magnitudes.append(abs(Fraction(v)))
            found["at_largest"] += magnitudes[-1] == fmt.max
            histogram[str(exponent(Fraction(v)))] += 1
            found["subnormals"] += exponent(Fraction(v)) < lowest_normal
    data: dict[str, Any] = {k: found[k] for k in ("zeros", "subnormals", "infinities", "nans", "at_largest")}
    data |= {"elements": len(codes), "histogram": dict(histogram)}
    data |= {"max_abs": max(magnitudes, default=None), "min_abs": min(magnitudes, default=None)}
    if exact is None:
        return data
    ulps, relatives, signal, noise = [], [], Fraction(0), Fraction(0)
    sizes, wanted = [], Counter()
    for v, e in zip(values, exact, strict=True):
        if not is_finite(e):
            continue
        if e:
            sizes.append(abs(Fraction(e)))
            wanted[str(exponent(Fraction(e)))] += 1
        if not is_finite(v):
            found["overflows"] += 1
            continue
        e, v = Fraction(e), Fraction(v)
        found["underflows"] += e != 0 and v == 0
        found["saturations"] += abs(e) > fmt.max + Fraction(2) ** (highest - fmt.mantissa_bits) / 2
        at = lowest_normal if e == 0 else min(max(exponent(e), lowest_normal), highest)
        ulps.append(abs(v - e) / Fraction(2) ** (at - fmt.mantissa_bits))
        signal, noise = signal + e * e, noise + (v - e) ** 2
        if e:
            relatives.append(abs(v - e) / abs(e))
    data |= {k: found[k] for k in ("underflows", "saturations", "overflows")}
    data |= {"compared": len(codes), "exact_max": max(sizes, default=None), "exact_min": min(sizes, default=None)}
    data["exact_histogram"] = dict(wanted)
    data["error"] = {
        "measured": len(ulps),
        "ulp_max": max(ulps, default=None),
        "ulp_mean": sum(ulps) / len(ulps) if ulps else None,
        "relative_max": max(relatives, default=None),
        "relative_mean": sum(relatives) / len(relatives) if relatives else None,
        "sqnr_db": 10 * math.log10(signal / noise) if noise and signal else None,
        "is_exact": noise == 0,
    }
    if sizes:
        k = 0
        while max(sizes) * Fraction(2) ** k > fmt.max:
            k -= 1
        while max(sizes) * Fraction(2) ** (k + 1) <= fmt.max:
            k += 1
        data["scale_exponent"] = k
    return data


def assert_same(got: dict[str, Any], right: dict[str, Any]) -> None:
    """Counts are equal; what is a mean or a logarithm is near."""
    for key, value in right.items():
        if key == "error":
            if not value["measured"]:
                assert got[key] is None
                continue
            for name, number in value.items():
                mine = got[key][name]
                if number is None or isinstance(number, bool | int):
                    assert mine == number, (name, mine, number)
                else:
                    assert math.isclose(mine, number, rel_tol=1e-9), (name, mine, float(number))
        else:
            assert got[key] == value, (key, got[key], value)
