"""Sorts, scans, normalizations and checks on minifloats, emulated and run by XLA's CPU: the interpreter's bits."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.emulate.program import emulate_text
from minihlo.interp.errors import CheckFailure, UnsupportedError
from minihlo.ops.minifloat.formats import FORMATS
from tests.emulated import check, codes
from tests.thinned import thinned

RNG = np.random.default_rng(5)
POLICIES = [
    interp.Policy(),
    interp.Policy(rounding="toward_zero", overflow="saturate"),
    interp.Policy(rounding="stochastic", seed=3),
]


def _type(element, shape):
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def _body(types, lines, result):
    """A region of pairs of arguments %x0, %y0, %x1 ...; `lines` are operations."""
    arguments = ", ".join(f"%{v}{i}: tensor<{t}>" for i, t in enumerate(types) for v in "xy")
    names, kinds = (", ".join(v) for v in zip(*result, strict=True))
    return f'({{ ^bb0({arguments}):\n {lines}\n "stablehlo.return"({names}) : ({kinds}) -> () }})'


def _function(arguments, line, results):
    takes = ", ".join(f"%{n}: {t}" for n, t in arguments.items())
    names, kinds = (", ".join(v) for v in zip(*results, strict=True))
    return f"func.func @main({takes}) -> ({kinds}) {{\n {line}\n return {names} : {kinds} }}"


def _sort(element, shape, dimension, comparator):
    t = _type(element, shape)
    line = f'%r = "stablehlo.sort"(%a) {comparator} {{dimension = {dimension} : i64, is_stable = true}} : ({t}) -> {t}'
    return _function({"a": t}, line, [("%r", t)])


def _compare(direction, *types):
    t = f"tensor<{types[0]}>"
    line = f"%c = stablehlo.compare {direction}, %x0, %y0 : ({t}, {t}) -> tensor<i1>"
    return _body(types, line, [("%c", "tensor<i1>")])


@pytest.mark.parametrize(
    ("element", "direction"),
    thinned(
        [("f8E4M3FN", "LT"), ("f8E5M2", "GT"), ("f8E4M3FNUZ", "LT"), ("f4E2M1FN", "GT"), ("f8E8M0FNU", "LT")],
        lambda element, _: element in ("f8E5M2", "f8E4M3FNUZ", "f8E8M0FNU"),
    ),
)
def test_sort(element, direction):
    for is_finite in (False, True):
        x = codes(RNG, element, (4, 60), is_finite)
        check(_sort(element, x.shape, 1, _compare(direction, element)), [x])
        check(_sort(element, x.shape, 0, _compare(direction, element)), [x])
    t, i = _type(element, (300,)), "tensor<300xi32>"
    line = (
        f'%r:2 = "stablehlo.sort"(%a, %b) {_compare(direction, element, "i32")} {{dimension = 0 : i64}} : '
        f"({t}, {i}) -> ({t}, {i})"
    )
    text = _function({"a": t, "b": i}, line, [("%r#0", t), ("%r#1", i)])
    check(text, [codes(RNG, element, (300,), True), np.arange(300, dtype=np.int32)])


def test_sort_where_nan_stays_as_the_total_order_has_it():
    """`<` does not order NaN: the interpreter's hypotheses are tried in turn."""
    for values in ([0xFF, 0x40, 0x38], [0xFF, 0x38, 0x7F], [0x40, 0xFF, 0x38], [0x7F, 0x40, 0x38], [0x7F, 0xFF, 0x7F]):
        x = np.array(values, np.uint8).view(FORMATS["f8E4M3FN"].dtype)
        for direction in ("LT", "GT"):
            check(_sort("f8E4M3FN", x.shape, 0, _compare(direction, "f8E4M3FN")), [x])


def test_sort_by_an_order_of_no_kind_is_refused():
    with pytest.raises(UnsupportedError, match="strict weak order"):
        emulate_text(_sort("f8E5M2", (5,), 0, _compare("LE", "f8E5M2")))


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
def test_top_k(element):
    t, r, i = _type(element, (3, 40)), _type(element, (3, 5)), "tensor<3x5xi32>"
    text = _function({"a": t}, f"%r:2 = chlo.top_k(%a, k = 5) : {t} -> ({r}, {i})", [("%r#0", r), ("%r#1", i)])
    check(text, [codes(RNG, element, (3, 40))])


def test_sort_by_two_keys():
    """The comparator itself, on codes, where it reads more than one operand."""
    t, i = "tensor<f8E4M3FN>", "tensor<i32>"
    lines = f"""%e = stablehlo.compare EQ, %x0, %y0 : ({t}, {t}) -> tensor<i1>
      %l = stablehlo.compare LT, %x0, %y0 : ({t}, {t}) -> tensor<i1>
      %k = stablehlo.compare GT, %x1, %y1 : ({i}, {i}) -> tensor<i1>
      %d = stablehlo.and %e, %k : tensor<i1>
      %c = stablehlo.or %d, %l : tensor<i1>"""
    body, (x, y) = _body(["f8E4M3FN", "i32"], lines, [("%c", "tensor<i1>")]), ("tensor<90xf8E4M3FN>", "tensor<90xi32>")
    line = f'%r:2 = "stablehlo.sort"(%a, %b) {body} {{dimension = 0 : i64}} : ({x}, {y}) -> ({x}, {y})'
    text = _function({"a": x, "b": y}, line, [("%r#0", x), ("%r#1", y)])
    check(text, [codes(RNG, "f8E4M3FN", (90,), True), RNG.integers(0, 4, 90).astype(np.int32)])


