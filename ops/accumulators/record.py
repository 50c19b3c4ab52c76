"""An accumulator as a record of facts: how an instruction of a chip, or a library, sums products.

The definition. `sums.py` computes it; a test does so a second time in Python's integers, from this text alone.

1. **Operands.** With `flush=operands` a subnormal operand is zero. A product is exact. With `product_limit` N a product
   of at least 2**N is an infinity. The exponent of a product is the sum of its operands' exponents, where a subnormal
   has the least exponent of its format; with `normalise` it is floor(log2(|product|)). A product of zero takes part in
   nothing. `inner` products are first added exactly; only scaled operands have that (point 7).
2. **Steps.** `take` consecutive: a step takes the next `step` products; 0 takes all. `take` "2of4": of each window of
   step * 4 / 2 products the first step takes those with k mod 4 < 2, the next those with 2 <= k mod 4.
   Missing products at the end are zero.
3. **The sum of a step.** All terms (the products, and the running sum where `c` is `aligned`) are aligned to the
   largest exponent E among them, not below `least`: each is cut to a multiple of 2**(E - bits), as `drop` says, and
   what is left is added exactly. `drop` zero cuts toward zero, floor toward minus infinity, nearest_even rounds;
   sticky cuts toward zero and sets one further bit, of 2**(E - bits - 1), if what it cut was not zero. `bits` exact
   cuts nothing.
   The exponent of the running sum is floor(log2(|sum|)), not below the least of `keep`; that of zero takes no part.
   With `even_odd` the terms of even and of odd position in the step are summed apart in this way; both sums, which keep
   the exponents E they were aligned to, are aligned and added once more; there `join` says how they are cut.
   With `tree` nothing is aligned: each product is rounded to `keep`, and the first half of them is added to the second,
   each half formed in the same way, with every sum rounded.
4. **Where the running sum joins.** `c` aligned: as a term of each step. `c` after: steps begin from zero; after `group`
   products their sum is added to the running sum, rounded to nearest even in the type of `keep`. (Within a group the
   sum runs from step to step as a term.) `c` joined: the sum of the products, of exponent E, and the running sum, of at
   least its type's least exponent even where it is zero, are aligned to the larger exponent M. The sum is cut to
   a multiple of 2**(M - sum_bits), the running sum to one of 2**(M - c_bits), as `join` says. A running sum of an
   exponent below M - `c_reach` becomes zero.
5. **The form kept.** After each step the sum is rounded to `keep`, as `rounding` says: f32, f16, bf16 or f64, with so
   many fraction bits where a number follows (`f32:13`), or `exact`: not at all, for one step alone. `overflow` is what
   it becomes beyond the largest number. With `flush=results` a subnormal result is zero, of the same sign; with
   `flush=c` a subnormal c is. A product of zero is +0, and so is a sum of terms that is exactly zero; a result that
   rounds to zero keeps its sign. Where two rounded sums are added (tree, c=after, outer), -0 + -0 is -0 as in IEEE 754.
6. **The outer accumulator.** With `outer` N the sum begins from zero after every N products, and is added to an outer
   sum in f32, to nearest even. It starts with c.
7. **Scaled operands.** The scales of a block multiply its products: their significands multiply, their exponents add.
   With `inner` N the exact sum of N products counts as a significand, of exponent 0; so the exponent of the term is
   that of the scales, even where the sum is zero. A NaN scale gives NaN.

The result is the last sum. Infinities and NaN are as in IEEE 754: NaN times anything, 0 * inf and inf - inf are NaN.
`nan` is the code of NaN: quiet (0x7FC00000 in f32) or ones (0x7FFFFFFF).
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line names policies before it imports numpy
    from ..minifloat.formats import Format

DROPS = ("zero", "floor", "sticky", "nearest_even")
PLACES = ("aligned", "after", "joined")
ROUNDINGS = ("toward_zero", "nearest_even", "down", "up")
OVERFLOWS = ("infinity", "largest", "nan")
NANS = ("quiet", "ones")
FLUSHED = ("operands", "c", "results")
FORMS = ("f32", "f16", "bf16", "f64")

EXACT = "exact"
_CONSECUTIVE = "consecutive"
#: An aligned sum has to fit 53 bits: two above the point of a product, those of the number of terms, one for `sticky`.
_MOST_BITS, _SUM_BITS = 45, 53
#: The most bits of f64 that are kept, unless all are: sums are rounded to odd in f64 first, which takes two bits more.
_MOST_KEPT = 50


@dataclasses.dataclass(frozen=True)
class Accumulator:
    """The rules of a sum of products. Immutable and hashable; `ops/accumulators/record.py` is the definition.

    Args:
        step: Products in a step, at least 0; 0: all of them.
        take: Which k a step takes: `"consecutive"`, or `"2of4"`: 2 of every 4 consecutive ones.
        bits: Fraction bits that are kept when terms are aligned, 0 to 45; None: all.
        normalise: Whether a product's significand is brought to [1, 2) before it is aligned.
        drop: What happens to the bits below: `"zero"`, `"floor"`, `"sticky"` or `"nearest_even"`.
        even_odd: Whether the products of even and odd k are summed apart within a step.
        tree: Whether products are added pairwise, each sum rounded, and not aligned.
        inner: Products of scaled operands that are added exactly before they are scaled.
        c: Where the running sum joins: `"aligned"` with the products, `"after"` them, or `"joined"`.
        group: For c=after, how many products are summed before they join; 0: a step's.
        sum_bits: For c=joined, the fraction bits of the products' sum. None: all.
        c_bits: For c=joined, those of the running sum. None: all.
        c_reach: For c=joined, how far below the largest exponent the running sum still counts. None: any.
        join: How bits are dropped there, and where even and odd sums meet; as `drop`.
        keep: The form of the sum between steps: `"f32"`, `"f16"`, `"bf16"`, `"f64"`, with fewer fraction bits as in
            `"f32:13"`, or `"exact"`.
        rounding: How the sum is rounded to it: `"toward_zero"`, `"nearest_even"`, `"down"` or `"up"`.
        least: The least exponent that terms are aligned to; None: any.
        flush: Which subnormals are zero: a tuple of `"operands"`, `"c"`, `"results"`.
        overflow: What is beyond the range: `"infinity"`, `"largest"` or `"nan"`.
        product_limit: Products of at least 2**this are infinities; None: none is.
        nan: The code of NaN: `"quiet"` or `"ones"` (all bits of the magnitude).
        outer: After how many products the sum is added to an outer one in f32; 0: there is none.

    Raises:
        ValueError: A field has a value that it cannot have, or two fields contradict each other.
    """

    step: int = 1
    take: str = _CONSECUTIVE
    bits: int | None = None
    normalise: bool = False
    drop: str = "zero"
    even_odd: bool = False
    tree: bool = False
    inner: int = 1
    c: str = "aligned"
    group: int = 0
    sum_bits: int | None = None
    c_bits: int | None = None
    c_reach: int | None = None
    join: str = "zero"
    keep: str = "f32"
    rounding: str = "nearest_even"
    least: int | None = None
    flush: tuple[str, ...] = ()
    overflow: str = "infinity"
    product_limit: int | None = None
    nan: str = "quiet"
    outer: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("step", 0, 1 << 20), ("inner", 1, 16), ("group", 0, 1 << 20), ("outer", 0, 1 << 20),
            ("bits", 0, _MOST_BITS), ("sum_bits", 0, _MOST_BITS), ("c_bits", 0, _MOST_BITS), ("c_reach", 0, 1 << 10),
            ("least", -1000, 1000), ("product_limit", -1000, 1000),
        ):  # fmt: skip
            _whole(name, getattr(self, name), low, high, name in _OPTIONAL)
        for name in ("normalise", "even_odd", "tree"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: expected yes or no, got {getattr(self, name)!r}")
        for name, choices in _CHOICES.items():
            _one_of(name, getattr(self, name), choices)
        if isinstance(self.flush, str) or not all(isinstance(x, str) for x in self.flush):
            raise ValueError(f"flush: expected a tuple of {', '.join(FLUSHED)}, got {self.flush!r}")
        for x in self.flush:
            _one_of("flush", x, FLUSHED)
        object.__setattr__(self, "flush", tuple(x for x in FLUSHED if x in self.flush))
        _form(self.keep)
        self._check_steps()
        self._check_sums()

    def _check_steps(self) -> None:
        run, period = self.pattern
        if run != period and (not self.step or self.step % run):
            raise ValueError(f"take: expected a step that {run} divides, got {self.step}")
        for name in ("group", "outer"):
            count = getattr(self, name)
            whole = self.step * (period // run)
            if count and (not self.step or count % whole):
                raise ValueError(
                    f"{name}: expected a multiple of the {whole or 'whole'} products of a step, got {count}"
                )
        if self.outer and self.group and self.outer % self.group:
            raise ValueError(f"outer: expected a multiple of the group of {self.group}, got {self.outer}")
        if self.group and self.c != "after":
            raise ValueError(f"group: expected c=after, got c={self.c}")
        if self.step % self.inner:
            raise ValueError(f"inner: expected a divisor of the step of {self.step}, got {self.inner}")

    def _check_sums(self) -> None:
        if self.tree and (self.c != "after" or self.group or self.bits is not None or self.even_odd or self.inner > 1):
            raise ValueError("tree: expected c=after, and no group, bits, even_odd or inner, got a tree with others")
        if self.even_odd and (self.c == "aligned" or self.group or self.inner > 1):
            raise ValueError("even_odd: expected c=after or c=joined, and no group or inner, got others")
        if self.c != "joined" and (self.sum_bits, self.c_bits, self.c_reach) != (None, None, None):
            raise ValueError(f"sum_bits, c_bits, c_reach: expected c=joined, got c={self.c}")
        if (self.even_odd or self.c == "joined") and self.bits is None:
            raise ValueError("bits: expected a number where sums are joined (even_odd, c=joined), got exact")
        if self.c == "joined" and (self.sum_bits is None or self.c_bits is None):
            raise ValueError("sum_bits, c_bits: expected numbers with c=joined, got exact")
        if self.bits is not None:
            # A product is below 2**2 of its exponent, a scaled sum of 16 products of f4E2M1FN below 2**12.
            room = _SUM_BITS - 1 - (2 if self.inner == 1 else 12) - ((self.step or 1 << 20) // self.inner).bit_length()
            if self.bits > room:
                raise ValueError(f"bits: expected at most {room} for a step of {self.step or 'all'}, got {self.bits}")
        if self.keep == EXACT and (self.step or self.bits is not None or self.tree or self.c != "aligned"):
            raise ValueError("keep: expected step=0, bits=exact and c=aligned with keep=exact, got others")

    @property
    def pattern(self) -> tuple[int, int]:
        """The number of k that a step takes of so many consecutive ones: (2, 4) for `2of4`, (1, 1) for all."""
        return _pattern(self.take)

    @property
    def form(self) -> Format:
        """The format of `keep`; that of f64 for `exact`. Its precision is that of the fraction bits kept."""
        return _form(self.keep)

    @property
    def type(self) -> Format:
        """The type of `keep`, without its number of bits; f64 for `exact`."""
        return _form(self.keep.partition(":")[0])

    @property
    def storage(self) -> Format:
        """The type in which results leave: that of `keep`; f32 with an outer accumulator."""
        return _form("f32") if self.outer else self.type

    def to_text(self) -> str:
        """The fields that differ from the defaults, as in `step=16,bits=25,keep=f32`; `step` and `keep` always."""
        shown = [f for f in _FIELDS if f in ("step", "keep") or getattr(self, f) != _FIELDS[f]]
        return ",".join(f"{f}={_value_text(getattr(self, f))}" for f in shown)

    @staticmethod
    def from_text(text: str) -> Accumulator:
        """The record of a text such as `step=16,bits=25,keep=f32`; `;` separates as well as `,` does.

        Raises:
            ValueError: The text is not one, or the record is not valid.
        """
        fields: dict[str, Any] = {}
        for part in filter(None, (p.strip() for p in text.replace(";", ",").split(","))):
            name, sign, value = (p.strip() for p in part.partition("="))
            if name not in _FIELDS or not sign:
                raise ValueError(f"accumulator: expected name=value with a name of {', '.join(_FIELDS)}, got {part!r}")
            if name in fields:
                raise ValueError(f"{name}: expected one value, got a second, {value!r}")
            fields[name] = _parse_value(name, value)
        if not fields:
            raise ValueError(f"accumulator: expected name=value,…, got {text!r}")
        return Accumulator(**fields)

    def to_json(self) -> str:
        """All fields as a JSON object on one line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str | Mapping[str, Any]) -> Accumulator:
        """The record of a JSON object as `to_json` writes it; fields that are left out have their defaults.

        Raises:
            ValueError: It is not one, or the record is not valid.
        """
        try:
            found = json.loads(text) if isinstance(text, str) else text
        except (ValueError, RecursionError) as error:
            raise ValueError(f"accumulator: expected a JSON object, got {error}") from None
        if not isinstance(found, Mapping):
            raise ValueError(f"accumulator: expected a JSON object, got {type(found).__name__}")
        if unknown := [name for name in found if name not in _FIELDS]:
            raise ValueError(f"accumulator: expected fields of {', '.join(_FIELDS)}, got {unknown[0]!r}")
        fields = dict(found)
        if isinstance(fields.get("flush"), list):
            fields["flush"] = tuple(fields["flush"])
        try:
            return Accumulator(**fields)
        except TypeError as error:  # a list where a number is expected, and the like
            raise ValueError(f"accumulator: expected the types of the fields, got others: {error}") from None


