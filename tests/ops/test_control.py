"""if, case and while, as programs."""

import signal

import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.interp.errors import ProgramError
from minihlo.ops.op import Body, Call, OpError, lookup
from minihlo.ops.types import TokenType, Type

from ..run_op import tensor

I1, I32 = tensor("i1"), tensor("i32")


def number(value: int) -> np.ndarray:
    return np.array(value, np.int32)


IF = """
func.func @main(%p: tensor<i1>, %x: tensor<2xi32>, %y: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>) {
  %r:2 = "stablehlo.if"(%p) ({
    %s = stablehlo.add %x, %y : tensor<2xi32>
    stablehlo.return %x, %s : tensor<2xi32>, tensor<2xi32>
  }, {
    stablehlo.return %y, %y : tensor<2xi32>, tensor<2xi32>
  }) : (tensor<i1>) -> (tensor<2xi32>, tensor<2xi32>)
  return %r#0, %r#1 : tensor<2xi32>, tensor<2xi32>
}"""


@pytest.mark.parametrize(("pred", "expected"), [(True, [[1, 2], [11, 22]]), (False, [[10, 20], [10, 20]])])
def test_if(pred, expected):
    x, y = np.array([1, 2], np.int32), np.array([10, 20], np.int32)
    assert [r.tolist() for r in load(IF)(np.array(pred), x, y)] == expected


CASE = """
func.func @main(%i: tensor<i32>) -> tensor<i32> {
  %r = "stablehlo.case"(%i) ({
    %c = stablehlo.constant dense<10> : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }, {
    %c = stablehlo.constant dense<20> : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }, {
    %c = stablehlo.add %i, %i : tensor<i32>
    stablehlo.return %c : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>
}"""


@pytest.mark.parametrize(
    ("index", "expected"), [(0, 10), (1, 20), (2, 4), (3, 6), (-1, -2), (-3, -6), (2**31 - 1, -2), (-(2**31), 0)]
)
def test_case_takes_the_last_branch_for_any_other_index(index, expected):
    assert load(CASE)(number(index))[0] == expected


def test_only_the_branch_that_is_taken_is_run():
    text = """
    func.func @main(%p: tensor<i1>, %x: tensor<f32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      "stablehlo.if"(%p) ({
        check.expect_eq %x, %zero : tensor<f32>
        stablehlo.return
      }, {
        stablehlo.return
      }) : (tensor<i1>) -> ()
      return
    }"""
    assert load(text)(np.array(False), np.array(1, np.float32)) == []
    with pytest.raises(AssertionError):
        load(text)(np.array(True), np.array(1, np.float32))


LOOP = """
func.func @main(%n: tensor<i32>, %step: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %sum = %zero) : tensor<i32>, tensor<i32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %t = stablehlo.multiply %i, %step : tensor<i32>
    %s = stablehlo.add %sum, %t : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s : tensor<i32>, tensor<i32>
  }
  return %r#0, %r#1 : tensor<i32>, tensor<i32>
}"""


@pytest.mark.parametrize("iterations", [-1, 0, 1, 2, 10, 1000])
def test_while(iterations):
    actual = load(LOOP)(number(iterations), number(3))
    assert [int(f) for f in actual] == [max(iterations, 0), sum(3 * i for i in range(iterations))]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
def test_a_loop_without_end_can_be_interrupted():
    text = """
    func.func @main() -> tensor<i1> {
      %true = stablehlo.constant dense<true> : tensor<i1>
      %r = stablehlo.while(%p = %true) : tensor<i1>
      cond {
        stablehlo.return %p : tensor<i1>
      } do {
        stablehlo.return %p : tensor<i1>
      }
      return %r : tensor<i1>
    }"""
    program = load(text)
    program.plan()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            program()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def bind(name: str, operands: tuple[Type, ...], results: tuple[Type, ...], *bodies: Body):
    record = lookup(name)
    assert record is not None
    return record.function(Call(record.name, operands, results, {}, bodies))


def test_a_state_may_hold_tokens():
    state = (TokenType(), I32)
    kernel = bind("while", state, state, Body(state, (I1,)), Body(state, state))
    assert kernel(None, number(0)) == (None, 0)


@pytest.mark.parametrize(
    ("name", "operand", "bodies", "message"),
    [
        ("if", tensor("i1", 2), [Body((), (I32,))] * 2, "pred is tensor<2xi1> (expected a scalar)"),
        ("if", I32, [Body((), (I32,))] * 2, "expected an element type of i1, got i32"),
        ("if", I1, [Body((), (I32,))], "has 1 branches (expected 2)"),
        ("if", I1, [Body((), ()), Body((), (I32,))], "a branch has type () -> () (expected one that takes none"),
        ("case", I32, [], "has no branches"),
        ("case", tensor("i64"), [Body((), (I32,))], "expected an element type of i32, got i64"),
        ("while", I32, [Body((I32,), (I32,))], "has 1 regions"),
        ("while", I32, [Body((I32,), (I32,)), Body((I32,), (I32,))], "cond has type (tensor<i32>) -> (tensor<i32>)"),
        ("while", I32, [Body((I32,), (I1,)), Body((I32,), ())], "body has type (tensor<i32>) -> ()"),
    ],
)
def test_refused(name, operand, bodies, message):
    with pytest.raises(OpError) as caught:
        bind(name, (operand,), (I32,), *bodies)
    assert message in str(caught.value)


def test_the_parser_refuses_what_the_specification_does():
    with pytest.raises(ProgramError):
        load(LOOP.replace("%c : tensor<i1>", "%i : tensor<i32>"))(number(1), number(1))
