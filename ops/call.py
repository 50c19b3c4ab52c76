"""One use of an op as its declaration sees it: types, attributes, policy, and what is known of its regions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .policy import Policy
from .random_stream import RandomStream
from .types import TensorType, Type


class OpError(ValueError):
    """A use of an op that is not valid or not supported. The message says what is wrong; the caller adds where."""


class UnsupportedOpError(OpError):
    """A use of an op that may be valid, and that is not supported."""


class CheckError(AssertionError):
    """A check op's condition does not hold. The message shows the first mismatch."""


@dataclasses.dataclass(frozen=True)
class Body:
    """What is known of a region when its op is bound."""

    arguments: tuple[Type, ...]
    results: tuple[Type, ...]
    #: The name and attributes of the region's only op, where that takes the first two arguments in order and its result
    #: is returned: `stablehlo.add` for a plain sum. None otherwise.
    sole_op: str | None = None
    sole_attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    #: The region as a function of arrays that broadcast together, which returns a tuple. None unless its arguments are
    #: scalars and its ops elementwise.
    vectorised: Callable[..., tuple[Any, ...]] | None = None
    #: For each result the index of the argument that is returned; None where it is computed. Empty if not known.
    passed_on: tuple[int | None, ...] = ()
    #: The arguments that the results depend on; None where this is not known.
    reads: frozenset[int] | None = None
    #: Whether each result is one of the arguments, chosen by comparisons: nothing is computed, so nothing is rounded.
    selects: bool = False
    #: Whether the region has several elementwise ops and uses no outer values but constants, so that a long row may be
    #: reduced in pairs. This depends on the program alone, not on how it is run.
    pairs: bool = False
    #: A body for each result, where a body of accumulators and as many elements computes each result from its own
    #: accumulator and element alone. Empty otherwise.
    parts: tuple[Body, ...] = ()

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.arguments))}) -> ({', '.join(map(str, self.results))})"


@dataclasses.dataclass(frozen=True)
class Callee:
    """A function of the program that an op names in an attribute."""

    run: Callable[..., tuple[Any, ...]]
    body: Body


@dataclasses.dataclass(frozen=True)
class Call:
    """One use of an op, as its declaration sees it."""

    name: str
    operands: tuple[Type, ...]
    results: tuple[Type, ...]
    attributes: Mapping[str, Any]
    bodies: tuple[Body, ...] = ()
    policy: Policy = dataclasses.field(default_factory=Policy)
    random: RandomStream = dataclasses.field(default_factory=RandomStream)
    functions: Mapping[str, Callee] = dataclasses.field(default_factory=dict)  #: by name; see `Op.calls`
    #: Where the program leaves sizes of results open, this is called with the type of a result as soon as its sizes are
    #: known. It raises an exception if there is not enough memory.
    reserve: Callable[[TensorType], None] = lambda _: None
    #: The operands that the kernel may write over: arrays that are not needed afterwards and have no other references.
    spare: frozenset[int] = frozenset()
    tables: bool = True  #: whether functions of at most 16 bits become lookup tables

    def tensor(self, index: int = 0) -> TensorType:
        """The type of an operand that must be a tensor. Raises OpError where it is not."""
        return self._tensor(self.operands, index, "operand")

    def result(self, index: int = 0) -> TensorType:
        """The type of a result that must be a tensor. Raises OpError where it is not."""
        return self._tensor(self.results, index, "result")

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of a result. Raises OpError where a dimension is of unknown size."""
        return self._static(self.result(index))

    def operand_shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of an operand. Raises OpError where a dimension is of unknown size."""
        return self._static(self.tensor(index))

    def attribute(self, name: str) -> Any:
        """A required attribute. Raises OpError where it is missing."""
        if name not in self.attributes:
            raise OpError(f"attribute {name!r} is missing")
        return self.attributes[name]

    def structure(self, name: str) -> Mapping[str, Any]:
        """A required attribute with fields. Raises OpError where it is another one."""
        value = self.attribute(name)
        if not isinstance(value, Mapping):
            raise OpError(f"expected {name} to be a structure, got {value!r}")
        return value

    @property
    def configuration(self) -> Any:
        """The options that a custom call gives its target, a structure or a text; None where there are none."""
        return self.attributes.get("backend_config") or self.attributes.get("mhlo.backend_config")

    def callee(self) -> Callee:
        """The only function that the attributes name. Raises OpError where there are several, or none."""
        if len(self.functions) != 1:
            raise OpError(f"called_computations names {len(self.functions)} functions (expected 1)")
        return next(iter(self.functions.values()))

    def integers(self, name: str) -> tuple[int, ...]:
        """A required attribute that lists integers, however it is written."""
        return tuple(int(v) for v in np.ravel(self.attribute(name)))

    def like(self, name: str, operands: Sequence[Type], results: Sequence[Type], **attributes: Any) -> Call:
        """A use of another op under the same policy, for ops that are made of others."""
        call = Call(name, tuple(operands), tuple(results), attributes, (), self.policy, self.random)
        return dataclasses.replace(call, reserve=self.reserve, tables=self.tables)

    @staticmethod
    def _static(t: TensorType) -> tuple[int, ...]:
        if any(d is None for d in t.shape):
            raise OpError(f"expected a tensor whose sizes are known, got {t}")
        return t.shape  # type: ignore[return-value]

    @staticmethod
    def _tensor(types: tuple[Type, ...], index: int, what: str) -> TensorType:
        if index >= len(types) or not isinstance(types[index], TensorType):
            got = "none" if index >= len(types) else types[index]
            raise OpError(f"expected a tensor as {what} {index}, got {got}")
        return types[index]  # type: ignore[return-value]
