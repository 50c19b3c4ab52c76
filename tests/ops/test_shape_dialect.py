"""Ops that compute with sizes, of the dialects `shape`, `tensor` and `arith`: each against values by hand."""

from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.errors import ExecutionError


def computed(body: str, result: str, *values: Any, arguments: str = "") -> list[Any]:
    """What `%r`, of type `result`, is as nested lists."""
    text = f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    return interp.load(text)(*values)[0].tolist()


def of_indices(op: str, *values: int, result: str = "index") -> Any:
    """An op on constants of type index."""
    constants = "\n".join(f"%c{i} = arith.constant {v} : index" for i, v in enumerate(values))
    operands = ", ".join(f"%c{i}" for i in range(len(values)))
    return computed(f"{constants}\n%r = {op.format(operands)}", result)


SHAPE = "!shape.shape"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((2, 3), (2, 3)), [2, 3]),
        (((2, 3), (3,)), [2, 3]),
        (((3,), (2, 1)), [2, 3]),
        (((1,), (5, 1, 4), (2, 1)), [5, 2, 4]),
        (((), (2,)), [2]),
        (((0, 3), (1, 1)), [0, 3]),
        (((2,), (3,)), None),
        (((2, 2), (3, 2)), None),
        (((0,), (2,)), None),
        (((2,), (1,), (3,)), None),
    ],
)
def test_broadcast(shapes: tuple[tuple[int, ...], ...], expected: list[int] | None) -> None:
    names = [f"%s{i}" for i in range(len(shapes))]
    body = "\n".join(f"{n} = shape.const_shape {list(s)} : {SHAPE}" for n, s in zip(names, shapes, strict=True))
    types = ", ".join([SHAPE] * len(shapes))
    whether = f"%b = shape.is_broadcastable {', '.join(names)} : {types}\n%r = tensor.from_elements %b : tensor<i1>"
    assert computed(f"{body}\n{whether}", "tensor<i1>") == (expected is not None)
    for operation in (
        f"%r = shape.broadcast {', '.join(names)} : {types} -> {SHAPE}",
        f"%w = shape.cstr_broadcastable {', '.join(names)} : {types}\n%r = shape.assuming %w -> ({SHAPE}) {{\n"
        f"%q = shape.broadcast {', '.join(names)} : {types} -> {SHAPE}\nshape.assuming_yield %q : {SHAPE}\n}}",
    ):
        if expected is not None:
            assert computed(f"{body}\n{operation}", SHAPE) == expected
        else:
            with pytest.raises(ExecutionError, match="do not broadcast together"):
                computed(f"{body}\n{operation}", SHAPE)


def test_shapes() -> None:
    body = f"""%s = shape.const_shape [2, 0, 7] : {SHAPE}
    %t = shape.const_shape [4] : {SHAPE}
    %i = shape.const_size 2
    """
    as_index = "%r = shape.size_to_index %q : !shape.size"
    assert computed(f"{body}%r = shape.concat %s, %t : {SHAPE}, {SHAPE} -> {SHAPE}", SHAPE) == [2, 0, 7, 4]
    assert computed(f"{body}%q = shape.num_elements %s : {SHAPE} -> !shape.size\n{as_index}", "index") == 0
    assert computed(f"{body}%q = shape.num_elements %t : {SHAPE} -> !shape.size\n{as_index}", "index") == 4
    assert computed(f"{body}%q = shape.rank %s : {SHAPE} -> !shape.size\n{as_index}", "index") == 3
    assert (
        computed(f"{body}%q = shape.get_extent %s, %i : {SHAPE}, !shape.size -> !shape.size\n{as_index}", "index") == 7
    )
    for shapes, same in (("%s, %s", True), ("%s, %t", False), ("%s, %s, %t", False)):
        types = ", ".join([SHAPE] * (shapes.count(",") + 1))
        compare = f"%b = shape.shape_eq {shapes} : {types}\n%r = tensor.from_elements %b : tensor<i1>"
        assert computed(body + compare, "tensor<i1>") is same
        require = f"%w = shape.cstr_eq {shapes} : {types}\n%r = shape.assuming %w -> (!shape.size) {{\n"
        require += "shape.assuming_yield %i : !shape.size\n}"
        if same:
            assert computed(body + require, "!shape.size") == 2
        else:
            with pytest.raises(ExecutionError, match="differ"):
                computed(body + require, "!shape.size")
    with pytest.raises(ExecutionError, match="index 2 is out of bounds"):
        computed(f"{body}%r = shape.get_extent %t, %i : {SHAPE}, !shape.size -> !shape.size", "!shape.size")


def test_a_shape_of_sizes_is_a_tensor() -> None:
    body = """%a = shape.const_size 3
    %b = shape.const_size 4
    %s = shape.from_extents %a, %b : !shape.size, !shape.size
    """
    extents = "%r = shape.to_extent_tensor %s : !shape.shape -> "
    assert computed(f"{body}{extents}tensor<2xindex>", "tensor<2xindex>") == [3, 4]
    with pytest.raises(ExecutionError, match=r"shape \[2\], which does not fit tensor<3xi64>"):
        computed(f"{body}{extents}tensor<3xindex>", "tensor<3xindex>")


