"""MLIR types and attributes -> plain Python values. This is the one place that decides what each kind becomes.

| attribute | value |
|---|---|
| integer, bool, float, string, `@symbol` | int, bool, float, str, str (without the @) |
| array, `array<i64: …>` | tuple |
| dictionary, unit | dict, True |
| type | a `Type`, or an `ElementType` |
| dense elements | a read-only numpy array in the storage type of its element type |
| `#stablehlo<comparison_direction LT>` and other enumerations | str, here `'LT'` |
| `#stablehlo.dot<…>` and other structures | dict by the names of the fields; fields left out have their defaults |
| anything else | `Opaque` |
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

# The extensions themselves: `jaxlib.mlir.dialects.…` would import a class for each op, which we do not use.
from jaxlib.mlir._mlir_libs import _chlo, _stablehlo

from ...ops.types import ElementType, FutureType, TensorType, TokenType, TupleType, Type, element_type
from .dense import array_of_bytes, array_of_text, holds
from .syntax import NEWER, split_list

#: Types that computations of shapes use, as the tensors that hold all that such computations need.
_OF_SHAPES = {
    "index": TensorType((), element_type("i64")),
    "!shape.size": TensorType((), element_type("i64")),
    "!shape.shape": TensorType((None,), element_type("i64")),
    "!shape.witness": TensorType((), element_type("i1")),
}


#: Gives the value of a constant whose data a program leaves out.
Elided = Callable[[TensorType], np.ndarray]


class AttributeValueError(ValueError):
    """A type or attribute that has no form as a plain value. The parser adds the place to the message."""


@dataclasses.dataclass(frozen=True)
class Opaque:
    """An attribute kept as its text."""

    text: str


#: The classes of the structures, by the names they are printed under. The properties of a class are the fields.
_STRUCTURES = {
    "stablehlo.dot": _stablehlo.DotDimensionNumbers,
    "stablehlo.conv": _stablehlo.ConvDimensionNumbers,
    "stablehlo.gather": _stablehlo.GatherDimensionNumbers,
    "stablehlo.scatter": _stablehlo.ScatterDimensionNumbers,
    "stablehlo.dot_algorithm": _stablehlo.DotAlgorithm,
    "stablehlo.channel_handle": _stablehlo.ChannelHandle,
    "stablehlo.output_operand_alias": _stablehlo.OutputOperandAlias,
    "stablehlo.result_accuracy": _stablehlo.ResultAccuracyAttr,
    "stablehlo.bounds": _stablehlo.TypeExtensions,
    # Meshes are newer than the oldest jaxlib that the JAX platform works with.
    "stablehlo.replica_group_mesh_axes": getattr(_stablehlo, "ReplicaGroupMeshAxesAttr", None),
    "stablehlo.axis_ref": getattr(_stablehlo, "AxisRefAttr", None),
    "stablehlo.sub_axis_info": getattr(_stablehlo, "SubAxisInfoAttr", None),
    "stablehlo.mesh": getattr(_stablehlo, "MeshAttr", None),
    "stablehlo.mesh_axis": getattr(_stablehlo, "MeshAxisAttr", None),
    "chlo.ragged_dot": _chlo.RaggedDotDimensionNumbers,
}
#: The properties that have another name than the field.
_FIELDS = {"scattered_dims_to_operand_dims": "scatter_dims_to_operand_dims", "channel_type": "type"}

#: `#stablehlo<comparison_direction LT>` or `#stablehlo.result_accuracy_mode<DEFAULT>`: an enumeration's value.
_ENUMERATION = re.compile(r"#(?:stablehlo|chlo|mhlo)(?:<\w+ |\.\w+<)(\w+)>")
#: `#stablehlo.dot<…>` or `#stablehlo<sub_axis_info(1)2>`.
_STRUCTURE = re.compile(r"#(\w+)[.<](\w+)[<(]")

#: `dense_resource<key>` or `dense_resource<"a key">`.
_RESOURCE = re.compile(r'dense_resource<(?:"([^"\\]*(?:\\.[^"\\]*)*)"|([^">]+))>')


class Converter:
    """Converts the types and attributes of one module; each distinct one once."""

    def __init__(self, resource: Callable[[str], bytes | None] = lambda _: None, elided: Elided | None = None) -> None:
        """`resource` finds the bytes of a `dense_resource` by its key; `elided` stands for those left out."""
        self._elided = elided
        self._types: dict[ir.Type, Type | ElementType] = {}
        self._attributes: dict[ir.Attribute, Any] = {}
        self._resource = resource

    def type(self, t: ir.Type) -> Type:
        """The type of a value. A plain number is a tensor of rank 0."""
        result = self.any_type(t)
        return TensorType((), result) if isinstance(result, ElementType) else result

    def any_type(self, t: ir.Type) -> Type | ElementType:
        """A type that is named in an attribute."""
        if t not in self._types:
            self._types[t] = self._type(t)
        return self._types[t]

    def _type(self, t: ir.Type) -> Type | ElementType:
        text = str(t)
        if text.startswith(f"!{NEWER}"):
            text = text.replace(NEWER, "", 1)
        if isinstance(t, ir.RankedTensorType):
            return self._tensor(t, text)
        if isinstance(t, ir.TupleType):
            return TupleType(tuple(self.type(t.get_type(i)) for i in range(t.num_types)))
        if text == "!stablehlo.token":
            return TokenType()
        if text in _OF_SHAPES:
            return _OF_SHAPES[text]
        if text.startswith("!stablehlo.future<"):
            parts = split_list(text.removeprefix("!stablehlo.future<")[:-1])
            return FutureType(tuple(self.type(ir.Type.parse(p, t.context)) for p in parts))
        try:
            return element_type(text)
        except ValueError:
            raise AttributeValueError(f"type {text} is not supported (expected a tensor, a token or a tuple)") from None

    def _tensor(self, t: ir.RankedTensorType, text: str) -> TensorType:
        shape = tuple(None if t.is_dynamic_dim(i) else n for i, n in enumerate(t.shape))
        name, bounds = str(t.element_type).removeprefix(f"!{NEWER}"), self._bounds(t, text)
        try:
            return TensorType(shape, element_type("i64" if name == "index" else name), bounds)
        except ValueError as error:
            unknown = f"{text} is not supported: {name} is not an element type"
            raise AttributeValueError(f"type {error if name.startswith('!quant.') else unknown}") from None

    def _bounds(self, t: ir.RankedTensorType, text: str) -> tuple[int | None, ...]:
        """What the encoding of a type says of its sizes."""
        if t.encoding is None:
            return ()
        encoding = self.attribute(t.encoding)
        if not isinstance(encoding, dict) or "bounds" not in encoding:
            raise AttributeValueError(
                f"type {text} is not supported: expected bounds as its encoding, got {t.encoding}"
            )
        return tuple(None if n == ir.ShapedType.get_dynamic_size() else n for n in encoding["bounds"])

    def attribute(self, a: ir.Attribute) -> Any:
        """The plain value of an attribute."""
        if a not in self._attributes:
            convert = _KINDS.get(type(a))
            self._attributes[a] = convert(self, a) if convert else self._dialect_attribute(a)
        return self._attributes[a]

    def _dialect_attribute(self, a: ir.Attribute) -> Any:
        """An attribute that has no Python class of its own: an enumeration, a structure, or kept as its text."""
        text = str(a)
        if _RESOURCE.match(text):
            return self._dense_resource(a, text)
        name = _STRUCTURE.match(text)
        cls: Any = _STRUCTURES.get(f"{name[1]}.{name[2]}") if name else None
        if cls is None:
            match = _ENUMERATION.fullmatch(text)
            return match[1] if match else Opaque(text)
        structure, names = cls(a), [name for name, member in vars(cls).items() if isinstance(member, property)]
        return {_FIELDS.get(name, name): self._field(getattr(structure, name)) for name in names}

    def _field(self, value: Any) -> Any:
        if isinstance(value, ir.Attribute):
            return self.attribute(value)
        if isinstance(value, ir.Type):  # only dot_algorithm has types; `tf32` is one no value can have
            return str(value)
        return tuple(value) if isinstance(value, list) else value

    def text_attribute(self, text: str) -> Any:
        """The value of an attribute that jaxlib prints but cannot hand to Python (see `parser.py`)."""
        match = re.fullmatch(r"dense<(.*)> : (tensor<([\dx]*?)(complex<f(?:32|64)>)>)", text, re.DOTALL)
        if match:
            shape = tuple(int(n) for n in match[3].split("x") if n)
            return self.dense_text(match[1], TensorType(shape, element_type(match[4])))
        return Opaque(text)

    def dense_text(self, body: str, t: TensorType) -> np.ndarray:
        """The array of a dense attribute printed as `dense<body> : t`. Raises AttributeValueError."""
        try:
            return array_of_text(body, t)
        except ValueError as e:
            raise AttributeValueError(f"constant of type {t}: {e}") from None

    def dense(self, a: ir.DenseElementsAttr) -> np.ndarray | Opaque:
        """The array of a dense attribute; a splat is a view of one element, so its size costs nothing."""
        if not isinstance(a.type, ir.RankedTensorType):
            return Opaque(str(a))
        t = self.type(a.type)
        assert isinstance(t, TensorType)
        if a.is_splat or not holds(t.element):
            return self.dense_text(str(a).removeprefix("dense<").removesuffix(f"> : {a.type}"), t)
        # A view, because the buffer calls int64 `long long`, which is equal to numpy's int64 and yet not the same.
        array = np.array(a)
        # A byte of a boolean may be anything but zero for true.
        array = array.view(np.uint8) != 0 if array.dtype == bool else array.view(t.element.dtype)
        array.flags.writeable = False
        return array

    def _dense_resource(self, a: ir.Attribute, text: str) -> np.ndarray:
        match = _RESOURCE.match(text)
        key = (match[1] or match[2]) if match else ""
        t = self.type(a.type)
        data = self._resource(key)
        if data is None or not isinstance(t, TensorType):
            return self.elided(t, f"dense_resource<{key}>")
        try:
            return array_of_bytes(data, t, f"dense_resource<{key}>")
        except ValueError as e:
            raise AttributeValueError(str(e)) from None

    def elided(self, t: Type, what: str) -> np.ndarray:
        """Return what stands for a constant without its data. Raises AttributeValueError where nothing does."""
        if self._elided is None or not isinstance(t, TensorType):
            hint = "minihlo run --elided zeros, or sample, fills what is left out"
            raise AttributeValueError(f"{what}: expected its data in the program, got none ({hint})")
        return self._elided(t)


def _string(_: Converter, a: Any) -> str:
    try:
        return a.value
    except (UnicodeDecodeError, RuntimeError):  # strings are bytes to MLIR
        return a.value_bytes.decode(errors="backslashreplace")


def _or_text(convert: Callable[[Converter, Any], Any], refusal: type[Exception]) -> Callable[[Converter, Any], Any]:
    """The conversion of a kind of attributes, or, where it raises an exception, their text."""

    def converted(self: Converter, a: Any) -> Any:
        try:
            return convert(self, a)
        except refusal:
            return Opaque(str(a))

    return converted


def _value(_: Converter, a: Any) -> Any:
    return a.value


_SEQUENCES = [getattr(ir, f"Dense{kind}ArrayAttr") for kind in ("Bool", "I8", "I16", "I32", "I64", "F32", "F64")]
#: jaxlib cannot hand every element of an array or a dictionary to Python.
_KINDS: dict[type, Callable[[Converter, Any], Any]] = {
    ir.IntegerAttr: _value,
    ir.BoolAttr: _value,
    ir.FloatAttr: _value,
    ir.StringAttr: _string,
    ir.FlatSymbolRefAttr: _value,
    ir.SymbolRefAttr: lambda _, a: "::".join(a.value),
    ir.ArrayAttr: _or_text(lambda self, a: tuple(self.attribute(x) for x in a), TypeError),
    # By number: a name with a zero byte is not found again.
    ir.DictAttr: _or_text(lambda self, a: {a[i].name: self.attribute(a[i].attr) for i in range(len(a))}, TypeError),
    ir.UnitAttr: lambda _, __: True,
    ir.TypeAttr: _or_text(lambda self, a: self.any_type(a.value), AttributeValueError),
    ir.DenseElementsAttr: Converter.dense,
    ir.DenseIntElementsAttr: Converter.dense,
    ir.DenseFPElementsAttr: Converter.dense,
    **dict.fromkeys(_SEQUENCES, lambda _, a: tuple(a)),
}
