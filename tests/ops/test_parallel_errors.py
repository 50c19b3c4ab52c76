"""Processes of a grid that wait for each other, fail, or are interrupted: none is left behind."""

import signal

import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.interp.errors import CheckFailure, ExecutionError
from minihlo.ops.op import Body, Call, Callee, OpError, lookup

from ..run_op import tensor
from .grids import program
from .parallel_cases import FOREVER, SAME, TOKEN, T, X, Y, lists, no_process_is_left, recv, reduce, replicas, send


def deadlock(text: str, *arrays: np.ndarray) -> str:
    with pytest.raises(ExecutionError, match="deadlock") as caught:
        load(text)(*arrays)
    assert no_process_is_left()
    return str(caught.value)


def test_two_that_wait_for_each_other():
    message = deadlock(replicas(f"%r, %a = {recv(1)}\n%b = {send('%r', 2)}", f"%r, %a = {recv(2)}"), X, Y)
    assert message == (
        "<string>:13:18: interpreter.run_parallel: deadlock: "
        "process (0, 0) waits in stablehlo.recv (channel 1) for what no process sends at <string>:3:20; "
        "process (1, 0) waits in stablehlo.recv (channel 2) for what no process sends at <string>:9:20"
    )


def test_one_that_has_ended():
    message = deadlock(replicas(f"%r = {reduce()}", SAME), X, Y)
    assert (
        "process (0, 0) waits in stablehlo.all_reduce (group (0, 0), (1, 0)) for (1, 0), of which (1, 0) ended at"
        in message
    )
    # Told at once, though another one is still busy.
    assert "of which (1, 0) ended" in deadlock(
        replicas(f"%r = {reduce('[[0, 1], [2, -1]]')}", SAME, f"{FOREVER}\n{SAME}"), X, Y, X
    )


def test_one_by_itself():
    text = f"""func.func @main(%t: {TOKEN}) -> {T} {{
      %r, %u = {recv(3)}
      return %r : {T}
    }}"""
    with pytest.raises(ExecutionError) as caught:
        load(text)(None)
    assert str(caught.value) == (
        "<string>:2:16: stablehlo.recv: deadlock: waits in stablehlo.recv (channel 3) for what no process sends"
    )


def test_nothing_is_left_over_for_the_next_run():
    function = f"func.func @main(%x: {T}) -> {T} {{ %t = stablehlo.create_token : {TOKEN}\n BODY return %r : {T} }}"
    assert lists(function.replace("BODY", f"%u = {send('%x', 1)}\n{SAME}\n"), X) == [[1, 2]]
    assert "deadlock" in deadlock(function.replace("BODY", f"%r, %u = {recv(1)}\n"), X)


def test_groups_that_do_not_match():
    message = deadlock(replicas(*[f"%r = {reduce(g)}" for g in ("[[0, 1, 2]]", "[[0, 1, 2]]", "[[0, 2, 1]]")]), X, X, X)
    assert "group (0, 0), (1, 0), (2, 0)) for (2, 0)" in message
    assert "group (0, 0), (2, 0), (1, 0)) for (0, 0), (1, 0)" in message


def test_a_large_grid_is_not_listed_whole():
    rows = str([list(range(20))])
    message = deadlock(replicas(*[f"%r = {reduce(rows)}"] * 19, SAME), *[X] * 20)
    assert "group (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), … (20 in all)) for (19, 0)" in message
    assert message.count("waits in") == 8
    assert message.endswith("; and 11 more")


CHECK = f'%c = stablehlo.constant dense<7> : {T}\n"check.expect_eq"(%x, %c) : ({T}, {T}) -> ()\n{SAME}'


@pytest.mark.parametrize("other", [f"%r = {reduce()}", f"{FOREVER}\n{SAME}", f"%r, %a = {recv(1)}"])
def test_an_error_ends_all(other):
    with pytest.raises(
        CheckFailure, match=r"^<string>:\d+:\d+: check.expect_eq: element \[0\]: .* \(in process \(1, 0\)\)$"
    ):
        load(replicas(other, CHECK))(X, Y)
    assert no_process_is_left()


