"""How the processes of a grid form groups: by strategies, by axes of a mesh, and where none are named."""

from typing import Any

import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.ops.op import Call, OpError
from minihlo.ops.processes.process_groups import Groups, expand

from ..jaxlib_versions import since_0_10
from .grids import ADD_I64, CHANNEL, groups, program, run


def test_the_strategies():
    rows = ((0, 1), (2, 3))
    assert expand("cross_replica", rows, 4, 2) == [
        ((0, 0), (1, 0)), ((0, 1), (1, 1)), ((2, 0), (3, 0)), ((2, 1), (3, 1)),
    ]  # fmt: skip
    assert expand("cross_partition", ((1, 0),), 2, 2) == [((0, 1), (0, 0)), ((1, 1), (1, 0))]
    assert expand("cross_replica_and_partition", rows, 4, 2) == [
        ((0, 0), (1, 0), (0, 1), (1, 1)), ((2, 0), (3, 0), (2, 1), (3, 1)),
    ]  # fmt: skip
    assert expand("flattened_ids", ((0, 5), (7, 2)), 4, 2) == [((0, 0), (2, 1)), ((3, 1), (1, 0))]


def axis(name: str, pre: int = 0, size: int = 0) -> dict[str, Any]:
    return {"name": name, "sub_axis_info": {"pre_size": pre, "size": size} if size else None}


def rows_of(axes: list[dict[str, Any]], ids: list[int] | None = None) -> list[list[int]]:
    mesh = {"axes": ({"name": "x", "size": 2}, {"name": "y", "size": 4}), "device_ids": ids}
    call = Call("", (), (), {"replica_groups": {"mesh": mesh, "axes": axes}})
    return [list(row) for row in Groups(call).rows]


def test_axes_of_a_mesh():
    # Devices lie as [[0, 1, 2, 3], [4, 5, 6, 7]].
    assert rows_of([axis("x")]) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert rows_of([axis("y")]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert rows_of([axis("y"), axis("x")]) == [[0, 4, 1, 5, 2, 6, 3, 7]]
    assert rows_of([axis("y", 1, 2)]) == [[0, 2], [1, 3], [4, 6], [5, 7]]  # the major half of y
    assert rows_of([axis("y", 2, 2)]) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert rows_of([axis("y", 2, 2), axis("x")]) == [[0, 4, 1, 5], [2, 6, 3, 7]]
    assert rows_of([axis("x")], [7, 6, 5, 4, 3, 2, 1, 0]) == [[7, 3], [6, 2], [5, 1], [4, 0]]
    assert rows_of([]) == [[i] for i in range(8)]
    for axes, message in (
        ([axis("z")], "got 'z'"),
        ([axis("y", 1, 3)], r"cuts of axis 'y' of size 4 that divide each other, got \[1, 3, 4\]"),
        ([axis("x"), axis("x")], "distinct axes"),
    ):
        with pytest.raises(OpError, match=message):
            rows_of(axes)


def test_rows_are_filled_up_with_minus_one():
    for rows, expected in (
        ([[0, 1, -1, -1], [2, -1, -1, -1]], [[0, 1], [2]]),
        ([[0, 1], [2, -1]], [[0, 1], [2]]),
        ([[-1, -1], [0, 1]], [[], [0, 1]]),
        ([[-1] * 4] * 3, [[]] * 3),
        (np.zeros((0, 3)), []),
        (np.zeros((2, 0)), []),
    ):
        actual = Groups(Call("", (), (), {"replica_groups": np.array(rows, np.int64)})).rows
        assert [list(row) for row in actual] == expected
    for wrong in ([[0, -1, 1, -1]], [[-2, -1]], [[0, 0, -1]]):
        with pytest.raises(OpError, match="expected distinct replica_groups of at least 0"):
            Groups(Call("", (), (), {"replica_groups": np.array(wrong)}))


@pytest.mark.parametrize(
    "mesh",
    [
        '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>, '
        '#stablehlo.mesh_axis<name = "y", size = 2>]>',
        "@mesh",
    ],
)
@since_0_10
def test_axes_of_a_mesh_in_a_program(mesh):
    axes = f'#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = [#stablehlo.axis_ref<name = "x">]>'
    text = (
        f'%r:1 = "stablehlo.all_gather"(%x0) {{all_gather_dim = 0 : i64, {CHANNEL}, use_global_device_ids,'
        f" replica_groups = {axes}}} : (tensor<1xi64>) -> tensor<2xi64>"
    )
    inputs = [[np.array([i])] for i in range(4)]
    source = program(text, "tensor<2xi64>", (1, 4), inputs, extra='sdy.mesh @mesh = <["x"=2, "y"=2]>')
    actual = load(source)(*(x for xs in inputs for x in xs))
    assert [x.tolist() for x in actual] == [[0, 2], [1, 3], [0, 2], [1, 3]]


def test_no_groups_are_one_of_all():
    none = "replica_groups = dense<> : tensor<0x0xi64>"
    text = f'%r:1 = "stablehlo.cross-replica-sum"(%x0) {{{none}}} : (tensor<i64>) -> tensor<i64>'
    assert [int(x) for (x,) in run(text, "tensor<i64>", (3, 1), [[np.array(i)] for i in (1, 2, 4)])] == [7] * 3


def test_a_program_by_itself_is_a_grid_of_one():
    text = f"""func.func @main(%x: tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<ui32>) {{
      %r = "stablehlo.all_reduce"(%x) {ADD_I64} {{{groups([[0]])}}} : (tensor<2xi64>) -> tensor<2xi64>
      %g = "stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64, {groups([[0]])}}} : (tensor<2xi64>) -> tensor<2xi64>
      %p = "stablehlo.collective_permute"(%x) {{source_target_pairs = dense<> : tensor<0x2xi64>}}
        : (tensor<2xi64>) -> tensor<2xi64>
      %i = stablehlo.replica_id : tensor<ui32>
      return %r, %g, %p, %i : tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<ui32>
    }}"""
    assert [x.tolist() for x in load(text)(np.array([1, 2]))] == [[1, 2], [1, 2], [0, 0], 0]
