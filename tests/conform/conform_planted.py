"""A backend of single operations with one planted fault: minihlo's results, changed by a function of the test."""

from collections.abc import Callable, Sequence

import numpy as np

from minihlo.interp.backends.operation import Operation
from minihlo.interp.backends.programs import Builder, decode
from minihlo.interp.conform.cases.case import ROW_OPS, Case
from minihlo.interp.conform.cases.forms import forms
from minihlo.interp.conform.elementwise import Part
from minihlo.interp.conform.result import CaseResult
from minihlo.interp.conform.rows import RowPart
from minihlo.interp.conform.tester import Spec, Tester
from minihlo.interp.conform.verdicts.forms import across_forms
from minihlo.interp.conform.verdicts.outcome import Settings

from .planted import OURS, Arrays, Operations, case_of

#: Gets the operation, its operands and the right results, all as codes; gives the results.
Fault = Callable[[Operation, Arrays, np.ndarray], np.ndarray]


def right(operation: Operation, arrays: Arrays) -> np.ndarray:
    """minihlo's results of an operation, as codes."""
    case = Case(operation.op, operation.operands, operation.result, tuple(operation.attributes.items()))
    if case.op in ROW_OPS:
        part = RowPart(case, "length-8", tuple(arrays))
    else:
        part = Part(case, "array", tuple(np.ravel(x) for x in np.broadcast_arrays(*arrays)))
    builder = Builder()
    part.emit(builder)
    (found,) = OURS.evaluate(builder.text(), builder.arguments)
    shape = part.shape if isinstance(part, RowPart) else np.broadcast_shapes(*(x.shape for x in arrays))
    return decode(np.asarray(found), operation.result).reshape(shape)


class Planted(Operations):
    """Right but for a fault."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def operate(self, operation: Operation, arrays: Arrays) -> np.ndarray:
        found = right(operation, arrays)
        if operation.op in ROW_OPS:
            return np.asarray(self.fault(operation, arrays, found))
        # Faults are functions of places in order, whatever the dimensions.
        given = [np.ravel(x) if x.ndim > 1 else x for x in arrays]
        return np.asarray(self.fault(operation, given, np.ravel(found))).reshape(found.shape)


def results(signature: str, fault: Fault, name: str = "planted", only: Sequence[str] = ()) -> list[CaseResult]:
    """The results of a case in all forms, or `only` in some, on a backend with a fault."""
    case = case_of(signature)
    tester = Tester(Planted(fault), Settings(name))
    specs = [Spec(case, form) for form in forms(case, 1, "operations") if not only or form in only]
    found = [r for s in specs for r in tester.run([s])]
    return across_forms(found)
