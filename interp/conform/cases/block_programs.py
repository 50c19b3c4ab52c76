"""Cases on blocks as programs: composites whose decompositions any compiler of StableHLO can run.

`minihlo.quantize` and `minihlo.dequantize` decompose into exact steps (ops.blocks.stablehlo). `xla.scaled_dot` is the
lowering of `jax.lax.scaled_dot`, and decomposes as there into a dot of scaled numbers rounded to bf16.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ops.blocks.formats import BLOCK_FORMATS
from ....ops.blocks.stablehlo import dequantizer_function, quantizer_function
from ...backends.programs import Builder, tensor
from ...oracle.blocks import BLOCKS, Block
from .block_data import Arrays
from .case import Case


def outputs(case: Case, arrays: Arrays) -> list[tuple[str, tuple[int, ...]]]:
    """The element type and the shape of each result."""
    shape = arrays[0].shape
    if case.op != "quantize":
        return [(case.result, shape if case.op == "dequantize" else (shape[0], arrays[1].shape[1]))]
    block = BLOCKS[dict(case.attributes)["format"]]
    found = [(block.element, shape), (block.scale, block.scale_shape((shape[0], shape[1])))]
    return [*found, ("f32", ())] if block.has_tensor_scale else found


def operand_types(case: Case) -> tuple[str, ...]:
    """The element types of the operands, scales included."""
    facts = dict(case.attributes)
    if case.op != "scaled_dot":
        return case.operands
    left, right = BLOCKS[facts["left"]], BLOCKS[facts["right"]]
    return left.element, right.element, left.scale, right.scale


def emit(builder: Builder, case: Case, form: str, arrays: Arrays) -> None:
    """Adds a case to a program, as its next results."""
    types = operand_types(case)
    make = builder.constant if form == "constant" else builder.input
    values = [make(x, t) for x, t in zip(arrays, types, strict=True)]
    kinds = [tensor(x.shape, t) for x, t in zip(arrays, types, strict=True)]
    gives = outputs(case, arrays)
    made = _product if case.op == "scaled_dot" else _conversion
    results = made(builder, case, arrays, values, kinds, [tensor(shape, t) for t, shape in gives])
    for value, (t, shape) in zip(results, gives, strict=True):
        builder.output(value, t, shape)


def _composite(
    builder: Builder, name: str, values: Sequence[str], kinds: Sequence[str], gives: Sequence[str], words: str, of: str
) -> list[str]:
    attributes = f"{{composite_attributes = {{{words}}}, decomposition = @{of}}}"
    returned = gives[0] if len(gives) == 1 else f"({', '.join(gives)})"
    text = f'stablehlo.composite "{name}" {", ".join(values)} {attributes} : ({", ".join(kinds)}) -> {returned}'
    return builder.several(len(gives), text)


def _conversion(
    builder: Builder, case: Case, arrays: Arrays, values: list[str], kinds: list[str], gives: list[str]
) -> list[str]:
    facts, shape = dict(case.attributes), arrays[0].shape
    fmt = BLOCK_FORMATS[facts["format"]]
    axes = ", ".join(str(len(shape) - len(fmt.block) + i) for i in range(len(fmt.block)))
    words = f'format = "{fmt.name}", axes = array<i64: {axes}>'
    words += f', rule = "{facts["scale"]}"' if case.op == "quantize" else ', overflow = "ieee"'

    def text(name: str) -> str:
        if case.op == "dequantize":
            return dequantizer_function(fmt, shape, case.result, name)
        return quantizer_function(fmt, shape, facts["scale"], case.operands[0], name)

    function = builder.function((case.signature, shape), text)
    return _composite(builder, f"minihlo.{case.op}", values, kinds, gives, words, function)


def _product(
    builder: Builder, case: Case, arrays: Arrays, values: list[str], kinds: list[str], gives: list[str]
) -> list[str]:
    """A product, of operands padded with zeros so that each block is full."""
    facts = dict(case.attributes)
    blocks = BLOCKS[facts["left"]], BLOCKS[facts["right"]]
    k, shapes = arrays[0].shape[1], [x.shape for x in arrays]
    most = max(s * b.size for s, b in zip((shapes[2][1], shapes[3][0]), blocks, strict=True))
    if most != k:
        for i, b in enumerate(blocks):
            whole = (shapes[i][0], most) if i == 0 else (most, shapes[i][1])
            zero = builder.op(f"stablehlo.constant dense<0.0> : tensor<{b.element}>")
            high = [n - s for n, s in zip(whole, shapes[i], strict=True)]
            types = f"({kinds[i]}, tensor<{b.element}>) -> {tensor(whole, b.element)}"
            pad = f"stablehlo.pad {values[i]}, {zero}, low = [0, 0], high = {high}, interior = [0, 0]"
            values[i], shapes[i] = builder.op(f"{pad} : {types}"), whole
            kinds[i] = tensor(whole, b.element)
    words = f"dimension_numbers = [[[1], [0]], [[], []]], preferred_element_type = {case.result}"
    key = case.signature, *shapes
    function = builder.function(key, lambda name: decomposition(name, blocks, case.result, shapes))
    return _composite(builder, "xla.scaled_dot", values, kinds, gives, words, function)


def decomposition(name: str, blocks: tuple[Block, Block], result: str, shapes: Sequence[tuple[int, ...]]) -> str:
    """A dot of scaled numbers rounded to bf16, as a function of the elements and scales of both sides."""
    lines, scaled = [], []
    for i, (b, side) in enumerate(zip(blocks, "ab", strict=True)):
        shape, few, along = shapes[i], shapes[i + 2], 1 - i
        split = [*shape[:along], few[along], shape[along] // few[along], *shape[along + 1 :]]
        dims = [0, 1] if along == 1 else [0, 2]
        wide, narrow, both = tensor(shape, "bf16"), tensor(few, "bf16"), tensor(split, "bf16")
        lines += [
            f"%{side}0 = stablehlo.convert %{side} : ({tensor(shape, b.element)}) -> {wide}",
            f"%{side}1 = stablehlo.convert %s{side} : ({tensor(few, b.scale)}) -> {narrow}",
            f"%{side}2 = stablehlo.broadcast_in_dim %{side}1, dims = {dims} : ({narrow}) -> {both}",
            f"%{side}3 = stablehlo.reshape %{side}2 : ({both}) -> {wide}",
            f"%{side}4 = stablehlo.multiply %{side}0, %{side}3 : {wide}",
        ]
        scaled.append(wide)
    gives = tensor((shapes[0][0], shapes[1][1]), result)
    lines += [
        f"%r = stablehlo.dot_general %a4, %b4, contracting_dims = [1] x [0] : ({', '.join(scaled)}) -> {gives}",
        f"return %r : {gives}",
    ]
    takes = ("%a", blocks[0].element), ("%b", blocks[1].element), ("%sa", blocks[0].scale), ("%sb", blocks[1].scale)
    arguments = ", ".join(f"{v}: {tensor(s, t)}" for (v, t), s in zip(takes, shapes, strict=True))
    body = "\n    ".join(lines)
    return f"  func.func private @{name}({arguments}) -> {gives} {{\n    {body}\n  }}"
