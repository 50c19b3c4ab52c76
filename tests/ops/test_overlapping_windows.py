"""Large windows that overlap, and bodies that choose or do not mix: the bits of folds in order, without their time."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.types import ELEMENT_TYPES

COUNT = 300


def windows(element: str, body: str, padding: tuple[int, int], count: int = COUNT, window: int = COUNT) -> Any:
    results = count + sum(padding) - window + 1
    run = interp.load(f"""func.func @main(%a: tensor<{count}x3x{element}>, %i: tensor<{element}>)
        -> tensor<{results}x3x{element}> {{
      %r = "stablehlo.reduce_window"(%a, %i) ({{
      ^bb0(%x: tensor<{element}>, %y: tensor<{element}>):
        {body.replace("T", f"tensor<{element}>")}
        stablehlo.return %z : tensor<{element}>
      }}) {{window_dimensions = array<i64: {window}, 1>, padding = dense<[{list(padding)}, [0, 0]]> : tensor<2x2xi64>}}
        : (tensor<{count}x3x{element}>, tensor<{element}>) -> tensor<{results}x3x{element}>
      return %r : tensor<{results}x3x{element}> }}""")
    return lambda *arrays: run(*arrays)[0]


def random_values(element: str, seed: int) -> np.ndarray:
    rng, t = np.random.default_rng(seed), ELEMENT_TYPES[element]
    if t.is_float:
        return (rng.standard_normal((COUNT, 3)) * 4).astype(t.dtype)
    return rng.integers(0, 2 ** min(t.bits - 1, 31), (COUNT, 3)).astype(t.dtype)


def folded_forward(step: Any, x: np.ndarray, init: Any) -> np.ndarray:
    """The accumulators of a fold from the left, after each element."""
    total, result = np.broadcast_to(init, x.shape[1:]), []
    for row in x:
        total = step(total, row).astype(x.dtype)
        result.append(total)
    return np.array(result)


@pytest.mark.parametrize(
    "element", ["f64", "f32", "bf16", "f16", "f8E5M2", "f8E4M3FNUZ", "f4E2M1FN", "i32", "ui8", "i4"]
)
@pytest.mark.parametrize("op", ["add", "multiply"])
@pytest.mark.parametrize("count", [COUNT, 90])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_prefixes_are_the_steps_of_one_fold(element: str, op: str, count: int) -> None:
    x, body = random_values(element, 1), f"%z = stablehlo.{op} %x, %y : T"
    init = np.array(0 if op == "add" else 1).astype(x.dtype)
    wide = np.int64 if element[0] in "iu" else np.float64 if element == "f64" else np.float32
    shift = 64 - ELEMENT_TYPES[element].bits

    def step(total: np.ndarray, row: np.ndarray) -> np.ndarray:
        value = getattr(np, op)(total.astype(wide), row.astype(wide))
        return value << shift >> shift if element == "i4" else value

    x = x[:count]
    actual = windows(element, body, (count - 1, 0), count, count)(x, init)
    np.testing.assert_array_equal(actual.astype(wide), folded_forward(step, x, init).astype(wide))
    if count > 128:  # smaller ones are folded from the left
        actual = windows(element, body, (0, count - 1), count, count)(x, init)
        np.testing.assert_array_equal(actual.astype(wide), folded_forward(step, x[::-1], init)[::-1].astype(wide))


def test_operands_of_prefixes_keep_their_places() -> None:
    """subtract does not commute: what follows is folded from the right, x - (y - (z - init))."""
    x, body = random_values("f8E5M2", 2), "%z = stablehlo.subtract %x, %y : T"
    init = np.array(0).astype(x.dtype)
    expected = folded_forward(lambda t, row: t.astype(np.float32) - row.astype(np.float32), x, init)
    actual = windows("f8E5M2", body, (COUNT - 1, 0))(x, init)
    np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))
    expected = folded_forward(lambda t, row: row.astype(np.float32) - t.astype(np.float32), x[::-1], init)[::-1]
    actual = windows("f8E5M2", body, (0, COUNT - 1))(x, init)
    np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))


def test_an_initial_value_that_padding_changes() -> None:
    """Padding of ones is counted: window i has COUNT - 1 - i of them, and the initial value."""
    x, one = random_values("i32", 3), np.array(1, np.int32)
    actual = windows("i32", "%z = stablehlo.add %x, %y : T", (COUNT - 1, 0))(x, one)
    padding = COUNT - np.arange(COUNT)
    np.testing.assert_array_equal(actual, np.cumsum(x, 0, np.int32) + padding[:, None].astype(np.int32))


@pytest.mark.parametrize("window", [129, 192, 255, 256, 300])
@pytest.mark.parametrize("padding", [(0, 0), (128, 0), (0, 128), (100, 50), (-20, -3)])
def test_sliding_windows_keep_the_order_of_their_elements(window: int, padding: tuple[int, int]) -> None:
    """Maps x -> a * x + b modulo 2**32: composing them is associative, and does not commute."""
    count, results = 600, 600 + sum(padding) - window + 1
    t, rng = "tensor<ui32>", np.random.default_rng(4)
    run = interp.load(f"""func.func @main(%a: tensor<{count}xui32>, %b: tensor<{count}xui32>, %i: {t}, %j: {t})
        -> (tensor<{results}xui32>, tensor<{results}xui32>) {{
      %r:2 = "stablehlo.reduce_window"(%a, %b, %i, %j) ({{
      ^bb0(%a0: {t}, %b0: {t}, %a1: {t}, %b1: {t}):
        %p = stablehlo.multiply %a0, %a1 : {t}
        %q = stablehlo.multiply %a1, %b0 : {t}
        %s = stablehlo.add %q, %b1 : {t}
        stablehlo.return %p, %s : {t}, {t}
      }}) {{window_dimensions = array<i64: {window}>, padding = dense<[{list(padding)}]> : tensor<1x2xi64>}}
        : (tensor<{count}xui32>, tensor<{count}xui32>, {t}, {t}) -> (tensor<{results}xui32>, tensor<{results}xui32>)
      return %r#0, %r#1 : tensor<{results}xui32>, tensor<{results}xui32> }}""")
    a, b = (rng.integers(0, 1 << 32, count, np.uint32) for _ in range(2))
    actual = run(a, b, np.uint32(3), np.uint32(5))

    def padded(values: np.ndarray, fill: int) -> list[int]:
        low, high = padding
        kept = values[max(-low, 0) : count - max(-high, 0)].tolist()
        return [fill] * max(low, 0) + kept + [fill] * max(high, 0)

    pairs, expected = list(zip(padded(a, 3), padded(b, 5), strict=True)), []
    for first in range(results):
        p, q = 3, 5
        for x, y in pairs[first : first + window]:
            p, q = p * x % 2**32, (q * x + y) % 2**32
        expected.append((p, q))
    assert list(zip(*(r.tolist() for r in actual), strict=True)) == expected


def test_sums_of_sliding_windows_are_sums_in_some_order() -> None:
    """Within 8 roundings, which a tree of 200 elements and the initial value has on each path, of the exact sum."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((COUNT, 3)).astype(np.float32)
    actual = windows("f32", "%z = stablehlo.add %x, %y : T", (0, 0), COUNT, 200)(x, np.float32(0.5))
    for i, row in enumerate(actual):
        for j, value in enumerate(row):
            terms = [Fraction(float(v)) for v in x[i : i + 200, j]]
            exact, size = sum(terms) + Fraction(1, 2), sum(map(abs, terms)) + Fraction(1, 2)
            assert abs(Fraction(float(value)) - exact) <= 16 * size * Fraction(1, 1 << 24)


@pytest.mark.parametrize("body", ["%p, %c", "%c, %c", "%s, %c"])
def test_bodies_that_return_what_is_outside(body: str) -> None:
    """A constant from outside is no choice among the arguments, and its part needs no fold."""
    n, t = 500, "tensor<i32>"
    run = interp.load(f"""func.func @main(%a: tensor<{n}xi32>, %i: {t}) -> ({t}, {t}) {{
      %c = stablehlo.constant dense<7> : {t}
      %r:2 = "stablehlo.reduce"(%a, %a, %i, %i) ({{
      ^bb0(%p: {t}, %q: {t}, %x: {t}, %y: {t}):
        {"%s = stablehlo.add %p, %x : tensor<i32>" if "%s" in body else ""}
        stablehlo.return {body} : {t}, {t}
      }}) {{dimensions = array<i64: 0>}} : (tensor<{n}xi32>, tensor<{n}xi32>, {t}, {t}) -> ({t}, {t})
      return %r#0, %r#1 : {t}, {t} }}""")
    first = {"%p, %c": 3, "%c, %c": 7, "%s, %c": 3 + n * (n - 1) // 2}[body]
    assert [int(v) for v in run(np.arange(n, dtype=np.int32), np.int32(3))] == [first, 7]


def test_windows_beyond_memory_are_refused() -> None:
    run = windows("i32", "%z = stablehlo.add %x, %y : T", (10**12, 10**12), window=10**12)
    with pytest.raises(interp.ResourceError, match="reduce_window"):
        run(np.zeros((COUNT, 3), np.int32), np.int32(0))
