"""map: bodies that run on whole arrays and bodies that run element by element give what Python gives."""

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.errors import ProgramError
from minihlo.ops.op import Body, Call, OpError, lookup
from minihlo.ops.types import TensorType, element_type

from .. import oracle
from ..run_op import codes, from_codes, tensor


def program(element: str, shape: str, body: str, operands: int = 2, result: str = "") -> str:
    t, out = f"tensor<{shape}{element}>", f"tensor<{shape}{result or element}>"
    names = [f"%x{i}" for i in range(operands)]
    rank = shape.count("x")
    return f"""
    func.func @main({", ".join(f"{n}: {t}" for n in names)}) -> {out} {{
      %r = "stablehlo.map"({", ".join(names)}) ({{
        ^bb0({", ".join(f"%a{i}: tensor<{element}>" for i in range(operands))}):
          {body}
      }}) {{dimensions = array<i64{": " if rank else ""}{", ".join(map(str, range(rank)))}>}}
        : ({", ".join([t] * operands)}) -> {out}
      return %r : {out}
    }}
    func.func private @twice(%a: tensor<{element}>) -> tensor<{element}> {{
      %r = stablehlo.add %a, %a : tensor<{element}>
      return %r : tensor<{element}>
    }}"""


def returns(name: str, element: str) -> str:
    return f"stablehlo.return {name} : tensor<{element}>"


#: x * x + y, as a body that is elementwise, and as one that calls a function for each element.
def whole(element: str) -> str:
    t = f"tensor<{element}>"
    return f"%p = stablehlo.multiply %a0, %a0 : {t}\n%s = stablehlo.add %p, %a1 : {t}\n{returns('%s', element)}"


def single(element: str) -> str:
    t = f"tensor<{element}>"
    steps = f"%h = func.call @twice(%a1) : ({t}) -> {t}\n%p = stablehlo.multiply %a0, %a0 : {t}"
    return f"{steps}\n%d = stablehlo.subtract %h, %a1 : {t}\n%s = stablehlo.add %p, %d : {t}\n{returns('%s', element)}"


@pytest.mark.parametrize("body", [whole, single])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,), (2, 0, 1)], ids=str)
@pytest.mark.parametrize("element", ["i4", "i32", "f32", "complex<f64>", "f8E4M3FN"])
def test_map(element: str, shape: tuple[int, ...], body) -> None:
    rng = np.random.default_rng(1)
    dtype = element_type(element).dtype
    x, y = (rng.integers(-1, 2, shape).astype(np.int8).astype(dtype) for _ in range(2))
    dims = "".join(f"{n}x" for n in shape)
    (actual,) = interp.load(program(element, dims, body(element)))(x, y)
    assert (actual.dtype, actual.shape) == (dtype, shape)
    plain = int if element.startswith("i") else complex
    for index in np.ndindex(shape):
        assert plain(actual[index]) == plain(x[index]) ** 2 + plain(y[index])


@pytest.mark.parametrize("body", [whole, single])
def test_every_step_is_rounded(body) -> None:
    """Every pair of codes of a small type; x + x - x is x for all but those whose double is too large."""
    fmt = oracle.FORMATS["f6E3M2FN"]
    pairs = np.indices((64, 64)).reshape(2, -1)
    if body is single:
        pairs = pairs[:, ::7]
    x, y = (from_codes(p, "f6E3M2FN") for p in pairs)
    (actual,) = interp.load(program("f6E3M2FN", f"{x.size}x", body("f6E3M2FN")))(x, y)

    def step(name: str, a: int, b: int) -> int:
        return oracle.encode(fmt, oracle.BINARY[name](oracle.decode(fmt, a), oracle.decode(fmt, b)))

    for a, b, ours in zip(*pairs.tolist(), codes(actual).tolist(), strict=True):
        rest = b if body is whole else step("subtract", step("add", b, b), b)
        assert ours == step("add", step("multiply", a, a), rest)


def test_bodies_that_forget_their_arguments() -> None:
    constant = "%c = stablehlo.constant dense<7> : tensor<i32>\nstablehlo.return %c : tensor<i32>"
    x = np.zeros((2, 3), np.int32)
    assert interp.load(program("i32", "2x3x", constant))(x, x)[0].tolist() == [[7] * 3] * 2
    second = returns("%a1", "i32")
    assert interp.load(program("i32", "2x3x", second))(x, x + 1)[0].tolist() == [[1] * 3] * 2


def test_one_and_three_operands_and_another_type() -> None:
    x = np.arange(4, dtype=np.int32)
    t = "tensor<i32>"
    negated = f"%n = stablehlo.negate %a0 : {t}\n{returns('%n', 'i32')}"
    assert interp.load(program("i32", "4x", negated, 1))(x)[0].tolist() == [0, -1, -2, -3]
    sums = f"%s = stablehlo.add %a0, %a1 : {t}\n%d = stablehlo.subtract %s, %a2 : {t}\n{returns('%d', 'i32')}"
    assert interp.load(program("i32", "4x", sums, 3))(x, x, x + 1)[0].tolist() == [-1, 0, 1, 2]
    less = "%l = stablehlo.compare LT, %a0, %a1 : (tensor<i32>, tensor<i32>) -> tensor<i1>\n" + returns("%l", "i1")
    assert interp.load(program("i32", "4x", less, 2, "i1"))(x, x[::-1].copy())[0].tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dimensions = array<i64: 0>", "dimensions = array<i64: 1>"),
        ("dimensions = array<i64: 0>", "dimensions = array<i64>"),
        ("^bb0(%a0: tensor<i32>, %a1: tensor<i32>)", "^bb0(%a0: tensor<i32>)"),
        ("-> tensor<4xi32> {\n      %r", "-> tensor<5xi32> {\n      %r"),
    ],
)
def test_errors(old: str, new: str) -> None:
    text = program("i32", "4x", returns("%a0", "i32"))
    assert old in text
    with pytest.raises(ProgramError):
        interp.load(text.replace(old, new))(*[np.zeros(4, np.int32)] * 2)


X, I32, F32 = tensor("i32", 4), tensor("i32"), tensor("f32")


@pytest.mark.parametrize(
    ("operands", "result", "dimensions", "arguments", "returned", "message"),
    [
        ([], X, (0,), [], I32, "at least one"),
        ([X, tensor("i32", 5)], X, (0,), [I32, I32], I32, "shape"),
        ([X], X, (), [I32], I32, "dimensions"),
        ([X], X, (0,), [F32], I32, "the body has type"),
        ([X], X, (0,), [I32, I32], I32, "the body has type"),
        ([X], X, (0,), [I32], F32, "the body has type"),
    ],
)
def test_errors_of_uses_that_nothing_verified(
    operands: list[TensorType],
    result: TensorType,
    dimensions: tuple[int, ...],
    arguments: list[TensorType],
    returned: TensorType,
    message: str,
) -> None:
    record, body = lookup("map"), Body(tuple(arguments), (returned,))
    assert record is not None
    with pytest.raises(OpError, match=message):
        record.function(Call(record.name, tuple(operands), (result,), {"dimensions": dimensions}, (body,)))
