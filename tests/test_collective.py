"""Collective ops among processes: as the specification's formulas say, as the reference does, and by hand."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.interp.errors import ExecutionError, ProgramError
from minihlo.ops.policy import Policy
from minihlo.ops.process_groups import Groups, expand
from minihlo.ops.registry import Body, Call, OpError, lookup

from .grids import ADD, program, run
from .reference import evaluate
from .run_op import tensor

ADD_I64 = ADD.replace("T", "i64")
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>"


def groups(rows: list[list[int]]) -> str:
    return f"replica_groups = dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


# -- by the specification ----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    op: str
    shape: tuple[int, int]
    rows: list[list[int]]  #: the groups, or the pairs
    members: list[list[tuple[int, int]]]  #: the same as processes
    how: str = ""
    operands: tuple[tuple[int, ...], ...] = ((4, 6),)
    attributes: str = ""
    dims: tuple[int, ...] = ()

    @property
    def result(self) -> str:
        """The types of the results."""
        shapes = [list(s) for s in self.operands]
        size = len(self.members[0])
        if self.op == "all_gather":
            shapes[0][self.dims[0]] *= size
        elif self.op == "reduce_scatter":
            shapes[0][self.dims[0]] //= size
        elif self.op == "all_to_all":
            shapes[0][self.dims[0]] //= size
            shapes[0][self.dims[1]] *= size
        return ", ".join(str(tensor("i64", *s)) for s in shapes)

    @property
    def text(self) -> str:
        rows = f"dense<{self.rows}> : tensor<{len(self.rows)}x{len(self.rows[0])}xi64>"
        which = "source_target_pairs" if self.op == "collective_permute" else "replica_groups"
        body = ADD_I64 if "reduce" in self.op else ""
        names = ", ".join(f"%x{i}" for i in range(len(self.operands)))
        types = ", ".join(str(tensor("i64", *s)) for s in self.operands)
        return (
            f'%r:{len(self.operands)} = "stablehlo.{self.op}"({names}) {body}'
            f" {{{self.attributes} {which} = {rows}{self.how}}} : ({types}) -> ({self.result})"
        )

    @functools.cached_property
    def inputs(self) -> list[list[np.ndarray]]:
        rng = np.random.default_rng(1)
        return [[rng.integers(-99, 99, s) for s in self.operands] for _ in range(self.shape[0] * self.shape[1])]

    def expected(self) -> list[list[np.ndarray]]:
        """What the specification says, word for word."""
        processes = [(r, p) for r in range(self.shape[0]) for p in range(self.shape[1])]
        at = dict(zip(processes, self.inputs, strict=True))
        results = []
        for process in processes:
            group = next((g for g in self.members if process in g), [])
            gathered = [[at[m][i] for m in group] for i in range(len(self.operands))]
            mine = group.index(process) if group else -1
            if self.op == "all_gather":
                result = [np.concatenate(gathered[0], self.dims[0])]
            elif self.op == "all_reduce":
                result = [sum(g[1:], g[0]) for g in gathered]
            elif self.op == "reduce_scatter":
                result = [np.split(sum(gathered[0][1:], gathered[0][0]), len(group), self.dims[0])[mine]]
            elif self.op == "all_to_all":
                parts = [np.split(x, len(group), self.dims[0])[mine] for x in gathered[0]]
                result = [np.concatenate(parts, self.dims[1])]
            elif self.op == "collective_broadcast":
                result = gathered[0][:1] or [0 * at[process][0]]
            else:
                sources = [source for source, target in self.members if target == process]
                result = [at[sources[0]][0] if sources else 0 * at[process][0]]
            results.append(result)
        return results


CASES: dict[str, Case] = {}
for name, shape, rows, members, how in (
    ("replicas", (2, 1), [[0, 1]], [[(0, 0), (1, 0)]], ""),
    ("replicas in another order", (3, 1), [[2, 0, 1]], [[(2, 0), (0, 0), (1, 0)]], ""),
    (
        "replicas of each partition",
        (4, 2),
        [[0, 3], [2, 1]],
        [[(0, 0), (3, 0)], [(0, 1), (3, 1)], [(2, 0), (1, 0)], [(2, 1), (1, 1)]],
        "",
    ),
    ("a replica's partitions", (2, 2), [[0], [1]], [[(0, 0), (0, 1)], [(1, 0), (1, 1)]], ", " + CHANNEL),
    ("a replica and its partitions", (1, 2), [[0]], [[(0, 0), (0, 1)]], ", " + CHANNEL),
    (
        "flattened ids",
        (2, 2),
        [[3, 0], [1, 2]],
        [[(1, 1), (0, 0)], [(0, 1), (1, 0)]],
        f", {CHANNEL}, use_global_device_ids",
    ),
):
    CASES[f"all_gather {name}"] = Case(
        "all_gather", shape, rows, members, how, attributes="all_gather_dim = 1 : i64,", dims=(1,)
    )
    CASES[f"all_reduce {name}"] = Case("all_reduce", shape, rows, members, how, ((4,), (2, 2)))
    CASES[f"reduce_scatter {name}"] = Case(
        "reduce_scatter", shape, rows, members, how, attributes="scatter_dimension = 1 : i64,", dims=(1,)
    )
for name, shape, rows, members, how in (
    ("replicas", (2, 1), [[1, 0]], [[(1, 0), (0, 0)]], ""),
    ("replicas of each partition", (2, 2), [[0, 1]], [[(0, 0), (1, 0)], [(0, 1), (1, 1)]], ""),
    ("partitions", (1, 2), [[1, 0]], [[(0, 1), (0, 0)]], ", " + CHANNEL),
    ("partitions of each replica", (2, 2), [[1, 0]], [[(0, 1), (0, 0)], [(1, 1), (1, 0)]], ", " + CHANNEL),
):
    for dims in ((0, 1), (1, 0), (1, 1)):
        attributes = f"split_dimension = {dims[0]} : i64, concat_dimension = {dims[1]} : i64, split_count = 2 : i64,"
        CASES[f"all_to_all {name} {dims}"] = Case(
            "all_to_all", shape, rows, members, how, attributes=attributes, dims=dims
        )
    CASES[f"collective_broadcast {name}"] = Case("collective_broadcast", shape, rows, members, how)
for name, shape, rows, members, how in (
    ("some replicas", (4, 1), [[2, 1]], [[(2, 0), (1, 0)]], ""),
    ("one partition", (1, 2), [[1]], [[(0, 1)]], ", " + CHANNEL),
):
    CASES[f"collective_broadcast {name}"] = Case("collective_broadcast", shape, rows, members, how)
for name, shape, rows, members, how in (
    ("a pair", (2, 1), [[1, 0]], [[(1, 0), (0, 0)]], ""),
    ("a chain", (3, 1), [[0, 1], [1, 2]], [[(0, 0), (1, 0)], [(1, 0), (2, 0)]], ""),
    ("a ring", (3, 1), [[0, 1], [1, 2], [2, 0]], [[(0, 0), (1, 0)], [(1, 0), (2, 0)], [(2, 0), (0, 0)]], ""),
    ("themselves", (3, 1), [[0, 0], [2, 2]], [[(0, 0), (0, 0)], [(2, 0), (2, 0)]], ""),
    ("partitions", (2, 2), [[1, 0]], [[(0, 1), (0, 0)], [(1, 1), (1, 0)]], ", " + CHANNEL),
    ("replicas of each partition", (2, 2), [[0, 1]], [[(0, 0), (1, 0)], [(0, 1), (1, 1)]], ""),
):
    CASES[f"collective_permute {name}"] = Case("collective_permute", shape, rows, members, how)


@pytest.mark.parametrize("name", CASES)
def test_as_the_specification_says(name):
    case = CASES[name]
    found = run(case.text, case.result, case.shape, case.inputs)
    assert [[x.tolist() for x in xs] for xs in found] == [[x.tolist() for x in xs] for xs in case.expected()]


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_as_the_reference_interpreter():
    # It runs as many processes at a time as the machine has cores, and gives up where more have to meet.
    cases = {name: case for name, case in CASES.items() if case.shape in ((1, 2), (2, 1))}
    programs = [
        (program(c.text, c.result, c.shape, c.inputs), [x for xs in c.inputs for x in xs]) for c in cases.values()
    ]
    for (name, case), expected in zip(cases.items(), evaluate(programs), strict=True):
        found = [x for xs in run(case.text, case.result, case.shape, case.inputs) for x in xs]
        assert [x.tolist() for x in found] == [x.tolist() for x in expected], name


def test_ids():
    text = """%i = stablehlo.replica_id : tensor<ui32>
      %j = stablehlo.partition_id : tensor<ui32>
      %r:2 = stablehlo.optimization_barrier %i, %j : tensor<ui32>, tensor<ui32>"""
    found = run(text, "tensor<ui32>, tensor<ui32>", (2, 3), [[np.array(0)]] * 6)
    assert [(int(i), int(j)) for i, j in found] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert all(x.dtype == np.uint32 for xs in found for x in xs)


# -- reductions --------------------------------------------------------------------------------------------------------


def reduced(arrays: list[np.ndarray], body: str, order: list[int], policy: Policy | None = None) -> list[np.ndarray]:
    """The results of all_reduce, of each process."""
    text = f'%r:1 = "stablehlo.all_reduce"(%x0) {body} {{{groups([order])}}} : (TYPE) -> TYPE'
    t = program("", "TYPE", (len(arrays), 1), [[a] for a in arrays]).partition("%x0: ")[2].partition(")")[0]
    return [x for (x,) in run(text.replace("TYPE", t), t, (len(arrays), 1), [[a] for a in arrays], policy)]


def test_members_are_added_in_the_order_of_the_group():
    # f8E4M3FN has four significant bits: 16 + 1 is 16 (ties to even), and 1 + 1 + 16 is 18.
    arrays = [np.array([v], ml_dtypes.float8_e4m3fn) for v in (16, 1, 1)]
    body = ADD.replace("T", "f8E4M3FN")
    assert [x.view(np.uint8).tolist() for x in reduced(arrays, body, [0, 1, 2])] == [[0x58]] * 3  # 16
    assert [x.view(np.uint8).tolist() for x in reduced(arrays, body, [1, 2, 0])] == [[0x59]] * 3  # 18


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 1, 0]])
@pytest.mark.parametrize("size", [1, 3, 500])
def test_f32_is_rounded_after_each_member(order, size):
    values = np.array([1, 1e8, -1e8, 3], np.float32)
    total = np.float32(values[order[0]])
    for i in order[1:]:
        total = np.float32(total + values[i])
    found = reduced([np.full(size, v, np.float32) for v in values], ADD.replace("T", "f32"), order)
    assert all((x == total).all() and x.shape == (size,) for x in found)


def test_any_body():
    body = """({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %two = stablehlo.constant dense<2> : tensor<i32>
        %d = stablehlo.multiply %a, %two : tensor<i32>
        %s = stablehlo.subtract %d, %b : tensor<i32>
        stablehlo.return %s : tensor<i32>
    })"""
    found = reduced([np.array([[i, 10 * i]], np.int32) for i in (1, 2, 3)], body, [2, 0, 1])
    assert [x.tolist() for x in found] == [[[2 * (2 * 3 - 1) - 2, 2 * (2 * 30 - 10) - 20]]] * 3


def test_a_body_of_a_wider_type():
    body = ADD.replace("T", "f32")
    text = f'%r:1 = "stablehlo.all_reduce"(%x0) {body} {{{groups([[0, 1]])}}} : (tensor<2xf16>) -> tensor<2xf32>'
    inputs = [[np.array([2048, 1], np.float16)], [np.array([1, 2], np.float16)]]
    found = run(text, "tensor<2xf32>", (2, 1), inputs)
    assert [x.tolist() for (x,) in found] == [[2049, 3]] * 2  # f16 would have 2048


@pytest.mark.parametrize(
    ("dtype", "name", "values", "total"),
    [
        (bool, "i1", [True, False, True], True),
        (ml_dtypes.int4, "i4", [7, 1, 0], -8),
        (np.uint8, "ui8", [255, 1, 2], 2),
        (np.complex64, "complex<f32>", [1 + 2j, 3j, 1], 2 + 5j),
        (np.float32, "f32", [-0.0, -0.0, -0.0], -0.0),
        (np.float32, "f32", [np.inf, 1, -np.inf], np.nan),
        (ml_dtypes.float8_e5m2fnuz, "f8E5M2FNUZ", [np.nan, 1, 2], np.nan),
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (5,)])
def test_types_and_shapes(dtype, name, values, total, shape):
    arrays = [np.full(shape, v).astype(dtype) for v in values]
    expected = np.full(shape, total).astype(dtype)
    for found in reduced(arrays, ADD.replace("T", name), [0, 1, 2]):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if not (np.asarray(total) != np.asarray(total)).any():
            assert found.tobytes() == expected.tobytes()
        else:
            assert np.isnan(found.astype(np.float32)).all()


def test_groups_of_unlike_length():
    text = (
        f'%r:1 = "stablehlo.all_reduce"(%x0) {ADD_I64} {{{groups([[0, 2], [1, -1]])}}} : (tensor<i64>) -> tensor<i64>'
    )
    found = run(text, "tensor<i64>", (3, 1), [[np.array(i)] for i in (1, 2, 4)])
    assert [int(x) for (x,) in found] == [5, 2, 5]


def test_cross_replica_sum():
    t = "tensor<2xf8E4M3FN>"
    text = f'%r:1 = "stablehlo.cross-replica-sum"(%x0) {{{groups([[1, 2, 0]])}}} : ({t}) -> {t}'
    inputs = [[np.array([v, w], ml_dtypes.float8_e4m3fn)] for v, w in ((16, 2), (1, 3), (1, 4))]
    found = run(text, t, (3, 1), inputs)
    assert [x.astype(float).tolist() for (x,) in found] == [[18, 9]] * 3


def test_stochastic_rounding_gives_all_members_the_same_and_each_run_too():
    arrays = [np.full(200, v, ml_dtypes.float8_e4m3fn) for v in (16, 1)]  # 17 is halfway between 16 and 18
    body, policy = ADD.replace("T", "f8E4M3FN"), Policy(rounding="stochastic", seed=3)
    first, second = (np.array(reduced(arrays, body, [0, 1], policy)).astype(float) for _ in range(2))
    assert (first == second).all()
    assert (first[0] == first[1]).all()
    assert set(first[0]) == {16, 18}
    other = reduced(arrays, body, [0, 1], Policy(rounding="stochastic", seed=4))[0].astype(float)
    assert (other != first[0]).any()


@pytest.mark.parametrize("late", [0, 1])
def test_stochastic_rounding_does_not_depend_on_who_is_late(late):
    body = f"""%me = stablehlo.replica_id : tensor<ui32>
      %late = stablehlo.constant dense<{late}> : tensor<ui32>
      %turns = stablehlo.constant dense<30000> : tensor<ui32>
      %zero = stablehlo.constant dense<0> : tensor<ui32>
      %one = stablehlo.constant dense<1> : tensor<ui32>
      %is = stablehlo.compare EQ, %me, %late : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %n = stablehlo.select %is, %turns, %zero : tensor<i1>, tensor<ui32>
      %w = stablehlo.while(%i = %zero) : tensor<ui32>
      cond {{
        %c = stablehlo.compare LT, %i, %n : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %j = stablehlo.add %i, %one : tensor<ui32>
        stablehlo.return %j : tensor<ui32>
      }}
      %r:1 = "stablehlo.all_reduce"(%x0) {ADD.replace("T", "f8E4M3FN")} {{{groups([[0, 1]])}}} : (TYPE) -> TYPE"""
    t = "tensor<50xf8E4M3FN>"
    arrays = [np.full(50, v, ml_dtypes.float8_e4m3fn) for v in (16, 1)]
    policy = Policy(rounding="stochastic", seed=3)
    found = run(body.replace("TYPE", t), t, (2, 1), [[a] for a in arrays], policy)
    expected = reduced(arrays, ADD.replace("T", "f8E4M3FN"), [0, 1], policy)[0]
    assert [x.tobytes() for (x,) in found] == [expected.tobytes()] * 2


# -- roots -------------------------------------------------------------------------------------------------------------

DATA = [[np.array([10 * p + i, 1]) for i in (1, 2)] for p in range(4)]


def with_roots(op: str, rows: list[list[int]], roots: list[list[int]]) -> list[list[list[int]]]:
    text = f"%r:2 = {op} {{{groups(rows)}, has_dynamic_root}} : (tensor<2xi64>, tensor<2xi64>, tensor<2xi32>) -> RESULT"
    result = "tensor<2xi64>, tensor<2xi64>"
    inputs = [[*d, np.array(r, np.int32)] for d, r in zip(DATA, roots, strict=True)]
    return [[x.tolist() for x in xs] for xs in run(text.replace("RESULT", f"({result})"), result, (4, 1), inputs)]


def test_collective_broadcast_of_the_roots():
    found = with_roots('"stablehlo.collective_broadcast"(%x0, %x1, %x2)', [[3, 1], [0, 2]], [[0, 1]] * 4)
    assert found == [[[1, 1], [22, 1]], [[31, 1], [12, 1]], [[1, 1], [22, 1]], [[31, 1], [12, 1]]]


def test_collective_reduce():
    t = "tensor<2xi64>"
    text = f'%r:1 = "stablehlo.collective_reduce"(%x0) {ADD_I64} {{{groups([[2, 0, 1]])}}} : ({t}) -> {t}'
    found = run(text, t, (4, 1), [[d[0]] for d in DATA])
    assert [x.tolist() for (x,) in found] == [[0, 0], [0, 0], [33, 3], [0, 0]]


def test_collective_reduce_to_the_roots():
    found = with_roots(f'"stablehlo.collective_reduce"(%x0, %x1, %x2) {ADD_I64}', [[1, 0, 2]], [[1, 2]] * 4)
    zeros = [0, 0]
    assert found == [[[33, 3], zeros], [zeros, zeros], [zeros, [36, 3]], [zeros, zeros]]


def test_a_root_outside_the_group():
    with pytest.raises(ExecutionError, match=r"roots \[0, 2\] of a group of 2 processes \(would be 0 to 1\)"):
        with_roots('"stablehlo.collective_broadcast"(%x0, %x1, %x2)', [[3, 1], [0, 2]], [[0, 2]] * 4)


# -- groups ------------------------------------------------------------------------------------------------------------


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
        ([axis("z")], "axis 'z', which the mesh does not have"),
        ([axis("y", 1, 3)], r"cut axis 'y' of size 4 at \[1, 3, 4\]"),
        ([axis("x"), axis("x")], "listed twice"),
    ):
        with pytest.raises(OpError, match=message):
            rows_of(axes)


@pytest.mark.parametrize(
    "mesh",
    [
        '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>, '
        '#stablehlo.mesh_axis<name = "y", size = 2>]>',
        "@mesh",
    ],
)
def test_axes_of_a_mesh_in_a_program(mesh):
    axes = f'#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = [#stablehlo.axis_ref<name = "x">]>'
    text = (
        f'%r:1 = "stablehlo.all_gather"(%x0) {{all_gather_dim = 0 : i64, {CHANNEL}, use_global_device_ids,'
        f" replica_groups = {axes}}} : (tensor<1xi64>) -> tensor<2xi64>"
    )
    inputs = [[np.array([i])] for i in range(4)]
    source = program(text, "tensor<2xi64>", (1, 4), inputs, extra='sdy.mesh @mesh = <["x"=2, "y"=2]>')
    found = load(source)(*(x for xs in inputs for x in xs))
    assert [x.tolist() for x in found] == [[0, 2], [1, 3], [0, 2], [1, 3]]


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


# -- asynchronous forms ------------------------------------------------------------------------------------------------

ASYNC = {
    "all_gather": ('"stablehlo.all_gather"(%y) {all_gather_dim = 0 : i64, GROUPS}', 4, [[0, 1, 10, 11]] * 2),
    "all_reduce": ('"stablehlo.all_reduce"(%y) ADD {GROUPS}', 2, [[10, 12]] * 2),
    "reduce_scatter": ('"stablehlo.reduce_scatter"(%y) ADD {scatter_dimension = 0 : i64, GROUPS}', 1, [[10], [12]]),
    "all_to_all": (
        '"stablehlo.all_to_all"(%y) {split_dimension = 0 : i64, concat_dimension = 0 : i64, '
        "split_count = 2 : i64, GROUPS}",
        2,
        [[0, 10], [1, 11]],
    ),
    "collective_broadcast": ('"stablehlo.collective_broadcast"(%y) {GROUPS}', 2, [[0, 1]] * 2),
    "collective_permute": (
        '"stablehlo.collective_permute"(%y) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}',
        2,
        [[0, 0], [0, 1]],
    ),
    "slice": (
        '"stablehlo.slice"(%y) {start_indices = array<i64: 1>, limit_indices = array<i64: 2>, strides = array<i64: 1>}',
        1,
        [[1], [11]],
    ),
}


def started(op: str, name: str, operand: str = "%x0") -> str:
    """The text that begins an op and calls its future by `name`."""
    text, size, _ = ASYNC[op]
    text = text.replace("ADD", ADD_I64).replace("GROUPS", groups([[0, 1]]))
    return f"""{name} = "stablehlo.async_start"({operand}) ({{
      ^bb0(%y: tensor<2xi64>):
        %z = {text} : (tensor<2xi64>) -> tensor<{size}xi64>
        stablehlo.return %z : tensor<{size}xi64>
      }}) : (tensor<2xi64>) -> !stablehlo.future<tensor<{size}xi64>>"""


@pytest.mark.parametrize("op", ASYNC)
def test_asynchronous(op):
    _, size, expected = ASYNC[op]
    result = f"tensor<{size}xi64>"
    text = f"""{started(op, "%f")}
      %s = "stablehlo.async_done"(%f) : (!stablehlo.future<{result}>) -> {result}
      %r:1 = "stablehlo.async_done"(%f) : (!stablehlo.future<{result}>) -> {result}"""  # a value may be used twice
    found = run(text, result, (2, 1), [[np.array([0, 1])], [np.array([10, 11])]])
    assert [x.tolist() for (x,) in found] == expected


def test_starting_does_not_wait():
    # The two processes start the same ops in unlike order: whoever waits for the first never comes to the second.
    def process(name: str, order: str) -> str:
        starts = [
            started("all_reduce", f"%f{n}").replace("replica_groups", f"{CHANNEL.replace('1', n)}, replica_groups")
            for n in order
        ]
        dones = [f'%r{n} = "stablehlo.async_done"(%f{n}) : (!stablehlo.future<{t}>) -> {t}' for n in "12"]
        body = "\n".join([*starts, *dones, f"%r = stablehlo.subtract %r1, %r2 : {t}"])
        return f"func.func @{name}(%x0: {t}) -> {t} {{ {body}\n return %r : {t} }}"

    t = "tensor<2xi64>"
    text = f"""{process("one", "12")}
      {process("two", "21")}
      func.func @main(%x: {t}) -> ({t}, {t}) {{
        %r:2 = "interpreter.run_parallel"(%x, %x) {{programs = [[@one], [@two]]}} : ({t}, {t}) -> ({t}, {t})
        return %r#0, %r#1 : {t}, {t}
      }}"""
    assert [x.tolist() for x in load(text)(np.array([1, 2]))] == [[0, 0]] * 2


# -- what is refused ---------------------------------------------------------------------------------------------------

X = tensor("i64", 2, 6)
GROUPS = {"replica_groups": np.array([[0, 1]])}
I64 = tensor("i64")
BODY = Body((I64, I64), (I64,), "stablehlo.add")


@pytest.mark.parametrize(
    ("name", "result", "attributes", "message"),
    [
        ("all_gather", tensor("i64", 2, 12), {"all_gather_dim": 2}, r"dimensions \[2\] .* \(would be 0 to 1\)"),
        ("all_gather", tensor("i64", 4, 12), {"all_gather_dim": 1}, "result 0 is tensor<4x12xi64> of operand"),
        ("all_gather", tensor("i32", 2, 12), {"all_gather_dim": 1}, "result 0 is tensor<2x12xi32> of operand"),
        ("all_gather", tensor("i64", 2, 12), {"all_gather_dim": 1, "use_global_device_ids": True}, "without a channel"),
        (
            "all_gather",
            tensor("i64", 2, 12),
            {"all_gather_dim": 1, "replica_groups": np.array([[0, 0]])},
            r"\[\[0, 0\]\] are not distinct",
        ),
        ("all_gather", tensor("i64", 2, 12), {"all_gather_dim": 1, "replica_groups": "x"}, "neither a list of lists"),
        ("all_reduce", tensor("i64", 2, 5), {}, "result 0 is tensor<2x5xi64>"),
        ("reduce_scatter", tensor("i64", 1, 3), {"scatter_dimension": 1}, "result 0 is tensor<1x3xi64>"),
        (
            "all_to_all",
            X,
            {"split_dimension": 0, "concat_dimension": 0, "split_count": 0},
            r"split_count is 0 \(would be at least 1\)",
        ),
        ("collective_permute", X, {"source_target_pairs": np.array([[0, 1, 2]])}, r"shape \[1, 3\] \(would be"),
        ("collective_permute", X, {"source_target_pairs": np.array([[0, 1], [0, 2]])}, "a source or a target twice"),
        ("collective_permute", X, {"source_target_pairs": np.array([[0, 1], [2, 1]])}, "a source or a target twice"),
        ("collective_broadcast", tensor("i64", 2), {}, "result 0 is tensor<2xi64> of operand"),
        ("collective_reduce", X, {"has_dynamic_root": True}, "1 operands and 1 results"),
    ],
)  # fmt: skip
def test_refused_when_bound(name, result, attributes, message):
    record = lookup(name)
    assert record is not None
    bodies = (BODY,) if "reduce" in name else ()
    with pytest.raises(OpError, match=message):
        record.kernel(Call(record.name, (X,), (result,), {**GROUPS, **attributes}, bodies))


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        (
            'all_gather"(%x0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}',
            (3, 1),
            r"\[\[0, 1\]\], but the program runs as 3 replicas \(would be each of 0 to 2, by cross_replica\)",
        ),
        (
            'all_gather"(%x0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL}',
            (2, 2),
            r"result 0 has shape \[16\] in a group of 4, not tensor<8xi64>",
        ),
        (
            'all_gather"(%x0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL, '
            "use_global_device_ids}",
            (2, 2),
            r"runs as 4 processes \(would be each of 0 to 3, by flattened_ids\)",
        ),
        (
            'collective_permute"(%x0) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL}',
            (2, 1),
            "source_target_pairs name 1, but the program runs as 1 partition ",
        ),
        (
            'collective_broadcast"(%x0) {replica_groups = dense<[[2, 1]]> : tensor<1x2xi64>}',
            (2, 1),
            r"runs as 2 replicas \(would be some of 0 to 1, by cross_replica\)",
        ),
    ],
)  # fmt: skip
def test_refused_by_the_grid(text, shape, message):
    size = 8 if "gather" in text else 4
    result = f"tensor<{size}xi64>"
    body = f'%r:1 = "stablehlo.{text.replace("CHANNEL", CHANNEL)} : (tensor<4xi64>) -> {result}'
    with pytest.raises(ExecutionError, match=message):
        run(body, result, shape, [[np.arange(4)]] * (shape[0] * shape[1]))


def test_the_parser_refuses_two_ops_in_an_asynchronous_body():
    text = f"""func.func @main(%x0: tensor<2xi64>) {{ {started("slice", "%f")} return }}"""
    load(text).plan()
    with pytest.raises(ProgramError):
        load(
            text.replace("stablehlo.return %z", "%w = stablehlo.add %z, %z : tensor<1xi64>\nstablehlo.return %w")
        ).plan()
