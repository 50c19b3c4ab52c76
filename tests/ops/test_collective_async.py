"""Collective ops that are started and waited for."""

import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.interp.errors import ProgramError

from ..jaxlib_versions import since_0_10
from .grids import ADD_I64, CHANNEL, groups, run

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
    actual = run(text, result, (2, 1), [[np.array([0, 1])], [np.array([10, 11])]])
    assert [x.tolist() for (x,) in actual] == expected


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


@since_0_10
def test_the_parser_refuses_two_ops_in_an_asynchronous_body():
    text = f"""func.func @main(%x0: tensor<2xi64>) {{ {started("slice", "%f")} return }}"""
    load(text).plan()
    with pytest.raises(ProgramError):
        load(
            text.replace("stablehlo.return %z", "%w = stablehlo.add %z, %z : tensor<1xi64>\nstablehlo.return %w")
        ).plan()
