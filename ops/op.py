"""The declaration of an op: `@op(...)` on a function makes a record, and every list of ops is derived from the records.

The decorated function *binds*: it is called once for each use of the op in a program, with a `Call` that has the types,
attributes and policy. It returns a *kernel*, a function of arrays that is called each time the op runs. What can be
decided once is decided while binding. The modules with declarations are found by walking this package.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Mapping

from .call import Body, Call, Callee, CheckError, OpError, UnsupportedOpError
from .traits import NOTHING, OpTraits, Run
from .types import ELEMENT_TYPES, ElementType, Kind, QuantizedType, TensorType, TupleType, Type

__all__ = [
    "Accuracy", "Body", "Call", "Callee", "CheckError", "Op", "OpError", "UnsupportedOpError",
    "call_attribute", "describe", "element_types", "traits_of", "for_quantized", "full_name", "kernel_of", "lookup",
    "op", "ops", "register",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """How near to the exact result an op's results are, for each float type."""

    text: str
    #: The host's function in f64 is near the exact result, and not the rounded one: `float_kernels.py` makes it that.
    is_near: bool = False


EXACT = Accuracy("exact")  #: nothing is rounded
CORRECTLY_ROUNDED = Accuracy("correctly rounded; complex by the host's formulas")
#: Of real numbers; of complex ones the length.
EXACT_BUT_COMPLEX = Accuracy("exact; complex by the host's formulas")
#: Up to 32 bits; f64 and complex types take the host's library functions.
ROUNDED_TO_32 = Accuracy("correctly rounded; f64 within 4 ULP; complex by the host's formulas", is_near=True)
BY_POLICY = Accuracy("by policy")  #: as the policy's accumulation or the op's own attributes say
BY_BODY = Accuracy("by its body")  #: the region's ops, each as accurate as it is

#: The version of the specification that the labels (C1), (I2) and so on in docstrings refer to, and its address.
SPECIFICATION_VERSION = "1.20.0"
_REPOSITORY = "https://github.com/openxla/stablehlo/blob/3c9301c116f97fbaf696959a0ede32712aec587b/docs"

_WORDS: dict[str, Callable[[ElementType], bool]] = {
    "bool": lambda t: t.kind is Kind.BOOL,
    "signed": lambda t: t.kind is Kind.SIGNED,
    "unsigned": lambda t: t.kind is Kind.UNSIGNED,
    "integer": lambda t: t.is_integer,
    "float": lambda t: t.is_float,
    "minifloat": lambda t: t.is_minifloat,
    "complex": lambda t: t.is_complex,
    "any": lambda _: True,
}


@dataclasses.dataclass(frozen=True)
class Op:
    """The record of an op."""

    name: str
    bind: Callable[[Call], Run]
    types: frozenset[ElementType]  #: the element types its tensor operands (its results, if it has none) may have
    #: What the kernel sees: "numbers", "codes" (moved and never decoded) or "regions"; "checks" hold or fail.
    values: str
    accuracy: Accuracy
    operands: int | None  #: how many, None where it varies
    doc: str
    #: Each element of the result depends on the same element of the operands; the kernel takes any rank.
    is_elementwise: bool = False
    #: Elementwise, without attributes, and its operands and its result have one type.
    is_function: bool = False
    #: What running it does beside giving a result, so that it must run each time, in order.
    has_effects: bool = False
    #: The attributes that name functions, alone or in lists.
    calls: tuple[str, ...] = ()
    #: The kernel takes sizes from its operands and checks that results fit their types. So it is bound only once, even
    #: if the types of the operands leave sizes open.
    any_sizes: bool = False
    #: Whether the specification has a section of this name. Some ops of StableHLO are older than it, and are not in it.
    has_section: bool = True
    #: Element types for which the expansion by jaxlib's compiler passes is better than our kernel.
    expanded: frozenset[ElementType] = frozenset()
    traits: OpTraits = NOTHING

    @property
    def is_pure(self) -> bool:
        """Whether a use depends on its operands alone; see `OpTraits.is_pure`."""
        return self.is_elementwise or self.traits.is_pure

    @property
    def specification(self) -> str | None:
        """Where the op is specified: its section of the StableHLO specification, or the page of its dialect.

        None for the dialects of checks, of the interpreters and of others whose ops have no such page.
        """
        dialect, _, name = self.name.partition(".")
        if dialect == "stablehlo" and self.has_section:
            return f"{_REPOSITORY}/spec.md#{name}"
        pages = {
            "stablehlo": "https://openxla.org/stablehlo/generated/stablehlo",
            "chlo": f"{_REPOSITORY}/generated/chlo.md",
        }
        return pages.get(dialect)

    @property
    def summary(self) -> str:
        """The operation's meaning in one line."""
        return self.doc.strip().partition("\n")[0]

    def takes(self, types: Iterable[Type]) -> bool:
        """Whether its kernel is the way to compute it for all the element types among `types`."""
        return all(self._takes(t.element) and t.element not in self.expanded for t in _tensors(types))

    def _takes(self, element: ElementType) -> bool:
        """Of a quantized type: the op's kernel sees what is stored, or the numbers that are meant."""
        return (element.expressed if self.values == "numbers" else element.storage) in self.types

    def function(self, call: Call) -> Run:
        """Return the kernel of one use, a function of arrays. Raises OpError where the use is not valid."""
        if self.operands is not None and len(call.operands) != self.operands:
            raise OpError(f"expected {self.operands} operand{'s' * (self.operands != 1)}, got {len(call.operands)}")
        for t in _tensors(call.operands or call.results):
            if not self._takes(t.element):
                wanted = describe(self.types) if t.element.has_dtype else "StableHLO"
                raise UnsupportedOpError(f"expected an element type of {wanted}, got {t.element}")
        if any(isinstance(t.element, QuantizedType) for t in _tensors((*call.operands, *call.results))):
            _load_all()
            return _QUANTIZED[0](self, call)
        return self.bind(call)


