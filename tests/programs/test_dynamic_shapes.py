"""Programs whose types leave sizes open, run with the sizes of their inputs: against numpy, JAX and by hand."""

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import dynamic as specialize
from minihlo.interp.errors import ExecutionError, InputError, ResourceError
from minihlo.interp.system import memory
from minihlo.ops.op import EXACT, Call, Op, Run
from minihlo.ops.types import ELEMENT_TYPES, TensorType

from .dynamic_programs import CASES, main, numbers


@pytest.mark.parametrize("name", CASES)
def test_one_program_for_all_sizes(name: str) -> None:
    case = CASES[name]
    program = interp.load(case.text)
    for size in (*case.sizes, case.sizes[0]):
        inputs = case.inputs(size)
        expected = case.expected(*inputs)
        actual = program(*inputs)
        for f, e in zip(actual, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert (f.dtype, f.shape) == (e.dtype, e.shape)
            assert np.array_equal(f, e), (size, f, e)


def test_more_sizes_than_are_remembered() -> None:
    program = interp.load(CASES["products"].text)
    for size in [*range(40), *range(40)]:
        x, y = CASES["products"].inputs(size)
        assert np.array_equal(program(x, y)[0], x @ y)


EXPORTED: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: x @ x.T + x.shape[0],
    "prefix sums": lambda x: jnp.cumsum(x, 0),
    "sorted": lambda x: jnp.sort(x, 0),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, v: v + i, x),
    "scan": lambda x: jax.lax.scan(lambda c, row: (c + row, c), jnp.zeros(4), x),
    "pairs": lambda x: x[1:, ::2].reshape(-1),
    "argmax": lambda x: jnp.argmax(x, 0),
}


def exported(function: Callable[[Any], Any], constraints: tuple[str, ...] = ()) -> interp.LoadedProgram:
    shape = jax.export.symbolic_shape("b, 4", constraints=constraints)
    traced = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, jnp.float32))
    return interp.load(traced.mlir_module())


@pytest.mark.parametrize("name", EXPORTED)
def test_programs_that_jax_exports(name: str) -> None:
    program = exported(EXPORTED[name])
    for size in (1, 4):
        x = numbers(size, 4)
        for f, e in zip(program(x), jax.tree.leaves(EXPORTED[name](x)), strict=True):
            assert f.dtype == e.dtype
            assert np.array_equal(f, e)


def test_assertions_of_exported_programs() -> None:
    program = exported(lambda x: x + x, ("b >= 3",))
    assert program(numbers(3, 4))[0].shape == (3, 4)
    with pytest.raises(ExecutionError, match=r"custom_call: Input shapes do not match .* 'b' = 2 from specification"):
        program(numbers(2, 4))


def broken(arguments: str, results: str, body: str, *values: np.ndarray) -> str:
    """The message of the error that a program ends with."""
    with pytest.raises(ExecutionError) as error:
        interp.load(main(arguments, results, body))(*values)
    return str(error.value)


def test_inputs_must_fit() -> None:
    program = interp.load(CASES["bounded"].text)
    for shape, message in (((6, 2), r"\[at most 5, 2\].*bounds<5, \?>>, got \[6, 2\]"), ((3, 3), "got"), ((3,), "got")):
        with pytest.raises(InputError, match=message):
            program(numbers(*shape))


@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (0, 4)])
def test_operands_of_other_sizes(shape: tuple[int, ...]) -> None:
    """Above all numpy must not broadcast."""
    add = "%r = stablehlo.add %x, %y : tensor<?x4xf32>\nreturn %r : tensor<?x4xf32>"
    message = broken("%x: tensor<?x4xf32>, %y: tensor<?x4xf32>", "tensor<?x4xf32>", add, numbers(2, 4), numbers(*shape))
    assert message == f"<string>:2:6: stablehlo.add: operands have shapes [2, 4] and {list(shape)} (expected the same)"


def test_contracted_sizes_differ() -> None:
    dot = """%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    return %r : tensor<?x?xf32>"""
    message = broken("%x: tensor<?x?xf32>, %y: tensor<?x?xf32>", "tensor<?x?xf32>", dot, numbers(2, 4), numbers(3, 2))
    assert "<string>:2:6: stablehlo.dot_general: contracting dimension" in message


def test_slice_reaches_beyond() -> None:
    """numpy would cut the slice short."""
    cut = """%r = stablehlo.slice %x [1:4] : (tensor<?xf32>) -> tensor<3xf32>
    return %r : tensor<3xf32>"""
    assert "cannot take 1 to 4 of 3" in broken("%x: tensor<?xf32>", "tensor<3xf32>", cut, numbers(3))


def test_results_that_claim_more() -> None:
    negated = """%r = stablehlo.negate %x : (tensor<?xf32>) -> tensor<3xf32>
    return %r : tensor<3xf32>"""
    program = interp.load(main("%x: tensor<?xf32>", "tensor<3xf32>", negated))
    assert program(numbers(3))[0].shape == (3,)
    with pytest.raises(ExecutionError, match=r"negate: the result has shape \[2\], which does not fit tensor<3xf32>"):
        program(numbers(2))


