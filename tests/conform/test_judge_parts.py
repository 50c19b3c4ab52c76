"""`interp.judge`: the part of a program that a planted fault is in, and its smallest inputs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minihlo.interp.program import Operation, Value
from minihlo.ops.types import TensorType

from .planted_compiler import CHAIN, Compiler, Rewrite, find, judged, replace


def drop_a_term(operations: list[Operation]) -> bool:
    """A sum over rows of which the last is left out: the reduction of a slice."""
    reduce = find(operations, "reduce")
    if reduce is None:
        return False
    x = reduce.operands[0]
    t = x.type
    assert isinstance(t, TensorType)
    rows, *rest = (int(n or 0) for n in t.shape)
    kept, rank = Value(TensorType((rows - 1, *rest), t.element)), 1 + len(rest)
    limits = {"start_indices": [0] * rank, "limit_indices": [rows - 1, *rest], "strides": [1] * rank}
    cut = Operation("stablehlo.slice", (x,), (kept,), limits, (), reduce.location)
    operations.insert(operations.index(reduce), cut)
    reduce.operands = (kept, *reduce.operands[1:])
    return True


def add_twice(operations: list[Operation]) -> bool:
    """A reduction to which its first value is added once more."""
    reduce = find(operations, "reduce")
    if reduce is None:
        return False
    (old,), init = reduce.results, reduce.operands[1]
    inner, wide = Value(old.type), Value(old.type)
    reduce.results = (inner,)
    none = {"broadcast_dimensions": []}
    spread = Operation("stablehlo.broadcast_in_dim", (init,), (wide,), none, (), reduce.location)
    again = Operation("stablehlo.add", (inner, wide), (old,), {}, (), reduce.location)
    at = operations.index(reduce) + 1
    operations[at:at] = [spread, again]
    return True


def swap_fused(operations: list[Operation]) -> bool:
    """A rewrite of negate of reverse, which forgets to negate; each of the two alone is right."""
    reverse, negate = find(operations, "reverse"), find(operations, "negate")
    if reverse is None or negate is None or negate.operands != reverse.results:
        return False
    negate.name, negate.attributes = "stablehlo.reverse", {"dimensions": [0, 1]}
    return True


FAULTS: dict[str, tuple[Rewrite, set[str]]] = {
    "an axis": (replace("reverse", lambda o: o.attributes.update(dimensions=[0])), {"reverse"}),
    "a dropped term": (drop_a_term, {"reduce"}),
    "an init added twice": (add_twice, {"reduce"}),
    "two operations fused": (swap_fused, {"reverse", "negate"}),
    "another function": (replace("tanh", lambda o: setattr(o, "name", "stablehlo.logistic")), {"tanh"}),
    "a sign": (replace("add", lambda o: setattr(o, "name", "stablehlo.subtract")), {"add"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_wrong_and_named(fault: str) -> None:
    rewrite, names = FAULTS[fault]
    found = judged(CHAIN, Compiler(rewrite), seed=3)
    assert found.verdict == "WRONG", str(found)
    assert found.part is not None
    assert set(found.part.operations) == names, str(found)
    assert judged(found.part.program, Compiler(rewrite), *found.part.arrays).verdict == "WRONG"


SORT = """func.func @main(%x: tensor<2x3x4xf32>) -> (tensor<2x3x2xf32>, tensor<2x3x2xi32>) {
  %i = stablehlo.iota dim = 1 : tensor<2x3x4xi32>
  %s:2 = "stablehlo.sort"(%x, %i) <{dimension = 2 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
  }) : (tensor<2x3x4xf32>, tensor<2x3x4xi32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xi32>)
  %0 = stablehlo.slice %s#0 [0:2, 0:3, 0:2] : (tensor<2x3x4xf32>) -> tensor<2x3x2xf32>
  %1 = stablehlo.slice %s#1 [0:2, 0:3, 0:2] : (tensor<2x3x4xi32>) -> tensor<2x3x2xi32>
  return %0, %1 : tensor<2x3x2xf32>, tensor<2x3x2xi32>
}"""


def test_small_parts() -> None:
    """A compiler that forgets the order of what goes with the keys of a sort that is cut."""

    def rewrite(operations: list[Operation]) -> bool:
        sort, cut = find(operations, "sort"), find(operations, "slice")
        if sort is None or cut is None or cut.operands[0] not in sort.results:
            return False
        last = [o for o in operations if o.name == "stablehlo.slice"][-1]
        last.operands = (sort.operands[-1],)
        return True

    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    text = SORT.replace("dim = 1", "dim = 2")
    found = judged(text, Compiler(rewrite), x, minimize=True)
    assert found.verdict == "WRONG"
    assert found.part is not None
    assert set(found.part.operations) <= {"iota", "sort", "slice"}
    assert found.part.is_alone_right
    assert max(a.size for a in found.part.arrays) < x.size


LOOP = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = stablehlo.while(%i = %z, %s = %x) : tensor<i32>, tensor<4xf32>
    cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1> }
    do { %one = stablehlo.constant dense<1> : tensor<i32>
      %t = func.call @f(%s) : (tensor<4xf32>) -> tensor<4xf32>
      %a = stablehlo.add %t, %s : tensor<4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<4xf32> }
  return %r#1 : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %t = stablehlo.tanh %x : tensor<4xf32>
  return %t : tensor<4xf32>
}"""


def in_regions(rewrite: Rewrite) -> Rewrite:
    def everywhere(operations: list[Operation]) -> bool:
        inner = [everywhere(r.operations) for o in operations for r in o.regions]
        return rewrite(operations) or any(inner)

    return everywhere


def test_the_body_of_a_loop_is_searched() -> None:
    found = judged(LOOP, Compiler(in_regions(FAULTS["another function"][0])))
    assert found.part is not None
    assert found.part.operations == ("tanh",)


def test_a_wrong_result_that_is_used_too() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %a = stablehlo.negate %x : tensor<2xf32>
      %b = stablehlo.abs %a : tensor<2xf32>
      return %a, %b : tensor<2xf32>, tensor<2xf32>
    }"""
    planted = Compiler(replace("negate", lambda o: setattr(o, "name", "stablehlo.ceil")))
    assert judged(text, planted, np.ones(2, np.float32)).cause == "negate: another number"


def test_a_crash_has_a_part() -> None:
    def run(program: Any, arrays: Sequence[Any]) -> list[Any]:
        if find(program.program.functions["main"].body.operations, "tanh") is not None:
            raise RuntimeError("no tanh")
        return program(*arrays)

    found = judged(CHAIN, Compiler(run=run))
    assert (found.verdict, found.cause) == ("CRASH", "tanh: raised RuntimeError")


def test_a_race_is_told() -> None:
    rng = np.random.default_rng(0)

    def run(program: Any, arrays: Sequence[Any]) -> list[Any]:
        results = [np.array(r) for r in program(*arrays)]
        if find(program.program.functions["main"].body.operations, "reduce") is not None:
            flat = results[0].reshape(-1)
            flat[rng.integers(flat.size)] ^= flat.dtype.type(1 << (8 * flat.itemsize - 2))
        return results

    found = judged(CHAIN, Compiler(run=run), samples=1)
    assert found.part is not None
    assert found.part.operations == ("reduce",)
    assert found.cause.endswith(", and results change from run to run")


def test_an_init_that_is_no_identity_is_told() -> None:
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %i = stablehlo.constant dense<2.0> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = []
        : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    found = judged(text, Compiler(run=lambda _, arrays: [arrays[0]]))  # without the init
    assert (found.verdict, found.cause) == ("WRONG", "reduce: another number, from an init that is no identity")