def test_witnesses() -> None:
    def assumed(witnesses: str) -> Any:
        body = "%r = shape.assuming %w -> (index) {\n%q = arith.constant 6 : index\nshape.assuming_yield %q : index\n}"
        return computed(f"{witnesses}\n{body}", "index")

    passing = "%a = shape.const_witness true\n%b = shape.const_witness true\n%w = shape.assuming_all %a, %b"
    assert assumed(passing) == 6
    with pytest.raises(ExecutionError, match="const_witness: the witness does not pass"):
        assumed("%w = shape.const_witness false")
    for holds in ("true", "false"):
        required = f'%c = arith.constant {holds}\n%w = shape.cstr_require %c, "sizes must be even"'
        if holds == "true":
            assert assumed(required) == 6
        else:
            with pytest.raises(ExecutionError, match=r":3:6: shape.cstr_require: sizes must be even"):
                assumed(required)


def test_tensors() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    arguments = "%x: tensor<?x3xf32>, %i: index"
    dim = "%r = tensor.dim %x, %i : tensor<?x3xf32>"
    assert [computed(dim, "index", x, i, arguments=arguments) for i in (0, 1)] == [2, 3]
    for i in (-1, 2):
        with pytest.raises(ExecutionError, match=rf"tensor.dim: index {i} is out of bounds \(expected from 0 to 1\)"):
            computed(dim, "index", x, i, arguments=arguments)
    extract = """%e = tensor.extract %x[%i, %i] : tensor<?x3xf32>
    %r = tensor.from_elements %e, %e : tensor<1x2xf32>"""
    assert computed(extract, "tensor<1x2xf32>", x, 1, arguments=arguments) == [[4, 4]]
    with pytest.raises(ExecutionError, match="index 2 is out of bounds"):
        computed(extract, "tensor<1x2xf32>", x, 2, arguments=arguments)
    cast = "%r = tensor.cast %x : tensor<?x3xf32> to tensor<2x3xf32>"
    assert computed(cast, "tensor<2x3xf32>", x, 0, arguments=arguments) == x.tolist()
    with pytest.raises(ExecutionError, match=r"tensor.cast: "):
        computed(cast, "tensor<2x3xf32>", x[:1], 0, arguments=arguments)
    assert computed("%r = shape.dim %x, %i : tensor<?x3xf32>, index -> index", "index", x, 0, arguments=arguments) == 2
    assert computed("%r = tensor.rank %x : tensor<?x3xf32>", "index", x, 0, arguments=arguments) == 2


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("addi", 7, -9, -2),
        ("addi", 2**63 - 1, 1, -(2**63)),
        ("subi", 7, -9, 16),
        ("muli", 7, -9, -63),
        ("divsi", 7, -2, -3),
        ("remsi", -7, 2, -1),
        ("maxsi", -7, 2, 2),
        ("minsi", -7, 2, -7),
        ("andi", 12, 10, 8),
        ("ori", 12, 10, 14),
        ("xori", 12, 10, 6),
    ],
)
def test_integers(op: str, a: int, b: int, expected: int) -> None:
    assert of_indices(f"arith.{op} {{}} : index", a, b) == expected


@pytest.mark.parametrize("name", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_comparisons(name: str) -> None:
    for a, b in ((1, 2), (2, 1), (2, 2), (-1, 2), (2, -1)):
        x, y = (a % 2**64, b % 2**64) if name[0] == "u" else (a, b)
        expected = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[name[-2:]]
        constants = f"%a = arith.constant {a} : index\n%b = arith.constant {b} : index"
        chosen = f"%c = arith.cmpi {name}, %a, %b : index\n%r = arith.select %c, %a, %b : index"
        assert computed(f"{constants}\n{chosen}", "index") == (a if expected else b)


def test_casts() -> None:
    x = np.array([1, -2, 2**31], np.int64)
    down = "%r = arith.index_cast %x : tensor<?xindex> to tensor<?xi32>"
    assert computed(down, "tensor<?xi32>", x, arguments="%x: tensor<?xindex>") == [1, -2, -(2**31)]
    up = "%r = arith.index_cast %x : tensor<?xi8> to tensor<?xindex>"
    assert computed(up, "tensor<?xindex>", np.array([1, -2], np.int8), arguments="%x: tensor<?xi8>") == [1, -2]
    narrow = "%y = arith.trunci %x : i64 to i8\n%r = arith.extsi %y : i8 to i64"
    assert computed(narrow, "i64", 300, arguments="%x: i64") == 44
    # A boolean is -1 to `arith`, and 1 to StableHLO's convert.
    assert computed("%r = arith.extsi %x : i1 to i64", "i64", True, arguments="%x: i1") == -1


@pytest.mark.parametrize(
    ("text", "t", "expected"),
    [
        ("5 : index", "index", 5),
        ("-5 : i8", "i8", -5),
        ("true", "i1", True),
        ("0.1 : f32", "f32", float(np.float32(0.1))),
        ("1.5 : f8E4M3FN", "f8E4M3FN", 1.5),
        ("dense<[1, 2]> : tensor<2xindex>", "tensor<2xindex>", [1, 2]),
        ("dense<7> : tensor<2xindex>", "tensor<2xindex>", [7, 7]),
    ],
)
def test_constants(text: str, t: str, expected: Any) -> None:
    assert computed(f"%r = arith.constant {text}", t) == expected
