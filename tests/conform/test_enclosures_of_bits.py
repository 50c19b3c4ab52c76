"""Operations on bits: every result of what lies within ranges is enclosed, and fields of one exponent are narrow."""

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp.enclose import Allowed, Enclosure, enclose
from minihlo.interp.enclose.evaluate import Evaluator
from minihlo.interp.parse import parser
from minihlo.ops.types import ELEMENT_TYPES, TensorType

COUNT = 300
DTYPES = {
    "i1": np.bool_, "i4": ml_dtypes.int4, "i8": np.int8, "ui8": np.uint8, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
}  # fmt: skip
TWO = ("and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic")
CASES = [
    *((op, (t, t), t) for op in TWO for t in ("i1", "i4", "i8", "ui8") if t != "i1" or "shift" not in op),
    *((op, (t,), t) for op in ("not", "count_leading_zeros") for t in ("i8", "ui8")),
    *(("bitcast_convert", (t,), f) for t in ("i8", "ui8") for f in DTYPES if "f8" in f),
    *(("bitcast_convert", (f,), t) for t in ("i8", "ui8") for f in DTYPES if "f8" in f),
]  # fmt: skip


def numbers(name: str) -> np.ndarray:
    """All numbers of a type, in order."""
    integers = np.arange(-128, 128) if name == "i8" else np.arange(-8, 8) if name == "i4" else np.arange(256)
    x = integers.astype(np.uint8).view(DTYPES[name]) if "f8" in name else integers[: 2 if name == "i1" else 256]
    x = np.asarray(x).astype(np.float64)
    return np.sort(x[~np.isnan(x)])


@pytest.mark.parametrize(("op", "takes", "gives"), CASES)
def test_bits_of_ranges(op: str, takes: tuple[str, ...], gives: str) -> None:
    rng, shapes = np.random.default_rng(0), [f"tensor<{COUNT}x{t}>" for t in (*takes, gives)]
    named, types = [f"%{i}" for i in range(len(takes))], ", ".join(shapes[:-1])
    text = f"""func.func @main({", ".join(map(": ".join, zip(named, shapes, strict=False)))}) -> {shapes[-1]} {{
      %r = "stablehlo.{op}"({", ".join(named)}) : ({types}) -> {shapes[-1]}
      return %r : {shapes[-1]}
    }}"""
    program = parser.parse(text)
    body, e = program.functions["main"].body, Evaluator(program, Allowed())
    assert body is not None
    given, ranges = [], []
    for i, t in enumerate(takes):
        x = numbers(t)[numbers(t) >= 0][:4] if i and "shift" in op else numbers(t)
        first = rng.integers(0, len(x), COUNT)
        last = np.minimum(first + rng.integers(0, rng.choice([1, 9, len(x)], COUNT)), len(x) - 1)
        ranges.append((x, first, last))
        element = TensorType((COUNT,), ELEMENT_TYPES[t])
        given.append(
            Enclosure(element, x[first].astype(DTYPES[t]), x[first], x[last], np.zeros(COUNT, bool), None, e.causes)
        )
    (found,) = e.operation(body.operations[0], given)
    for _ in range(40):
        points = [
            x[rng.integers(first, last, endpoint=True)].astype(DTYPES[t])
            for (x, first, last), t in zip(ranges, takes, strict=True)
        ]
        assert found.admits(np.asarray(e.run(body.operations[0], points)[0])).all()
    assert found.undecided.mean() < 0.9


def test_the_exponent_and_the_fraction_of_a_sum() -> None:
    """As in functions that split numbers: 3.3 is 1.65 times 2, and the fraction is known as well as the sum."""
    text = """func.func @main(%x: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
      %m = stablehlo.constant dense<0x007FFFFF> : tensor<i32>
      %one = stablehlo.constant dense<0x3F800000> : tensor<i32>
      %n = stablehlo.constant dense<23> : tensor<i32>
      %s = stablehlo.add %x, %x : tensor<f32>
      %b = stablehlo.bitcast_convert %s : (tensor<f32>) -> tensor<i32>
      %e = stablehlo.shift_right_arithmetic %b, %n : tensor<i32>
      %f = stablehlo.and %b, %m : tensor<i32>
      %g = stablehlo.or %f, %one : tensor<i32>
      %y = stablehlo.bitcast_convert %g : (tensor<i32>) -> tensor<f32>
      %z = stablehlo.multiply %y, %y : tensor<f32>
      return %e, %z : tensor<i32>, tensor<f32>
    }"""
    exponent, square = enclose(parser.parse(text), [np.float32(1.65)])
    assert [exponent.admits(np.int32(n)).item() for n in (127, 128, 129)] == [False, True, False]
    near = np.float32(1.65) * np.float32(1.65)
    assert [square.admits(near + np.float32(d)).item() for d in (0, 1e-5, -1e-5)] == [True, False, False]
