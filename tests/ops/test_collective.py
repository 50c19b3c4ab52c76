"""Collective ops among processes: as the specification's formulas say, as the reference does, and by hand."""

import dataclasses
import functools
import os

import numpy as np
import pytest

from minihlo.interp.errors import ExecutionError
from minihlo.ops.op import Body, Call, OpError, lookup

from ..run_op import tensor
from .grids import ADD_I64, CHANNEL, groups, program, run
from .reference import evaluate


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
    actual = run(case.text, case.result, case.shape, case.inputs)
    assert [[x.tolist() for x in xs] for xs in actual] == [[x.tolist() for x in xs] for xs in case.expected()]


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_as_the_reference_interpreter():
    # It runs as many processes at a time as the machine has cores, and gives up where more have to meet.
    cases = {name: case for name, case in CASES.items() if case.shape in ((1, 2), (2, 1))}
    programs = [
        (program(c.text, c.result, c.shape, c.inputs), [x for xs in c.inputs for x in xs]) for c in cases.values()
    ]
    for (name, case), expected in zip(cases.items(), evaluate(programs), strict=True):
        actual = [x for xs in run(case.text, case.result, case.shape, case.inputs) for x in xs]
        assert [x.tolist() for x in actual] == [x.tolist() for x in expected], name


def test_ids():
    text = """%i = stablehlo.replica_id : tensor<ui32>
      %j = stablehlo.partition_id : tensor<ui32>
      %r:2 = stablehlo.optimization_barrier %i, %j : tensor<ui32>, tensor<ui32>"""
    actual = run(text, "tensor<ui32>, tensor<ui32>", (2, 3), [[np.array(0)]] * 6)
    assert [(int(i), int(j)) for i, j in actual] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert all(x.dtype == np.uint32 for xs in actual for x in xs)


DATA = [[np.array([10 * p + i, 1]) for i in (1, 2)] for p in range(4)]


def with_roots(op: str, rows: list[list[int]], roots: list[list[int]]) -> list[list[list[int]]]:
    text = f"%r:2 = {op} {{{groups(rows)}, has_dynamic_root}} : (tensor<2xi64>, tensor<2xi64>, tensor<2xi32>) -> RESULT"
    result = "tensor<2xi64>, tensor<2xi64>"
    inputs = [[*d, np.array(r, np.int32)] for d, r in zip(DATA, roots, strict=True)]
    return [[x.tolist() for x in xs] for xs in run(text.replace("RESULT", f"({result})"), result, (4, 1), inputs)]


def test_collective_broadcast_of_the_roots():
    actual = with_roots('"stablehlo.collective_broadcast"(%x0, %x1, %x2)', [[3, 1], [0, 2]], [[0, 1]] * 4)
    assert actual == [[[1, 1], [22, 1]], [[31, 1], [12, 1]], [[1, 1], [22, 1]], [[31, 1], [12, 1]]]


def test_collective_reduce():
    t = "tensor<2xi64>"
    text = f'%r:1 = "stablehlo.collective_reduce"(%x0) {ADD_I64} {{{groups([[2, 0, 1]])}}} : ({t}) -> {t}'
    actual = run(text, t, (4, 1), [[d[0]] for d in DATA])
    assert [x.tolist() for (x,) in actual] == [[0, 0], [0, 0], [33, 3], [0, 0]]


def test_collective_reduce_to_the_roots():
    actual = with_roots(f'"stablehlo.collective_reduce"(%x0, %x1, %x2) {ADD_I64}', [[1, 0, 2]], [[1, 2]] * 4)
    zeros = [0, 0]
    assert actual == [[[33, 3], zeros], [zeros, zeros], [zeros, [36, 3]], [zeros, zeros]]


def test_a_root_outside_the_group():
    with pytest.raises(ExecutionError, match=r"expected roots from 0 to 1, as a group has 2 processes, got \[0, 2\]"):
        with_roots('"stablehlo.collective_broadcast"(%x0, %x1, %x2)', [[3, 1], [0, 2]], [[0, 2]] * 4)


