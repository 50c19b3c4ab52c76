"""Arrays that somebody else has are told from those that nobody has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.engine.owned import detached, own, own_here

KEPT: list[Any] = []


def kernel(x: np.ndarray, _: object) -> np.ndarray:
    return own(x)


def alone() -> tuple[bool, bool]:
    """As generated code does: a variable of its own, handed to a kernel or asked about here."""
    x = np.zeros(3)
    place = x.ctypes.data
    y = kernel(x, 1)
    first = y.ctypes.data == place
    del y
    z = own_here(x)
    return first, z.ctypes.data == place


def shared(how: str) -> tuple[bool, bool]:
    x = np.zeros(3)
    keep: Any = {"name": x, "view": x[1:], "list": [x]}[how]
    y = kernel(x, 1)
    z = own_here(x)
    return y is not x and not np.shares_memory(y, x), z is not x and len(keep) > 0


def test_what_one_variable_has_is_taken() -> None:
    assert alone() == (True, True)


@pytest.mark.parametrize("how", ["name", "view", "list"])
def test_what_another_has_is_copied(how: str) -> None:
    assert shared(how) == (True, True)


def test_read_only_arrays_and_parts_of_others_are_copied() -> None:
    def of(x: np.ndarray) -> bool:
        return np.shares_memory(own_here(x), x)

    x = np.zeros(4)
    x.setflags(write=False)
    assert not of(x)
    assert not of(np.zeros(4)[:2])


def test_results_that_nobody_has_are_handed_out_as_they_are() -> None:
    places: list[int] = []

    def made(view: bool = False) -> np.ndarray:
        x = np.zeros(4)
        places.append(x.ctypes.data)
        return x.view(np.int64) if view else x

    found = detached((made(), made(True), (made(),)))
    assert [found[0].ctypes.data, found[1].ctypes.data, found[2][0].ctypes.data] == places


def test_results_that_somebody_has_are_copied() -> None:
    x = np.arange(4)
    base = np.arange(6)
    view = np.arange(6).reshape(2, 3)
    values = x, x, base[:2], view, view.T, np.broadcast_to(np.zeros(1), 3), np.float32(2), None
    found = detached(values)
    for value, result in zip(values, found, strict=True):
        if value is not None:
            assert type(result) is np.ndarray
            assert result.flags.writeable
            assert result.flags.c_contiguous
            assert not np.shares_memory(result, value)
            assert np.array_equal(result, value)
    assert found[-1] is None


def test_what_a_caller_does_to_results_does_not_reach_the_program() -> None:
    text = """func.func @main(%x: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>) {
      %a = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
      %b = stablehlo.add %a, %a : tensor<3xi32>
      %c = stablehlo.constant dense<7> : tensor<i32>
      return %x, %a, %b, %c : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>
    }"""
    program, x = interp.load(text), np.array([4, 5, 6], np.int32)
    for _ in range(3):
        results = program(x)
        assert [r.tolist() for r in results] == [[4, 5, 6], [1, 2, 3], [2, 4, 6], 7]
        for result in results:
            result[...] = 0
    assert x.tolist() == [4, 5, 6]
