"""Values that loops and branches overwrite: nothing that the program or its caller can still see changes."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp

SIZE, ITERATIONS = 90, 60


def _swapped(c: Any, i: Any, j: Any) -> Any:
    return c.at[i].set(c[j]).at[j].set(c[i])


def _in_a_branch(c: Any, i: Any, j: Any) -> Any:
    return lax.cond(i % 3 > 0, lambda c: c.at[i].set(c[j] * 2), lambda c: c, c)


def _twice_in_branches(c: Any, i: Any, j: Any) -> Any:
    c = lax.cond(i > j, lambda c: _swapped(c, i, j), lambda c: c.at[j].add(1), c)
    return lax.switch(i % 3, [lambda c: c, lambda c: c.at[i].set(c[0]), lambda c: _swapped(c, i, j)], c)


def _read_before_a_branch(c: Any, i: Any, j: Any) -> Any:
    window = lax.dynamic_slice(c, (j,), (4,))
    c = lax.cond(i % 2 == 0, lambda c: c.at[i].set(-5), lambda c: _swapped(c, i, j), c)
    return lax.dynamic_update_slice(c, window + 1, (i,))


def _read_after_a_branch(c: Any, i: Any, j: Any) -> Any:
    changed = lax.cond(i % 2 == 0, lambda c: c.at[i].set(-5), lambda c: c, c)
    return changed.at[j].set(c[i])


def _selected(c: Any, i: Any, j: Any) -> Any:
    c = jnp.where(i > j, c.at[i].set(-c[j]), c)
    c = jnp.where(i % 2 == 0, c, lax.dynamic_update_slice(c, c[3:6] + 1, (j,)))
    both = c.at[i].set(7).at[jnp.stack([j, i, j + 60])].add(1)
    return jnp.where(i % 3 == 0, lax.dynamic_update_slice(both, c[:4], (j,)), c)


def _in_an_inner_loop(c: Any, i: Any, j: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < i % 4, lambda s: (s[0] + 1, _swapped(s[1], j, s[0])), (0, c))[1]


def _in_a_condition(c: Any, i: Any, j: Any) -> Any:
    goes_on = lambda s: (s[0] < 3) & (lax.dynamic_update_slice(s[1], s[1][:1] * 0 + 9, (j,)).sum() < 4100)  # noqa: E731
    return lax.while_loop(goes_on, lambda s: (s[0] + 1, s[1].at[i].add(1)), (0, c))[1]


def _read_and_written(c: Any, i: Any, j: Any) -> Any:
    old = c[i]
    return c.at[i].set(c[(i + 1) % SIZE] + 1).at[j].add(old * 10 + c[j] + lax.dynamic_slice(c, (j,), (3,)).sum())


STEPS = (_swapped, _in_a_branch, _twice_in_branches, _read_before_a_branch, _read_after_a_branch, _selected,
         _in_an_inner_loop, _in_a_condition, _read_and_written)  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_arrays_are_changed_as_by_jax(step: Callable[..., Any]) -> None:
    """JAX's CPU backend; integers, so that every result is exact."""
    first = np.arange(SIZE, dtype=np.int32)
    places = np.random.default_rng(3).integers(0, SIZE, 2 * ITERATIONS, np.int32)

    def function(c: Any, places: Any) -> Any:
        def body(k: Any, s: Any) -> Any:
            return step(s[0], places[k], places[k + ITERATIONS]), s[1] + s[0]

        return lax.fori_loop(0, ITERATIONS, body, (c, c))

    lowered, kept = jax.jit(function).lower(first, places), first.copy()
    program = interp.load(lowered.as_text())
    expected = [np.asarray(r).tolist() for r in lowered.compile()(first, places)]
    for _ in range(2):
        assert [np.asarray(r).tolist() for r in program(first, places)] == expected
    assert first.tolist() == kept.tolist()


def _written_in_an_inner_loop(c: Any, i: Any, j: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < i % 4, lambda s: (s[0] + 1, s[1].at[i].add(s[1][j])), (0, c))[1]


@pytest.mark.parametrize("step", [_in_a_branch, _written_in_an_inner_loop])
def test_an_iteration_does_not_copy_the_array(step: Callable[..., Any]) -> None:
    """The argument is copied once, before the first iteration."""
    function = jax.jit(lambda c: lax.fori_loop(0, 40, lambda k, c: step(c, k * 7 % 1000, k * 3 % 100), c))
    first = np.zeros(1_000_000, np.int32)
    program = interp.load(function.lower(first).as_text())
    program(first)
    tracemalloc.start()
    program(first)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * first.nbytes


