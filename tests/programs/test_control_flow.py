"""Programs with branches between blocks, with ops of scf, and with several modules."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import ExecutionError, ProgramError, load


def run(text: str, *arrays: Any) -> list[Any]:
    return [r.tolist() for r in load(text)(*arrays)]


def collatz(n: int) -> int:
    count = 0
    while n != 1:
        n, count = 3 * n + 1 if n % 2 else n // 2, count + 1
    return count


COLLATZ = """func.func @main(%n: i64) -> (i64, i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  cf.br ^head(%n, %zero : i64, i64)
^exit(%r: i64):  // before the block that defines what it uses
  return %r, %count : i64, i64
^head(%x: i64, %count: i64):
  %done = arith.cmpi eq, %x, %one : i64
  cf.cond_br %done, ^exit(%x: i64), ^body
^body:
  %next = arith.addi %count, %one : i64
  %rem = arith.remsi %x, %two : i64
  %odd = arith.cmpi eq, %rem, %one : i64
  cf.cond_br %odd, ^up, ^down
^up:
  %u = arith.muli %x, %three : i64
  %v = arith.addi %u, %one : i64
  cf.br ^head(%v, %next : i64, i64)
^down:
  %d = arith.divsi %x, %two : i64
  cf.br ^head(%d, %next : i64, i64)
}"""


@pytest.mark.parametrize("n", [1, 2, 27, 97])
def test_values_of_blocks_reach_the_blocks_they_dominate(n: int) -> None:
    assert run(COLLATZ, np.int64(n)) == [1, collatz(n)]


def test_values_are_exchanged_at_once() -> None:
    """A branch passes the old values of what it changes, and a block that goes back to itself sees them too."""
    text = """func.func @main(%n: i32, %x: f8E4M3FN, %y: f8E4M3FN) -> (f8E4M3FN, f8E4M3FN, f8E4M3FN) {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      cf.br ^loop(%n, %x, %y : i32, f8E4M3FN, f8E4M3FN)
    ^loop(%i: i32, %a: f8E4M3FN, %b: f8E4M3FN):
      %j = arith.subi %i, %one : i32
      %go = arith.cmpi sgt, %j, %zero : i32
      cf.cond_br %go, ^loop(%j, %b, %a : i32, f8E4M3FN, f8E4M3FN), ^done(%a : f8E4M3FN)
    ^done(%last: f8E4M3FN):
      return %a, %b, %last : f8E4M3FN, f8E4M3FN, f8E4M3FN
    }"""
    x, y = ml_dtypes.float8_e4m3fn(1.5), ml_dtypes.float8_e4m3fn(2)
    assert run(text, np.int32(1), x, y) == [1.5, 2, 1.5]
    assert run(text, np.int32(2), x, y) == [2, 1.5, 2]


@pytest.mark.parametrize(("n", "expected"), [(42, 84), (43, 2), (-1, 7), (5, 1)])
def test_switch(n: int, expected: int) -> None:
    text = """func.func @main(%n: i32) -> i32 {
      %one = arith.constant 1 : i32
      %seven = arith.constant 7 : i32
      cf.switch %n : i32, [ default: ^a(%one : i32), 42: ^b(%n : i32), 43: ^b(%one : i32), -1: ^a(%seven : i32) ]
    ^a(%x: i32):
      return %x : i32
    ^b(%y: i32):
      %z = arith.addi %y, %y : i32
      return %z : i32
    }"""
    assert run(text, np.int32(n)) == [expected]


def test_sizes_that_grow_between_blocks() -> None:
    text = """func.func @main(%x: tensor<?xf8E4M3FN>, %n: tensor<i32>) -> tensor<?xf8E4M3FN> {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      cf.br ^loop(%n, %x : tensor<i32>, tensor<?xf8E4M3FN>)
    ^loop(%i: tensor<i32>, %y: tensor<?xf8E4M3FN>):
      %z = stablehlo.concatenate %y, %y, dim = 0 :
        (tensor<?xf8E4M3FN>, tensor<?xf8E4M3FN>) -> tensor<?xf8E4M3FN>
      %j = stablehlo.subtract %i, %one : tensor<i32>
      %more = stablehlo.compare GT, %j, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %go = tensor.extract %more[] : tensor<i1>
      cf.cond_br %go, ^loop(%j, %z: tensor<i32>, tensor<?xf8E4M3FN>), ^done
    ^done:
      return %z : tensor<?xf8E4M3FN>
    }"""
    assert run(text, np.array([1, 2], ml_dtypes.float8_e4m3fn), np.int32(2)) == [[1, 2] * 4]


@pytest.mark.parametrize("flag", [False, True])
def test_scf(flag: bool) -> None:
    text = """func.func @main(%n: i32, %p: tensor<2xf32>, %q: i1) -> (i32, tensor<2xf32>, i32, i32, i32, index) {
      %c = arith.constant 1 : index
      %c10 = arith.constant 10 : index
      %sum = scf.for %i = %c to %c10 step %c iter_args(%a = %n) -> (i32) {
        %k = arith.index_cast %i : index to i32
        %s = arith.addi %a, %k : i32
        scf.yield %s : i32
      }
      %while:2 = scf.while (%z = %n, %count = %c) : (i32, index) -> (i32, index) {
        %less = arith.cmpi slt, %z, %sum : i32
        scf.condition(%less) %z, %count : i32, index
      } do {
      ^bb0(%z: i32, %count: index):
        %zz = arith.addi %z, %z : i32
        %more = arith.addi %count, %c : index
        scf.yield %zz, %more : i32, index
      }
      %chosen = scf.if %q -> tensor<2xf32> {
        %pp = stablehlo.add %p, %p : tensor<2xf32>
        scf.yield %pp : tensor<2xf32>
      } else {
        scf.yield %p: tensor<2xf32>
      }
      scf.if %q { scf.yield }
      %case = scf.index_switch %c -> i32 case 1 { scf.yield %n : i32 } default { scf.yield %sum : i32 }
      %last = scf.execute_region -> i32 {
        cf.cond_br %q, ^a, ^b
        ^a: scf.yield %sum : i32
        ^b: scf.yield %n : i32
      }
      return %while#0, %chosen, %sum, %case, %last, %while#1 : i32, tensor<2xf32>, i32, i32, i32, index
    }"""
    results = run(text, np.int32(3), np.ones(2, np.float32), np.bool_(flag))
    assert results == [48, [2, 2] if flag else [1, 1], 48, 3, 48 if flag else 3, 5]


def test_a_while_whose_regions_pass_on_other_types() -> None:
    text = """func.func @main(%n: i32) -> f32 {
      %limit = arith.constant 100.0 : f32
      %r = scf.while (%z = %n) : (i32) -> f32 {
        %f = arith.sitofp %z : i32 to f32
        %less = arith.cmpf olt, %f, %limit : f32
        scf.condition(%less) %f : f32
      } do {
      ^bb0(%f: f32):
        %g = arith.addf %f, %f : f32
        %i = arith.fptosi %g : f32 to i32
        scf.yield %i : i32
      }
      return %r : f32
    }"""
    assert run(text, np.int32(3)) == [192]


def test_assertions_and_ends_that_are_no_branches() -> None:
    text = 'func.func @main(%x: i1) { cf.assert %x, "no luck"\n return }'
    assert run(text, np.bool_(True)) == []
    with pytest.raises(ExecutionError, match=r": cf\.assert: no luck$"):
        run(text, np.bool_(False))
    with pytest.raises(ProgramError, match=r"test\.br: expected cf\.br, cf\.cond_br, cf\.switch or a return"):
        load('func.func @f() { "test.br"()[^bb1] : () -> ()\n ^bb1: return }')
    text = """func.func @f(%q: i1, %x: tuple<tensor<f32>, !stablehlo.token>) -> tuple<tensor<f32>, !stablehlo.token> {
      cf.cond_br %q, ^bb1(%x: tuple<tensor<f32>, !stablehlo.token>), ^bb1(%x: tuple<tensor<f32>, !stablehlo.token>)
      ^bb1(%y: tuple<tensor<f32>, !stablehlo.token>): return %y : tuple<tensor<f32>, !stablehlo.token> }"""
    assert load(text)(np.bool_(True), (np.float32(3), None)) == [(3, None)]
