"""Products of matrices of every element type: how the sums of dot_general, convolution and their like are rounded.

| operands | the sums | rounded |
|---|---|---|
| minifloats under `auto`, `exact`, `reproducible` | exact: `exact.py` | once, as the policy says |
| minifloats under `f32` | the host's, in f32 | once |
| minifloats under `element` | in order, in the result's type | each product and each sum |
| floats of up to 16 bits under a unit or a record | as an accumulator forms them | as that says, and once more |
| other floats and complex under `exact`, `reproducible` | exact, or nearly: `exact.py` | once |
| and otherwise | the host's, in the widest type among operands and result, f32 at least | once |
| integers and i1 | modulo 2**64; of i1 into i1, whether any product is true | once, into a float type |

The host's sums are its BLAS's: their last bits depend on its order of addition. The policy's `arithmetic`, which says
how single operations are computed, has a part in `element` alone, which is made of those.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from .. import blas
from ..accumulators.product import is_exact, product
from ..accumulators.record import Accumulator
from ..accumulators.selection import accumulator_of
from ..cast import cast, codes_of
from ..op import Call, Run, kernel_of
from ..policy import Policy
from ..random_stream import RandomStream
from ..types import ELEMENT_TYPES, ElementType, Kind, TensorType
from .exact import exact_matmul, exact_type_of_formats

_PLAIN = Policy()
#: Sums of so many products, of real and of complex numbers, are formed one by one. Not a tuning: BLAS may round
#: otherwise.
_SHORT, _SHORT_COMPLEX = 4, 16
_F32, _F64, _I64, _UI64 = (ELEMENT_TYPES[name] for name in ("f32", "f64", "i64", "ui64"))


@dataclasses.dataclass(frozen=True)
class Contraction:
    """The types of a product of matrices, the policy for its sums, and the stream that its roundings draw from."""

    lhs: ElementType
    rhs: ElementType
    result: ElementType
    policy: Policy
    random: RandomStream = dataclasses.field(default_factory=RandomStream)
    tables: bool = True  #: whether single steps may use lookup tables

    @classmethod
    def of(cls, call: Call) -> Contraction:
        """The contraction of an op's first two operands."""
        types = call.tensor(0).element, call.tensor(1).element, call.result().element
        return cls(*types, call.policy, call.random, call.tables)

    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The products of (batch, M, K) and (batch, K, N) as (batch, M, N) in the type of the result."""
        policy, are_minifloats = self.policy, self.lhs.is_minifloat and self.rhs.is_minifloat
        if not _is_number(self.lhs) and not _is_number(self.rhs):
            return self._of_integers(x, y)
        record = accumulator_of(policy, self.lhs, self.rhs, self.result)
        if record is not None and not (is_exact(record) and are_minifloats):
            return self._accumulate(record, x, y)
        sums_exactly = policy.sums_exactly if are_minifloats else policy.accumulate in ("exact", "reproducible")
        if are_minifloats and not self.result.is_float:
            return cast(self.into(_F64).matmul(x, y), _F64, self.result, policy)
        if record is not None or (sums_exactly and _is_number(self.lhs) and _is_number(self.rhs)):
            return exact_matmul(self, x, y)
        if are_minifloats and policy.accumulate == "element":
            return self.stepwise(x, y)
        if self.lhs == self.rhs == self.result and self.result in (_F32, _F64):
            return self._host_sums(x, y, self.result)  # nothing is rounded, nor drawn for that
        return self.host(x, y, _F32 if are_minifloats else _widest(self.lhs, self.rhs, self.result))

    def exact_type(self, length: int) -> ElementType | None:
        """The host's type in which all sums of so many products are exact, if they are to be; `matmul` takes operands
        of that type too. None of other sums than those of minifloats."""
        if not (self.lhs.is_minifloat and self.rhs.is_minifloat and self.result.is_float):
            return None
        record = accumulator_of(self.policy, self.lhs, self.rhs, self.result)
        is_exact_sum = self.policy.sums_exactly if record is None else is_exact(record)
        return exact_type_of_formats(self.lhs, self.rhs, length) if is_exact_sum else None

    def into(self, result: ElementType) -> Contraction:
        """The same sums in another type."""
        return dataclasses.replace(self, result=result)

    def round(self, sums: np.ndarray, source: ElementType) -> np.ndarray:
        """Sums rounded to the type of the result. Of minifloats that is a conversion, else a result of arithmetic."""
        are_minifloats = self.lhs.is_minifloat and self.rhs.is_minifloat
        policy = self.policy if are_minifloats else self.policy.for_results(self.result)
        if source.is_complex and not self.result.is_complex:
            sums, source = np.real(sums), source.part
        if self.result.is_float and self.result.bits < 8 and source.is_float:
            # These have no NaN, and its replacement has its sign, in which processors differ.
            sums[np.isnan(sums)] = np.nan
        return cast(sums, source, self.result, policy, self.random.draws(policy))

    def host(self, x: np.ndarray, y: np.ndarray, compute: ElementType) -> np.ndarray:
        """The host's product in f32, f64 or a complex type, rounded."""
        return self.round(self._host_sums(x, y, compute), compute)

    def _host_sums(self, x: np.ndarray, y: np.ndarray, compute: ElementType) -> np.ndarray:
        x, y = (cast(v, t, compute, _PLAIN) for v, t in ((x, self.lhs), (y, self.rhs)))
        is_short = x.shape[-1] <= (_SHORT_COMPLEX if compute.is_complex else _SHORT)
        return _in_order(x, y) if is_short else blas.matmul(x, y)

    def stepwise(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The product with every step rounded, as the C++ reference interpreter does: the operands are converted to the
        type of the result, and the products added in order, beginning with zero."""
        x = cast(x, self.lhs, self.result, self.policy, self.random.draws(self.policy))
        y = cast(y, self.rhs, self.result, self.policy, self.random.draws(self.policy))
        multiply, add = self.kernel("multiply"), self.kernel("add")
        # The type without a zero begins with its smallest number, code 0, as the reference interpreter does.
        shape, fmt = (*x.shape[:-1], y.shape[-1]), self.result.format
        total = np.zeros(shape, fmt.code_dtype).view(fmt.dtype)
        for k in range(x.shape[-1]):
            total = add(total, multiply(x[:, :, k, None], y[:, k, None, :]))
        return total

    def kernel(self, name: str) -> Run:
        """The kernel of a binary op in the type of the result."""
        t = TensorType((None, None, None), self.result)
        return kernel_of(Call(name, (t, t), (t,), {}, (), self.policy, self.random, tables=self.tables))

    def _accumulate(self, record: Accumulator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The product as an accumulator sums it."""
        to_odd, names = is_exact(record) and self.result != _F64, (self.lhs.name, self.rhs.name)
        codes = codes_of(x, self.lhs.format), codes_of(y, self.rhs.format)
        return self.round(product(record, *codes, *names, to_odd=to_odd), ELEMENT_TYPES[record.storage.name])

    def _of_integers(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The product of integers and booleans: by BLAS where its floats hold every partial sum."""
        bound = max(x.shape[-1], 1) * _largest(x, self.lhs) * _largest(y, self.rhs)
        x, y = x.astype(self.lhs.working_dtype, copy=False), y.astype(self.rhs.working_dtype, copy=False)
        if bound <= 1 << 53:
            dtype = np.float32 if bound <= 1 << 24 else np.float64
            sums = blas.matmul(x.astype(dtype), y.astype(dtype)).astype(np.int64)
        else:
            sums = np.matmul(x.astype(np.int64), y.astype(np.int64))
        is_signed = Kind.SIGNED in (self.lhs.kind, self.rhs.kind)
        sums, kind = (sums, _I64) if is_signed else (sums.view(np.uint64), _UI64)
        return self.round(sums, kind) if _is_number(self.result) else cast(sums, kind, self.result, _PLAIN)


@functools.cache
def _widest(*types: ElementType) -> ElementType:
    """The type that holds all float and complex ones of `types`, f32 at least."""
    is_double = any(t.part.bits == 64 for t in types if _is_number(t))
    if any(t.is_complex for t in types):
        return ELEMENT_TYPES["complex<f64>" if is_double else "complex<f32>"]
    return _F64 if is_double else _F32


def _is_number(t: ElementType) -> bool:
    return t.is_float or t.is_complex


def _in_order(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product with every step rounded, as the C++ reference interpreter does. No sum is -0: it starts from +0.

    A BLAS that fuses multiplications with additions gives other last bits, and where terms cancel, as in the parts of a
    complex product, that is all the bits. Programs compare their results with such as these.
    """
    total = np.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    real, imaginary = np.real(total), np.imag(total)
    for k in range(x.shape[-1]):
        a, b = x[:, :, k, None], y[:, k, None, :]
        if total.dtype.kind != "c":
            total += a * b
        else:
            real += np.real(a) * np.real(b) - np.imag(a) * np.imag(b)
            imaginary += np.real(a) * np.imag(b) + np.imag(a) * np.real(b)
    return total


def _largest(x: np.ndarray, t: ElementType) -> int:
    """A bound on the magnitudes of integers: that of a type of up to 16 bits, and else of the numbers themselves."""
    if t.bits <= 16 or not x.size:
        return 1 << (t.bits - int(t.kind is Kind.SIGNED))
    return max(int(x.max()), -int(x.min()))
