"""What numba cannot express: loads and stores at an address, words that stay 32 bits wide, choices without a branch.

The addresses are those of numpy's arrays, which whoever calls the machine keeps. numba takes an array of one type and
rank only, and numpy needs 1 µs to say where an array's elements are; so the machine is given the arrays' objects
(`id`, 0.02 µs), and `elements_of` reads it there.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

import numpy as np

from ..native.code import has_halves

numba: Any = importlib.import_module("numba")
_ir: Any = importlib.import_module("llvmlite.ir")
_intrinsic = importlib.import_module("numba.extending").intrinsic
_types = numba.types

#: For the parts of what is compiled.
inner = numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _place(builder: Any, bits: int, address: Any, index: Any) -> Any:
    return builder.gep(builder.inttoptr(address, _ir.IntType(bits).as_pointer()), [index])


def _load(bits: int) -> Any:
    """Element `index` of the array of unsigned integers at an address, as a word."""

    @_intrinsic
    def load(_context: Any, _address: Any, _index: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            bits_ = builder.load(_place(builder, bits, *args), align=1)
            return bits_ if bits == 32 else builder.zext(bits_, _ir.IntType(32))

        return _types.uint32(_types.uint64, _types.uint64), generate

    return load


def _store(bits: int) -> Any:
    """Puts the low bits of a word there."""

    @_intrinsic
    def store(_context: Any, _address: Any, _index: Any, _word: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            word = args[2] if bits == 32 else builder.trunc(args[2], _ir.IntType(bits))
            builder.store(word, _place(builder, bits, *args[:2]), align=1)

        return _types.void(_types.uint64, _types.uint64, _types.uint32), generate

    return store


load_32, load_16, load_8 = _load(32), _load(16), _load(8)
store_32, store_16, store_8 = _store(32), _store(16), _store(8)


#: Where an array's object says where its elements are: behind what all objects begin with (`PyArrayObject_fields`).
ELEMENTS = object.__basicsize__


def knows_arrays() -> bool:
    """Whether an array's object is as `elements_of` takes it to be."""
    x = np.zeros(1)
    return ctypes.c_void_p.from_address(id(x) + ELEMENTS).value == x.ctypes.data


@_intrinsic
def elements_of(_context: Any, _address: Any) -> Any:
    """The address of the elements of the array whose object is at an address."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        place = builder.add(args[0], _ir.Constant(_ir.IntType(64), ELEMENTS))
        return builder.load(builder.inttoptr(place, _ir.IntType(64).as_pointer()))

    return _types.uint64(_types.int64), generate


@_intrinsic
def call(_context: Any, _function: Any, _source: Any, _target: Any, _count: Any) -> Any:
    """Calls the C function at an address: it takes two addresses and a count, and gives a word."""
    word = _types.uint32

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        long = _ir.IntType(64)
        kind = _ir.FunctionType(_ir.IntType(32), [long] * 3)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return word(_types.int64, _types.uint64, _types.uint64, _types.int64), generate


#: Whether the processor converts f16 to f32 and back, so that `half_to_float` and `float_to_half` can be compiled.
HAS_HALVES = has_halves()


@_intrinsic
def half_to_float(_context: Any, _code: Any) -> Any:
    """The number of f16 whose code is the lower half of a word; a NaN that signals becomes one that does not."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        code = builder.bitcast(builder.trunc(args[0], _ir.IntType(16)), _ir.HalfType())
        return builder.fpext(code, _ir.FloatType())

    return _types.float32(_types.uint32), generate


@_intrinsic
def float_to_half(_context: Any, _number: Any) -> Any:
    """The code of f16 next to a number, to nearest even, as a word; of NaN as the processor has it."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        code = builder.bitcast(builder.fptrunc(args[0], _ir.HalfType()), _ir.IntType(16))
        return builder.zext(code, _ir.IntType(32))

    return _types.uint32(_types.float32), generate


@_intrinsic
def wide_vectors(_context: Any) -> Any:
    """Lets the function that it is called in use vectors of 512 bits where the processor has them."""

    def generate(context: Any, builder: Any, __: Any, ___: Any) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return _types.void(), generate


@_intrinsic
def shift(_context: Any, _x: Any, _by: Any) -> Any:
    """A word shifted to the right."""
    word = _types.uint32
    return word(word, word), lambda _, builder, __, args: builder.lshr(args[0], args[1])


@_intrinsic
def shift_left(_context: Any, _x: Any, _by: Any) -> Any:
    """A word shifted to the left by less than 32."""
    word = _types.uint32
    return word(word, word), lambda _, builder, __, args: builder.shl(args[0], args[1])


@_intrinsic
def shift_arithmetic(_context: Any, _x: Any, _by: Any) -> Any:
    """A word shifted to the right by less than 32; its sign is moved in."""
    word = _types.uint32
    return word(word, word), lambda _, builder, __, args: builder.ashr(args[0], args[1])


def _extreme(name: str) -> Any:
    """The larger or smaller of two words, as an instruction of LLVM says."""

    @_intrinsic
    def extreme(_context: Any, _x: Any, _y: Any) -> Any:
        word = _types.uint32

        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            t = _ir.IntType(32)
            return builder.call(builder.module.declare_intrinsic(name, [t], _ir.FunctionType(t, [t] * 2)), args)

        return word(word, word), generate

    return extreme


largest_signed, smallest_signed, largest_word = map(_extreme, ("llvm.smax", "llvm.smin", "llvm.umax"))


def _counted(name: str, *flags: bool) -> Any:
    """What LLVM counts in a word."""

    @_intrinsic
    def count(_context: Any, _x: Any) -> Any:
        word = _types.uint32

        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            t, truth = _ir.IntType(32), _ir.IntType(1)
            kind = _ir.FunctionType(t, [t, *[truth] * len(flags)])
            what = builder.module.declare_intrinsic(name, [t], kind)
            return builder.call(what, [args[0], *[_ir.Constant(truth, flag) for flag in flags]])

        return word(word), generate

    return count


#: Of a word the zeros above the highest bit that is set, of 0 all 32; and the bits that are set.
leading_zeros, bits_set = _counted("llvm.ctlz", False), _counted("llvm.ctpop")


@_intrinsic
def rotate(_context: Any, _x: Any, _by: Any) -> Any:
    """A word rotated to the left."""
    word = _types.uint32

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        t = _ir.IntType(32)
        kind = _ir.FunctionType(t, [t] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fshl", [t], kind), [args[0], args[0], args[1]])

    return word(word, word), generate


@_intrinsic
def choose(_context: Any, where: Any, x: Any, _y: Any) -> Any:
    """`x if where else y` without a branch."""
    return x(where, x, x), lambda _, builder, __, args: builder.select(*args)


@inner
def larger(x, y):
    """NaN if either is, the first of two; +0 above -0."""
    both = np.uint32(np.float32(x).view(np.uint32) & np.float32(y).view(np.uint32)).view(np.float32)
    return choose(x == y, both, choose((x > y) | (x != x), x, y))


@inner
def smaller(x, y):
    """NaN if either is, the first of two; -0 below +0."""
    either = np.uint32(np.float32(x).view(np.uint32) | np.float32(y).view(np.uint32)).view(np.float32)
    return choose(x == y, either, choose((x < y) | (x != x), x, y))
