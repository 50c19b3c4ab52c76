"""A whole program for a backend, which returns some of its values."""

import numpy as np

from minihlo import interp
from minihlo.interp.backends import backend
from minihlo.interp.diff.examiner import evaluate
from minihlo.interp.diff.source import Source

TEXT = """func.func @main(%x: tensor<3xf32>, %y: tensor<2xi32>) -> (tensor<2xi32>, tensor<3xf32>, tensor<3xf32>) {
  %r = stablehlo.negate %x : tensor<3xf32>
  return %y, %r, %x : tensor<2xi32>, tensor<3xf32>, tensor<3xf32>
}"""


def test_arguments_can_be_wanted_too() -> None:
    source = Source.of_text(TEXT, "two.mlir")
    assert source.function.body is not None
    x, y = np.array([1, -2, 3], np.float32), np.array([4, 5], np.int32)
    for wanted in (source.function.body.returns, source.function.body.returns[::-1]):
        results = evaluate(backend("minihlo"), source.instrument(wanted), (x, y), wanted)
        expected = [y, -x, x] if wanted[0].type == source.function.argument_types[1] else [x, -x, y]
        assert [r.tolist() for r in results] == [e.tolist() for e in expected]


SCALAR = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %s = "stablehlo.dynamic_slice"(%x) {slice_sizes = array<i64>} : (tensor<f32>) -> tensor<f32>
  %r = stablehlo.negate %s : tensor<f32>
  return %r : tensor<f32>
}"""


def test_ops_are_printed_generically() -> None:
    source = Source.of_text(SCALAR, "scalar.mlir")
    assert source.function.body is not None
    first, second = source.function.body.operations
    x = np.float32(2.5)
    wanted = [*first.results, *second.results]
    results = evaluate(backend("minihlo"), source.instrument(wanted), [np.asarray(x)], wanted)
    assert [float(r) for r in results] == [2.5, -2.5]
    assert float(interp.load(source.text(first, packed=False))(x)[0]) == 2.5
    assert "func.func @main" in source.text(second, packed=False)  # others keep their own form
