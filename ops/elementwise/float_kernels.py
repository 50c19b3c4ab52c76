"""How functions of floats are computed on arrays, for each element type and policy.

A function is given twice: `direct`, exactly, on unpacked numbers; and `host`, on numpy's own float types.

| type | way |
| --- | --- |
| f64 | the host |
| f32 | the host where it rounds correctly; else the host in f64, and the exact function where its error decides |
| f16, bf16 | the same in f32 or f64, rounded once; for other roundings than to nearest even the exact function |
| minifloats, `direct` | the exact function and one rounding |
| minifloats, `upcast` | ml_dtypes casts up, the host computes in the wider type, ml_dtypes casts down |

Functions of up to 16 bits become lookup tables of all that. Stochastic rounding looks up the two results it chooses
from.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..call import Call
from ..cast import array_of, cast, codes_of, from_f32, to_f32
from ..minifloat.codec import decode, neighbours, round_number
from ..minifloat.formats import Nan
from ..policy import Policy
from ..random_stream import RandomStream
from ..tables import MOST_BITS, Tabulated, in_blocks
from ..traits import Run
from ..types import ELEMENT_TYPES, ElementType

_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of one or two floats.

    direct: computes it exactly.
    host: computes it in the type of its operands, numpy's f32 or f64.
    is_basic: the host rounds correctly in any IEEE type, and by way of f32 for a type of 16 bits.
    is_predicate: both give booleans, and nothing is rounded.
    is_native: the host computes with f16 and bf16 themselves; by way of f32 a NaN of bf16 would lose its payload.
    """

    direct: Callable[..., Any]
    host: Callable[..., Any]
    arity: int
    is_basic: bool
    is_predicate: bool = False
    is_native: bool = False


def float_kernel(function: Function, element: ElementType, call: Call) -> Run:
    """The kernel of a function of arrays of a float type that broadcast together.

    Args:
        function: What to compute.
        element: The type of the operands, and of the result unless the function is a predicate.
        call: Its policy's arithmetic, rounding and overflow apply to types of up to 16 bits.
    """
    policy = call.policy.for_results(element)
    if element == _F64 or (element == _F32 and function.is_basic):
        return function.host
    if element == _F32:
        return ziv(function, element)
    has_table = call.tables and element.bits * function.arity <= MOST_BITS
    if policy.rounding == "stochastic" and not function.is_predicate:
        return _by_draws(function, element, policy, call.random, has_table)
    return (_table if has_table else _computed)(function, element, policy.for_elements())


@functools.cache
def _table(function: Function, element: ElementType, policy: Policy) -> Tabulated:
    result = np.dtype(bool) if function.is_predicate else element.dtype
    return Tabulated(_computed(function, element, policy), [element] * function.arity, result)


def _computed(function: Function, element: ElementType, policy: Policy) -> Run:
    """The kernel that computes each element of a type of up to 16 bits."""
    if element.is_minifloat and policy.compute_type is not None:
        return _upcast(function, element, ELEMENT_TYPES[policy.compute_type], policy)
    if element.bits == 16 and function.is_native:
        return function.host
    if element.is_minifloat or policy.rounding != "nearest_even":
        return exactly(function, element, policy)
    return _through_f32(function, element) if function.is_basic else ziv(function, element)


def exactly(function: Function, element: ElementType, policy: Policy) -> Run:
    """Decode the codes, compute exactly, and round once."""
    fmt = element.format

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        result = _exact(function, element, arrays)
        return result if function.is_predicate else array_of(round_number(result, fmt, policy), fmt)

    return kernel


def _exact(function: Function, element: ElementType, arrays: tuple[np.ndarray, ...]) -> Any:
    fmt = element.format
    return function.direct(*(decode(codes_of(x, fmt), fmt) for x in np.broadcast_arrays(*arrays)))


