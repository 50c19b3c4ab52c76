"""Cases on rows as programs: along the last dimension, along the first of a transposed array, or along a middle one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...backends.programs import Builder, compare_attributes, tensor
from ...oracle.formats import FORMATS
from .case import Case
from .row_data import Arrays, start_code

#: Number of parts that rows are cut into along the middle one of three dimensions.
_PARTS = 2


def body(case: Case) -> str:
    """The body of a reduction: the op on two numbers."""
    return dict(case.attributes).get("body", "add")


def shape_in_three(case: Case, arrays: Arrays) -> tuple[int, ...]:
    """The shape of the result in the form rank-3; its elements have the order of the other forms."""
    x, y = arrays[0], arrays[-1]
    if case.op == "dot_general":
        return *x.shape[:-1], y.shape[-1]
    if case.op == "convolution":
        return x.shape[0], 1, x.shape[1] - y.shape[0] + 1, y.shape[2]
    return _PARTS, len(x) // _PARTS, *(() if case.op == "reduce" else x.shape[1:])


def emit(builder: Builder, case: Case, form: str, arrays: Arrays, shape: tuple[int, ...]) -> None:
    """Adds a case to a program, as its next result, of a shape."""
    stored = _stored_arrays(case, form, arrays)
    make = builder.constant if form == "constant" else builder.input
    values = [make(x, t) for x, t in zip(stored, case.operands, strict=True)]
    types = [tensor(x.shape, t) for x, t in zip(stored, case.operands, strict=True)]
    if form == "reversed":
        values = [builder.op(f"stablehlo.reverse {v}, dims = [0, 1] : {t}") for v, t in zip(values, types, strict=True)]
    gives = tensor(shape, case.result)
    match case.op:
        case "reduce":
            value = _emit_reduce(builder, case, form, values[0], types[0], gives)
        case "dot_general":
            dims = {"transposed": "contracting_dims = [0] x [1]", "rank-3": "batching_dims = [0] x [0], "
                    "contracting_dims = [2] x [1]"}.get(form, "contracting_dims = [1] x [0]")  # fmt: skip
            given = f"{values[0]}, {values[1]}, {dims} : ({types[0]}, {types[1]})"
            value = builder.op(f"stablehlo.dot_general {given} -> {gives}")
        case "convolution":
            value = _emit_convolution(builder, form, values, types, gives)
        case _:
            made = _emit_reduce_window if case.op == "cumulative" else _emit_sort
            value = made(builder, case, form, values[0], stored[0].shape)
            if form in _BACK:
                value = builder.op(f"stablehlo.transpose {value}, dims = {list(_BACK[form])} : ({types[0]}) -> {gives}")
    builder.output(value, case.result, shape)


#: Permutations that make rows the last dimension of results.
_BACK = {"transposed": (1, 0), "rank-3": (0, 2, 1)}


def _stored_arrays(case: Case, form: str, arrays: Arrays) -> Sequence[np.ndarray]:
    """The arguments of the program."""
    if form == "transposed":
        return [np.asarray(x.T, order="C") for x in arrays]
    if form == "reversed":
        return [np.array(x[::-1, ::-1]) for x in arrays]
    if form != "rank-3" or case.op == "dot_general":
        return arrays
    x = arrays[0]
    if case.op == "convolution":
        return [x[:, None], arrays[1][None]]
    parts = x.reshape(_PARTS, -1, x.shape[1])
    return [np.asarray(parts.transpose(0, 2, 1), order="C")]


def _axis(form: str) -> int:
    """The dimension of the rows."""
    return 0 if form == "transposed" else 1


def _start(builder: Builder, case: Case) -> str:
    fmt = FORMATS[case.operands[0]]
    return builder.constant(np.array(start_code(fmt, body(case)), fmt.code_dtype), fmt.name)


def _emit_reduce(builder: Builder, case: Case, form: str, value: str, kind: str, gives: str) -> str:
    start, scalar = _start(builder, case), tensor((), case.operands[0])
    applies = f"applies stablehlo.{body(case)} across dimensions = [{_axis(form)}]"
    return builder.op(f"stablehlo.reduce({value} init: {start}) {applies} : ({kind}, {scalar}) -> {gives}")


def _emit_convolution(builder: Builder, form: str, values: list[str], types: list[str], gives: str) -> str:
    dims = {
        "transposed": "dim_numbers = [f, 0, b]x[o, i, 0]->[b, 0, f], window = {stride = [1]}",
        "rank-3": "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1]}",
    }.get(form, "dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]}")
    counts = "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    takes = f"({types[0]}, {types[1]})"
    return builder.op(f"stablehlo.convolution({values[0]}, {values[1]}) {dims} {counts} : {takes} -> {gives}")


def _emit_reduce_window(builder: Builder, case: Case, form: str, value: str, shape: tuple[int, ...]) -> str:
    axis, scalar, kind = _axis(form), tensor((), case.operands[0]), tensor(shape, case.operands[0])
    combined = f"%z = stablehlo.{body(case)} %x, %y : {scalar} stablehlo.return %z : {scalar}"
    region = f"({{ ^bb0(%x: {scalar}, %y: {scalar}): {combined} }})"
    sizes = ", ".join(str(n if i == axis else 1) for i, n in enumerate(shape))
    padding = [[n - 1 if i == axis else 0, 0] for i, n in enumerate(shape)]
    windows = f"{{window_dimensions = array<i64: {sizes}>, padding = dense<{padding}> : tensor<{len(shape)}x2xi64>}}"
    text = f'"stablehlo.reduce_window"({value}, {_start(builder, case)}) {region} {windows}'
    return builder.op(f"{text} : ({kind}, {scalar}) -> {kind}")


def _emit_sort(builder: Builder, case: Case, form: str, value: str, shape: tuple[int, ...]) -> str:
    scalar, kind = tensor((), case.operands[0]), tensor(shape, case.operands[0])
    region = (
        f'({{ ^bb0(%x: {scalar}, %y: {scalar}): %z = "stablehlo.compare"(%x, %y) '
        f"{compare_attributes('LT', 'TOTALORDER')} : ({scalar}, {scalar}) -> tensor<i1> "
        "stablehlo.return %z : tensor<i1> })"
    )
    return builder.op(f'"stablehlo.sort"({value}) {region} {{dimension = {_axis(form)} : i64}} : ({kind}) -> {kind}')
