"""Scatters that the specification does not allow, each refused in one line."""

from typing import Any

import pytest

from minihlo.interp import load
from minihlo.interp.errors import ProgramError
from minihlo.ops.op import Body, Call, OpError, lookup

from ..places import Numbers
from ..run_op import tensor
from .test_scatter import BODIES, program, rows


def bind(n: Numbers, operands: list[Any], results: list[Any], body: Body, **change: Any) -> None:
    numbers = {
        "update_window_dims": n.window_axes,
        "inserted_window_dims": n.dropped,
        "scatter_dims_to_operand_dims": n.mapped,
        "index_vector_dim": n.vector,
    }
    record = lookup("scatter")
    assert record is not None
    record.function(
        Call(
            "stablehlo.scatter",
            tuple(operands),
            tuple(results),
            {"scatter_dimension_numbers": numbers | change},
            (body,),
        )
    )


ADD = Body((tensor("i32"), tensor("i32")), (tensor("i32"),), "stablehlo.add")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"update_window_dims": ()}, "must be 1"),
        ({"update_window_dims": (2,)}, "from 0 to 1, got"),
        ({"update_window_dims": (0,)}, "have size 5 in dimension 0"),
        ({"inserted_window_dims": (0, 0)}, "without repetition"),
        ({"inserted_window_dims": (7,)}, "from 0 to 1, got"),
        ({"scatter_dims_to_operand_dims": (0, 1)}, "index vectors have 1"),
        ({"scatter_dims_to_operand_dims": (3,)}, "from 0 to 1, got"),
        ({"index_vector_dim": 3}, "index_vector_dim"),
        ({"index_vector_dim": 0}, "index vectors have 5"),
        ({"input_batching_dims": (0,), "scatter_indices_batching_dims": (0,)}, "without repetition"),
    ],
)
def test_errors_of_dimension_numbers(change: dict[str, Any], message: str) -> None:
    x, updates = tensor("i32", 4, 3), tensor("i32", 5, 3)
    bind(rows(4, 3, 5), [x, tensor("i64", 5, 1), updates], [x], ADD)
    with pytest.raises(OpError, match=message):
        bind(rows(4, 3, 5), [x, tensor("i64", 5, 1), updates], [x], ADD, **change)


def test_errors_of_types() -> None:
    n, x, i, u = rows(4, 3, 5), tensor("i32", 4, 3), tensor("i64", 5, 1), tensor("i32", 5, 3)
    for operands, results, body, message in (
        ([x, tensor("f32", 5, 1), u], [x], ADD, "integers"),
        ([x, i], [x], ADD, "operands"),
        ([x, i, tensor("i8", 5, 3)], [x], ADD, "same element type"),
        ([x, i, tensor("i32", 6, 3)], [x], ADD, "updates have shape"),
        ([x, i, tensor("i32", 5, 4)], [x], ADD, "at most 3"),
        ([x, i, u], [tensor("i32", 4, 4)], ADD, "differ in shape"),
        ([x, i, u], [x], Body((tensor("i32"),), (tensor("i32"),)), "body"),
    ):
        with pytest.raises(OpError, match=message):
            bind(n, operands, results, body)
    with pytest.raises(ProgramError, match=r"\d+:\d+: expects bounds"):
        load(program(rows(4, 3, 5), BODIES["add"][0]).replace("tensor<5x3xi32>", "tensor<5x4xi32>"))(x, i, u)
