"""What the tests of processes share: programs in which they send, receive and reduce."""

import threading
import time

import numpy as np

from minihlo.interp.api import load

from .grids import ADD

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
    """A thread is counted for a moment after it has reported that it ends."""
    end = time.perf_counter() + 30
    while (left := any(t.name.startswith("process ") for t in threading.enumerate())) and time.perf_counter() < end:
        time.sleep(0.001)
    return not left


SAME = f"%r = stablehlo.optimization_barrier %x : {T}"


#: A loop that does not end, with a check of its result, as a loop that nothing needs is left out.
FOREVER = """%true = stablehlo.constant dense<true> : tensor<i1>
  %loop = stablehlo.while(%p = %true) : tensor<i1>
  cond { stablehlo.return %p : tensor<i1> } do { stablehlo.return %p : tensor<i1> }
  check.expect_eq %loop, %true : tensor<i1>"""
