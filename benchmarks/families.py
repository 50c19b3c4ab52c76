"""Programs of one op each, one or more for each family of ops, on about 10^5 elements."""

from __future__ import annotations

import dataclasses

import numpy as np

TYPE = "f8E4M3FNUZ"


@dataclasses.dataclass(frozen=True)
class Program:
    """An op on tensors of TYPE, for which `{T}` stands: `body` makes %r of shape `result` of %a, %b… of `shapes`."""

    name: str
    body: str
    shapes: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]

    def text(self, through_ui8: bool, body: str | None = None) -> str:
        """The program's text; with `through_ui8`, its arguments and its result are codes that it bitcasts."""
        body = (self.body if body is None else body).replace("{T}", TYPE)
        to = _tensor(self.result, TYPE)
        types = [_tensor(s, TYPE) for s in self.shapes]
        names = "abcdefg"[: len(types)]
        if not through_ui8:
            takes = ", ".join(f"%{n}: {t}" for n, t in zip(names, types, strict=True))
            return f"func.func @main({takes}) -> {to} {{\n{body}\nreturn %r : {to}\n}}"
        codes = [_tensor(s, "ui8") for s in self.shapes]
        takes = ", ".join(f"%c{n}: {c}" for n, c in zip(names, codes, strict=True))
        casts = "\n".join(
            f"%{n} = stablehlo.bitcast_convert %c{n} : ({c}) -> {t}"
            for n, c, t in zip(names, codes, types, strict=True)
        )
        out = to.replace(TYPE, "ui8")
        last = f"%codes = stablehlo.bitcast_convert %r : ({to}) -> {out}\nreturn %codes : {out}"
        return f"func.func @main({takes}) -> {out} {{\n{casts}\n{body}\n{last}\n}}"

    def baseline(self) -> str:
        """The same with a constant instead of the op, to measure the bitcasts."""
        return self.text(True, f"%r = stablehlo.constant dense<1.0> : {_tensor(self.result, TYPE)}")

    def codes(self) -> list[np.ndarray]:
        """Random codes of every kind."""
        rng = np.random.default_rng(0)
        return [rng.integers(0, 256, s, np.uint8) for s in self.shapes]


def _tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def _elementwise(name: str, operands: int = 1, shape: tuple[int, ...] = (100_000,)) -> Program:
    t = _tensor(shape, "{T}")
    values = ", ".join(f"%{n}" for n in "abc"[:operands])
    return Program(name, f"%r = stablehlo.{name} {values} : {t}", (shape,) * operands, shape)


_ADDING = """({
  ^bb0(%x: tensor<{T}>, %y: tensor<{T}>):
    %s = stablehlo.add %x, %y : tensor<{T}>
    stablehlo.return %s : tensor<{T}>
})"""
_LARGEST = _ADDING.replace("add", "maximum")
_ZERO = "%zero = stablehlo.constant dense<0.0> : tensor<{T}>\n"

#: Random indices in the bounds of 5,000 rows, made by the program: 1,562 of 64 numbers are 10^5.
_INDICES = """%i = stablehlo.iota dim = 0 : tensor<1562x1xi32>
%p = stablehlo.constant dense<2654435> : tensor<1562x1xi32>
%q = stablehlo.multiply %i, %p : tensor<1562x1xi32>
%m = stablehlo.constant dense<4095> : tensor<1562x1xi32>
%at = stablehlo.and %q, %m : tensor<1562x1xi32>
"""

