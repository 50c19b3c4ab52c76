"""Makes kernels on arrays from functions of numbers, for each element type and policy.

An elementwise op declares what it computes twice: `direct`, on unpacked numbers, exactly; and `host`, on numpy's own
float types. This file picks between them:

- minifloats, `direct`: the exact function and one rounding. All codes or pairs of codes are computed once and kept as
  a table as soon as that is cheaper than computing element by element.
- minifloats, `upcast`: ml_dtypes casts up, the host computes in the wider type, ml_dtypes casts down.
- f16, bf16, f32: the host in f32 where that rounds correctly (the basic operations), else in f64 with the few results
  that lie too near a rounding boundary computed exactly (Ziv's strategy): so these are correctly rounded too.
- f64: the host.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from ..cast import array_of, cast, codes_of
from ..engine import half
from ..engine.amortised import Amortised
from ..engine.blocks import block, blocks, empty
from ..engine.lookup import Table, of_pairs
from ..engine.speed import tuning
from ..engine.stochastic import Choices, choices_of
from ..engine.stochastic_arrays import leading_choices, round_computed, round_tabled
from ..engine.stochastic_runs import Steps
from ..minifloat.codec import decode, round_number
from ..minifloat.formats import Format, Nan
from ..minifloat.number import Number
from ..policy import Policy
from ..random_stream import RandomStream
from ..traits import Kernel, Run
from ..types import ELEMENT_TYPES, ElementType, TensorType
from .ziv import Wide, ziv

Exact = Callable[..., Number]
Host = Callable[..., np.ndarray]

_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of one or two floats: what `direct` and `host` compute, and whether they give a boolean."""

    direct: Exact
    host: Host
    arity: int
    #: The host rounds correctly in any IEEE type, and going through f32 for a type of 16 bits rounds no differently.
    is_basic: bool
    #: `direct` gives booleans and nothing is rounded.
    is_predicate: bool = False
    #: `host` can put its results into an array that it is given after its operands, which may be one of them.
    has_out: bool = False
    #: The host on f64 in place, see `ziv.Wide`, where it is quicker than `host`.
    wide: Wide | None = None


def float_kernel(
    function: Function, element: ElementType, policy: Policy, random: RandomStream, result: TensorType
) -> Run:
    """The kernel of a function over arrays of a float type.

    Args:
        function: what to compute.
        element: the type of the operands, and of the result unless the function is a predicate.
        policy: its arithmetic, rounding and overflow apply to types of up to 16 bits.
        random: gives the bits of stochastic rounding.
        result: the type of the result; its shape decides whether pairs are joined in place.

    Returns:
        A function of arrays of `element.dtype` that broadcast together.
    """
    policy = policy.for_results(element)
    if element == _F64 or (element == _F32 and function.is_basic):
        return Kernel(function.host, has_out=function.has_out)
    if policy.rounding == "stochastic" and element.bits <= 16 and not function.is_predicate:
        return _drawn(function, element, policy, random)
    if element.is_minifloat or (element.bits == 16 and function.arity == 1):
        table = _shared_table(function, element, policy.for_elements())
        if not result.shape:
            return Kernel(table.scalar, of_codes=table.code)
        if function.arity == 1:
            is_half = element.bits == 16 and not function.is_predicate
            return Kernel(table.unary, of_half=table.numbers) if is_half else table.unary
        return table.pairs(result)
    kernel = _computed(function, element, policy)
    return Kernel(kernel, has_out=element == _F32 and function.arity == 1, fills=element == _F32)


@functools.cache
def _shared_table(function: Function, element: ElementType, policy: Policy) -> Tabulated:
    return Tabulated(function, element.format, _computed(function, element, policy))


def _computed(function: Function, element: ElementType, policy: Policy) -> Run:
    """The kernel that computes element by element."""
    if element.is_minifloat and policy.compute_type is not None:
        return _upcast(function, element, ELEMENT_TYPES[policy.compute_type], policy)
    if element.is_minifloat or (element.bits == 16 and policy.rounding != "nearest_even"):
        return exactly(function, element, policy)
    return (
        _through_f32(function, element)
        if function.is_basic
        else ziv(function.direct, _wide(function), element.format, function.arity)
    )


def _wide(function: Function) -> Wide:
    """The host in f64, in place."""
    if function.wide is not None:
        return function.wide

    def wide(*arrays: np.ndarray) -> None:
        arrays[-1][...] = function.host(*arrays[:-1])

    return wide


