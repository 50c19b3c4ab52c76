"""Runs one test of an .mlir file on a backend and evaluates its checks.

minihlo runs the checks itself. Other backends have no check ops: the function is rewritten to return the checked values
as types that numpy has, and the checks are evaluated here.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from ...ops.op import Call, CheckError, lookup
from ...ops.types import Kind, TensorType
from .. import machine, transport
from ..backends import Backend, BackendError, Minihlo
from ..errors import CheckFailure, InputError
from ..failures import failed_operation
from ..parse import parser
from ..parse.reader import one_line
from ..parse.rewriting import list_operations, symbol_of
from ..passes.rewriting import all_operations
from ..planner import plan
from ..program import Function, Operation, Program
from .chunks import Chunk


@dataclasses.dataclass(frozen=True)
class Mismatch(Exception):
    """A check that does not hold."""

    program: Program
    check: Operation
    message: str
    actual: np.ndarray | None = None  #: None if it is not known, as in a loop
    expected: np.ndarray | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Exported:
    """A test as a program for any backend: `@main` returns the checked values as types that numpy has."""

    program: Program
    checks: tuple[Operation, ...]
    text: str
    inputs: tuple[np.ndarray, ...]  #: the constants that floats are computed from
    results: tuple[str, ...]  #: the types of the results


def run(chunk: Chunk, backend: Backend) -> list[Mismatch]:
    """Return the checks of a test that fail on a backend; on minihlo only the first.

    Raises the errors of `interp.errors` and `backends` for a program that cannot be read, needs inputs, or fails.
    """
    if isinstance(backend, Minihlo):
        return _natively(*_read(chunk), backend)
    exported = export(chunk)
    return judge(exported, iter(backend.evaluate(exported.text, exported.inputs)))


def _read(chunk: Chunk) -> tuple[Program, Function]:
    program = parser.parse(chunk.text, chunk.file, chunk.line)
    function = program.functions.get(chunk.function)
    if function is None:
        raise InputError(f"{chunk.file}:{chunk.function_line}: expected a function @{chunk.function}, got none")
    if function.argument_types:
        takes = ", ".join(map(str, function.argument_types))
        raise InputError(
            f"{function.location}: @{function.name}: expected a test without inputs, got one that takes {takes} "
            "(write them as constants, or run it with `minihlo run --input`)"
        )
    return program, function


def _natively(program: Program, function: Function, backend: Minihlo) -> list[Mismatch]:
    bound = plan(program, function.name, backend.policy)
    try:
        machine.run(bound, [])
    except CheckFailure as failure:
        cause = failure.__cause__
        check = failed_operation(cause) if isinstance(cause, CheckError) else None
        if check is None:
            raise
        values = values_of(program, function.name, backend)
        operands = [values.get(id(v)) for v in check.operands]
        expected = operands[1] if len(operands) > 1 else check.attributes.get("value")
        return [Mismatch(program, check, str(cause), operands[0], expected)]
    return []


def values_of(program: Program, function: str, backend: Minihlo) -> dict[int, Any]:
    """Return the last value that minihlo computed for each Value of a program, by `id`, up to a failure."""
    values: dict[int, Any] = {}

    def listen(operation: Operation, _: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        values.update(zip(map(id, operation.results), results, strict=False))

    with contextlib.suppress(Exception):  # the failure is reported elsewhere
        machine.run(plan(program, function, backend.policy, listen), [])
    return values


def _judge(program: Program, check: Operation, operands: list[np.ndarray]) -> Mismatch | None:
    record = lookup(check.name)
    if record is None:
        raise BackendError("refused", f"{check.location}: {check.name} is not supported")
    kernel = record.function(Call(check.name, tuple(v.type for v in check.operands), (), check.attributes))
    try:
        with np.errstate(all="ignore"):
            kernel(*operands)
    except CheckError as error:
        expected = operands[1] if len(operands) > 1 else check.attributes.get("value")
        return Mismatch(program, check, str(error), operands[0], expected)
    return None


# -- a program that another backend can run ----------------------------------------------------------------------------


def export(chunk: Chunk) -> Exported:
    """Return the test as a program for any backend. Raises BackendError if that is not possible."""
    program, function = _read(chunk)
    assert function.body is not None
    checks = [o for o in function.body.operations if o.name.startswith("check.")]
    bodies = [f.body for f in program.functions.values() if f.body is not None]
    if len(checks) != sum(o.name.startswith("check.") for body in bodies for o in all_operations(body)):
        raise BackendError("refused", f"{function.location}: only minihlo runs checks in regions and called functions")
    module = parser.module(chunk.text, chunk.file, chunk.line)
    try:
        with module.context, ir.Location.unknown():
            inputs, types = _rewrite(module, function, checks)
    except ir.MLIRError as error:  # ops that are newer than this jaxlib
        reason = one_line(error.error_diagnostics[0].message) if error.error_diagnostics else str(error)
        raise BackendError("refused", f"{function.location}: this program cannot be exported: {reason}") from None
    return Exported(program, tuple(checks), parser.text_of(module), tuple(inputs), types)


def judge(exported: Exported, results: Iterator[np.ndarray]) -> list[Mismatch]:
    """Return the checks of an exported test that fail. Takes its results from `results`."""
    mismatches = [_judge(exported.program, c, _decode(results, c)) for c in exported.checks]
    return [m for m in mismatches if m is not None]


def compared_values(exported: Exported, results: Iterator[np.ndarray]) -> list[np.ndarray]:
    """Return the values that the checks compare: their first operands."""
    return [_decode(results, check)[0] for check in exported.checks]


def _rewrite(
    module: ir.Module, function: Function, checks: list[Operation]
) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """Make the function the program's `@main` and return the checked values from it. Returns inputs and result types.

    Constants that floats are computed from become inputs, so that the backend's compiler folds nothing.
    """
    functions = {symbol_of(op): op for op in list_operations(module.operation, "func.func")}
    for op in functions.values():
        op.attributes["sym_visibility"] = ir.StringAttr.get("public" if symbol_of(op) == function.name else "private")
    entry = functions[function.name]
    block = entry.regions[0].blocks[0]
    assert function.body is not None
    read_constants = [o for o in function.body.operations if o.name == "stablehlo.constant"]
    constants = [op for op in list_operations(entry, "stablehlo.constant") if op.block == block]
    pairs = zip(constants, read_constants, strict=True)
    inputs = [x for op, constant in pairs if (x := _as_input(op, constant)) is not None]
    check_ops, last = list_operations(entry, "check."), list_operations(entry, "func.return")[-1]
    values: list[ir.Value] = []
    with ir.InsertionPoint(last):
        for op, check in zip(check_ops, checks, strict=True):
            for value, of in zip(op.operands, check.operands, strict=True):
                values += _transport(value, of.type)
        ir.Operation.create("func.return", operands=values)
    for op in (*check_ops, last):
        op.erase()
    arguments = [a.type for a in block.arguments]
    entry.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, [v.type for v in values]))
    for attribute in ("res_attrs", "arg_attrs"):
        if attribute in entry.attributes:
            del entry.attributes[attribute]
    entry.attributes["sym_name"] = ir.StringAttr.get("main")
    PassManager.parse("builtin.module(symbol-dce)").run(module.operation)
    return inputs, tuple(str(v.type) for v in values)


def _as_input(op: ir.Operation, constant: Operation) -> np.ndarray | None:
    """Replace a constant that is or becomes a float by an argument. Returns the array to pass for it."""
    (value,), t = op.results, constant.results[0].type
    assert isinstance(t, TensorType)
    e, uses = t.element, [u.owner.name for u in value.uses]
    converted = any(name in ("stablehlo.convert", "stablehlo.bitcast_convert") for name in uses)
    if not uses or e.is_complex or e.kind is Kind.BOOL or not (e.is_float or converted):
        return None
    (array,) = transport.pack(np.asarray(constant.attributes["value"]), e)
    (parameter,) = transport.parameter_types(t)
    block = op.block
    argument: ir.Value = block.add_argument(parameter, op.location)
    with ir.InsertionPoint(op):
        value.replace_all_uses_with(transport.receive([argument], t))
    return array


def _decode(results: Iterator[np.ndarray], check: Operation) -> list[np.ndarray]:
    """Return the operands of a check."""
    types = [v.type for v in check.operands]
    return [transport.unpack(results, t.element) for t in types if isinstance(t, TensorType)]


def _transport(value: ir.Value, t: Any) -> list[ir.Value]:
    if not isinstance(t, TensorType):
        raise BackendError("refused", f"expected a check of tensors, got {t}")
    return transport.send(value, t)