#: Programs that overwrite an operand that nothing needs afterwards, of int32[4], while something can still see it:
#: text, and the results for operand [0, 1, 2, 3], place 1 and update [9].
OVERWRITING = {
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
    "a constant": ("%y = stablehlo.constant dense<[5, 6, 7, 8]> : T\n%r = PUT %y, %u, %at\nRETURN %r", [[5, 9, 7, 8]]),
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


@pytest.mark.parametrize("case", OVERWRITING)
def test_nothing_that_can_be_seen_is_overwritten(case: str) -> None:
    body, wanted = OVERWRITING[case]
    lines = []
    for line in body.split("\n"):
        head, put, rest = line.partition("PUT ")
        if put:
            line = f"{head}stablehlo.dynamic_update_slice {rest} : (T, tensor<1xi32>, tensor<i32>) -> T"
        if line.startswith("RETURN "):
            line = f"return {line[7:]} : {', '.join(['T'] * len(wanted))}"
        lines.append(line)
    results, text = ", ".join(["T"] * len(wanted)), "\n".join(lines)
    text = f"func.func @main(%x: T, %u: tensor<1xi32>, %at: tensor<i32>) -> ({results}) {{\n{text}\n}}"
    program = interp.load(text.replace("T", "tensor<4xi32>"))
    x, u, at = np.arange(4, dtype=np.int32), np.array([9], np.int32), np.array(1, np.int32)
    before: list[Any] = []
    for _ in range(3):
        before.append(program(x, u, at))
        assert x.tolist() == [0, 1, 2, 3]
        assert [[r.tolist() for r in results] for results in before] == [wanted] * len(before)


@pytest.mark.parametrize("twice", [False, True])
def test_loops_overwrite_their_own_values(twice: bool) -> None:
    """A loop puts its counter at each place; the other value it carries starts as the same array, and may end so."""
    t, other = "tensor<4xi32>", "%p" if twice else "%b"
    text = f"""func.func @main(%x: {t}, %n: tensor<i32>) -> ({t}, {t}, {t}) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %y = stablehlo.add %x, %x : {t}
      %w:3 = stablehlo.while(%i = %zero, %a = %y, %b = %y) : tensor<i32>, {t}, {t} cond {{
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %i, %one : tensor<i32>
        %u = stablehlo.reshape %next : (tensor<i32>) -> tensor<1xi32>
        %p = stablehlo.dynamic_update_slice %a, %u, %i : ({t}, tensor<1xi32>, tensor<i32>) -> {t}
        stablehlo.return %next, %p, {other} : tensor<i32>, {t}, {t}
      }}
      return %w#1, %w#2, %y : {t}, {t}, {t}
    }}"""
    program, x = interp.load(text), np.arange(4, dtype=np.int32)
    for count, wanted in ((0, [0, 2, 4, 6]), (2, [1, 2, 4, 6]), (4, [1, 2, 3, 4]), (6, [1, 2, 3, 6])):
        for _ in range(2):
            results = [r.tolist() for r in program(x, np.int32(count))]
            assert results == [wanted, wanted if twice else [0, 2, 4, 6], [0, 2, 4, 6]]
    assert x.tolist() == [0, 1, 2, 3]


def test_an_array_of_which_both_states_are_needed_is_copied() -> None:
    def step(i: Any, carried: Any) -> Any:
        x, _ = carried
        return x.at[i, i].set(x[i, i] * 2 + 1), x

    x = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    after, before = interp.jit(lambda x: lax.fori_loop(0, 4, step, (x, x)))(x)
    expected = previous = x.copy()
    for i in range(4):
        previous = expected.copy()
        expected[i, i] = expected[i, i] * 2 + 1
    assert np.asarray(after).tobytes() == expected.tobytes()
    assert np.asarray(before).tobytes() == previous.tobytes()


def test_a_caller_who_overwrites_results_does_not_change_the_program() -> None:
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


@pytest.mark.parametrize("t", ["f32", "f8E4M3FN"])
def test_a_select_of_one_operand_is_not_that_operand(t: str) -> None:
    """A choice between a value and itself, or one that is all of one operand, is overwritten by none."""
    v, p = f"tensor<600x{t}>", "tensor<600xi1>"
    text = f"""func.func @main(%x: {v}, %y: {v}, %p: {p}) -> {v} {{
      %s = stablehlo.select %p, %y, %x : {p}, {v}
      %t = stablehlo.select %p, %s, %s : {p}, {v}
      %u = stablehlo.add %t, %y : {v}
      %w = stablehlo.multiply %u, %x : {v}
      return %w : {v}
    }}"""
    x, y = (np.arange(600) % 7).astype(interp.cast([0], t).dtype), np.full(600, 2, interp.cast([0], t).dtype)
    program = interp.load(text)
    for chosen in (np.zeros(600, bool), np.ones(600, bool), np.arange(600) % 3 > 0):
        before = x.tobytes(), y.tobytes()
        (found,) = program(x, y, chosen)
        assert np.asarray(found).tobytes() == ((np.where(chosen, y, x) + y) * x).tobytes()
        assert (x.tobytes(), y.tobytes()) == before