def _drawn(function: Function, element: ElementType, policy: Policy, random: RandomStream) -> Run:
    """The kernel of stochastic rounding."""
    if not element.is_minifloat:
        return _drawn_by_host(function, element, policy, random)
    exact = exactly(function, element, policy, random)
    table = _choices(function, element.format, dataclasses.replace(policy, seed=0))

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        choices = table.value or table.get(np.broadcast(*arrays).size)
        if choices is None:
            return exact(*arrays)
        draws = random.draws(policy)
        assert draws is not None
        return choices.joined([x.view(np.uint8) for x in arrays], draws).view(element.dtype)

    return Kernel(kernel, choices=table.made)


@functools.cache
def _choices(function: Function, fmt: Format, policy: Policy) -> Amortised[Choices]:
    """The two candidates of stochastic rounding, and their odds, for each code or pair of codes."""
    return Amortised(
        lambda: choices_of(function.direct, function.arity, fmt, policy),
        256**function.arity,
        lambda: tuning().basic_call_cost if function.is_basic else tuning().call_cost,
        lambda choices: choices.nbytes,
    )


def _drawn_by_host(function: Function, element: ElementType, policy: Policy, random: RandomStream) -> Run:
    """Stochastic rounding to 16 bits, of the host's function in f64: its error decides as rarely as a tie does."""
    fmt = element.format
    leading = _leading(function, fmt, dataclasses.replace(policy, seed=0)) if function.arity == 1 else None

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        draws = random.draws(policy)
        assert draws is not None
        table = None if leading is None else leading.get(arrays[0].size)
        if table is not None:
            return round_tabled(table, arrays[0], function.direct, fmt, policy, draws).view(element.dtype)
        codes = round_computed(function.host, function.is_basic, arrays, function.direct, fmt, policy, draws)
        return codes.view(element.dtype)

    if function.arity == 1:
        return kernel
    return Kernel(kernel, choices=lambda: Steps(function.host, function.direct, fmt, policy))


@functools.cache
def _leading(function: Function, fmt: Format, policy: Policy) -> Amortised[np.ndarray]:
    """The first bits of what stochastic rounding chooses from for each code of 16 bits."""
    return Amortised(
        lambda: leading_choices(function.host, function.direct, fmt, policy), 1 << 16, nbytes=lambda table: table.nbytes
    )


def exactly(function: Function, element: ElementType, policy: Policy, random: RandomStream | None = None) -> Run:
    """Decode the codes, compute exactly, and round once."""
    fmt = element.format

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        result = function.direct(*(decode(codes_of(x, fmt), fmt) for x in np.broadcast_arrays(*arrays)))
        if function.is_predicate:
            return result  # type: ignore[return-value]
        draws = random.draws(policy) if random is not None else None
        return array_of(round_number(result, fmt, policy, draws), fmt)

    return kernel


def _upcast(function: Function, element: ElementType, compute: ElementType, policy: Policy) -> Run:
    plain = policy.rounding == "nearest_even" and policy.overflow == "ieee"

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = function.host(*(x.astype(compute.dtype) for x in arrays))
            if function.is_predicate:
                return result
            result = np.asarray(result, compute.dtype)
            if element.format.nan is Nan.NONE:
                # The operands are numbers, so NaN means an invalid operation, and its sign depends on the host.
                result = np.where(np.isnan(result), compute.dtype.type(np.nan), result)
            if plain and compute.bits <= 32:
                # ml_dtypes, so that this way shares nothing with the direct one; it rounds once from f32.
                return result.astype(np.float32).astype(element.dtype)
        return cast(result, compute, element, policy)

    return kernel


