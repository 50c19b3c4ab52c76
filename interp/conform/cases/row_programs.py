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
    gives, scalar = tensor(shape, case.result), tensor((), case.operands[0])
    axis = 0 if form == "transposed" else 1  # of the rows
    both, kind = f"({', '.join(types)}) -> {gives}", types[0]
    match case.op:
        case "reduce":
            applied = f"applies stablehlo.{body(case)} across dimensions = [{axis}]"
            start = _start(builder, case)
            text = f"stablehlo.reduce({values[0]} init: {start}) {applied} : ({kind}, {scalar}) -> {gives}"
        case "dot_general":
            text = f"stablehlo.dot_general {', '.join(values)}, {_DOT.get(form, _DOT[''])} : {both}"
        case "convolution":
            dims = f"{_CONVOLUTION.get(form, _CONVOLUTION[''])} {_COUNTS}"
            text = f"stablehlo.convolution({', '.join(values)}) {dims} : {both}"
        case "cumulative":
            sizes = [n if i == axis else 1 for i, n in enumerate(stored[0].shape)]
            padding = f"padding = dense<{[[n - 1, 0] for n in sizes]}> : tensor<{len(sizes)}x2xi64>"
            windows = f"{{window_dimensions = array<i64: {', '.join(map(str, sizes))}>, {padding}}}"
            region = _region(scalar, f"stablehlo.{body(case)} %x, %y : {scalar}", scalar)
            start = _start(builder, case)
            text = f'"stablehlo.reduce_window"({values[0]}, {start}) {region} {windows} : ({kind}, {scalar}) -> {kind}'
        case _:
            words = compare_attributes("LT", "TOTALORDER")
            compared = f'"stablehlo.compare"(%x, %y) {words} : ({scalar}, {scalar}) -> tensor<i1>'
            region = _region(scalar, compared, "tensor<i1>")
            text = f'"stablehlo.sort"({values[0]}) {region} {{dimension = {axis} : i64}} : ({kind}) -> {kind}'
    value = builder.op(text)
    if case.op in ("cumulative", "sort") and form in _BACK:
        value = builder.op(f"stablehlo.transpose {value}, dims = {list(_BACK[form])} : ({kind}) -> {gives}")
    builder.output(value, case.result, shape)


#: The dimensions of products in some forms, and in all others.
_DOT = {
    "": "contracting_dims = [1] x [0]",
    "transposed": "contracting_dims = [0] x [1]",
    "rank-3": "batching_dims = [0] x [0], contracting_dims = [2] x [1]",
}
_CONVOLUTION = {
    "": "dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]}",
    "transposed": "dim_numbers = [f, 0, b]x[o, i, 0]->[b, 0, f], window = {stride = [1]}",
    "rank-3": "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1]}",
}
_COUNTS = "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
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


def _start(builder: Builder, case: Case) -> str:
    fmt = FORMATS[case.operands[0]]
    return builder.constant(np.array(start_code(fmt, body(case)), fmt.code_dtype), fmt.name)


def _region(scalar: str, op: str, gives: str) -> str:
    """A region of an op on two numbers."""
    return f"({{ ^bb0(%x: {scalar}, %y: {scalar}): %z = {op} stablehlo.return %z : {gives} }})"