def test_others_bring_another_shape():
    shorter = f"%y = stablehlo.slice %x [0:1] : ({T}) -> tensor<1xi64>\n%z = " + reduce(value="%y").replace(
        T, "tensor<1xi64>"
    )
    with pytest.raises(ExecutionError) as caught:
        load(replicas(f"%r = {reduce()}", f"{shorter}\n{SAME}"))(X, Y)
    message = str(caught.value)
    assert "all_reduce: process (" in message
    for brings in ("int64 [2], stablehlo.add, -> tensor<2xi64>", "int64 [1], stablehlo.add, -> tensor<1xi64>"):
        assert brings in message


def test_others_bring_another_op():
    groups = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
    gather = f'%y = "stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64, {groups}}}'
    with pytest.raises(ExecutionError, match=r"has come to stablehlo\.all_"):
        load(replicas(f"%r = {reduce()}", f"{gather} : ({T}) -> tensor<4xi64>\n{SAME}"))(X, Y)
    with pytest.raises(ExecutionError, match=r"stablehlo.(add|maximum), .*stablehlo.(add|maximum), "):
        load(replicas(f"%r = {reduce()}", f"%r = {reduce().replace('stablehlo.add', 'stablehlo.maximum')}"))(X, Y)


PAIR = (tensor("i64", 2),)


ONE = Callee(lambda x: (x,), Body(PAIR, PAIR))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"programs": (("f",), ("f", "f"))}, r"got lengths \[1, 2\]"),
        ({"programs": ()}, r"got lengths \[\]"),
        ({"programs": (("f", "f"),)}, r"the operands of the functions, \(tensor<2xi64>, tensor"),
        ({"programs": (("f",),)}, r"the results of the functions, \(tensor<2xi64>\), got \(\)"),
        ({"programs": (("f",),), "infeed": ("f",)}, "a function that infeed lists takes arguments"),
        ({}, "attribute 'programs' is missing"),
    ],
)
def test_refused(attributes, message):
    record = lookup("interpreter.run_parallel")
    assert record is not None
    with pytest.raises(OpError, match=message):
        record.function(Call(record.name, PAIR, (), attributes, functions={"f": ONE}))


def test_grids_in_grids():
    inner = f"""%r:1 = "interpreter.run_parallel"(%x0) {{programs = [[@inner]]}} : ({T}) -> {T}"""
    extra = f"func.func @inner(%x: {T}) -> {T} {{ %r = {reduce('[[0]]')} return %r : {T} }}"
    text = program(inner, T, (2, 1), [[X], [Y]], extra)
    assert lists(text, X, Y) == [[1, 2], [10, 20]]
    with pytest.raises(
        ExecutionError, match=r"runs as 1 replica .* \(in process \(0, 0\)\) \(in process \([01], 0\)\)$"
    ):
        load(text.replace("dense<[[0]]>", "dense<[[0, 1]]>").replace("tensor<1x1xi64>", "tensor<1x2xi64>"))(X, X)
    endless = text.replace("@inner]]", "@process]]")
    with pytest.raises(ExecutionError, match="nested more than 8 deep"):
        load(endless)(X, X)
    assert no_process_is_left()


def test_a_grid_in_a_grid_ends_with_it():
    waiting = f'%q:1 = "interpreter.run_parallel"(%x) {{programs = [[@busy]]}} : ({T}) -> {T}'
    busy = f"func.func @busy(%x: {T}) -> {T} {{ {FOREVER}\n return %x : {T} }}"
    with pytest.raises(CheckFailure):
        load(busy + replicas(f"{waiting}\n{SAME}", CHECK))(X, Y)
    assert no_process_is_left()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
@pytest.mark.parametrize("other", [f"{FOREVER}\n{SAME}", f"%r, %a = {recv(1)}"])
def test_interrupted(other):
    loaded = load(replicas(f"{FOREVER}\n{SAME}", other))
    loaded.plan()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            loaded(X, Y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert no_process_is_left()
