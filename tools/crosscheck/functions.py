"""The functions of mlir_tests/ as cases: the results of each peer for their checked values."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minihlo.interp.backends import BackendError, Minihlo
from minihlo.interp.backends import operation as backend_operation
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.oracle.case import Operands
from minihlo.interp.oracle.exact import OPS
from minihlo.interp.oracle.formats import FORMATS, INTEGERS
from minihlo.interp.program import Operation
from minihlo.interp.testing import checked, failures
from minihlo.interp.testing.checked import Exported
from minihlo.interp.testing.chunks import Chunk, chunks
from minihlo.ops.policy import Policy
from minihlo.ops.types import ElementType, TensorType
from tools.mlir_tests import catalog

from . import forked
from .numbers import code_dtype, is_nan
from .peers import Codes, backend_of

#: What checks compare, by the `id` of the check.
Values = Mapping[int, np.ndarray]

#: The line after which a function has the codes whose sum it checks.
_SUMMED = re.compile(r"^  %wide = stablehlo\.convert (?P<value>%\S+) : \((?P<type>\S+)\) -> .*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A function of a file."""

    file: str  #: "add"
    chunk: Chunk

    @property
    def name(self) -> str:
        return self.chunk.function

    @property
    def short(self) -> str:
        """The name without the file's."""
        return self.name.removeprefix(self.file).lstrip("_")

    @functools.cached_property
    def exported(self) -> Exported:
        """The function as a program for any peer. The codes whose sum is checked are returned beside it.

        Raises BackendError where it cannot be exported.
        """
        text = _SUMMED.sub(r"\g<0>  check.expect_eq \g<value>, \g<value> : \g<type>", self.chunk.text)
        return checked.export(dataclasses.replace(self.chunk, text=text))

    @functools.cached_property
    def can_be_exported(self) -> bool:
        """Whether this jaxlib knows all of its ops."""
        try:
            return bool(self.exported)
        except BackendError:
            return False

    @property
    def has_probes(self) -> bool:
        """Whether its checks concern state that an interpreter has kept."""
        return "interpreter.probe" in self.chunk.text

    def rerun(self, policy: Policy | None = None, text: str = "", inputs: Sequence[np.ndarray] | None = None) -> Values:
        """The compared values of the checks, by `id`, if minihlo runs the program under a policy, or a changed one."""
        exported = self.exported
        ours = Minihlo("minihlo", policy or Policy())
        returned = ours.evaluate(text or exported.text, exported.inputs if inputs is None else inputs)
        return dict(zip(map(id, exported.checks), checked.compared_values(exported, iter(returned)), strict=True))

    @functools.cached_property
    def values(self) -> Mapping[int, Any]:
        """Every value of the function on minihlo, by `id` of Value."""
        ours = backend_of("direct")
        assert isinstance(ours, Minihlo)
        return checked.values_of(self.exported.program, self.name, ours)


@dataclasses.dataclass(frozen=True, eq=False)
class CheckedValues:
    """Values that a function checks, as codes: those of a peer and the right ones."""

    function: Function
    check: Operation
    operation: Operation | None  #: that they are the results of
    element: ElementType  #: that the codes are of
    got: Codes
    expected: Codes

    @functools.cached_property
    def case(self) -> tuple[Case, Operands] | None:
        """A case of the comparison op by op, with the operands' codes; None if the op has no cases there."""
        return None if self.operation is None else _case(self.operation, self.function.values)


def functions(file: str) -> list[Function]:
    """The functions of an op's file."""
    return [Function(file, chunk) for chunk in chunks(catalog.FOLDER / f"interpret_{file}.mlir")]


def files() -> list[str]:
    """The names of ops that have files."""
    return [path.stem.removeprefix("interpret_") for path in sorted(catalog.files())]


def run(peer: str, chosen: Sequence[Function]) -> list[list[np.ndarray] | BackendError]:
    """The results of each function on a peer that takes programs, or the reason why it has none."""
    known = [f for f in chosen if f.can_be_exported and not (peer == "upcast" and f.has_probes)]
    programs = [(f.exported.text, f.exported.inputs) for f in known]
    answers = forked.evaluate(programs) if peer == "reference" else [_one(peer, *p) for p in programs]
    result = dict(zip(known, answers, strict=True))
    return [result[f] if f in result else _not_exported(peer, f) for f in chosen]


def _not_exported(peer: str, function: Function) -> list[np.ndarray] | BackendError:
    """The results of a function with probes, or with ops unknown to this jaxlib: minihlo runs it with its checks."""
    if peer != "upcast":
        return BackendError("refused", f"{function.file}: this jaxlib's StableHLO does not know the op")
    wrong = checked.run(function.chunk, backend_of(peer))
    return BackendError("failed", wrong[0].message) if wrong else []