def _upcast(function: Function, element: ElementType, compute: ElementType, policy: Policy) -> Run:
    is_plain = policy.rounding == "nearest_even" and policy.overflow == "ieee"

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = function.host(*(x.astype(compute.dtype) for x in arrays))
            if function.is_predicate:
                return result
            result = np.asarray(result, compute.dtype)
            if element.format.nan is Nan.NONE:
                # The operands are numbers, so NaN means an invalid operation, and its sign depends on the host.
                result = np.where(np.isnan(result), compute.dtype.type(np.nan), result)
            if is_plain and compute.bits <= 32:
                # ml_dtypes, so that this way shares nothing with the direct one; it rounds once from f32.
                return result.astype(np.float32).astype(element.dtype)
        return cast(result, compute, element, policy)

    return kernel


def _through_f32(function: Function, element: ElementType) -> Run:
    """The host in f32, rounded to f16 or bf16."""

    dtype = np.dtype(bool) if function.is_predicate else element.dtype

    def compute(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = np.asarray(function.host(*map(to_f32, arrays)))
            return result if function.is_predicate else from_f32(result, dtype)

    return lambda *arrays: in_blocks(compute, arrays, dtype)


#: What stochastic rounding chooses from: the codes below and above, and the fraction, in units of 2**-62.
_CHOICE = np.dtype([("low", np.uint16), ("high", np.uint16), ("fraction", np.int64)])


def _by_draws(function: Function, element: ElementType, policy: Policy, random: RandomStream, has_table: bool) -> Run:
    policy_of_all = dataclasses.replace(policy, seed=0)
    choices = (_choice_table if has_table else _choices)(function, element, policy_of_all)
    is_small = element.bits * function.arity <= MOST_BITS

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        found = choices(*arrays)
        if is_small and not _rounds(function, element, policy_of_all):
            return array_of(found["low"].astype(element.format.code_dtype), element.format)
        draws = random.draws(policy)
        assert draws is not None
        codes = np.where(draws.round_up(found["fraction"]), found["high"], found["low"])
        return array_of(codes.astype(element.format.code_dtype), element.format)

    return kernel


@functools.cache
def _choice_table(function: Function, element: ElementType, policy: Policy) -> Tabulated:
    return Tabulated(_choices(function, element, policy), [element] * function.arity, _CHOICE)


@functools.cache
def _rounds(function: Function, element: ElementType, policy: Policy) -> bool:
    """Whether a function of at most 16 bits is rounded for some operands."""
    return bool(_choice_table(function, element, policy).table()["fraction"].any())


def _choices(function: Function, element: ElementType, policy: Policy) -> Run:
    def kernel(*arrays: np.ndarray) -> np.ndarray:
        low, high, fraction = neighbours(_exact(function, element, arrays), element.format, policy)
        result = np.empty(low.shape, _CHOICE)
        result["low"], result["high"], result["fraction"] = low, high, fraction
        return result

    return kernel


#: Bound on the error, in units of f64's last place, of a host function: numpy's vector library promises 4.
_HOST_ERROR = 16
#: Factors between which a result lies. They are arrays, which numpy need not convert.
_BELOW, _ABOVE = (np.array(1 + sign * _HOST_ERROR * 2.0**-52) for sign in (-1, 1))
_NEAREST = Policy()


def ziv(function: Function, element: ElementType) -> Run:
    """Ziv's strategy: the host in f64, rounded to nearest, and the exact function where the host's error decides.

    That is where the least and the greatest number which the result may be are rounded apart.
    """
    fmt = element.format

    def rounded(wide: np.ndarray) -> np.ndarray:
        return np.asarray(wide.astype(fmt.dtype) if fmt.bits == 32 else cast(wide, _F64, element, _NEAREST))

    def compute(*numbers: np.ndarray) -> np.ndarray:
        wide = function.host(*numbers)
        result, other = rounded(wide * _BELOW), rounded(wide * _ABOVE)
        doubtful = codes_of(result, fmt) != codes_of(other, fmt)
        if np.count_nonzero(doubtful):
            some = (np.broadcast_to(x, result.shape)[doubtful] for x in numbers)
            exact = function.direct(*(decode(codes_of(x, _F64.format), _F64.format) for x in some))
            result[doubtful] = array_of(round_number(exact, fmt, _NEAREST), fmt)
        return result

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return in_blocks(compute, arrays, fmt.dtype, _F64.dtype)

    return kernel
