"""Matrix products of every element type: what dot_general and convolution compute with.

| operands | how |
|---|---|
| both minifloats | as the policy's `accumulate` says |
| floats of up to 16 bits, where the policy names a unit or a record | as that says |
| other floats and complex, `exact` or `reproducible` | as `exact_wide.py` says |
| and otherwise | the host's BLAS in the widest type among operands and result, f32 at least; one rounding |
| integers, i1 | modulo 2**bits of the result type; into a float type, the exact sum modulo 2**64 rounded once |

The sums in f32 and wider are the host's: their last bits depend on its order of addition. The policy's `arithmetic`
says how single operations are computed; it has a part only in `accumulate` = `element`, which is made of those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ..accumulators.product import is_exact
from ..cast import cast
from ..engine import gemm, half
from ..engine.speed import tuning
from ..op import Call, Run, lookup
from ..policy import Policy
from ..random_stream import RandomStream
from ..types import ELEMENT_TYPES, ElementType, Kind, TensorType
from . import by_integers
from .accumulated import accumulated_matmul, accumulator_of
from .exact_matmul import exact_matmul, tiled
from .exact_wide import wide_matmul
from .operand import as_laid

_PLAIN = Policy()
#: The terms up to which sums are formed in order, of real and of complex numbers. No tuning: BLAS may round otherwise.
_SHORT, _SHORT_COMPLEX = 4, 16
_F32, _F64, _I32, _I64, _UI64 = (ELEMENT_TYPES[name] for name in ("f32", "f64", "i32", "i64", "ui64"))


def matmul(
    lhs: np.ndarray,
    rhs: np.ndarray,
    lhs_type: ElementType,
    rhs_type: ElementType,
    result_type: ElementType,
    policy: Policy,
    random: RandomStream,
) -> np.ndarray:
    """The products of (batch, M, K) and (batch, K, N) as (batch, M, N) in `result_type`.

    The operands may be views: a transposed matrix is not copied.
    """
    policy = product_policy(policy, lhs_type, rhs_type, result_type)
    if not (_is_number(lhs_type) or _is_number(rhs_type)):
        return _integers(lhs, rhs, lhs_type, rhs_type, result_type, policy, random)
    record = accumulator_of(policy, lhs_type, rhs_type, result_type)
    if record is not None and not (is_exact(record) and lhs_type.is_minifloat and rhs_type.is_minifloat):
        return accumulated_matmul(record, lhs, rhs, lhs_type, rhs_type, result_type, policy, random)
    if not (lhs_type.is_minifloat and rhs_type.is_minifloat):
        if policy.accumulate in ("exact", "reproducible") and _is_number(lhs_type) and _is_number(rhs_type):
            return _wide(lhs, rhs, lhs_type, rhs_type, result_type, policy, random)
        compute = _widest(lhs_type, rhs_type, result_type)
        return host_matmul(lhs, rhs, lhs_type, rhs_type, compute, result_type, policy, random)
    if not result_type.is_float:
        sums = matmul(lhs, rhs, lhs_type, rhs_type, _F64, policy, random)
        return cast(sums, _F64, result_type, policy)
    if policy.sums_exactly or record is not None:
        return exact_matmul(lhs, rhs, lhs_type, rhs_type, result_type, policy, random)
    if policy.accumulate == "element":
        return stepwise_matmul(lhs, rhs, lhs_type, rhs_type, result_type, policy, random)
    return host_matmul(lhs, rhs, lhs_type, rhs_type, _F32, result_type, policy, random)


def _wide(
    lhs: np.ndarray,
    rhs: np.ndarray,
    lhs_type: ElementType,
    rhs_type: ElementType,
    result_type: ElementType,
    policy: Policy,
    random: RandomStream,
) -> np.ndarray:
    """The product of floats or complex numbers that are not all minifloats, as `exact` and `reproducible` say."""
    compute = _widest(lhs_type, rhs_type)
    x, y = widen(lhs, lhs_type, compute), widen(rhs, rhs_type, compute)
    if result_type.is_float or result_type.is_complex == compute.is_complex:
        return wide_matmul(x, y, result_type, policy, random)
    between = _F64 if result_type.is_integer or result_type.bits == 1 else compute
    return cast(wide_matmul(x, y, between, policy, random), between, result_type, policy)


def plain_product(
    lhs_type: ElementType, rhs_type: ElementType, result_type: ElementType, policy: Policy
) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """The host's product of f32 or f64 alone, where nothing is cast: the bits of `matmul`, without its questions.

    None of other types, and where sums are formed in another way.
    """
    is_plain = lhs_type == rhs_type == result_type and lhs_type in (_F32, _F64)
    if not is_plain or policy.accumulate in ("exact", "reproducible"):
        return None
    return lambda x, y: _in_order(x, y) if is_in_order(x.shape[-1]) else gemm.product(x, y)


def takes_halves(lhs_type: ElementType, rhs_type: ElementType, result_type: ElementType, policy: Policy) -> bool:
    """Whether products are those of `host_matmul` in f32, rounded to nearest even, and some type is f16 or bf16."""
    types = lhs_type, rhs_type, result_type
    is_half = all(t.is_float and 16 <= t.bits <= 32 for t in types) and any(t.bits == 16 for t in types)
    return is_half and policy == _PLAIN


def halves(x: np.ndarray) -> np.ndarray:
    """A matrix of f16, bf16 or f32 as f32, as it lies in memory."""
    return as_laid(half.widen, x) if x.itemsize == 2 else x


def half_of(sums: np.ndarray, result_type: ElementType) -> np.ndarray:
    """Sums in f32 rounded to f16, bf16 or f32."""
    if result_type.bits == 32:
        return sums
    if result_type.name == "bf16":
        return half.narrow(sums, result_type.dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return half.narrow(sums, result_type.dtype)


def is_in_order(length: int) -> bool:
    """Whether `plain_product` rounds each product of so many, and each sum of them: one by one, from +0."""
    return length <= _SHORT


def product_policy(policy: Policy, lhs_type: ElementType, rhs_type: ElementType, result_type: ElementType) -> Policy:
    """The policy for the results of products: the one rounding of a sum of minifloats' products is a conversion."""
    return policy if lhs_type.is_minifloat and rhs_type.is_minifloat else policy.for_results(result_type)