PROGRAMS = (
    _elementwise("add", 2),
    _elementwise("exponential"),
    Program(
        "compare, select",
        "%p = stablehlo.compare LT, %a, %b : (tensor<100000x{T}>, tensor<100000x{T}>) -> tensor<100000xi1>\n"
        "%r = stablehlo.select %p, %a, %b : tensor<100000xi1>, tensor<100000x{T}>",
        ((100_000,), (100_000,)),
        (100_000,),
    ),
    Program(
        "clamp", "%r = stablehlo.clamp %a, %b, %c : tensor<100000x{T}>", ((100_000,),) * 3, (100_000,)
    ),
    Program(
        "convert to f32 and back",
        "%w = stablehlo.convert %a : (tensor<100000x{T}>) -> tensor<100000xf32>\n"
        "%r = stablehlo.convert %w : (tensor<100000xf32>) -> tensor<100000x{T}>",
        ((100_000,),),
        (100_000,),
    ),
    Program(
        "reduce_precision",
        "%r = stablehlo.reduce_precision %a, format = e5m2 : tensor<100000x{T}>",
        ((100_000,),),
        (100_000,),
    ),
    Program(
        "transpose",
        "%r = stablehlo.transpose %a, dims = [1, 0] : (tensor<400x250x{T}>) -> tensor<250x400x{T}>",
        ((400, 250),),
        (250, 400),
    ),
    Program("reverse", "%r = stablehlo.reverse %a, dims = [0] : tensor<100000x{T}>", ((100_000,),), (100_000,)),
    Program(
        "concatenate",
        "%r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<50000x{T}>, tensor<50000x{T}>) -> tensor<100000x{T}>",
        ((50_000,), (50_000,)),
        (100_000,),
    ),
    Program(
        "pad",
        _ZERO + "%r = stablehlo.pad %a, %zero, low = [1], high = [1], interior = [1]"
        " : (tensor<50000x{T}>, tensor<{T}>) -> tensor<100001x{T}>",
        ((50_000,),),
        (100_001,),
    ),
    Program(
        "broadcast_in_dim",
        "%r = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<250x{T}>) -> tensor<400x250x{T}>",
        ((250,),),
        (400, 250),
    ),
    Program(
        "slice",
        "%r = stablehlo.slice %a [0:200000:2] : (tensor<200000x{T}>) -> tensor<100000x{T}>",
        ((200_000,),),
        (100_000,),
    ),
    Program(
        "dynamic_update_slice",
        "%s = stablehlo.constant dense<7> : tensor<i32>\n"
        "%r = stablehlo.dynamic_update_slice %a, %b, %s"
        " : (tensor<100000x{T}>, tensor<5000x{T}>, tensor<i32>) -> tensor<100000x{T}>",
        ((100_000,), (5_000,)),
        (100_000,),
    ),
    Program(
        "gather, 1,562 rows of 64",
        _INDICES + """%r = "stablehlo.gather"(%a, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
          collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
          slice_sizes = array<i64: 1, 64>}> : (tensor<4096x64x{T}>, tensor<1562x1xi32>) -> tensor<1562x64x{T}>""",
        ((4096, 64),),
        (1562, 64),
    ),
    Program(
        "scatter by add, 1,562 rows of 64",
        _INDICES + '%r = "stablehlo.scatter"(%a, %at, %b) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],"
        f" index_vector_dim = 1>}}> {_ADDING}"
        " : (tensor<4096x64x{T}>, tensor<1562x1xi32>, tensor<1562x64x{T}>) -> tensor<4096x64x{T}>",
        ((4096, 64), (1562, 64)),
        (4096, 64),
    ),
    Program(
        "sort",
        """%r = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
          ^bb0(%x: tensor<{T}>, %y: tensor<{T}>):
            %p = stablehlo.compare LT, %x, %y : (tensor<{T}>, tensor<{T}>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
        }) : (tensor<100000x{T}>) -> tensor<100000x{T}>""",
        ((100_000,),),
        (100_000,),
    ),
    Program(
        "reduce by add, rows of 250",
        _ZERO + '%r = "stablehlo.reduce"(%a, %zero) <{dimensions = array<i64: 1>}> ' + _ADDING
        + " : (tensor<400x250x{T}>, tensor<{T}>) -> tensor<400x{T}>",
        ((400, 250),),
        (400,),
    ),
    Program(
        "reduce_window by maximum, 3×3",
        _ZERO + '%r = "stablehlo.reduce_window"(%a, %zero) <{window_dimensions = array<i64: 3, 3>,'
        " padding = dense<1> : tensor<2x2xi64>}> " + _LARGEST
        + " : (tensor<400x250x{T}>, tensor<{T}>) -> tensor<400x250x{T}>",
        ((400, 250),),
        (400, 250),
    ),
    Program(
        "select_and_scatter, 2×2",
        _ZERO + """%r = "stablehlo.select_and_scatter"(%a, %b, %zero) <{window_dimensions = array<i64: 2, 2>,
          window_strides = array<i64: 2, 2>}> ({
          ^bb0(%x: tensor<{T}>, %y: tensor<{T}>):
            %p = stablehlo.compare GE, %x, %y : (tensor<{T}>, tensor<{T}>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }, {
          ^bb0(%x: tensor<{T}>, %y: tensor<{T}>):
            %s = stablehlo.add %x, %y : tensor<{T}>
            stablehlo.return %s : tensor<{T}>
          }) : (tensor<400x250x{T}>, tensor<200x125x{T}>, tensor<{T}>) -> tensor<400x250x{T}>""",
        ((400, 250), (200, 125)),
        (400, 250),
    ),
    Program(
        "convolution 3×3, 4 to 8 channels",
        "%r = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
        " window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        " : (tensor<1x160x156x4x{T}>, tensor<3x3x4x8x{T}>) -> tensor<1x160x156x8x{T}>",
        ((1, 160, 156, 4), (3, 3, 4, 8)),
        (1, 160, 156, 8),
    ),
    Program(
        "dot_general 128×128×128",
        "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]"
        " : (tensor<128x128x{T}>, tensor<128x128x{T}>) -> tensor<128x128x{T}>",
        ((128, 128), (128, 128)),
        (128, 128),
    ),
    Program(
        "map",
        '%r = "stablehlo.map"(%a, %b) <{dimensions = array<i64: 0>}> ' + _ADDING.replace("add", "multiply")
        + " : (tensor<100000x{T}>, tensor<100000x{T}>) -> tensor<100000x{T}>",
        ((100_000,), (100_000,)),
        (100_000,),
    ),
)  # fmt: skip

#: A loop of scalar ops, whose time is the overhead of each op.
WHILE = """
  func.func @main() -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %iterations = stablehlo.constant dense<10000> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %x = %zero) : tensor<i32>, tensor<i32>
    cond {
      %go = stablehlo.compare LT, %i, %iterations : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %a = stablehlo.multiply %x, %three : tensor<i32>
      %b = stablehlo.add %a, %i : tensor<i32>
      %c = stablehlo.xor %b, %one : tensor<i32>
      stablehlo.return %next, %c : tensor<i32>, tensor<i32>
    }
    return %r#1 : tensor<i32>
  }"""

#: The reference has no fft, so its peer is XLA: 2^17 complex numbers.
FFT = """
  func.func @main(%a: tensor<1024x128xcomplex<f32>>) -> tensor<1024x128xcomplex<f32>> {
    %r = stablehlo.fft %a, type = FFT, length = [128] : (tensor<1024x128xcomplex<f32>>) -> tensor<1024x128xcomplex<f32>>
    return %r : tensor<1024x128xcomplex<f32>>
  }"""
