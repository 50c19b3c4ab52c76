"""Sliding windows against plain loops written from the specification, the reference interpreter, ml_dtypes and JAX."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import load
from minihlo.ops import window as window_module
from minihlo.ops.policy import Policy
from minihlo.ops.registry import Body, Call, OpError, lookup
from minihlo.ops.types import ELEMENT_TYPES, TensorType
from minihlo.ops.window import Axis, blocks, windows

from . import reference
from .places import dims
from .run_op import TYPES, codes, from_codes, tensor

SEED = 21
Combine = Callable[[Any, Any], Any]
Shape = tuple[int, ...]

#: Bodies that compute %z from %x, what there is so far, and %y, the next element.
BODIES: dict[str, tuple[str, Combine]] = {
    "add": ("%z = stablehlo.add %x, %y : T", lambda x, y: x + y),
    "maximum": ("%z = stablehlo.maximum %x, %y : T", max),
    "subtract": ("%z = stablehlo.subtract %x, %y : T", lambda x, y: x - y),
    "two ops": ("%t = stablehlo.add %x, %x : T\n %z = stablehlo.subtract %t, %y : T", lambda x, y: 2 * x - y),
    "constant": ("%z = stablehlo.constant dense<7> : T", lambda x, y: 7),
    "not elementwise": (
        "%t = stablehlo.reshape %x : (T) -> tensor<1xi32>\n %s = stablehlo.reshape %t : (tensor<1xi32>) -> T\n"
        " %z = stablehlo.subtract %y, %s : T",
        lambda x, y: y - x,
    ),
}


@dataclasses.dataclass
class Windows:
    """The attributes, and what they mean by the specification's formulas."""

    shape: Shape
    window: Shape
    strides: Shape
    padding: tuple[tuple[int, int], ...]
    base: Shape
    dilation: Shape

    @property
    def counts(self) -> Shape:
        found = []
        for d, size in enumerate(self.shape):
            dilated = (size - 1) * self.base[d] + 1 if size else 0
            padded = self.padding[d][0] + dilated + self.padding[d][1]
            reach = (self.window[d] - 1) * self.dilation[d] + 1
            found.append(0 if padded <= 0 or reach > padded else (padded - reach) // self.strides[d] + 1)
        return tuple(found)

    def element(self, start: Shape, index: Shape) -> Shape | None:
        """Where the element of a window is in the operand; None for padding."""
        found = []
        for d, size in enumerate(self.shape):
            place = start[d] * self.strides[d] + index[d] * self.dilation[d] - self.padding[d][0]
            if place % self.base[d] or not 0 <= place // self.base[d] < size:
                return None
            found.append(place // self.base[d])
        return tuple(found)

    @property
    def attributes(self) -> str:
        lists = {"window_dimensions": self.window, "window_strides": self.strides, "base_dilations": self.base,
                 "window_dilations": self.dilation}  # fmt: skip
        text = [f"{name} = array<i64: {', '.join(map(str, v))}>" for name, v in lists.items()]
        text.append(f"padding = dense<{[list(p) for p in self.padding]}> : tensor<{len(self.shape)}x2xi64>")
        joined = ", ".join(text).replace("<i64: >", "<i64>")
        return joined if self.shape else joined.replace("dense<[]>", "dense<>")


def random_windows(rng: np.random.Generator, empty: bool = False, plain: bool = False) -> Windows:
    """`plain` is without dilation."""
    rank = int(rng.integers(0, 4))
    shape, *lists = (
        tuple(int(n) for n in rng.integers(low, high, rank))
        for low, high in ((0 if empty else 1, 6), (1, 4), (1, 4), (1, 2 if plain else 4), (1, 2 if plain else 4))
    )
    padding = tuple((int(a), int(b)) for a, b in rng.integers(-1, 4, (rank, 2)))
    return Windows(shape, lists[0], lists[1], padding, lists[2], lists[3])


def program(w: Windows, body: str, element: str = "i32", wide: str = "") -> str:
    wide = wide or element
    operand, result = f"tensor<{dims(w.shape)}{element}>", f"tensor<{dims(w.counts)}{wide}>"
    body = re.sub(r"\bT\b", f"tensor<{wide}>", body)
    return f"""
    func.func @main(%a: {operand}, %i: tensor<{element}>) -> {result} {{
      %r = "stablehlo.reduce_window"(%a, %i) ({{
      ^bb0(%x: tensor<{wide}>, %y: tensor<{wide}>):
        {body}
        stablehlo.return %z : tensor<{wide}>
      }}) {{{w.attributes}}} : ({operand}, tensor<{element}>) -> {result}
      return %r : {result}
    }}"""


def by_formula(x: np.ndarray, init: Any, w: Windows, combine: Combine) -> np.ndarray:
    result = np.empty(w.counts, x.dtype)
    for start in np.ndindex(w.counts):
        total = init
        for index in np.ndindex(w.window):
            at = w.element(start, index)
            with np.errstate(all="ignore"):
                total = combine(total, init if at is None else x[at])
        result[start] = total
    return result


def random_case(rng: np.random.Generator, **how: bool) -> tuple[Windows, np.ndarray, np.ndarray]:
    w = random_windows(rng, **how)
    return w, rng.integers(-9, 10, w.shape, np.int32), np.array(rng.integers(-3, 4), np.int32)


def wrapped(combine: Combine) -> Combine:
    return lambda x, y: np.int64(combine(int(x), int(y))).astype(np.int32)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_any_windows(name: str, empty: bool) -> None:
    rng = np.random.default_rng(SEED)
    body, combine = BODIES[name]
    for _ in range(15 if empty else 40):
        w, x, init = random_case(rng, empty=empty)
        (found,) = load(program(w, body))(x, init)
        np.testing.assert_array_equal(found, by_formula(x, init, w, wrapped(combine)), err_msg=str(w))


def test_against_the_reference_interpreter() -> None:
    rng = np.random.default_rng(SEED + 1)
    cases = [(name, *random_case(rng)) for name in ("add", "subtract", "two ops", "maximum") for _ in range(15)]
    cases = [c for c in cases if all(c[1].counts)]  # it aborts where padding cuts off all there is
    programs = [program(w, BODIES[name][0]) for name, w, *_ in cases]
    expected = reference.evaluate([(p, arrays) for p, (_, _, *arrays) in zip(programs, cases, strict=True)])
    for p, (name, w, *arrays), (result,) in zip(programs, cases, expected, strict=True):
        np.testing.assert_array_equal(load(p)(*arrays)[0], result, err_msg=f"{name} {w}")


def test_against_jax() -> None:
    rng = np.random.default_rng(SEED + 2)
    # JAX forgets the initial value where there is no dimension.
    cases = [c for c in (random_case(rng) for _ in range(40)) if c[0].shape and all(c[0].counts)]
    floats = [rng.integers(-9, 10, w.shape).astype(np.float32) for w, *_ in cases]  # sums of which are exact

    @jax.jit
    def all_of_them() -> list[jax.Array]:
        return [
            jax.lax.reduce_window(
                v, i.astype(v.dtype) * (f is jax.lax.max), f, w.window, w.strides, w.padding, w.base, w.dilation
            )
            for (w, x, i), y in zip(cases, floats, strict=True)
            for v, f in ((x, jax.lax.max), (y, jax.lax.add))
        ]

    found = [
        load(program(w, BODIES[name][0], element))(v, np.array(i * (name == "maximum"), v.dtype))[0]
        for (w, x, i), y in zip(cases, floats, strict=True)
        for v, name, element in ((x, "maximum", "i32"), (y, "add", "f32"))
    ]
    for mine, expected in zip(found, all_of_them(), strict=True):
        np.testing.assert_array_equal(mine, expected)


POOL = Windows((1, 17, 14), (1, 3, 2), (1, 2, 1), ((0, 0), (1, 1), (0, 1)), (1, 1, 1), (1, 1, 2))


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_float and t.bits <= 16], ids=str)
@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "multiply"])
@pytest.mark.parametrize("at_once_from", [0, 1 << 10])
def test_small_floats(at_once_from: int, element: Any, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every code, rounded at every step as ml_dtypes' scalars are, but for which NaN and the sign of zero."""
    monkeypatch.setattr(window_module, "_MANY", at_once_from)
    if element.name == "f8E8M0FNU":
        pytest.skip("ml_dtypes has other ideas of what vanishes")
    rng = np.random.default_rng(SEED)
    x = from_codes(rng.permutation(238) if element.bits <= 8 else rng.integers(0, 1 << 16, 238), element)
    x = x.reshape(POOL.shape)
    init = np.array(1).astype(x.dtype)
    if element.bits < 8:
        x = np.where(rng.random(x.shape) < 0.5, init, x)
    (found,) = load(program(POOL, BODIES.get(op, (f"%z = stablehlo.{op} %x, %y : T",))[0], str(element)))(x, init)
    expected = by_formula(x, init[()], POOL, getattr(np, op))
    assert found.dtype == expected.dtype
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_several_operands() -> None:
    """The greatest of each window and where it is; the first of equals."""
    text = """func.func @main(%a: tensor<8xf8E5M2>, %b: tensor<8xi32>, %i: tensor<f8E5M2>, %j: tensor<i32>)
        -> (tensor<6xf8E5M2>, tensor<6xi32>) {
      %r:2 = "stablehlo.reduce_window"(%a, %b, %i, %j) ({
      ^bb0(%w: tensor<f8E5M2>, %x: tensor<i32>, %y: tensor<f8E5M2>, %z: tensor<i32>):
        %c = stablehlo.compare GE, %w, %y : (tensor<f8E5M2>, tensor<f8E5M2>) -> tensor<i1>
        %0 = stablehlo.select %c, %w, %y : tensor<i1>, tensor<f8E5M2>
        %1 = stablehlo.select %c, %x, %z : tensor<i1>, tensor<i32>
        stablehlo.return %0, %1 : tensor<f8E5M2>, tensor<i32>
      }) {window_dimensions = array<i64: 3>}
        : (tensor<8xf8E5M2>, tensor<8xi32>, tensor<f8E5M2>, tensor<i32>) -> (tensor<6xf8E5M2>, tensor<6xi32>)
      return %r#0, %r#1 : tensor<6xf8E5M2>, tensor<6xi32> }"""
    dtype = ml_dtypes.float8_e5m2
    x = np.array([1, 3, 3, 2, 0, -1, 0, 5]).astype(dtype)
    arrays = x, np.arange(8, dtype=np.int32), np.array(-np.inf).astype(dtype), np.array(-1, np.int32)
    best, place = load(text)(*arrays)
    assert best.astype(float).tolist() == [3, 3, 3, 2, 0, 5]
    assert place.tolist() == [1, 1, 2, 3, 4, 7]


def test_a_wider_body() -> None:
    w = Windows((6,), (3,), (1,), ((0, 0),), (1,), (1,))
    (found,) = load(program(w, BODIES["add"][0], "i8", wide="i32"))(np.full(6, 127, np.int8), np.array(1, np.int8))
    assert found.dtype == np.int32
    assert found.tolist() == [382] * 4
    x = np.full(6, 448, ml_dtypes.float8_e4m3fn)
    (found,) = load(program(w, BODIES["add"][0], "f8E4M3FN", wide="f32"))(x, x[0, ...])
    assert found.tolist() == [1792] * 4


def test_a_body_that_uses_what_is_outside() -> None:
    w = Windows((4,), (2,), (1,), ((0, 0),), (1,), (1,))
    text = program(w, "%t = stablehlo.multiply %y, %f : T\n %z = stablehlo.add %x, %t : T")
    text = text.replace("%i: tensor<i32>)", "%i: tensor<i32>, %f: tensor<i32>)")
    found = load(text)(np.arange(4, dtype=np.int32), np.array(1, np.int32), np.array(10, np.int32))[0]
    assert found.tolist() == [11, 31, 51]


def test_rounding() -> None:
    w = Windows((64,), (64,), (1,), ((0, 0),), (1,), (1,))
    x = np.full(64, 0.75, ml_dtypes.float8_e4m3fn)
    text = program(w, BODIES["add"][0], "f8E4M3FN")
    zero = np.zeros((), x.dtype)
    assert float(load(text)(x, zero, policy=Policy(rounding="toward_zero"))[0][0]) == 8  # 8 + 0.75 is 8 again
    assert 30 < float(load(text)(x, zero, policy=Policy(rounding="stochastic"))[0][0]) < 70


@pytest.mark.parametrize("block", [1, 5, 40])
def test_blocks_make_no_difference(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(SEED)
    monkeypatch.setattr(window_module, "_BLOCK", block)
    for name in ("subtract", "maximum"):
        for _ in range(10):
            w, x, init = random_case(rng)
            expected = by_formula(x, init, w, wrapped(BODIES[name][1]))
            np.testing.assert_array_equal(load(program(w, BODIES[name][0]))(x, init)[0], expected, err_msg=str(w))


@pytest.mark.parametrize("part", [1, 5, 1 << 15])
def test_windows_folded_all_at_once(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(SEED)
    monkeypatch.setattr(window_module, "_MANY", 0)
    monkeypatch.setattr(window_module, "_PART", part)
    for name in ("subtract", "maximum", "two ops", "constant"):
        for _ in range(10):
            w, x, init = random_case(rng)
            expected = by_formula(x, init, w, wrapped(BODIES[name][1]))
            np.testing.assert_array_equal(load(program(w, BODIES[name][0]))(x, init)[0], expected, err_msg=str(w))


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_minifloat], ids=str)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_of_several_nan_the_first_of_a_window_is_given(op: str, element: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(SEED)
    x = from_codes(rng.integers(0, 256, POOL.shape), element)
    text = program(POOL, f"%z = stablehlo.{op} %x, %y : T", str(element))
    found = []
    for many in (0, 1 << 30):
        monkeypatch.setattr(window_module, "_MANY", many)
        found.append(load(text)(x, from_codes(1, element))[0].tobytes())
    assert found[0] == found[1]


def test_blocks_cover_in_order() -> None:
    for shape in ((), (1,), (7,), (2, 3), (2, 3, 4), (5, 1, 2)):
        numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        for limit in (0, 1, 2, 5, 6, 12, 100):
            parts = [numbers[b] for b in blocks(shape, limit)]
            assert [n for p in parts for n in p.reshape(-1).tolist()] == numbers.reshape(-1).tolist()
            assert all(p.size <= max(limit, 1) for p in parts)


def test_memory_is_that_of_the_windows() -> None:
    """Far padding, dilation and strides cost nothing where no window comes to."""
    far = 10**12
    axis = Axis(3, 2, far, far, 2 * far, far // 2, far // 2)
    assert axis.count == 4
    view = windows(np.array([1, 2, 3]), 0, [axis])
    assert view.tolist() == [[0, 1, 3, 0], [0, 2, 0, 0]]
    no_copy = np.arange(12).reshape(3, 4)
    assert np.shares_memory(windows(no_copy, 0, [Axis(3, 2), Axis(4, 3)]), no_copy)


# -- select_and_scatter ------------------------------------------------------------------------------------------------

SELECTS: dict[str, Combine] = {"GE": lambda x, y: x >= y, "LT": lambda x, y: x < y, "EQ": lambda x, y: x == y}


def scatter_program(w: Windows, select: str, body: str, element: str = "i32", wide: str = "") -> str:
    e, wide = element, wide or element
    operand, source, result = (
        f"tensor<{dims(w.shape)}{e}>",
        f"tensor<{dims(w.counts)}{e}>",
        f"tensor<{dims(w.shape)}{wide}>",
    )
    attributes = re.sub(r"base_dilations = \S+ ?[\d, ]*>, window_dilations = \S+ ?[\d, ]*>, ", "", w.attributes)
    body = re.sub(r"\bT\b", f"tensor<{wide}>", body)
    return f"""
    func.func @main(%a: {operand}, %u: {source}, %i: tensor<{e}>) -> {result} {{
      %r = "stablehlo.select_and_scatter"(%a, %u, %i) ({{
      ^bb0(%x: tensor<{e}>, %y: tensor<{e}>):
        {select}
        stablehlo.return %c : tensor<i1>
      }}, {{
      ^bb0(%x: tensor<{wide}>, %y: tensor<{wide}>):
        {body}
        stablehlo.return %z : tensor<{wide}>
      }}) {{{attributes}}} : ({operand}, {source}, tensor<{e}>) -> {result}
      return %r : {result}
    }}"""


def compare(direction: str, element: str = "i32") -> str:
    t = f"tensor<{element}>"
    return f"%c = stablehlo.compare {direction}, %x, %y : ({t}, {t}) -> tensor<i1>"


def scattered(
    x: np.ndarray, source: np.ndarray, init: Any, w: Windows, select: Combine, combine: Combine
) -> np.ndarray:
    result = np.full(x.shape, init)
    for start in np.ndindex(w.counts):
        inside = [at for index in np.ndindex(w.window) if (at := w.element(start, index)) is not None]
        if inside:
            best = inside[0]
            for at in inside[1:]:
                best = best if select(x[best], x[at]) else at
            result[best] = combine(result[best], source[start])
    return result


def scatter_case(rng: np.random.Generator, empty: bool = False) -> tuple[Windows, np.ndarray, np.ndarray, np.ndarray]:
    w = random_windows(rng, empty=empty, plain=True)
    x, source = (rng.integers(-4, 5, shape, np.int32) for shape in (w.shape, w.counts))
    return w, x, source, np.array(rng.integers(-3, 4), np.int32)


@pytest.mark.parametrize("direction", SELECTS)
@pytest.mark.parametrize("name", ["add", "subtract", "two ops", "not elementwise"])
@pytest.mark.parametrize("empty", [False, True])
def test_select_and_scatter(direction: str, name: str, empty: bool) -> None:
    rng = np.random.default_rng(SEED)
    body, combine = BODIES[name]
    for _ in range(10):
        w, *arrays = scatter_case(rng, empty)
        select = compare(direction)
        if rng.random() < 0.3:  # one that takes scalars only
            select = (
                "%t = stablehlo.reshape %x : (tensor<i32>) -> tensor<1xi32>\n"
                "%v = stablehlo.reshape %t : (tensor<1xi32>) -> tensor<i32>\n"
            ) + select.replace("%x", "%v")
        (found,) = load(scatter_program(w, select, body))(*arrays)
        expected = scattered(*arrays, w, SELECTS[direction], wrapped(combine))
        np.testing.assert_array_equal(found, expected, err_msg=str(w))


def test_select_and_scatter_against_the_reference_interpreter() -> None:
    rng = np.random.default_rng(SEED + 3)
    cases = []
    for d, name in itertools.product(("GE", "LT"), ("add", "maximum")):
        for _ in range(10):
            w = random_windows(rng, plain=True)
            # It aborts on windows of nothing but padding.
            w.padding = tuple((int(rng.integers(0, n)), int(rng.integers(0, n))) for n in w.window)
            if all(w.counts):
                # It combines the initial value again with each source, which the specification allows.
                x, source = (rng.integers(-4, 5, shape, np.int32) for shape in (w.shape, w.counts))
                cases.append((d, name, w, np.asarray(x), np.asarray(source), np.zeros((), np.int32)))
    programs = [scatter_program(w, compare(d), BODIES[name][0]) for d, name, w, *_ in cases]
    expected = reference.evaluate([(p, arrays) for p, (_, _, _, *arrays) in zip(programs, cases, strict=True)])
    for p, (d, name, w, *arrays), (result,) in zip(programs, cases, expected, strict=True):
        np.testing.assert_array_equal(load(p)(*arrays)[0], result, err_msg=f"{d} {name} {w}")


def test_select_and_scatter_of_minifloats() -> None:
    """The gradient of a max pool, windows of three in steps of one, so that sources meet and are rounded each time."""
    rng = np.random.default_rng(SEED)
    w = Windows((40,), (3,), (1,), ((1, 1),), (1,), (1,))
    dtype = ml_dtypes.float8_e4m3fn
    x, source = rng.integers(-3, 4, 40).astype(dtype), rng.normal(size=40).astype(dtype)
    arrays = x, source, np.array(0.5, dtype)
    (found,) = load(scatter_program(w, compare("GE", "f8E4M3FN"), BODIES["add"][0], "f8E4M3FN"))(*arrays)
    expected = scattered(x, source, arrays[2][()], w, SELECTS["GE"], lambda a, b: a + b)
    assert codes(found).tolist() == codes(expected).tolist()
    (wide,) = load(scatter_program(w, compare("GE", "f8E4M3FN"), BODIES["add"][0], "f8E4M3FN", "f32"))(*arrays)
    wide_arrays = (v.astype(np.float32) for v in arrays)
    np.testing.assert_array_equal(wide, scattered(*wide_arrays, w, SELECTS["GE"], lambda a, b: a + b))


def test_the_gradient_of_jax_max_pool() -> None:
    def pool(x: jax.Array) -> jax.Array:
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 3, 2), (1, 2, 2), "SAME").sum()

    x = np.random.default_rng(SEED).permutation(2 * 9 * 8).reshape(2, 9, 8).astype(np.float32)
    text = jax.jit(jax.grad(pool)).lower(x).as_text()
    assert "select_and_scatter" in text
    np.testing.assert_array_equal(load(text)(x)[0], jax.grad(pool)(x))


# -- errors ------------------------------------------------------------------------------------------------------------

I32 = ELEMENT_TYPES["i32"]
ADD = Body((tensor("i32"), tensor("i32")), (tensor("i32"),), "stablehlo.add")
CHOICE = Body((tensor("i32"), tensor("i32")), (tensor("i1"),), "stablehlo.compare")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window_dimensions": (3,)}, "must have 2 numbers"),
        ({"window_strides": (1, 1, 1)}, "must have 2 numbers"),
        ({"padding": np.zeros((1, 2), int)}, "must have 4 numbers"),
        ({"window_dimensions": (0, 2)}, "must be positive"),
        ({"window_strides": (1, -1)}, "must be positive"),
        ({"base_dilations": (1, 0)}, "must be positive"),
        ({"window_dilations": (1, 0)}, "must be positive"),
        ({"window_dimensions": (2, 2)}, "result has shape"),
        ({"operands": (tensor("i32", 4, 5),)}, "initial values"),
        ({"operands": (tensor("i32", 4, 5), tensor("i8"))}, "an initial value is"),
        ({"results": (tensor("i8", 2, 5),)}, "a result is"),
        ({"bodies": ()}, "regions"),
        ({"bodies": (CHOICE,)}, "body has type"),
    ],
)
def test_errors_of_reduce_window(change: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {
        "operands": (tensor("i32", 4, 5), tensor("i32")),
        "results": (tensor("i32", 2, 5),),
        "bodies": (ADD,),
    }
    attributes = {"window_dimensions": (3, 1)}
    bind("reduce_window", attributes, **plain)
    changed = attributes | {k: v for k, v in change.items() if k not in plain}
    plain |= {k: v for k, v in change.items() if k in plain}
    with pytest.raises(OpError, match=message):
        bind("reduce_window", changed, **plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window_dimensions": (3,)}, "must have 2 numbers"),
        ({"window_strides": (0, 1)}, "must be positive"),
        ({"window_dimensions": (2, 2)}, "source is"),
        ({"operands": (tensor("i32", 4, 5), tensor("i8", 2, 5), tensor("i32"))}, "source is"),
        ({"operands": (tensor("i32", 4, 5), tensor("i32", 2, 5), tensor("i32", 1))}, "init_value is"),
        ({"results": (tensor("i8", 4, 5),)}, "result is"),
        ({"results": (tensor("i32", 4, 4),)}, "result has shape"),
        ({"bodies": (CHOICE,)}, "regions"),
        ({"bodies": (ADD, ADD)}, "select must take"),
        ({"bodies": (CHOICE, CHOICE)}, "body has type"),
    ],
)
def test_errors_of_select_and_scatter(change: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {
        "operands": (tensor("i32", 4, 5), tensor("i32", 2, 5), tensor("i32")),
        "results": (tensor("i32", 4, 5),),
        "bodies": (CHOICE, ADD),
    }
    attributes = {"window_dimensions": (3, 1)}
    bind("select_and_scatter", attributes, **plain)
    changed = attributes | {k: v for k, v in change.items() if k not in plain}
    plain |= {k: v for k, v in change.items() if k in plain}
    with pytest.raises(OpError, match=message):
        bind("select_and_scatter", changed, **plain)


def bind(
    name: str,
    attributes: dict[str, Any],
    operands: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    bodies: tuple[Body, ...],
) -> None:
    record = lookup(name)
    assert record is not None
    record.kernel(Call(record.name, operands, results, attributes, bodies))
