"""Processes: how they send and wait, and how deadlocks, errors and Ctrl-C end them."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp import machine
from minihlo.interp.api import load
from minihlo.interp.errors import CheckFailure, ExecutionError
from minihlo.ops.policy import Policy

from .grids import run
from .parallel_cases import SAME, TOKEN, T, X, Y, channel, lists, recv, reduce, replicas, send


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
    (actual,) = run(body, f"{T}, tensor<f32>", (1, 1), [[X, np.array(2.5, np.float32)]])
    assert [x.tolist() for x in actual] == [[1, 2], 2.5]


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


def test_probes_are_in_grid_order():
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


def test_each_process_has_random_bits_of_its_own():
    body = """%zero = stablehlo.constant dense<0> : tensor<i64>
      %one = stablehlo.constant dense<1000000000> : tensor<i64>
      %shape = stablehlo.constant dense<4> : tensor<1xi64>
      %r:1 = "stablehlo.rng"(%zero, %one, %shape) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} :
        (tensor<i64>, tensor<i64>, tensor<1xi64>) -> tensor<4xi64>"""

    def draw(seed: int) -> list[tuple[int, ...]]:
        actual = run(body, "tensor<4xi64>", (2, 2), [[X]] * 4, Policy(seed=seed))
        return [tuple(x.tolist()) for (x,) in actual]

    first = draw(0)
    assert first == draw(0)
    assert len({*first, *draw(1)}) == 8


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
    actual = machine.run_grid(plan, 1, 4, operands)
    assert [[x.tolist() for x in xs] for xs in actual] == [[x.tolist() for x in xs] for xs in expected]


def test_results_of_a_grid_belong_to_the_caller():
    text = f"func.func @main(%x: {T}) -> ({T}, {T}) {{ %r = {reduce()} return %x, %r : {T}, {T} }}"
    plan = load(text).plan()
    actual = machine.run_grid(plan, 2, 1, [[X], [X]])
    assert [[x.tolist() for x in xs] for xs in actual] == [[[1, 2], [2, 4]]] * 2
    arrays = [X, *(x for xs in actual for x in xs)]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    assert all(x.flags.writeable for x in arrays)