def _one(peer: str, text: str, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | BackendError:
    try:
        return backend_of(peer).evaluate(text, inputs)
    except BackendError as error:
        return error


def differing(function: Function, returned: Sequence[np.ndarray]) -> list[CheckedValues]:
    """The checked values of a function that differ on a peer: at least one does."""
    if not returned:  # it has made its checks itself
        return []
    exported = function.exported
    wrong = [m.check for m in checked.judge(exported, iter(returned))]
    if not wrong:
        return []
    got = dict(zip(map(id, exported.checks), checked.compared_values(exported, iter(returned)), strict=True))
    is_sum = any(_is_held(c) for c in exported.checks)
    if is_sum:
        wrong = [c for c in exported.checks if _is_held(c)]
    return [_decode_checked(function, check, got[id(check)]) for check in wrong]


def _is_held(check: Operation) -> bool:
    """Whether a check compares codes with themselves, only to return them."""
    return len(check.operands) == 2 and check.operands[0] is check.operands[1]


def _decode_checked(function: Function, check: Operation, got: np.ndarray) -> CheckedValues:
    about = failures.subject(checked.Mismatch(function.exported.program, check, ""))
    right = np.asarray(function.values[id(check.operands[0])])
    return CheckedValues(
        function, check, about.operation, about.type, *(codes_of_values(x, about.type) for x in (got, right))
    )


def codes_of_values(array: np.ndarray, t: ElementType) -> Codes:
    """The codes of type `t` that an array of the same values has, in order."""
    array = np.ascontiguousarray(array).ravel()
    if t.is_float and array.dtype != t.dtype:
        if t.bits == 6:
            return (array.view(np.float32) if array.dtype == np.uint32 else array).astype(t.dtype).view(np.uint8)
        return array.astype(code_dtype(t))
    return array.view(code_dtype(t))


def by_ml_dtypes(function: Function) -> Iterator[tuple[Case, CheckedValues | BackendError]]:
    """The results of ml_dtypes for each op of a function whose results are checked, if it has the op.

    A NaN is as good as another.
    """
    if not function.can_be_exported:
        return
    for check in function.exported.checks:
        if check.operands[0].type.shape == () and any(_is_held(c) for c in function.exported.checks):
            continue
        right = _decode_checked(function, check, np.asarray(function.values[id(check.operands[0])]))
        if right.case is not None and right.got.size:
            case, operands = right.case
            got = _by_ml_dtypes(case, operands)
            if isinstance(got, BackendError):
                yield case, got
            else:
                nan = is_nan(got, right.element) & is_nan(right.expected, right.element)
                yield case, dataclasses.replace(right, got=np.where(nan, right.expected, got))


def _by_ml_dtypes(case: Case, operands: Operands) -> Codes | BackendError:
    try:
        operation = backend_operation.Operation(case.op, case.operands, case.result, dict(case.attributes))
        return np.asarray(backend_of("ml_dtypes").operate(operation, list(operands)))  # pyright: ignore[reportAttributeAccessIssue]
    except BackendError as error:
        return error


# -- ops as cases ------------------------------------------------------------------------------------------------------


def _case(operation: Operation, values: Mapping[int, Any]) -> tuple[Case, Operands] | None:
    """An elementwise op as a case of the conformance tester, with the codes of its operands; None if it has none."""
    result = operation.results[0].type
    if not isinstance(result, TensorType) or not all(isinstance(v.type, TensorType) for v in operation.operands):
        return None
    name = operation.name.removeprefix("stablehlo.").removeprefix("chlo.broadcast_")
    element, arrays = result.element, [np.asarray(values[id(v)]) for v in operation.operands]
    if name in ("iota", "dynamic_iota"):
        shape = np.asarray(values[id(operation.results[0])]).shape
        places = np.indices(shape)[int(operation.attributes["iota_dimension"])]
        return Case("convert", ("i32",), element.name), (places.astype(np.int32).view(np.uint32).ravel(),)
    attributes: tuple[tuple[str, str], ...] = ()
    if name == "compare":
        total = operation.attributes.get("compare_type") == "TOTALORDER"
        direction = str(operation.attributes["comparison_direction"])
        attributes = (("comparison_direction", direction), ("compare_type", "TOTALORDER" if total else "FLOAT"))
    sources = {v.type.element for v in operation.operands}
    if len(sources) != 1 or not _is_known(name, *sources, element):
        return None
    (source,) = sources
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    codes = tuple(codes_of_values(np.broadcast_to(a, shape), source) for a in arrays)
    return Case(name, (source.name,) * len(arrays), element.name, attributes), codes


def _is_known(name: str, source: ElementType, result: ElementType) -> bool:
    """Whether the oracle has an op on these types."""
    if name == "convert":
        return all(t.name in FORMATS or t.name in INTEGERS or t.name == "i1" for t in (source, result))
    return name in (*OPS, "compare", "is_finite") and source.name in FORMATS and source.bits <= 32
