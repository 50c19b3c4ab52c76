"""Operations with bodies on minifloats, emulated and run by XLA's CPU: the interpreter's bits."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.errors import UnsupportedError
from tests.emulated import codes, differences

POLICIES = {
    "default": interp.Policy(),
    "saturate": interp.Policy(overflow="saturate"),
    "toward_zero": interp.Policy(rounding="toward_zero"),
    "stochastic": interp.Policy(rounding="stochastic", seed=3),
}
RETURN = "\n stablehlo.return %z : TYPE"
GREATER = "stablehlo.compare GT, %x, %y : (TYPE, TYPE) -> tensor<i1>"
BODIES = {
    "add": "%z = stablehlo.add %x, %y : TYPE",
    "multiply": "%z = stablehlo.multiply %y, %x : TYPE",
    "maximum": "%z = stablehlo.maximum %x, %y : TYPE",
    "minimum": "%z = stablehlo.minimum %x, %y : TYPE",
    "select": f"%c = {GREATER}\n %z = stablehlo.select %c, %x, %y : tensor<i1>, TYPE",
    "through f32": "%u = stablehlo.convert %x : (TYPE) -> tensor<f32>\n"
    " %v = stablehlo.convert %y : (TYPE) -> tensor<f32>\n"
    " %w = stablehlo.add %u, %v : tensor<f32>\n %z = stablehlo.convert %w : (tensor<f32>) -> TYPE",
    "captured": "%u = stablehlo.multiply %x, %outer : TYPE\n %z = stablehlo.add %u, %y : TYPE",
    "last": "%z = stablehlo.add %y, %y : TYPE",
}
FORMATS = ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E8M0FNU", "f4E2M1FN"]


def body(name: str, element: str) -> str:
    """A region on two scalars."""
    t = f"tensor<{element}>"
    text = BODIES[name] + RETURN
    return f"({{ ^bb0(%x: {t}, %y: {t}):\n {text.replace('TYPE', t)} }})"


def text_of(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def reduction(name: str, element: str, shape: tuple[int, ...], dimensions: tuple[int, ...]) -> str:
    """A program that reduces its first argument from its second; the third is for a body that captures it."""
    scalar, x = f"tensor<{element}>", text_of(shape, element)
    result = text_of(tuple(n for d, n in enumerate(shape) if d not in dimensions), element)
    region = body(name, element)
    return f"""func.func @main(%a: {x}, %i: {scalar}, %outer: {scalar}) -> {result} {{
      %r = "stablehlo.reduce"(%a, %i) {region} {{dimensions = array<i64: {", ".join(map(str, dimensions))}>}}
        : ({x}, {scalar}) -> {result}
      return %r : {result}
    }}"""


SHAPES = [((5, 7), (1,)), ((40, 3), (0,)), ((3, 20, 2), (0, 2)), ((0, 3), (0,)), ((3, 0), (0,)), ((6,), (0,))]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("name", "element"),
    [(name, FORMATS[i % len(FORMATS)]) for i, name in enumerate(BODIES)]
    + [(n, e) for n in ("add", "maximum") for e in FORMATS],
)
def test_reductions(name, element, policy):
    rng = np.random.default_rng(7)
    for shape, dimensions in SHAPES if policy == "default" else SHAPES[:1]:
        for is_finite in (False, True) if policy != "stochastic" else (True,):
            arrays = [codes(rng, element, s, is_finite) for s in (shape, (), ())]
            program = reduction(name, element, shape, dimensions)
            if (name, policy) == ("captured", "stochastic"):
                with pytest.raises(UnsupportedError, match="expected a body of elementwise operations"):
                    differences(program, arrays, POLICIES[policy])
                return
            assert differences(program, arrays, POLICIES[policy]) == [0], (shape, is_finite)


@pytest.mark.parametrize("policy", ["default", "stochastic"])
def test_reductions_of_several_operands(policy):
    """The largest element and its place; and sums beside products, which are folded each by itself."""
    rng = np.random.default_rng(8)
    t, i = "tensor<f8E5M2>", "tensor<i32>"
    largest = f"""%g = stablehlo.compare GT, %x, %z : ({t}, {t}) -> tensor<i1>
      %e = stablehlo.compare EQ, %x, %z : ({t}, {t}) -> tensor<i1>
      %l = stablehlo.compare LT, %y, %w : ({i}, {i}) -> tensor<i1>
      %f = stablehlo.and %e, %l : tensor<i1>
      %c = stablehlo.or %g, %f : tensor<i1>
      %p = stablehlo.select %c, %x, %z : tensor<i1>, {t}
      %q = stablehlo.select %c, %y, %w : tensor<i1>, {i}"""
    separate = f"""%p = stablehlo.add %x, %z : {t}
      %q = stablehlo.maximum %y, %w : {i}"""
    for inner in (largest, separate):
        program = f"""func.func @main(%a: tensor<50x6xf8E5M2>, %b: tensor<50x6xi32>, %s: {t}, %n: {i})
          -> (tensor<6xf8E5M2>, tensor<6xi32>) {{
          %r:2 = "stablehlo.reduce"(%a, %b, %s, %n) ({{ ^bb0(%x: {t}, %y: {i}, %z: {t}, %w: {i}):
            {inner}
            stablehlo.return %p, %q : {t}, {i} }}) {{dimensions = array<i64: 0>}}
            : (tensor<50x6xf8E5M2>, tensor<50x6xi32>, {t}, {i}) -> (tensor<6xf8E5M2>, tensor<6xi32>)
          return %r#0, %r#1 : tensor<6xf8E5M2>, tensor<6xi32>
        }}"""
        for is_finite in (False, True):
            x, start = codes(rng, "f8E5M2", (50, 6), is_finite), codes(rng, "f8E5M2", (), is_finite)
            y = rng.integers(-9, 9, (50, 6)).astype(np.int32)
            assert differences(program, [x, y, start, np.int32(3)], POLICIES[policy]) == [0, 0]