_FIELDS: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(Accumulator)}
_OPTIONAL = tuple(name for name, default in _FIELDS.items() if default is None)
_CHOICES = {
    "drop": DROPS, "join": DROPS, "c": PLACES, "rounding": ROUNDINGS, "overflow": OVERFLOWS, "nan": NANS,
}  # fmt: skip


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")


def _whole(name: str, value: Any, low: int, high: int, is_optional: bool) -> None:
    if is_optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        also = " or exact" if "bits" in name else " or none" if is_optional else ""
        raise ValueError(f"{name}: expected an integer from {low} to {high}{also}, got {value!r}")


def _pattern(take: Any) -> tuple[int, int]:
    if take == _CONSECUTIVE:
        return 1, 1
    run, _, period = take.partition("of") if isinstance(take, str) else ("", "", "")
    if not (
        run.isdecimal() and period.isdecimal() and 0 < int(run) < int(period) <= 1024 and not int(period) % int(run)
    ):
        raise ValueError(f"take: expected consecutive, or NofM where N divides M, such as 2of4, got {take!r}")
    return int(run), int(period)


@functools.cache
def _form(keep: Any) -> Format:
    from ..minifloat.formats import FORMATS

    if keep == EXACT:
        return FORMATS["f64"]
    name, sign, bits = keep.partition(":") if isinstance(keep, str) else ("", "", "")
    if name in FORMS:
        base = FORMATS[name]
        if not sign:
            return base
        if bits.isdecimal() and 1 <= int(bits) <= min(base.mantissa_bits, _MOST_KEPT):
            return dataclasses.replace(base, name=keep, mantissa_bits=int(bits))
    raise ValueError(f"keep: expected exact, or f32, f16, bf16 or f64 with or without bits (f32:13), got {keep!r}")


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    return "none" if value is None else str(value)


def _parse_value(name: str, value: str) -> Any:
    """The value of a field from text; what it cannot be is left for the record to refuse."""
    default = _FIELDS[name]
    if name == "flush":
        return () if value == "none" else tuple(value.split("+"))
    if isinstance(default, bool):
        return {"yes": True, "no": False}.get(value, value)
    if isinstance(default, int) or name in _OPTIONAL:
        if name in _OPTIONAL and value in ("none", EXACT):
            return None
        digits = value.removeprefix("-")
        return int(value) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else value
    return value
