"""Freed memory is kept for the next large array, within bounds, unless the user has configured the allocator."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from minihlo import interp
from minihlo.interp.compile import planner
from minihlo.interp.system import heap
from minihlo.ops.engine.speed import Speed

_TEXT = """func.func @main(%x: tensor<{0}xf32>) -> tensor<{0}xf32> {{
  %y = stablehlo.negate %x : tensor<{0}xf32>
  return %y : tensor<{0}xf32>
}}"""
_SMALL, _LARGE = (interp.load(_TEXT.format(n)).program for n in (1000, 100_000))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls of `heap.keep`, which does nothing."""
    made: list[int] = []
    monkeypatch.setattr(heap, "keep", lambda: made.append(1))
    return made


def test_memory_is_kept_within_bounds() -> None:
    m_mmap_threshold, m_trim_threshold = -3, -1  # the constants of malloc.h
    assert heap.settings({}) == {m_mmap_threshold: 32 << 20, m_trim_threshold: 64 << 20}


def test_memory_is_kept_for_programs_with_large_arrays(calls: list[int]) -> None:
    planner.plan(_SMALL)
    assert not calls
    planner.plan(_LARGE)
    assert calls


def test_it_can_be_turned_off(calls: list[int]) -> None:
    planner.plan(_LARGE, speed=Speed().without("heap"))
    assert not calls


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "1"),
        ("MALLOC_MMAP_THRESHOLD_", "1"),
        ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1"),
    ],
)
def test_settings_of_the_user_stay(name: str, value: str) -> None:
    assert heap.settings({name: value}) == {}


_CHILD = """
import resource
import numpy as np
from minihlo import interp
program = interp.load('''func.func @main(%x: tensor<512x512xf8E4M3FN>) -> tensor<512x512xf32> {
  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<512x512xf8E4M3FN>, tensor<512x512xf8E4M3FN>) -> tensor<512x512xf32>
  return %y : tensor<512x512xf32>
}''')
x, least = np.full((512, 512), 0x38, np.uint8).view(interp.cast([0], "f8E4M3FN").dtype), 1 << 30
for _ in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    program(x)
    least = min(least, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(least * resource.getpagesize())
"""


@pytest.mark.skipif(heap.mallopt() is None, reason="the allocator is not glibc's")
def test_a_call_uses_the_pages_of_the_one_before() -> None:
    names = ("MINIHLO_WITHOUT", "GLIBC_TUNABLES", *heap.VARIABLES)
    clean = {k: v for k, v in os.environ.items() if k not in names}
    child = subprocess.run([sys.executable, "-c", _CHILD], env=clean, capture_output=True, text=True, check=True)
    assert int(child.stdout) < 500_000  # of 1,048,576 and more that it takes without
