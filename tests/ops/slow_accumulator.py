"""Accumulators a second time: in fractions, one dot at a time, from the text of the definition alone.

Nothing here is shared with `ops/accumulators` but the record itself. Numbers are Fractions, or the floats inf, -inf and
nan; a zero is a Fraction, or -0.0 where its sign matters.
"""

import math
from fractions import Fraction
from typing import Any

Value = Fraction | float  #: floats are -0.0, infinities and NaN

#: Fraction bits and bias of the types; whether they have infinities is of no matter here.
TYPES = {
    "f4E2M1FN": (1, 1), "f6E2M3FN": (3, 1), "f6E3M2FN": (2, 3), "f8E3M4": (4, 3), "f8E4M3": (3, 7),
    "f8E4M3FN": (3, 7), "f8E4M3FNUZ": (3, 8), "f8E4M3B11FNUZ": (3, 11), "f8E5M2": (2, 15), "f8E5M2FNUZ": (2, 16),
    "f16": (10, 15), "bf16": (7, 127), "tf32": (10, 127), "f32": (23, 127), "f64": (52, 1023),
}  # fmt: skip

INF, NAN = math.inf, math.nan


def special(x: Value) -> bool:
    return isinstance(x, float) and not math.isfinite(x)


def zero(x: Value) -> bool:
    return not special(x) and x == 0


def log2(x: Fraction) -> int:
    """floor(log2(|x|))."""
    n, d = abs(x.numerator), x.denominator
    e = n.bit_length() - d.bit_length()
    return e if Fraction(n, d) >= Fraction(2) ** e else e - 1


def value(x: float) -> Value:
    """A float as a value."""
    return x if not math.isfinite(x) or (x == 0 and math.copysign(1, x) < 0) else Fraction(x)


def least(name: str) -> int:
    """The exponent of a type's smallest normal number."""
    return 1 - TYPES[name][1]


def exponent_in(x: Value, name: str) -> int:
    """The exponent that a number has in a type: a subnormal has the least."""
    return max(log2(Fraction(x)), least(name))


def times(x: Value, y: Value) -> Value:
    if special(x) or special(y):
        return float("nan") if zero(x) or zero(y) else float(x) * float(y)
    return Fraction(x) * Fraction(y)


def drop(x: Fraction, unit: Fraction, how: str) -> Fraction:
    """`x` cut to a multiple of a unit."""
    n = x / unit
    whole = Fraction(math.trunc(n))
    if how == "floor":
        whole = Fraction(math.floor(n))
    elif how == "nearest_even":
        whole = Fraction(round(n))
    elif how == "sticky" and whole != n:
        whole += Fraction(1, 2) if n > 0 else Fraction(-1, 2)
    return whole * unit


def round_to(x: Value, form: tuple[int, int], how: str, overflow: str) -> Value:
    """`x` in a form of so many fraction bits and a bias."""
    if special(x) or zero(x):
        return x
    bits, bias = form
    x = Fraction(x)
    unit = Fraction(2) ** (max(log2(x), 1 - bias) - bits)
    n = x / unit
    whole = {"toward_zero": math.trunc, "nearest_even": round, "down": math.floor, "up": math.ceil}[how](n)
    result = whole * unit
    if result == 0:
        return -0.0 if x < 0 else Fraction(0)
    if abs(result) > (2 - Fraction(2) ** -bits) * Fraction(2) ** bias:
        if overflow == "nan":
            return NAN
        beyond: Value = INF if overflow == "infinity" else (2 - Fraction(2) ** -bits) * Fraction(2) ** bias
        return -beyond if x < 0 else beyond
    return result


def plus(x: Value, y: Value) -> Value:
    """IEEE addition without rounding."""
    if special(x) or special(y):
        return float(x if special(x) else 0.0) + float(y if special(y) else 0.0)
    if isinstance(x, float) and isinstance(y, float):
        return -0.0  # both are
    return Fraction(x) + Fraction(y)


