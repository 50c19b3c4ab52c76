"""Arrays that somebody else has are distinguished from those that nobody has."""

from __future__ import annotations

import weakref
from typing import Any

import jax
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.ops.engine.blocks import empty, for_each, in_order
from minihlo.ops.engine.owned import detached, own
from minihlo.ops.engine.speed import Speed, entered
from minihlo.ops.types import ELEMENT_TYPES


def test_what_one_variable_has_is_taken() -> None:
    x = np.zeros(3)
    place = x.ctypes.data
    y = own(x)
    assert y.ctypes.data == place


@pytest.mark.parametrize("how", ["name", "view", "list"])
def test_what_another_has_is_copied(how: str) -> None:
    x = np.zeros(3)
    keep: Any = {"name": x, "view": x[1:], "list": [x]}[how]
    y = own(x)
    assert y is not x
    assert not np.shares_memory(y, x)
    assert len(keep) > 0


def test_read_only_arrays_and_parts_of_others_are_copied() -> None:
    x = np.zeros(4)
    x.setflags(write=False)
    y = own(x)
    assert not np.shares_memory(y, x)
    assert y.flags.writeable
    x = np.zeros(4)[:2]
    y = own(x)
    assert not np.shares_memory(y, x)


def test_results_that_nobody_has_are_handed_out_as_they_are() -> None:
    places: list[int] = []

    def made(view: bool = False) -> np.ndarray:
        x = np.zeros(4)
        places.append(x.ctypes.data)
        return x.view(np.int64) if view else x

    actual = detached((made(), made(True), (made(),)))
    assert [actual[0].ctypes.data, actual[1].ctypes.data, actual[2][0].ctypes.data] == places


def test_results_that_somebody_has_are_copied() -> None:
    x = np.arange(4)
    base = np.arange(6)
    view = np.arange(6).reshape(2, 3)
    values = x, x, base[:2], view, view.T, np.broadcast_to(np.zeros(1), 3), np.float32(2), None
    actual = detached(values)
    for value, result in zip(values, actual, strict=True):
        if value is not None:
            assert type(result) is np.ndarray
            assert result.flags.writeable
            assert result.flags.c_contiguous
            assert not np.shares_memory(result, value)
            assert np.array_equal(result, value)
    assert actual[-1] is None


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


#: Programs that write over an operand that nothing needs afterwards, of int32[4], while something can still see it:
#: text, and the results for operand [0, 1, 2, 3], place 1 and update [9].
WRITING = {
    "an argument": ("%r = PUT %x, %u, %at\nRETURN %r", [[0, 9, 2, 3]]),
    "an argument that is a result too": ("%r = PUT %x, %u, %at\nRETURN %r, %x", [[0, 9, 2, 3], [0, 1, 2, 3]]),
    "a value by another name": (
        "%y = stablehlo.add %x, %x : T\n%z = stablehlo.optimization_barrier %y : T\n"
        "%r = PUT %z, %u, %at\nRETURN %r, %y",
        [[0, 9, 4, 6], [0, 2, 4, 6]],
    ),
    "a view": (
        "%y = stablehlo.add %x, %x : T\n%v = stablehlo.reshape %y : (T) -> tensor<2x2xi32>\n"
        "%z = stablehlo.reshape %v : (tensor<2x2xi32>) -> T\n%r = PUT %z, %u, %at\nRETURN %r, %y",
        [[0, 9, 4, 6], [0, 2, 4, 6]],
    ),
    "a constant": (
        "%y = stablehlo.constant dense<[5, 6, 7, 8]> : T\n%r = PUT %y, %u, %at\nRETURN %r",
        [[5, 9, 7, 8]],
    ),
    "a value in a tuple": (
        "%y = stablehlo.add %x, %x : T\n%t = stablehlo.tuple %y, %y : tuple<T, T>\n"
        "%a = stablehlo.get_tuple_element %t[0] : (tuple<T, T>) -> T\n%r = PUT %a, %u, %at\n"
        "%b = stablehlo.get_tuple_element %t[1] : (tuple<T, T>) -> T\nRETURN %r, %b",
        [[0, 9, 4, 6], [0, 2, 4, 6]],
    ),
    "a captured value": (
        "%y = stablehlo.add %x, %x : T\n"
        """%c = "stablehlo.case"(%at) ({ stablehlo.return %y : T }, {
          %z = stablehlo.optimization_barrier %y : T
          %p = PUT %z, %u, %at
          stablehlo.return %p : T }) : (tensor<i32>) -> T\n"""
        "RETURN %c, %y",
        [[0, 9, 4, 6], [0, 2, 4, 6]],
    ),
}


@pytest.mark.parametrize("without", ["", "scalars", "tables,blocks,scalars,compiled,heap,threads"])
@pytest.mark.parametrize("case", WRITING)
def test_nothing_that_can_be_seen_is_written_over(case: str, without: str) -> None:
    body, wanted = WRITING[case]
    lines = []
    for line in body.split("\n"):
        head, put, rest = line.partition("PUT ")
        if put:
            line = f"{head}stablehlo.dynamic_update_slice {rest} : (T, tensor<1xi32>, tensor<i32>) -> T"
        if line.startswith("RETURN "):
            line = f"return {line[7:]} : {', '.join(['T'] * len(wanted))}"
        lines.append(line)
    text = "\n".join(lines)
    results = ", ".join(["T"] * len(wanted))
    text = f"func.func @main(%x: T, %u: tensor<1xi32>, %at: tensor<i32>) -> ({results}) {{\n{text}\n}}"
    program = interp.load(text.replace("T", "tensor<4xi32>").replace("RETURN", "return"), without=without)
    x, u, at = np.arange(4, dtype=np.int32), np.array([9], np.int32), np.array(1, np.int32)
    before: list[Any] = []
    for _ in range(3):
        before.append(program(x, u, at))
        assert x.tolist() == [0, 1, 2, 3]
        assert [[r.tolist() for r in results] for results in before] == [wanted] * len(before)