def test_loops_whose_sizes_are_fixed() -> None:
    loop = """%t = stablehlo.constant dense<true> : tensor<i1>
    %r = "stablehlo.while"(%x) ({
      ^bb0(%a: tensor<?xf32>):
        stablehlo.return %t : tensor<i1>
      }, {
      ^bb0(%a: tensor<2xf32>):
        %b = stablehlo.concatenate %a, %a, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
        stablehlo.return %b : tensor<4xf32>
      }) : (tensor<?xf32>) -> tensor<?xf32>
    return %r : tensor<?xf32>"""
    message = broken("%x: tensor<?xf32>", "tensor<?xf32>", loop, numbers(2))
    assert message.endswith(
        "stablehlo.while: an argument of the region has shape [4], which does not fit tensor<2xf32>"
    )


SIZED = "%r = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<5xf32>, tensor<i32>) -> "


def test_bounds_of_results() -> None:
    t = "tensor<?xf32, #stablehlo.bounds<4>>"
    program = interp.load(main("%x: tensor<5xf32>, %n: tensor<i32>", t, f"{SIZED}{t}\nreturn %r : {t}"))
    x = numbers(5)
    assert np.array_equal(program(x, np.int32(4))[0], x[:4])
    with pytest.raises(ExecutionError, match="size 5 does not fit the result"):
        program(x, np.int32(5))
    with pytest.raises(ExecutionError, match="size -1 of a dimension of 5"):
        program(x, np.int32(-1))


def test_shapes_that_do_not_broadcast() -> None:
    body = """%xs = shape.shape_of %x : tensor<?xf32> -> tensor<1xindex>
    %ys = shape.shape_of %y : tensor<?xf32> -> tensor<1xindex>
    %w = shape.cstr_broadcastable %xs, %ys : tensor<1xindex>, tensor<1xindex>
    return"""
    message = broken("%x: tensor<?xf32>, %y: tensor<?xf32>", "", body, numbers(2), numbers(3))
    assert message.endswith("shape.cstr_broadcastable: shapes [2] and [3] do not broadcast together")


@pytest.mark.parametrize("sizes", [(1 << 40, 1), (1 << 20, 1 << 30), (1 << 62, 1 << 62)])
def test_sizes_beyond_memory(sizes: tuple[int, int]) -> None:
    program = interp.load(
        main(
            "%n: tensor<2xi64>",
            "tensor<?x?xf32>",
            """%one = stablehlo.constant dense<1.0> : tensor<f32>
            %r = stablehlo.dynamic_broadcast_in_dim %one, %n, dims = []
              : (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
            return %r : tensor<?x?xf32>""",
        )
    )
    with pytest.raises(
        ResourceError, match=r"^<string>:3:18: stablehlo.dynamic_broadcast_in_dim: tensor<.*xf32> takes"
    ):
        program(np.array(sizes))
    with pytest.raises(ExecutionError, match="does not fit"):
        program(np.array([-1, 2]))


def test_results_beyond_memory() -> None:
    """The operands are small; the product of all pairs of their elements is not."""
    program = interp.load(CASES["products"].text)
    with pytest.raises(ResourceError, match=r"dot_general: tensor<4194304x4194304xf32> takes 64.0 TiB"):
        program(np.zeros((1 << 22, 4), np.float32), np.zeros((4, 1 << 22), np.float32))


@pytest.mark.parametrize(
    "body",
    [
        "%r = stablehlo.add %x, %x : tensor<?xf32>",
        """%one = stablehlo.constant dense<1.0> : tensor<f32>
        %r = stablehlo.pad %x, %one, low = [1], high = [0], interior = [0]
          : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>""",
    ],
    ids=["add", "pad"],
)
def test_every_result_needs_room(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = interp.load(main("%x: tensor<?xf32>", "tensor<?xf32>", f"{body}\nreturn %r : tensor<?xf32>"))
    monkeypatch.setattr(memory, "limit", lambda *_: 1 << 20)
    assert program(np.zeros(5, np.float32))
    with pytest.raises(ResourceError, match=r"takes 32.0 MiB, but only 1.0 MiB are available"):
        program(np.zeros(1 << 23, np.float32))


def test_kernels_are_kept_but_not_for_ever() -> None:
    bound: list[Any] = []

    def bind(call: Call) -> Run:
        bound.append(call.tensor().shape)
        return lambda x: x

    types = (TensorType((None, 2), ELEMENT_TYPES["f32"]),)
    record = Op("test.same", bind, frozenset(ELEMENT_TYPES.values()), "codes", EXACT, 1, "The operand.")
    kernel = specialize.bind(record, Call(record.name, types, types, {}))
    for n in (1, 2, 1, 2):
        assert kernel(np.zeros((n, 2))).shape == (n, 2)
    assert bound == [(1, 2), (2, 2)]
    for n in (*range(100), 1):
        kernel(np.zeros((n, 2)))
    assert bound.count((1, 2)) == 2