class Slow:
    """Sums by a record, of operands of two types."""

    def __init__(self, record: Any, a_type: str, b_type: str) -> None:
        self.record, self.types = record, (a_type, b_type)
        name, _, bits = record.keep.partition(":")
        self.type = "f64" if name == "exact" else name
        fraction, bias = TYPES[self.type]
        self.form = (int(bits) if bits else fraction, bias)
        self.is_exact = record.keep == "exact"

    def dot(
        self,
        a: list[float],
        b: list[float],
        c: float = 0.0,
        a_scales: list[float] | None = None,
        b_scales: list[float] | None = None,
        scale_type: tuple[int, int] = (0, 127),
        block: int = 32,
    ) -> float:
        """The sum of products; scales are numbers of a type of so many fraction bits and a bias."""
        record = self.record
        terms = []  # (exact value, exponent or None)
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            pair = [self.flush(value(v), t, "operands") for v, t in zip((x, y), self.types, strict=True)]
            product = times(*pair)
            e = None
            if not special(product) and product != 0:
                e = sum(exponent_in(v, t) for v, t in zip(pair, self.types, strict=True))
                if record.normalise:
                    e = log2(Fraction(product))
            if record.inner > 1:
                e = 0
            if a_scales is not None and b_scales is not None:
                scales = [value(abs(s[k // block])) for s in (a_scales, b_scales)]
                product = times(product, times(*scales))
                if any(special(s) or s == 0 for s in scales):
                    e = None
                elif e is not None:
                    e += sum(max(log2(Fraction(s)), 1 - scale_type[1]) for s in scales)
            if record.product_limit is not None and not special(product):
                limit = Fraction(2) ** record.product_limit
                if abs(Fraction(product)) >= limit:
                    product, e = (INF if product > 0 else -INF), None
            terms.append((product, e))
        storage = "f32" if record.outer else self.type
        start = round_to(value(c), TYPES[storage], "nearest_even", "infinity")
        start = self.flush(start, storage, "c")
        if not record.outer:
            return self.result(self.run(terms, start))
        total = start
        for i in range(0, len(terms), record.outer):
            part = self.run(terms[i : i + record.outer], Fraction(0))
            total = round_to(plus(total, part), TYPES["f32"], "nearest_even", record.overflow)
        return self.result(total)

    def flush(self, x: Value, name: str, what: str) -> Value:
        if what not in self.record.flush or special(x) or zero(x) or abs(x) >= Fraction(2) ** least(name):
            return x
        return -0.0 if x < 0 else Fraction(0)

    @staticmethod
    def result(x: Value) -> float:
        return float(x)

    # -- steps --

    def steps(self, terms: list[Any]) -> list[list[Any]]:
        record = self.record
        if record.take == "consecutive":
            size = record.step or len(terms) or 1
            return [terms[i : i + size] for i in range(0, len(terms), size)]
        run, period = map(int, record.take.split("of"))
        ways, window = period // run, record.step * (period // run)
        found = []
        for i in range(0, len(terms), window):
            part = terms[i : i + window]
            for way in range(ways):
                found.append([t for k, t in enumerate(part) if way * run <= k % period < (way + 1) * run])
        return found

    def run(self, terms: list[Any], total: Value) -> Value:
        record = self.record
        steps = self.steps(terms)
        if record.c == "aligned":
            for step in steps:
                total = self.keep(self.aligned(step, total)[0])
        elif record.c == "joined":
            for step in steps:
                total = self.joined(step, total)
        else:
            count = max(record.group // record.step, 1) if record.group else 1
            for i in range(0, len(steps), count):
                part: Value | None = None
                for step in steps[i : i + count]:
                    if record.tree:
                        missing = [(Fraction(0), None)] * ((record.step or len(step)) - len(step))
                        part = self.tree(step + missing)
                    elif record.even_odd:
                        part = self.keep(self.even_odd(step)[0])
                    else:
                        part = self.keep(self.aligned(step, part)[0])
                assert part is not None
                total = round_to(plus(total, part), TYPES[self.type], "nearest_even", record.overflow)
                total = self.flush(total, self.type, "results")
        return total

    def keep(self, x: Value) -> Value:
        if self.is_exact:
            return x
        x = round_to(x, self.form, self.record.rounding, self.record.overflow)
        return self.flush(x, self.type, "results")

    def aligned(self, step: list[Any], running: Value | None) -> tuple[Value, int]:
        """The sum of terms cut to a unit, and the exponent they were aligned to."""
        record = self.record
        joined = []
        for i in range(0, len(step), record.inner):
            part = step[i : i + record.inner]
            total: Value = Fraction(0)
            for x, _ in part:
                total = plus(total, x)
            exponents = [e for _, e in part if e is not None]
            joined.append((total, max(exponents) if exponents else None))
        if running is not None:
            e = None if special(running) or zero(running) else exponent_in(running, self.type)
            joined.append((running, e))
        exponents = [e for _, e in joined if e is not None]
        top = max([*exponents, -900 if record.least is None else record.least])
        total = Fraction(0)
        for x, _ in joined:
            if not special(x):
                x = Fraction(x)
                if record.bits is not None:
                    x = drop(x, Fraction(2) ** (top - record.bits), record.drop)
            total = plus(total, x)
        return total, top

    def even_odd(self, step: list[Any]) -> tuple[Value, int]:
        record = self.record
        sums = [self.aligned(step[i::2], None) for i in range(2)]
        top = max(e for _, e in sums)
        total: Value = Fraction(0)
        for x, _ in sums:
            total = plus(total, x if special(x) else drop(Fraction(x), Fraction(2) ** (top - record.bits), record.join))
        return total, top

    def joined(self, step: list[Any], running: Value) -> Value:
        record = self.record
        part, e = self.even_odd(step) if record.even_odd else self.aligned(step, None)
        own = least(self.type) if special(running) or zero(running) else exponent_in(running, self.type)
        top = max(e, own)
        if not special(part):
            part = drop(Fraction(part), Fraction(2) ** (top - record.sum_bits), record.join)
        if not special(running):
            if record.c_reach is not None and own < top - record.c_reach:
                running = Fraction(0)
            running = drop(Fraction(running), Fraction(2) ** (top - record.c_bits), record.join)
        return self.keep(plus(part, running))

    def tree(self, part: list[Any]) -> Value:
        if not part:
            return Fraction(0)
        if len(part) == 1:
            x = part[0][0]
            return self.keep(Fraction(0) if zero(x) else x)
        half = len(part) // 2
        return self.keep(plus(self.tree(part[:half]), self.tree(part[half:])))