@pytest.mark.parametrize("without", ["", "scalars", "tables,blocks,scalars,compiled,heap,threads"])
@pytest.mark.parametrize("twice", [False, True])
def test_loops_write_over_what_is_theirs(twice: bool, without: str) -> None:
    """A loop puts its counter at each place; the other value it carries starts as the same array, and may end so."""
    t = "tensor<4xi32>"
    other = "%p" if twice else "%b"
    text = f"""func.func @main(%x: {t}) -> ({t}, {t}, {t}) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %y = stablehlo.add %x, %x : {t}
      %w:3 = stablehlo.while(%i = %zero, %a = %y, %b = %y) : tensor<i32>, {t}, {t} cond {{
        %four = stablehlo.constant dense<4> : tensor<i32>
        %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %i, %one : tensor<i32>
        %u = stablehlo.reshape %next : (tensor<i32>) -> tensor<1xi32>
        %p = stablehlo.dynamic_update_slice %a, %u, %i : ({t}, tensor<1xi32>, tensor<i32>) -> {t}
        stablehlo.return %next, %p, {other} : tensor<i32>, {t}, {t}
      }}
      return %w#1, %w#2, %y : {t}, {t}, {t}
    }}""".replace("%n, %a, %b = stablehlo.while", "%w:3 = stablehlo.while").replace(
        "return %a, %b, %y", "return %w#1, %w#2, %y"
    )
    program, x = interp.load(text, without=without), np.arange(4, dtype=np.int32)
    results = [[r.tolist() for r in program(x)] for _ in range(2)]
    assert results == [[[1, 2, 3, 4], [1, 2, 3, 4] if twice else [0, 2, 4, 6], [0, 2, 4, 6]]] * 2
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("body", ["add %x, %x", "exponential %x"])
@pytest.mark.parametrize("t", ["f32", "bf16", "f16", "f8E4M3FN"])
def test_large_results_begin_at_a_line_of_the_cache(t: str, body: str) -> None:
    """So JAX takes them as they are."""
    v = f"tensor<600x500x{t}>"
    program = interp.load(f"func.func @f(%x: {v}) -> {v} {{ %0 = stablehlo.{body} : {v}\n return %0 : {v} }}")
    x = np.ones((600, 500), np.float32).astype(ELEMENT_TYPES[t].dtype)
    for _ in range(3):
        (result,) = machine.run(program.plan(), [x])
        assert result.ctypes.data % 64 == 0
        assert result.shape == x.shape
        assert result.flags.writeable


def test_what_an_aligned_array_shares_is_copied() -> None:
    x = empty((300, 300), np.dtype(np.float32))
    assert x.ctypes.data % 64 == 0
    assert own(x) is x
    part = x[:50]
    assert own(x) is not x
    assert own(part) is not part


def test_work_that_is_done_keeps_no_arrays() -> None:
    """Else a result would count as shared, and be copied."""
    for _ in range(20):
        x = np.zeros(8)

        def work(i: int, x: np.ndarray = x) -> None:
            x[i] = i

        with entered(Speed(threads=2)):
            for_each(range(8), work, 1 << 20)
        before = weakref.ref(x)
        del x, work
        assert before() is None


def test_a_view_of_what_a_loop_changes_is_dropped_before() -> None:
    """So that no turn copies the array for it."""

    def turn(c: Any, place: Any) -> Any:
        return jax.lax.dynamic_update_slice(c, c[:3] * 2, (place,)), None

    def f(x: Any, places: Any) -> Any:
        return jax.lax.scan(turn, x, places)[0]

    x, places = np.arange(5000, dtype=np.float32), np.arange(0, 200, 2, dtype=np.int32)
    program = interp.load(jax.jit(f).lower(x, places))
    expected = x.copy()
    for place in places:
        expected[place : place + 3] = expected[:3] * 2
    assert np.array_equal(np.asarray(program(x, places)[0]), expected)
    assert np.array_equal(x, np.arange(5000))
    (turns,) = [s.text.splitlines() for s in program.plan().sources.values() if s.label == "turns"]
    sliced, changed = (next(i for i, line in enumerate(turns) if mark in line) for mark in ("(v0)", "] = "))
    view = turns[sliced].split()[0]
    assert any(line.strip() == f"del {view}" for line in turns[sliced:changed])


@pytest.mark.parametrize("shape", [(200, 300), (1024, 130), (130, 1024), (127, 500), (0, 300), (300, 1), (4, 200, 300)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float64])
def test_what_lies_across_is_laid_out(shape: tuple[int, ...], dtype: type) -> None:
    x = (np.arange(int(np.prod(shape))) % 251).astype(dtype).reshape(shape)
    for view in (x, x.T, x[::-1].T, x.T[1:], x[..., ::2].swapaxes(-1, -2)):
        result = in_order(view)
        assert result.flags.c_contiguous
        assert not np.shares_memory(result, view)
        assert result.tolist() == view.tolist()
