"""Operations with bodies on minifloats, emulated and run by XLA's CPU: the interpreter's bits."""

import dataclasses

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.emulate.program import emulate_text
from minihlo.interp.errors import UnsupportedError
from minihlo.ops.reductions.axes import Axis
from tests.emulated import codes, differences
from tests.thinned import rotated

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


CASES = [(name, FORMATS[i % len(FORMATS)]) for i, name in enumerate(BODIES)]
CASES += [(n, e) for n in ("add", "maximum") for e in FORMATS]


@pytest.mark.parametrize(("case", "policy"), rotated(CASES, POLICIES))
def test_reductions(case, policy):
    name, element = case
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


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("element", ["f8E8M0FNU", "f8E3M4"])
def test_selections_of_long_rows_with_nan(element, name):
    """The first of several NaN; as a byte that wraps around that of f8E8M0FNU would be lost by XLA's CPU."""
    rng = np.random.default_rng(0)
    arrays = [codes(rng, element, (16, 1000)), codes(rng, element, (), True), codes(rng, element)]
    assert differences(reduction(name, element, (16, 1000), (1,)), arrays, POLICIES["default"]) == [0]


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


def array(values: object) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"  # type: ignore[call-overload]


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of a program, for each dimension, and the initial value where it is a constant."""

    axes: tuple[Axis, ...]
    init: float | None = None

    def program(self, name: str, element: str) -> str:
        """A program that reduces the windows of its first argument; its second is the initial value."""
        scalar, x = f"tensor<{element}>", text_of(self.shape, element)
        result = text_of(tuple(a.count for a in self.axes), element)
        padding = [[a.low, a.high] for a in self.axes]
        init = "" if self.init is None else f"%i = stablehlo.constant dense<{self.init}> : {scalar}"
        first = "%unused" if init else "%i"
        return f"""func.func @main(%a: {x}, {first}: {scalar}) -> {result} {{
          {init}
          %r = "stablehlo.reduce_window"(%a, %i) {body(name, element)} {{
            window_dimensions = {array(a.window for a in self.axes)},
            window_strides = {array(a.stride for a in self.axes)},
            base_dilations = {array(a.base_dilation for a in self.axes)},
            window_dilations = {array(a.window_dilation for a in self.axes)},
            padding = dense<{padding}> : tensor<{len(padding)}x2xi64>}} : ({x}, {scalar}) -> {result}
          return %r : {result}
        }}"""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the operand."""
        return tuple(a.size for a in self.axes)


TWO = Axis(2, 1)
WINDOWS = {
    "strides": Windows((Axis(4, 2, 1, 1), Axis(9, 3, 2, -1, 2))),
    "dilations": Windows((Axis(5, 2, base_dilation=2), Axis(6, 2, window_dilation=2))),
    "running": Windows((Axis(7, 7, low=6),), 0.0),
    "running, many": Windows((Axis(200, 200, low=199), TWO), 0.0),
    "from the right": Windows((Axis(200, 200, high=199), TWO), 0.0),
    "tree": Windows((Axis(300, 150),)),
    "tree, two dimensions": Windows((Axis(20, 12, low=3, high=3), Axis(30, 12, 3, 3, 3))),
    "many places": Windows((Axis(30, 20), TWO)),
    "no windows": Windows((Axis(3, 2), Axis(0, 1))),
}
COMBINED = [("add", "f8E4M3FN"), ("maximum", "f8E5M2"), ("minimum", "f8E4M3FNUZ")]


@pytest.mark.parametrize(
    ("kind", "called", "policy"),
    [*rotated(WINDOWS, COMBINED, ["default"], every=3), *rotated(["strides", "running"], COMBINED, ["stochastic"])],
)
def test_windows(kind, called, policy):
    rng, windows, (name, element) = np.random.default_rng(5), WINDOWS[kind], called
    for is_finite in (False, True) if policy == "default" else (True,):
        arrays = [codes(rng, element, s, is_finite) for s in (windows.shape, ())]
        assert differences(windows.program(name, element), arrays, POLICIES[policy]) == [0], is_finite


