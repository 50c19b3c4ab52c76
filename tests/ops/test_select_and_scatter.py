"""select_and_scatter against plain loops written from the specification, the reference interpreter and JAX."""

import itertools
import re
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import load
from minihlo.ops.op import OpError
from minihlo.ops.types import ELEMENT_TYPES

from ..places import dims
from ..run_op import codes, tensor
from ..windows import ADD, BODIES, CHOICE, SEED, Combine, Windows, bind, random_windows, wrapped
from . import reference

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
        (actual,) = load(scatter_program(w, select, body))(*arrays)
        expected = scattered(*arrays, w, SELECTS[direction], wrapped(combine))
        np.testing.assert_array_equal(actual, expected, err_msg=str(w))


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "f8E5M2", "i8"])
@pytest.mark.parametrize("init", [0, 1])
def test_special_values(element: str, init: int) -> None:
    """Windows that meet and windows that do not, NaN and zeros of both signs among the elements and the sources."""
    rng, dtype = np.random.default_rng(SEED), ELEMENT_TYPES[element].dtype
    numbers = np.array([0, 1, 2, -1, 3] if element == "i8" else [-0.0, 0.0, 1, 2, np.nan]).astype(dtype)
    select, combine = SELECTS["GE"], (lambda x, y: np.add(x, y))
    for window, strides in ((2, 2), (2, 3), (3, 2), (3, 1)):
        for low, high in ((0, 0), (1, 1), (0, 2)):
            pads = ((0, 0), (low, high), (high, low), (0, 0))
            w = Windows((2, 7, 6, 3), (1, window, window, 1), (1, strides, strides, 1), pads, (1,) * 4, (1,) * 4)
            x, source = (rng.choice(numbers, shape) for shape in (w.shape, w.counts))
            arrays = x, source, np.array(init, dtype)
            (actual,) = load(scatter_program(w, compare("GE", element), BODIES["add"][0], element))(*arrays)
            with np.errstate(all="ignore"):
                expected = scattered(x, source, arrays[2][()], w, select, combine)
            np.testing.assert_array_equal(actual.astype(float), expected.astype(float), err_msg=str(w))
            is_number = ~np.isnan(expected.astype(float))
            assert codes(actual)[is_number].tolist() == codes(expected)[is_number].tolist()


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
    (actual,) = load(scatter_program(w, compare("GE", "f8E4M3FN"), BODIES["add"][0], "f8E4M3FN"))(*arrays)
    expected = scattered(x, source, arrays[2][()], w, SELECTS["GE"], lambda a, b: a + b)
    assert codes(actual).tolist() == codes(expected).tolist()
    (wide,) = load(scatter_program(w, compare("GE", "f8E4M3FN"), BODIES["add"][0], "f8E4M3FN", "f32"))(*arrays)
    wide_arrays = (v.astype(np.float32) for v in arrays)
    np.testing.assert_array_equal(wide, scattered(*wide_arrays, w, SELECTS["GE"], lambda a, b: a + b))


@pytest.mark.parametrize("direction", SELECTS)
@pytest.mark.parametrize("is_vectorised", [True, False])
def test_windows_that_are_almost_all_padding(direction: str, is_vectorised: bool) -> None:
    """Time and memory go by the elements that windows hold, not by their places, of which there are 10^12 or more."""
    rng = np.random.default_rng(SEED)
    huge, far = 10**12, 1 << 62
    select = compare(direction)
    if not is_vectorised:
        t, v = "tensor<i32>", "tensor<1xi32>"
        select = (
            f"%t = stablehlo.reshape %x : ({t}) -> {v}\n%v = stablehlo.reshape %t : ({v}) -> {t}\n"
            + select.replace("%x", "%v")
        )
    for shape, window, strides, padding in (
        ((50,), (huge,), (7,), ((huge, 30),)),
        ((50,), (huge,), (huge // 100,), ((huge, huge),)),
        ((6, 5), (huge, 3), (huge - 1, 2), ((huge - 1, huge), (1, 1))),
        ((6, 5), (3, huge), (2, huge // 3), ((0, -1), (huge, huge))),
        ((4, 0), (2, huge), (2, 1), ((0, 0), (huge, 3))),
        ((9,), (far,), (far // 3,), ((far - 5, far - 5),)),
    ):
        w = Windows(shape, window, strides, padding, (1,) * len(shape), (1,) * len(shape))
        x, source = (rng.integers(-4, 5, s, np.int32) for s in (w.shape, w.counts))
        expected = np.full(shape, 3, np.int32)
        for start in np.ndindex(w.counts):
            firsts = [i * s - low for i, s, (low, _) in zip(start, w.strides, padding, strict=True)]
            held = [range(max(f, 0), min(f + n, size)) for f, n, size in zip(firsts, window, shape, strict=True)]
            inside = list(itertools.product(*held))
            best = inside[0] if inside else None
            for at in inside[1:]:
                best = best if SELECTS[direction](x[best], x[at]) else at
            if best is not None:
                expected[best] += source[start]
        (actual,) = load(scatter_program(w, select, BODIES["add"][0]))(x, source, np.array(3, np.int32))
        np.testing.assert_array_equal(actual, expected, err_msg=str(w))


def test_the_gradient_of_jax_max_pool() -> None:
    def pool(x: jax.Array) -> jax.Array:
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 3, 2), (1, 2, 2), "SAME").sum()

    x = np.random.default_rng(SEED).permutation(2 * 9 * 8).reshape(2, 9, 8).astype(np.float32)
    text = jax.jit(jax.grad(pool)).lower(x).as_text()
    assert "select_and_scatter" in text
    np.testing.assert_array_equal(load(text)(x)[0], jax.grad(pool)(x))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window_dimensions": (3,)}, "must have 2 numbers"),
        ({"window_strides": (0, 1)}, "expected positive"),
        ({"window_dimensions": (2, 2)}, "source is"),
        ({"operands": (tensor("i32", 4, 5), tensor("i8", 2, 5), tensor("i32"))}, "source is"),
        ({"operands": (tensor("i32", 4, 5), tensor("i32", 2, 5), tensor("i32", 1))}, "init_value is"),
        ({"results": (tensor("i8", 4, 5),)}, "result is"),
        ({"results": (tensor("i32", 4, 4),)}, "expected a result of shape"),
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