def host_matmul(
    lhs: np.ndarray,
    rhs: np.ndarray,
    lhs_type: ElementType,
    rhs_type: ElementType,
    compute: ElementType,
    result_type: ElementType,
    policy: Policy,
    random: RandomStream,
) -> np.ndarray:
    """The host's product in the type `compute` of f32, f64 or complex numbers, rounded to the result type."""

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = widen(x, lhs_type, compute), widen(y, rhs_type, compute)
        short = x.shape[-1] <= (_SHORT_COMPLEX if compute.is_complex else _SHORT)
        sums = _in_order(x, y) if short else gemm.product(x, y)
        if result_type.is_float and result_type.bits < 8:
            # These have no NaN, and what they have in its place goes by its sign, which processors differ in.
            sums[np.isnan(sums)] = np.nan
        return narrow(sums, compute, result_type, policy, random)

    if lhs_type == rhs_type == compute:
        return product(lhs, rhs)  # nothing is copied
    return tiled(lhs, rhs, result_type.dtype, 2, product)


def _in_order(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product with every step rounded, as the C++ reference interpreter does. No sum is -0: it starts from +0.

    A BLAS that fuses multiplications with additions gives other last bits, and where terms cancel, as in the parts of a
    complex product, that is all the bits. Programs compare their results with such as these.
    """
    if x.size * y.shape[-1] <= tuning().short_together and x.dtype.kind != "c" and x.shape[-1]:
        total = np.add.reduce(x[..., None] * y[:, None], -2)  # of so few terms numpy adds one after the other
        total += 0
        return total
    total = np.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    terms = [(x[:, :, k, None], y[:, k, None, :]) for k in range(x.shape[-1])]
    if not np.iscomplexobj(total):
        for a, b in terms:
            total += a * b
        return total
    real, imaginary = np.real(total), np.imag(total)
    for a, b in terms:
        real += np.real(a) * np.real(b) - np.imag(a) * np.imag(b)
        imaginary += np.real(a) * np.imag(b) + np.imag(a) * np.real(b)
    return total


def widen(x: np.ndarray, source: ElementType, target: ElementType) -> np.ndarray:
    """A cast to f32, f64 or a complex type, to nearest even, with the layout in memory kept."""
    if source.is_minifloat and target.is_float:
        return as_laid(lambda part: cast(part, source, target, _PLAIN), x)
    if not _is_number(source):
        return cast(x, source, target, _PLAIN)
    if source.bits == 16 and target == _F32:
        return as_laid(half.widen, x)
    return x.astype(target.dtype, copy=False)


def narrow(x: np.ndarray, source: ElementType, target: ElementType, policy: Policy, random: RandomStream) -> np.ndarray:
    """A cast as the policy says."""
    return cast(x, source, target, policy, random.draws(policy))


def stepwise_matmul(
    lhs: np.ndarray,
    rhs: np.ndarray,
    lhs_type: ElementType,
    rhs_type: ElementType,
    element: ElementType,
    policy: Policy,
    random: RandomStream,
) -> np.ndarray:
    """The product with every step rounded, as the C++ reference interpreter does: the operands are converted to
    `element`, and the products added in order, beginning with zero."""
    multiply, add = steps(element, policy, random)

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x = narrow(x, lhs_type, element, policy, random)
        y = narrow(y, rhs_type, element, policy, random)
        # The type without a zero begins with its smallest number, code 0, as the reference interpreter does.
        total = np.zeros((*x.shape[:-1], y.shape[-1]), element.format.code_dtype).view(element.dtype)
        for k in range(x.shape[-1]):
            total = add(total, multiply(x[:, :, k, None], y[:, k, None, :]))
        return total

    return tiled(lhs, rhs, element.dtype, 4, product)


def steps(element: ElementType, policy: Policy, random: RandomStream) -> tuple[Run, Run]:
    """The kernels of multiplication and addition."""
    t = TensorType((None, None, None), element)
    kernels = []
    for name in ("multiply", "add"):
        op = lookup(name)
        assert op is not None
        kernels.append(op.function(Call(op.name, (t, t), (t,), {}, (), policy, random)))
    return kernels[0], kernels[1]


def _is_number(t: ElementType) -> bool:
    return t.is_float or t.is_complex


@functools.cache
def _widest(*types: ElementType) -> ElementType:
    """The type that holds all float and complex ones of `types`, f32 at least."""
    is_double = any(t.part.bits == 64 for t in types if _is_number(t))
    if any(t.is_complex for t in types):
        return ELEMENT_TYPES["complex<f64>" if is_double else "complex<f32>"]
    return _F64 if is_double else _F32


# -- integers --------------------------------------------------------------------------------------------------------


def _integers(
    lhs: np.ndarray,
    rhs: np.ndarray,
    lhs_type: ElementType,
    rhs_type: ElementType,
    result_type: ElementType,
    policy: Policy,
    random: RandomStream,
) -> np.ndarray:
    """The product of integers and booleans, modulo 2**64; of booleans into i1, whether any product is true."""
    length = max(lhs.shape[-1], 1)
    bound = length * _largest(lhs, lhs_type) * _largest(rhs, rhs_type)

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = _as_host(x, lhs_type), _as_host(y, rhs_type)
        if bound <= 1 << 30 and (sums := by_integers.integers(x, y, lhs_type, rhs_type)) is not None:
            pass
        elif bound <= 1 << 24:
            sums = gemm.product(x.astype(np.float32), y.astype(np.float32))
        elif bound <= 1 << 53:
            sums = gemm.product(x.astype(np.float64), y.astype(np.float64))
        else:
            sums = _modular(x, y)
        if bound <= 1 << 30 and result_type == _I32:
            return sums.astype(np.int32, copy=False)
        whole = sums.astype(np.int64)
        if Kind.SIGNED in (lhs_type.kind, rhs_type.kind):
            return narrow(whole, _I64, result_type, policy, random)
        return narrow(whole.view(np.uint64), _UI64, result_type, policy, random)

    return tiled(lhs, rhs, result_type.dtype, 4, product)


def _largest(x: np.ndarray, t: ElementType) -> int:
    """A bound on the magnitudes; of wide types their own numbers are looked at, which are often small."""
    if t.bits <= 16 or not x.size:
        return 1 << (t.bits - int(t.kind is Kind.SIGNED))
    return max(int(x.max()), -int(x.min()))


def _as_host(x: np.ndarray, t: ElementType) -> np.ndarray:
    """Integers below eight bits as bytes, which numpy can compute with."""
    return x.astype(np.int8 if t.kind is Kind.SIGNED else np.uint8) if 1 < t.bits < 8 else x


def _modular(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Modulo 2**64, by exact f64 products of 16-bit digits; their sums have at most 32 bits and those of the length."""
    x, y = x.astype(np.int64), y.astype(np.int64)
    step = 1 << 21
    if x.shape[-1] > step:
        return _modular(x[..., :step], y[..., :step, :]) + _modular(x[..., step:], y[..., step:, :])
    xs, ys = ([((v >> shift) & 0xFFFF).astype(np.float64) for shift in range(0, 64, 16)] for v in (x, y))
    total = np.zeros((*x.shape[:-1], y.shape[-1]), np.int64)
    for i in range(4):
        for j in range(4 - i):
            total += gemm.product(xs[i], ys[j]).astype(np.int64) << (16 * (i + j))
    return total
