"""Lookups in tables of 256 bytes, or words, by the processor's own permutations (AVX-512 VBMI), 64 elements at a time.

A load for each element takes 0.2 ns, this 0.05, of words 0.1. numba has no such instructions, so they are inline
assembly. A word is looked up byte by byte: its table is laid out as four of bytes, the planes.
"""

from __future__ import annotations

import importlib
import platform

import numpy as np

from .instructions import inner, load_8, load_32, numba, shift, store_8, store_32
from .tile_instructions import instructions, permutation

_u64 = np.uint64
#: The elements that one instruction looks up.
_WIDTH = 64


def _is_known() -> bool:
    """Whether the processor has the instructions, and the compiler takes them."""
    llvm = importlib.import_module("llvmlite.binding")
    if platform.machine() not in ("x86_64", "AMD64") or not llvm.get_host_cpu_features().get("avx512vbmi"):
        return False
    llvm.initialize_native_asmparser()
    return True


#: Whether the instructions are used.
KNOWN = _is_known()


#: Source, table, target, mask: the bytes of the mask are read, looked up and written, no others.
_look_up_some = permutation("vmovdqu8 %zmm0, ($2){%k1}")


#: The bytes of the planes of a table of words, with the order of the words of 64 codes behind them.
PLANES = 4 * 256 + 64
_TABLES = [f"%zmm{i}" for i in range(8, 24)]


def _plane(number: int) -> str:
    """Look the codes of zmm0 up in a plane."""
    first, second, third, fourth = _TABLES[4 * number : 4 * number + 4]
    to = f"%zmm{1 + number}"
    return f"""vmovdqa64 %zmm0, {to}
vmovdqa64 %zmm0, %zmm7
vpermi2b {second}, {first}, {to}
vpermi2b {fourth}, {third}, %zmm7
vmovdqu8 %zmm7, {to}{{%k1}}"""


#: Source, planes, target, how many times 64 elements. The codes are ordered so that their words come out in order.
_look_up_words = instructions(
    "\n".join(
        [
            *(f"vmovdqu8 {64 * i}($1), {register}" for i, register in enumerate(_TABLES)),
            """vmovdqu8 1024($1), %zmm24
movq $0, %r8
movq $2, %r9
movq $3, %r10
1:
vpermd (%r8), %zmm24, %zmm0
vpmovb2m %zmm0, %k1""",
            *(_plane(i) for i in range(4)),
            """vpunpcklbw %zmm2, %zmm1, %zmm5
vpunpckhbw %zmm2, %zmm1, %zmm6
vpunpcklbw %zmm4, %zmm3, %zmm1
vpunpckhbw %zmm4, %zmm3, %zmm2
vpunpcklwd %zmm1, %zmm5, %zmm3
vpunpckhwd %zmm1, %zmm5, %zmm4
vpunpcklwd %zmm2, %zmm6, %zmm5
vpunpckhwd %zmm2, %zmm6, %zmm7
vmovdqu8 %zmm3, (%r9)
vmovdqu8 %zmm4, 64(%r9)
vmovdqu8 %zmm5, 128(%r9)
vmovdqu8 %zmm7, 192(%r9)
addq $$64, %r8
addq $$256, %r9
decq %r10
jnz 1b
vzeroupper""",
        ]
    ),
    4,
    clobbered=(*(f"zmm{i}" for i in range(25)), "k1", "r8", "r9", "r10", "flags"),
)


@inner
def lay_planes(table, planes):
    """Lay a table of 256 words, at an address, out as planes, at another."""
    for p in range(4):
        for i in range(256):
            store_8(planes, _u64(256 * p + i), shift(load_32(table, _u64(i)), np.uint32(8 * p)))
    for i in range(16):
        store_32(planes, _u64(256 + i), np.uint32(i % 4 * 4 + i // 4))


@inner
def _one_by_one(source, table, _, target, count):
    for i in range(count):
        store_32(target, _u64(i), load_32(table, _u64(load_8(source, _u64(i)))))


@inner
def _by_planes(source, table, planes, target, count):
    many = count // _WIDTH
    if many:
        _look_up_words(np.int64(source), np.int64(planes), np.int64(target), many)
    done = many * _WIDTH
    _one_by_one(source + _u64(done), table, planes, target + _u64(4 * done), count - done)


#: The words of a table for so many codes, all at addresses: source, table, its planes, target, count.
look_up_words = _by_planes if KNOWN else _one_by_one


def look_up_quads(codes, table, out):
    """`out[i] = table[codes[i]]`, of bytes and words; the table has 256 entries."""
    planes = np.empty(PLANES, np.uint8)
    at = _u64(planes.ctypes.data)
    lay_planes(_u64(table.ctypes.data), at)
    look_up_words(_u64(codes.ctypes.data), _u64(table.ctypes.data), at, _u64(out.ctypes.data), codes.size)
    return planes[0]  # so that it lives as long as its address is in use


def signature_of_quads():
    """The types of what `look_up_quads` takes."""
    t = numba.types
    return t.Array(t.uint8, 1, "C", readonly=True), t.Array(t.uint32, 1, "C", readonly=True), t.Array(t.uint32, 1, "C")


def look_up_octets(codes, tables, step, out):
    """`out[i, j] = tables[step * i + codes[i, j]]`, where the table of each row has 256 entries."""
    rows, columns = out.shape
    source, table, target = codes.ctypes.data, tables.ctypes.data, out.ctypes.data
    for i in range(rows):
        at = i * columns
        for j in range(0, columns, _WIDTH):
            mask = _u64(0xFFFFFFFFFFFFFFFF) >> _u64(max(_WIDTH - (columns - j), 0))
            _look_up_some(source + at + j, table + step * i, target + at + j, np.int64(mask))


def signature():
    """The types of what `look_up_octets` takes."""
    t = numba.types
    codes, table = t.Array(t.uint8, 2, "C", readonly=True), t.Array(t.uint8, 1, "C", readonly=True)
    return codes, table, t.int64, t.Array(t.uint8, 2, "C")
