"""Processes: how they send and wait, and how deadlocks, errors and Ctrl-C end them."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp import machine
from minihlo.interp.api import load
from minihlo.interp.errors import CheckFailure, ExecutionError
from minihlo.ops.policy import Policy
from minihlo.ops.registry import Body, Call, Callee, OpError, lookup

from .grids import ADD, program, run
from .programs import main
from .run_op import tensor

T = "tensor<2xi64>"
TOKEN = "!stablehlo.token"
X, Y = np.array([1, 2]), np.array([10, 20])


def channel(number: int, more: str = "", host: int = 1) -> str:
    """`host` is the type of the channel where the transfer is one to or from the host."""
    kind = host if "host" in more else 1
    return f"{{channel_handle = #stablehlo.channel_handle<handle = {number}, type = {kind}>{more}}}"


def send(value: str, number: int, more: str = "") -> str:
    return f'"stablehlo.send"({value}, %t) {channel(number, more, 2)} : ({T}, {TOKEN}) -> {TOKEN}'


def recv(number: int, more: str = "") -> str:
    return f'"stablehlo.recv"(%t) {channel(number, more, 3)} : ({TOKEN}) -> ({T}, {TOKEN})'


def reduce(groups: str = "[[0, 1]]", value: str = "%x") -> str:
    """A sum over all replicas."""
    shape = f"{groups.count('[') - 1}x{groups.split(']')[0].count(',') + 1}"
    return (
        f'"stablehlo.all_reduce"({value}) {ADD.replace("T", "i64")}'
        f" {{replica_groups = dense<{groups}> : tensor<{shape}xi64>}} : ({T}) -> {T}"
    )


def replicas(*bodies: str, grid: str = "") -> str:
    """A program whose @main runs bodies, each a function of %x and %t that returns %r, as replicas of a grid."""
    functions = [
        f"""func.func @f{i}(%x: {T}) -> {T} {{
          %t = stablehlo.create_token : {TOKEN}
          {body}
          return %r : {T}
        }}"""
        for i, body in enumerate(bodies)
    ]
    n = len(bodies)
    grid = grid or ", ".join(f"[@f{i}]" for i in range(n))
    types = ", ".join([T] * n)
    return "\n".join(functions) + f"""
        func.func @main({", ".join(f"%x{i}: {T}" for i in range(n))}) -> ({types}) {{
          %r:{n} = "interpreter.run_parallel"({", ".join(f"%x{i}" for i in range(n))}) {{programs = [{grid}]}} :
            ({types}) -> ({types})
          return {", ".join(f"%r#{i}" for i in range(n))} : {types}
        }}"""  # fmt: skip


def lists(text: str, *arrays: np.ndarray) -> list[list[int]]:
    return [x.tolist() for x in load(text)(*arrays)]


def no_process_is_left() -> bool:
    """A thread is counted for a moment after it has told that it ends."""
    end = time.perf_counter() + 30
    while (left := any(t.name.startswith("process ") for t in threading.enumerate())) and time.perf_counter() < end:
        time.sleep(0.001)
    return not left


SAME = f"%r = stablehlo.optimization_barrier %x : {T}"
FOREVER = """%true = stablehlo.constant dense<true> : tensor<i1>
  %loop = stablehlo.while(%p = %true) : tensor<i1>
  cond { stablehlo.return %p : tensor<i1> } do { stablehlo.return %p : tensor<i1> }"""

# -- sending and receiving ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", ["", ", is_host_transfer = true"])
def test_values_arrive_in_the_order_they_are_sent(more):
    first = f"""%a = {send("%x", 1, more)}
      %y = stablehlo.add %x, %x : {T}
      %b = {send("%y", 1, more)}
      %r, %c = {recv(2, more)}"""
    second = f"""%a, %b = {recv(1, more)}
      %c, %d = {recv(1, more)}
      %e = stablehlo.subtract %c, %a : {T}
      %f = {send("%e", 2, more)}
      %r = stablehlo.multiply %c, %x : {T}"""
    assert lists(replicas(first, second), X, Y) == [[1, 2], [20, 80]]


def test_pairs_of_replicas():
    pairs = ", source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>"
    body = f"%a = {send('%x', 0, pairs)}\n%r, %b = {recv(0, pairs)}"
    assert lists(replicas(body, body, body), X, Y, X) == [[0, 0], [1, 2], [10, 20]]


def test_several_values_at_once():
    handle = channel(1, ", source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>")
    body = f"""%t = stablehlo.create_token : {TOKEN}
      %u = "stablehlo.send"(%x0, %x1, %t) {handle} : ({T}, tensor<f32>, {TOKEN}) -> {TOKEN}
      %r:3 = "stablehlo.recv"(%u) {handle} : ({TOKEN}) -> ({T}, tensor<f32>, {TOKEN})"""
    (found,) = run(body, f"{T}, tensor<f32>", (1, 1), [[X, np.array(2.5, np.float32)]])
    assert [x.tolist() for x in found] == [[1, 2], 2.5]


def test_another_type_than_was_sent():
    first = f"%a = {send('%x', 1)}\n{SAME}"
    second = recv(1).replace(T, "tensor<3xi64>")
    with pytest.raises(
        ExecutionError, match=r"recv: was sent int64 \[2\] \(expected int64 \[3\]\) \(in process \(1, 0\)\)"
    ):
        load(replicas(first, f"%a, %b = {second}\n{SAME}"))(X, Y)


def test_a_channel_has_one_process_at_each_end():
    sending, receiving = f"%a = {send('%x', 1)}\n{SAME}", f"%r, %b = {recv(1)}"
    # Which one was first depends on time, but the error does not.
    for _ in range(5):
        with pytest.raises(ExecutionError, match=r"channel 1 is sent to by \(0, 0\), \(2, 0\) and is received from by"):
            load(replicas(sending, receiving, sending))(X, Y, X)
    assert lists(replicas(sending, sending), X, Y) == [[1, 2], [10, 20]]  # to a host that does not listen


def test_infeed_and_outfeed():
    text = f"""
      func.func @read(%t: {TOKEN}) -> ({T}, {T}, {TOKEN}) {{
        %a:2 = "stablehlo.infeed"(%t) : ({TOKEN}) -> ({T}, {TOKEN})
        %u = "stablehlo.outfeed"(%a#0, %a#1) : ({T}, {TOKEN}) -> {TOKEN}
        %b:2 = "stablehlo.infeed"(%u) : ({TOKEN}) -> ({T}, {TOKEN})
        return %a#0, %b#0, %b#1 : {T}, {T}, {TOKEN}
      }}
      func.func @first() -> {T} {{
        %b = stablehlo.constant dense<[1, 2]> : {T}
        return %b : {T}
      }}
      func.func @second() -> {T} {{
        %b = stablehlo.constant dense<[3, 4]> : {T}
        return %b : {T}
      }}
      func.func @main() -> ({T}, {T}, {T}, {T}) {{
        %t = stablehlo.create_token : {TOKEN}
        %r:6 = "interpreter.run_parallel"(%t, %t) {{programs = [[@read, @read]], infeed = [@first, @second]}} :
          ({TOKEN}, {TOKEN}) -> ({T}, {T}, {TOKEN}, {T}, {T}, {TOKEN})
        return %r#0, %r#1, %r#3, %r#4 : {T}, {T}, {T}, {T}
      }}"""
    assert lists(text) == [[1, 2], [3, 4], [1, 2], [3, 4]]  # each process has an infeed of its own
    with pytest.raises(ExecutionError, match=r"infeed: the infeed is empty \(in process \(0, 0\)\)"):
        load(text.replace("@first, @second", "@first"))()
    longer = text.replace(f"@second() -> {T}", "@second() -> tensor<3xi64>").replace(
        f"dense<[3, 4]> : {T}\n        return %b : {T}", "dense<3> : tensor<3xi64>\n return %b : tensor<3xi64>"
    )
    with pytest.raises(ExecutionError, match=r"the infeed holds int64 \[3\] \(expected int64 \[2\]\)"):
        load(longer)()


# -- deadlocks ---------------------------------------------------------------------------------------------------------


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
    text = main(f"%t: {TOKEN}", f"{T}", f"%r, %u = {recv(3)}")
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


# -- errors ------------------------------------------------------------------------------------------------------------

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
ONE = Callee(PAIR, PAIR, lambda x: (x,), Body(PAIR, PAIR))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"programs": (("f",), ("f", "f"))}, r"got lengths \[1, 2\]"),
        ({"programs": ()}, r"got lengths \[\]"),
        (
            {"programs": (("f", "f"),)},
            r"the operands are \(tensor<2xi64>\), those of the functions \(tensor<2xi64>, tensor",
        ),
        ({"programs": (("f",),)}, r"the results are \(\), those of the functions \(tensor<2xi64>\)"),
        ({"programs": (("f",),), "infeed": ("f",)}, "a function that infeed lists takes arguments"),
        ({}, "attribute 'programs' is missing"),
    ],
)
def test_refused(attributes, message):
    record = lookup("interpreter.run_parallel")
    assert record is not None
    with pytest.raises(OpError, match=message):
        record.kernel(Call(record.name, ONE.arguments, (), attributes, functions={"f": ONE}))


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


# -- looking on --------------------------------------------------------------------------------------------------------


def test_probes():
    text = f"""func.func @main(%x: {T}, %f: tensor<2xf32>) {{
      %y = interpreter.probe %x, probe_id = "one" : {T}
      %g = interpreter.probe %f, probe_id = "two" : tensor<2xf32>
      check.expect_serialized_eq %x, probe_id = "one" : {T}
      check.expect_serialized_eq %g, probe_id = "two", iter = 1 : tensor<2xf32>
      CHECK
      return
    }}"""
    numbers = np.array([np.nan, -0.0], np.float32)

    def failure(check: str) -> str:
        with pytest.raises(CheckFailure) as caught:
            load(text.replace("CHECK", check))(X, numbers)
        return str(caught.value).split(": ", 2)[2]

    assert load(text.replace("CHECK", ""))(X, numbers) == []
    assert "probe 0 is 'one' (expected 'two')" in failure(f'check.expect_serialized_eq %x, probe_id = "two" : {T}')
    assert "there is no probe 2: 2 were run" in failure(
        f'check.expect_serialized_eq %x, probe_id = "one", iter = 2 : {T}'
    )
    assert "'one' has kept int64 (expected tensor<2xf32>)" in failure(
        'check.expect_serialized_eq %f, probe_id = "one" : tensor<2xf32>'
    )
    assert "element [0]: got 2, expected 1" in failure(
        f'%z = stablehlo.add %x, %x : {T}\ncheck.expect_serialized_eq %z, probe_id = "one" : {T}'
    )
    assert "element [0]: got 0x80000000 = -0, expected 0x7FC00000" in failure(
        'check.expect_serialized_eq %f0, probe_id = "two", iter = 1 : tensor<2xf32>'.replace(
            "check", "%f0 = stablehlo.reverse %f, dims = [0] : tensor<2xf32>\n check", 1
        )
    )


def test_probes_of_processes_are_kept_in_the_order_of_the_grid():
    body = f'%y = interpreter.probe %x, probe_id = "p" : {T}\n{SAME}'
    text = replicas(f"%q, %u = {recv(1)}\n{body}", f"{body}\n%u = {send('%x', 1)}")  # the second probes first
    check = "".join(f'check.expect_serialized_eq %x{i}, probe_id = "p", iter = {i} : {T}\n' for i in range(2))
    load(text.replace("return %r#0", f"{check} return %r#0"))(X, Y)


def test_print(capsys):
    text = f"""func.func @main(%x: {T}) {{
      interpreter.print %x : {T}
      return
    }}"""
    load(text)(X)
    assert capsys.readouterr().out == "<string>:2:7: tensor<2xi64> {\n  [1, 2]\n}\n"
    load(replicas(f"interpreter.print %x : {T}\n{SAME}", SAME))(X, Y)
    assert " process (0, 0): tensor<2xi64> {\n  [1, 2]\n}\n" in capsys.readouterr().out


# -- random bits -------------------------------------------------------------------------------------------------------


def test_each_process_has_random_bits_of_its_own():
    body = """%zero = stablehlo.constant dense<0> : tensor<i64>
      %one = stablehlo.constant dense<1000000000> : tensor<i64>
      %shape = stablehlo.constant dense<4> : tensor<1xi64>
      %r:1 = "stablehlo.rng"(%zero, %one, %shape) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} :
        (tensor<i64>, tensor<i64>, tensor<1xi64>) -> tensor<4xi64>"""

    def draw(seed: int) -> list[tuple[int, ...]]:
        found = run(body, "tensor<4xi64>", (2, 2), [[X]] * 4, Policy(seed=seed))
        return [tuple(x.tolist()) for (x,) in found]

    first = draw(0)
    assert first == draw(0)
    assert len({*first, *draw(1)}) == 8


# -- programs of JAX ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jax_programs() -> dict[str, tuple[str, list[list[np.ndarray]], list[list[np.ndarray]]]]:
    """Of each program its text, and the operands and the results of each of four devices."""
    script = Path(__file__).with_name("four_devices.py")
    child = subprocess.run([sys.executable, str(script)], capture_output=True, check=False)
    assert child.returncode == 0, child.stderr.decode(errors="replace")[-2000:]
    return pickle.loads(child.stdout)


@pytest.mark.parametrize(
    "name",
    ["sums", "extremes", "gathers", "scatters", "permutes", "exchanges", "places", "ring", "branches", "bfloat16"],
)
def test_programs_of_jax(name, jax_programs):
    text, operands, expected = jax_programs[name]
    plan = load(text).plan("shmap_body")
    found = machine.run_grid(plan, 1, 4, operands)
    assert [[x.tolist() for x in xs] for xs in found] == [[x.tolist() for x in xs] for xs in expected]


def test_results_of_a_grid_belong_to_the_caller():
    text = f"func.func @main(%x: {T}) -> ({T}, {T}) {{ %r = {reduce()} return %x, %r : {T}, {T} }}"
    plan = load(text).plan()
    found = machine.run_grid(plan, 2, 1, [[X], [X]])
    assert [[x.tolist() for x in xs] for xs in found] == [[[1, 2], [2, 4]]] * 2
    arrays = [X, *(x for xs in found for x in xs)]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    assert all(x.flags.writeable for x in arrays)


def test_meeting_costs_little():
    body = f"""%zero = stablehlo.constant dense<0> : tensor<i64>
      %one = stablehlo.constant dense<1> : tensor<i64>
      %n = stablehlo.constant dense<500> : tensor<i64>
      %l:2 = stablehlo.while(%i = %zero, %v = %x0) : tensor<i64>, {T}
      cond {{
        %c = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %s = {reduce("[[0, 1, 2, 3]]", "%v")}
        %j = stablehlo.add %i, %one : tensor<i64>
        stablehlo.return %j, %s : tensor<i64>, {T}
      }}
      %r:1 = stablehlo.optimization_barrier %l#1 : {T}"""
    begin = time.perf_counter()
    run(body, T, (4, 1), [[X]] * 4)
    assert time.perf_counter() - begin < 60  # it is a tenth of a second