@pytest.mark.parametrize(("direction", "element"), [("GE", "f8E5M2"), ("LE", "f8E4M3FNUZ")])
def test_scatters_to_selected_elements(direction, element):
    rng, t = np.random.default_rng(6), f"tensor<{element}>"
    for axes in [(Axis(6, 2, 2), Axis(7, 3, 2, 1, 1)), (Axis(6, 5, 1, 2, 2), Axis(5, 4, 1, 2, 2))]:
        shape, sources = (tuple(getattr(a, name) for a in axes) for name in ("size", "count"))
        x, source = text_of(shape, element), text_of(sources, element)
        program = f"""func.func @main(%a: {x}, %s: {source}, %i: {t}) -> {x} {{
          %r = "stablehlo.select_and_scatter"(%a, %s, %i) ({{ ^bb0(%x: {t}, %y: {t}):
            %z = stablehlo.compare {direction}, %x, %y : ({t}, {t}) -> tensor<i1>
            stablehlo.return %z : tensor<i1>
          }}, {body("add", element).strip("()")}) {{window_dimensions = {array(a.window for a in axes)},
            window_strides = {array(a.stride for a in axes)},
            padding = dense<{[[a.low, a.high] for a in axes]}> : tensor<2x2xi64>}} : ({x}, {source}, {t}) -> {x}
          return %r : {x}
        }}"""
        for is_finite in (False, True):
            arrays = [codes(rng, element, s, is_finite) for s in (shape, sources, ())]
            assert differences(program, arrays, POLICIES["default"]) == [0], (axes, is_finite)


#: The shapes of tensor, indices and updates, and the dimension numbers.
SCATTERS = {
    "rows": ((6, 4), (9, 1), (9, 4), "update_window_dims = [1], inserted_window_dims = [0], "
             "scatter_dims_to_operand_dims = [0], index_vector_dim = 1"),
    "columns": ((4, 6), (9, 1), (4, 9), "update_window_dims = [0], inserted_window_dims = [1], "
                "scatter_dims_to_operand_dims = [1], index_vector_dim = 1"),
    "parts": ((6, 5), (7, 2), (2, 7, 3), "update_window_dims = [0, 2], scatter_dims_to_operand_dims = [0, 1], "
              "index_vector_dim = 1"),
    "one": ((5, 3), (2,), (2, 3), "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], "
            "index_vector_dim = 0"),
    "elements": ((12,), (30, 1), (30,), "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
                 "index_vector_dim = 1"),
    "batches": ((3, 4, 5), (3, 2, 1), (3, 2, 5), "update_window_dims = [2], inserted_window_dims = [1], "
                "input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], "
                "index_vector_dim = 2"),
    "none": ((4, 4), (0, 1), (0, 4), "update_window_dims = [1], inserted_window_dims = [0], "
             "scatter_dims_to_operand_dims = [0], index_vector_dim = 1"),
}  # fmt: skip


BY = [("add", "f8E5M2"), ("maximum", "f8E4M3FNUZ"), ("overwrite", "f8E4M3FN")]


@pytest.mark.parametrize(("kind", "by"), rotated(SCATTERS, BY))
def test_scatters(kind, by):
    name, element = by
    rng, (shape, places, updates, numbers), t = np.random.default_rng(9), SCATTERS[kind], f"tensor<{element}>"
    x, i, u = text_of(shape, element), text_of(places, "i32"), text_of(updates, element)
    overwrite = f"({{ ^bb0(%x: {t}, %y: {t}): stablehlo.return %y : {t} }})"
    program = f"""func.func @main(%a: {x}, %i: {i}, %u: {u}) -> {x} {{
      %r = "stablehlo.scatter"(%a, %i, %u) {overwrite if name == "overwrite" else body(name, element)}
        {{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}} : ({x}, {i}, {u}) -> {x}
      return %r : {x}
    }}"""
    for is_finite in (False, True):
        indices = rng.integers(-1, 7, places).astype(np.int32)  # some out of bounds
        arrays = [codes(rng, element, shape, is_finite), indices, codes(rng, element, updates, is_finite)]
        assert differences(program, arrays, POLICIES["default"]) == [0]
    if name == "add" and kind != "none":
        with pytest.raises(UnsupportedError, match="draws depend on how often indices repeat"):
            emulate_text(program, POLICIES["stochastic"])