def _tensors(types: Iterable[Type]) -> list[TensorType]:
    tensors: list[TensorType] = []
    for t in types:
        if isinstance(t, TensorType):
            tensors.append(t)
        elif isinstance(t, TupleType):
            tensors += _tensors(t.elements)
    return tensors


def element_types(words: str) -> frozenset[ElementType]:
    """The element types that any word (`bool integer signed unsigned float minifloat complex any`) or name says.

    With `foreign` among the words, those that are not StableHLO's are included.
    """
    tests = [_WORDS.get(w) or (lambda t, w=w: t.name == w) for w in words.split()]
    known = (t for t in ELEMENT_TYPES.values() if t.has_dtype or "foreign" in words)
    return frozenset(t for t in known if any(test(t) for test in tests))


def describe(types: frozenset[ElementType]) -> str:
    """A set of element types in words, as short as it goes."""
    if types >= element_types("any"):
        return "any element type"
    left, parts = set(types), []
    for word in ("bool", "integer", "signed", "unsigned", "float", "minifloat", "complex"):
        group = element_types(word)
        if group <= left:
            parts.append("i1" if word == "bool" else word)
            left -= group
    return ", ".join(parts + sorted(t.name for t in left))


#: The packages beside this file in which no op is declared.
_NO_FAMILIES = ("minifloat",)
_OPS: dict[str, Op] = {}
#: The function that binds any op to quantized types; see `for_quantized`.
_QUANTIZED: list[Callable[[Op, Call], Run]] = []


def op(
    name: str,
    types: str = "any",
    *,
    values: str = "codes",
    accuracy: Accuracy | None = None,
    operands: int | None = None,
    is_elementwise: bool = False,
    has_effects: bool = False,
    calls: tuple[str, ...] = (),
    any_sizes: bool = False,
    has_section: bool = True,
    traits: OpTraits = NOTHING,
) -> Callable[[Callable[[Call], Run]], Callable[[Call], Run]]:
    """Declare the decorated function as the binder of op `name` (`stablehlo.` is added where no dialect is given).

    Where no accuracy is given, an op of regions is as accurate as these, a sum of products as the policy says, and any
    other op exact.
    Raises ValueError where the name is taken or the function has no docstring.
    """

    def declare(bind: Callable[[Call], Run]) -> Callable[[Call], Run]:
        usual = BY_BODY if values == "regions" else BY_POLICY if traits.terms is not None else EXACT
        known = accuracy or usual
        what = full_name(name), bind, element_types(types), values, known, operands, bind.__doc__ or ""
        rest = {"calls": calls, "any_sizes": any_sizes, "has_section": has_section, "traits": traits}
        register(Op(*what, is_elementwise, has_effects=has_effects, **rest))
        return bind

    return declare


def full_name(name: str) -> str:
    """The name of an op with its dialect: `stablehlo` where none is given."""
    return name if "." in name else f"stablehlo.{name}"


def register(record: Op) -> None:
    """Add a record. Raises ValueError where its name is taken or it has no docstring."""
    if record.name in _OPS:
        raise ValueError(f"{record.name} is declared twice")
    if not record.doc.strip() and sys.flags.optimize < 2:  # -OO takes them all away
        raise ValueError(f"{record.name} has no docstring")
    _OPS[record.name] = record


def for_quantized(bind: Callable[[Op, Call], Run]) -> Callable[[Op, Call], Run]:
    """Declare the decorated function as the one that binds any op to quantized types, by means of other ops."""
    _QUANTIZED.append(bind)
    return bind


@functools.cache
def _load_all() -> None:
    package = re.sub(r"\.op$", "", __name__)
    for family in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if family.ispkg and family.name not in _NO_FAMILIES:
            name = f"{package}.{family.name}"
            for module in pkgutil.iter_modules(importlib.import_module(name).__path__):
                importlib.import_module(f"{name}.{module.name}")


def ops() -> Mapping[str, Op]:
    """Every op there is, by name."""
    _load_all()
    return _OPS


def lookup(name: str) -> Op | None:
    """The record of an op, None where there is none."""
    return ops().get(full_name(name))


def kernel_of(call: Call) -> Run:
    """The kernel of the op that a call names, for ops that are made of others."""
    record = lookup(call.name)
    assert record is not None
    return record.function(call)


def traits_of(name: str) -> OpTraits:
    """What is known of every use of an op; nothing where there is none of that name."""
    record = lookup(name)
    return NOTHING if record is None else record.traits


def call_attribute(name: str) -> str | None:
    """The attribute that names the called function, if the op is only a call of a function; None otherwise."""
    record = lookup(name)
    return record.calls[0] if record is not None and record.traits.is_call else None