@pytest.mark.parametrize("element", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu"])
def test_sorts_of_jax(element):
    """One key with places, and two keys, whose comparators choose one NaN and one zero."""
    x = np.arange(256, dtype=np.uint8)[RNG.permutation(256)].view(element)
    y = RNG.integers(0, 256, 256).astype(np.uint8).view(element)
    for keys in (1, 2):
        lowered = jax.jit(lambda *v, keys=keys: jax.lax.sort(v, num_keys=keys)).lower(
            x, y, np.arange(256, dtype=np.int32)
        )
        check(lowered.as_text(), [x, y, np.arange(256, dtype=np.int32)])


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.rounding)
@pytest.mark.parametrize("is_reverse", ["false", "true"])
def test_scan(policy, is_reverse):
    """A running sum of products, with another output."""
    x, c = "tensor<5x7x3xf8E5M2>", "tensor<5x3xf8E5M2>"
    line = f"""%r:2 = "chlo.scan"(%a, %b) ({{ ^bb0(%x: {c}, %s: {c}):
        %y = stablehlo.multiply %x, %s : {c}
        %z = stablehlo.add %x, %y : {c}
        "stablehlo.return"(%y, %z) : ({c}, {c}) -> () }})
      {{dimension = 1 : i64, is_reverse = {is_reverse}, is_associative = false,
       operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}} : ({x}, {c}) -> ({x}, {c})"""
    text = _function({"a": x, "b": c}, line, [("%r#0", x), ("%r#1", c)])
    check(text, [codes(RNG, "f8E5M2", (5, 7, 3), True), codes(RNG, "f8E5M2", (5, 3), True)], policy)


@pytest.mark.parametrize("policy", thinned(POLICIES, lambda p: p.rounding != "stochastic"), ids=lambda p: p.rounding)
def test_batch_norm(policy):
    """Inference, training and the gradient; the draws of each step are its own."""
    x, f = "tensor<4x3x5xf8E4M3>", "tensor<3xf8E4M3>"
    options = "{epsilon = 0.125 : f32, feature_index = 1 : i64}"
    arguments = {"x": x, "s": f, "o": f, "m": f, "v": f, "g": x}
    given = [codes(RNG, "f8E4M3", (4, 3, 5) if t == x else (3,), True) for t in arguments.values()]
    given[4] = (given[4].view(np.uint8) & 0x3F).view(given[4].dtype)
    line = f"""%i = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) {options} : ({x}, {f}, {f}, {f}, {f}) -> {x}
      %t:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {options} : ({x}, {f}, {f}) -> ({x}, {f}, {f})
      %u:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {options} : ({x}, {f}, {f}, {f}, {x}) -> ({x}, {f}, {f})"""
    results = [("%i", x), ("%t#0", x), ("%t#1", f), ("%t#2", f), ("%u#0", x), ("%u#1", f), ("%u#2", f)]
    check(_function(arguments, line, results), given, policy)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.rounding)
def test_map_iota_and_forms_with_broadcasting(policy):
    """Bodies on arrays, numbers beyond the format's, operands of unlike rank."""
    x, s, r = "tensor<4x3xf8E4M3FN>", "tensor<3xf8E4M3FN>", "tensor<4x300xf8E4M3FN>"
    body = _body(["f8E4M3FN"], "%p = stablehlo.multiply %x0, %x0 : T\n %q = stablehlo.add %p, %y0 : T", [("%q", "T")])
    body = body.replace("T", "tensor<f8E4M3FN>").replace("tensor<f8Etensor<f8E4M3FN>4M3FN>", "tensor<f8E4M3FN>")
    line = f"""%m = "stablehlo.map"(%a, %b) {body} {{dimensions = array<i64: 0, 1>}} : ({x}, {x}) -> {x}
      %i = stablehlo.iota dim = 1 : {r}
      %d = chlo.broadcast_add %a, %c : ({x}, {s}) -> {x}
      %e = chlo.broadcast_compare %c, %a {{comparison_direction = #chlo<comparison_direction LT>}}
        : ({s}, {x}) -> tensor<4x3xi1>"""
    results = [("%m", x), ("%i", r), ("%d", x), ("%e", "tensor<4x3xi1>")]
    given = [codes(RNG, "f8E4M3FN", n, True) for n in ((4, 3), (4, 3), (3,))]
    check(_function({"a": x, "b": x, "c": s}, line, results), given, policy)


def test_checks_compare_numbers():
    """Zeros are equal and NaN is not, as in the interpreter: the text of the program has f32 and integers."""
    t = "tensor<2xf8E5M2>"
    text = emulate_text(f"""func.func @main(%a: {t}, %b: {t}) {{
      check.expect_eq %a, %b : {t}
      check.expect_eq_const %a, dense<[0.0, 1.5]> : {t}
      check.expect_almost_eq %a, %b : {t}
      check.expect_close %a, %b, max_ulp_difference = 1 : {t}, {t}
      return }}""")
    x = np.array([0x80, 0x3E], np.uint8).view(FORMATS["f8E5M2"].dtype)
    y = np.array([0x00, 0x3E], np.uint8).view(FORMATS["f8E5M2"].dtype)
    assert text.count("f8E5M2") == 4  # the arguments, and the casts of their bits
    interp.load(text)(x, y)
    with pytest.raises(CheckFailure, match="expect_eq"):
        interp.load(text)(x, np.array([0, 0x3F], np.uint8).view(x.dtype))
    with pytest.raises(CheckFailure, match="nan"):
        interp.load(text)(np.array([0x7E, 0x3E], np.uint8).view(x.dtype), y)


def test_collectives_fold_in_the_order_of_the_group():
    """On four devices of XLA's CPU, in a process of their own."""
    command = [sys.executable, "-m", "tests.emulated_processes"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=300)
    assert found.stdout == "8\n", found.stderr