def _through_f32(function: Function, element: ElementType) -> Run:
    """The host function in f32, rounded to `element`: large arrays by parts, so that what is f32 stays in the cache."""
    dtype, is_f16 = np.dtype(bool) if function.is_predicate else element.dtype, element.name == "f16"

    def compute(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            if is_f16 and arrays[0].size >= tuning().half_many:
                result = np.asarray(function.host(*map(half.widen, arrays)))
                return result if function.is_predicate else half.narrow(result, dtype)
            return np.asarray(function.host(*(x.astype(np.float32) for x in arrays))).astype(dtype, copy=False)

    def kernel(*arrays: np.ndarray) -> np.ndarray:
        size = arrays[0].size
        step = min(block(size), tuning().half_block) if is_f16 else block(size)
        alike = all(x.shape == arrays[0].shape and x.flags.c_contiguous for x in arrays)
        if size <= step or not alike:
            return compute(*arrays)
        result = empty(arrays[0].shape, dtype)
        for part in blocks(result.shape, step):
            result[part] = compute(*(x[part] for x in arrays))
        return result

    return kernel


class Tabulated:
    """A function that turns itself into a table: computed for a few elements, then looked up for all codes."""

    def __init__(self, function: Function, fmt: Format, compute: Run) -> None:
        self._fmt, self._arity, self._compute = fmt, function.arity, compute
        self._dtype = np.dtype(bool) if function.is_predicate else fmt.dtype
        cases = 1 << (8 * fmt.dtype.itemsize * function.arity)
        is_basic = function.is_basic

        def per_call() -> int:
            return tuning().basic_call_cost if is_basic else tuning().call_cost

        self._table = Amortised(lambda: Table(self._entries()), cases, per_call, lambda t: t.entries.nbytes)
        self._numbers = Amortised(
            lambda: self._table.made().entries.astype(np.float32), 0, nbytes=lambda numbers: numbers.nbytes
        )
        # The table once more, for scalars, where indexing bytes is quicker; and a value for each code.
        self._codes: memoryview = memoryview(b"")
        self._cells: list[np.ndarray] = []

    def unary(self, x: np.ndarray) -> np.ndarray:
        """The results for an array of any shape; of a function of one operand."""
        table = self._table.value or self._table.get(x.size)
        return self._compute(x) if table is None else table.at(x.view(self._fmt.code_dtype))

    def numbers(self, size: int) -> np.ndarray | None:
        """The results of a function of f16 or bf16 for all codes as f32, if such a table pays for so many elements."""
        if (self._table.value or self._table.get(size)) is None:
            return None
        return self._numbers.value if self._numbers.value is not None else self._numbers.made()

    def binary(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The results for two arrays that broadcast together; of a function of two operands."""
        table = self._table.value or self._table.get(np.broadcast(x, y).size)
        return self._compute(x, y) if table is None else table.at_joined((x.view(np.uint8), y.view(np.uint8)), (8, 8))

    def pairs(self, result: TensorType) -> Run:
        """The kernel of a function of two, for a result of this type."""
        if not result.is_static or result.size > tuning().lookup_tiny:
            return self.binary
        shape: tuple[int, ...] = result.shape  # type: ignore[assignment]

        def entries() -> np.ndarray | None:
            table = self._table.value
            return None if table is None else table.entries

        return of_pairs(shape, [(shape, self._fmt.dtype)] * 2, entries, self.binary)

    def code(self, x: int, y: int | None = None) -> int:
        """The result's code for single codes of one byte."""
        if self._codes:
            return self._codes[x if y is None else x << 8 | y]
        return self.scalar(*[np.array(c, np.uint8).view(self._fmt.dtype) for c in (x, y) if c is not None]).tobytes()[0]

    def scalar(self, *scalars: np.ndarray) -> np.ndarray:
        """The result for single numbers; arrays are passed on."""
        if scalars[0].ndim or scalars[-1].ndim:  # bound for scalars, and called with arrays
            return (self.unary if self._arity == 1 else self.binary)(*scalars)
        if not self._cells:
            table = self._table.value or self._table.get(1)
            if table is None:
                return np.asarray(self._compute(*scalars))
            results = table.entries.view(f"u{self._dtype.itemsize}")
            cells = np.arange(int(results.max()) + 1).astype(results.dtype).view(self._dtype)[:, None]
            self._cells = [cell.reshape(()) for cell in cells]
            self._codes = results.data
        index = int.from_bytes(b"".join([x.tobytes() for x in reversed(scalars)]), "little")
        return self._cells[self._codes[index]]

    def _entries(self) -> np.ndarray:
        codes = np.arange(1 << (8 * self._fmt.dtype.itemsize)).astype(self._fmt.code_dtype)
        codes &= (1 << self._fmt.bits) - 1  # storage has bits to spare below eight; they are never set
        grid = np.meshgrid(*[codes] * self._arity, indexing="ij")
        return np.ascontiguousarray(self._compute(*(array_of(g.ravel(), self._fmt) for g in grid)))