X = tensor("i64", 2, 6)
GROUPS = {"replica_groups": np.array([[0, 1]])}
I64 = tensor("i64")
BODY = Body((I64, I64), (I64,), "stablehlo.add")


@pytest.mark.parametrize(
    ("name", "result", "attributes", "message"),
    [
        ("all_gather", tensor("i64", 2, 12), {"all_gather_dim": 2}, r"expected dimensions from 0 to 1 .*got \[2\]"),
        ("all_gather", tensor("i64", 4, 12), {"all_gather_dim": 1}, "operand tensor<2x6xi64>, got tensor<4x12xi64>"),
        ("all_gather", tensor("i32", 2, 12), {"all_gather_dim": 1}, "operand tensor<2x6xi64>, got tensor<2x12xi32>"),
        ("all_gather", tensor("i64", 2, 12), {"all_gather_dim": 1, "use_global_device_ids": True}, "without a channel"),
        (
            "all_gather",
            tensor("i64", 2, 12),
            {"all_gather_dim": 1, "replica_groups": np.array([[0, 0]])},
            r"expected distinct replica_groups of at least 0, got \[\[0, 0\]\]",
        ),
        ("all_gather", tensor("i64", 2, 12), {"all_gather_dim": 1, "replica_groups": "x"}, "to be lists of numbers"),
        ("all_reduce", tensor("i64", 2, 5), {}, "got tensor<2x5xi64>"),
        ("reduce_scatter", tensor("i64", 1, 3), {"scatter_dimension": 1}, "got tensor<1x3xi64>"),
        (
            "all_to_all",
            X,
            {"split_dimension": 0, "concat_dimension": 0, "split_count": 0},
            r"split_count is 0 \(expected at least 1\)",
        ),
        ("collective_permute", X, {"source_target_pairs": np.array([[0, 1, 2]])}, r"\[1, 3\]"),
        ("collective_permute", X, {"source_target_pairs": np.array([[0, 1], [0, 2]])}, "distinct sources and targets"),
        ("collective_permute", X, {"source_target_pairs": np.array([[0, 1], [2, 1]])}, "distinct sources and targets"),
        ("collective_broadcast", tensor("i64", 2), {}, "got tensor<2xi64>"),
        ("collective_reduce", X, {"has_dynamic_root": True}, "1 operands and 1 results"),
    ],
)  # fmt: skip
def test_refused_when_bound(name, result, attributes, message):
    record = lookup(name)
    assert record is not None
    bodies = (BODY,) if "reduce" in name else ()
    with pytest.raises(OpError, match=message):
        record.function(Call(record.name, (X,), (result,), {**GROUPS, **attributes}, bodies))


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        (
            'all_gather"(%x0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}',
            (3, 1),
            r"\[\[0, 1\]\], but the program runs as 3 replicas \(expected each of 0 to 2, by cross_replica\)",
        ),
        (
            'all_gather"(%x0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL}',
            (2, 2),
            r"expected result 0 of shape \[16\] in a group of 4, got tensor<8xi64>",
        ),
        (
            'all_gather"(%x0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL, '
            "use_global_device_ids}",
            (2, 2),
            r"runs as 4 processes \(expected each of 0 to 3, by flattened_ids\)",
        ),
        (
            'collective_permute"(%x0) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, CHANNEL}',
            (2, 1),
            "expected source_target_pairs within 1 partition",
        ),
        (
            'collective_broadcast"(%x0) {replica_groups = dense<[[2, 1]]> : tensor<1x2xi64>}',
            (2, 1),
            r"runs as 2 replicas \(expected some of 0 to 1, by cross_replica\)",
        ),
    ],
)  # fmt: skip
def test_refused_by_the_grid(text, shape, message):
    size = 8 if "gather" in text else 4
    result = f"tensor<{size}xi64>"
    body = f'%r:1 = "stablehlo.{text.replace("CHANNEL", CHANNEL)} : (tensor<4xi64>) -> {result}'
    with pytest.raises(ExecutionError, match=message):
        run(body, result, shape, [[np.arange(4)]] * (shape[0] * shape[1]))
