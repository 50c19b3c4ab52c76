"""The `algorithm` attribute of dot_general: which types to compute in, and products put together from several.

An operand of n components is the sum of n numbers of its precision type: the operand rounded, what that left rounded,
and so on. Component i is then about 2**-(p*i) of the whole, for p bits of precision, and the products of components
whose numbers add up to less than a limit are computed: so of two components by two, three products leave out only that
of the two small ones. They are added from the smallest to the largest.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..accumulators.product import product as accumulated_product
from ..accumulators.selection import precision_accumulator
from ..cast import cast, codes_of, integer_number
from ..minifloat.codec import decode, round_number
from ..minifloat.formats import Format, Nan
from ..op import OpError, UnsupportedOpError
from ..policy import Policy
from ..types import ELEMENT_TYPES, ElementType, Kind, element_type
from .contraction import Contraction

_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]
_PLAIN = Policy()

#: TensorFloat32: a precision and never the type of a value. Its codes are f32's without the last 13 bits.
_TF32 = Format("tf32", "float32", 8, 10, 127, True, Nan.IEEE)

_TYPES = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
_COUNTS = ("lhs_component_count", "rhs_component_count", "num_primitive_operations")
_MOST = 16  # components and products; the known algorithms have up to 9
_FIELDS = (*_TYPES, *_COUNTS, "allow_imprecise_accumulation")


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """The fields of the attribute. `allow_imprecise_accumulation` is a permission that is not used."""

    lhs_precision: ElementType | None  #: None for tf32
    rhs_precision: ElementType | None
    accumulation: ElementType
    products: tuple[tuple[int, int], ...]  #: the components of lhs and rhs that are multiplied, in order

    @staticmethod
    def of(attribute: Mapping[str, Any]) -> Algorithm | None:
        """The algorithm that the attribute's fields say, None where all are left out. Raises OpError for a bad one."""
        fields = {name: attribute.get(name) for name in _FIELDS}
        if all(value is None for value in fields.values()):
            return None
        if missing := [name for name in _FIELDS if fields[name] is None]:
            raise OpError(f"expected all fields of algorithm, or none, got none for {missing[0]}")
        lhs_count, rhs_count, products = (_positive(name, fields[name]) for name in _COUNTS)
        lhs, rhs, accumulation = (_precision(name, fields[name]) for name in _TYPES)
        if accumulation is None:
            raise UnsupportedOpError("algorithm accumulation_type tf32 is not supported (a float type of values is)")
        return Algorithm(lhs, rhs, accumulation, _products(lhs_count, rhs_count, products))

    def matmul(self, c: Contraction, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """As `Contraction.matmul`; sums in f32 and f64 are the host's, sums in another type are rounded at every step.

        Sums in f32 are as the policy's unit or record forms them, where there is one for the precision types. An f32
        operand that is one component of tf32 is then read as the instruction does, which leaves out its last 13 bits.
        """
        lhs_name, rhs_name = (_TF32.name if t is None else t.name for t in (self.lhs_precision, self.rhs_precision))
        record = precision_accumulator(c.policy, lhs_name, rhs_name) if self.accumulation == _F32 else None
        is_read = record is not None and len(self.products) == 1
        accumulation = self.accumulation
        inner = dataclasses.replace(
            c, lhs=self.lhs_precision or _F32, rhs=self.rhs_precision or _F32, result=accumulation
        )
        operands = ((lhs, c.lhs, self.lhs_precision), (rhs, c.rhs, self.rhs_precision))
        xs, ys = (
            [x] if is_read and precision is None and source == _F32
            else components_of(x, source, precision, 1 + max(places), c)
            for (x, source, precision), places in zip(operands, zip(*self.products, strict=True), strict=True)
        )  # fmt: skip

        def product(i: int, j: int) -> np.ndarray:
            if record is not None:
                return accumulated_product(record, xs[i], ys[j], lhs_name, rhs_name)
            is_host = accumulation in (_F32, _F64)
            return inner.host(xs[i], ys[j], accumulation) if is_host else inner.stepwise(xs[i], ys[j])

        *small, largest = self.products
        sums = [product(i, j) for i, j in small]
        total = product(*largest)
        if sums:
            add = np.add if accumulation in (_F32, _F64) else inner.kernel("add")
            rest = functools.reduce(add, sums)
            # The components of an infinity are infinities and NaN: the largest product alone says what is not finite.
            rest = np.where(np.isfinite(rest), rest, accumulation.dtype.type(0))
            total = add(rest, total)
        return c.round(total, accumulation)


def _products(lhs_count: int, rhs_count: int, products: int) -> tuple[tuple[int, int], ...]:
    """The components to multiply, the smallest products first.

    JAX writes several products of one component: then there are as many components as it takes for so many products,
    two for 3 and three for 6 and 9.
    """
    if lhs_count == rhs_count == 1 < products:
        lhs_count = rhs_count = next((n for n in range(2, _MOST) if products in _product_counts(n, n)), 1)
    if products not in (allowed := _product_counts(lhs_count, rhs_count)):
        raise UnsupportedOpError(
            f"algorithm of {lhs_count} by {rhs_count} components with {products} products is not supported"
            f" (num_primitive_operations may be {', '.join(map(str, allowed))})"
        )
    return tuple(reversed(_pairs(lhs_count, rhs_count)[:products]))


def _pairs(lhs_count: int, rhs_count: int) -> list[tuple[int, int]]:
    """The pairs of components, the largest products first."""
    return sorted(itertools.product(range(lhs_count), range(rhs_count)), key=sum)


def _product_counts(lhs_count: int, rhs_count: int) -> list[int]:
    """The numbers of products that leave out only smaller ones than are computed."""
    sizes = [sum(pair) for pair in _pairs(lhs_count, rhs_count)]
    return [sum(size <= limit for size in sizes) for limit in range(lhs_count + rhs_count - 1)]


def _positive(name: str, value: Any) -> int:
    """(C22), (C23), (C24)"""
    if not isinstance(value, int) or not 0 < value <= _MOST:
        raise OpError(f"algorithm: expected {name} of 1 to {_MOST}, got {value}")
    return value


def _precision(name: str, value: Any) -> ElementType | None:
    if str(value) == _TF32.name:
        return None
    try:
        element = element_type(str(value))
    except ValueError as e:
        raise OpError(f"algorithm {name}: {e}") from None
    if not element.is_float:
        raise OpError(f"algorithm: expected {name} to be a float type or tf32, got {element}")
    return element


def components_of(
    x: np.ndarray, source: ElementType, precision: ElementType | None, count: int, c: Contraction
) -> list[np.ndarray]:
    """`x` as so many numbers in the precision type; those of tf32 are stored as f32."""
    components = [_round(x, source, precision, c)]
    rest = cast(x, source, _F64, _PLAIN)
    while len(components) < count:
        rest = rest - components[-1].astype(np.float64)
        components.append(_round(rest, _F64, precision, c))
    return components


def _round(x: np.ndarray, source: ElementType, precision: ElementType | None, c: Contraction) -> np.ndarray:
    draws = c.random.draws(c.policy)
    if precision is not None:
        return cast(x, source, precision, c.policy, draws)
    number = (
        decode(codes_of(x, source.format), source.format)
        if source.is_float
        else integer_number(cast(x, source, ELEMENT_TYPES["ui64" if source.kind is Kind.UNSIGNED else "i64"], _PLAIN))
    )
    codes = round_number(number, _TF32, c.policy, draws)
    return (codes << (_F32.bits - _TF32.bits)).view(np.float32)
