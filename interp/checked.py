"""Runs one test of an .mlir file on a backend and holds its results against its checks.

minihlo runs the checks itself. Other backends know no check ops: the function is rewritten so that it returns the
values that are checked, as types that numpy has, and the checks are made here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from ..ops.registry import Call, CheckError, lookup
from ..ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType
from . import machine, parser
from .backends import Backend, BackendError, Minihlo
from .chunks import Chunk
from .errors import CheckFailure, InputError
from .planner import plan
from .program import Function, Operation, Program
from .reader import one_line


@dataclasses.dataclass(frozen=True)
class Mismatch(Exception):
    """A check that does not hold."""

    program: Program
    check: Operation
    message: str
    actual: np.ndarray | None = None  #: None where it is not known, as in a loop
    expected: np.ndarray | None = None


def run(chunk: Chunk, backend: Backend) -> list[Mismatch]:
    """The checks of a test that do not hold on a backend; on minihlo the first of them.

    Raises what `interp.errors` and `backends` have for a program that cannot be read, needs inputs, or fails.
    """
    program = parser.parse(chunk.text, chunk.file, chunk.line)
    function = program.functions.get(chunk.function)
    if function is None:
        raise InputError(f"{chunk.file}:{chunk.function_line}: there is no function @{chunk.function} in what was read")
    if function.argument_types:
        takes = ", ".join(map(str, function.argument_types))
        raise InputError(
            f"{function.location}: @{function.name} takes inputs ({takes}); a test takes none "
            "(write them as constants, or run it with `minihlo run --input`)"
        )
    if isinstance(backend, Minihlo):
        return _natively(program, function, backend)
    checks, text = exported(chunk, program, function)
    results = iter(backend.evaluate(text))
    return [
        m for check in checks if (m := _judged(program, check, [_decoded(results, v.type) for v in check.operands]))
    ]


def _natively(program: Program, function: Function, backend: Minihlo) -> list[Mismatch]:
    bound = plan(program, function.name, backend.policy)
    try:
        machine.run(bound, [])
    except CheckFailure as failure:
        cause = failure.__cause__
        check = machine.failed_operation(cause, bound) if isinstance(cause, CheckError) else None
        if check is None:
            raise
        values = values_of(program, function.name, backend)
        operands = [values.get(id(v)) for v in check.operands]
        wanted = operands[1] if len(operands) > 1 else check.attributes.get("value")
        return [Mismatch(program, check, str(cause), operands[0], wanted)]
    return []


def values_of(program: Program, function: str, backend: Minihlo) -> dict[int, Any]:
    """The last value that minihlo gave each Value of a program, by `id`, up to where it failed."""
    values: dict[int, Any] = {}

    def listen(operation: Operation, results: tuple[Any, ...]) -> None:
        values.update(zip(map(id, operation.results), results, strict=False))

    with contextlib.suppress(Exception):  # it failed before, or that is what is told anyway
        machine.run(plan(program, function, backend.policy, listen), [])
    return values


def _judged(program: Program, check: Operation, operands: list[np.ndarray]) -> Mismatch | None:
    record = lookup(check.name)
    if record is None:
        raise BackendError("refused", f"{check.location}: {check.name} is not known")
    kernel = record.kernel(Call(check.name, tuple(v.type for v in check.operands), (), check.attributes))
    try:
        with np.errstate(all="ignore"):
            kernel(*operands)
    except CheckError as error:
        wanted = operands[1] if len(operands) > 1 else check.attributes.get("value")
        return Mismatch(program, check, str(error), operands[0], wanted)
    return None


# -- a program that another backend can run ---------------------------------------------------------------------------


def exported(chunk: Chunk, program: Program, function: Function) -> tuple[list[Operation], str]:
    """The checks of a function, and a program whose `@main` returns what they compare.

    Raises BackendError where that cannot be done.
    """
    assert function.body is not None
    checks = [o for o in function.body.operations if o.name.startswith("check.")]
    if len(checks) != sum(1 for o in _all_operations(program) if o.name.startswith("check.")):
        raise BackendError("refused", f"{function.location}: only minihlo runs checks in regions and called functions")
    module = parser.module(chunk.text, chunk.file, chunk.line)
    try:
        with module.context, ir.Location.unknown():
            _rewrite(module, function.name, checks)
    except ir.MLIRError as error:  # ops newer than this jaxlib, which MLIR knows nothing of
        told = one_line(error.error_diagnostics[0].message) if error.error_diagnostics else str(error)
        raise BackendError("refused", f"{function.location}: this program cannot be exported: {told}") from None
    text: Any = module.operation.get_asm(enable_debug_info=False)
    return checks, text


def _all_operations(program: Program) -> Iterator[Operation]:
    regions = [f.body for f in program.functions.values() if f.body]
    while regions:
        for operation in regions.pop().operations:
            yield operation
            regions += operation.regions


def _rewrite(module: ir.Module, name: str, checks: list[Operation]) -> None:
    functions = {_name(op): op for op in _collect(module.operation, "func.func")}
    for op in functions.values():
        op.attributes["sym_visibility"] = ir.StringAttr.get("public" if _name(op) == name else "private")
    entry = functions[name]
    block = entry.regions[0].blocks[0]
    for op in _collect(entry, "stablehlo.constant", "stablehlo.bitcast_convert"):
        if op.block == block:
            _hide(op)
    found, last = _collect(entry, "check."), _collect(entry, "func.return")[-1]
    values: list[ir.Value] = []
    with ir.InsertionPoint(last):
        for op, check in zip(found, checks, strict=True):
            for value, of in zip(op.operands, check.operands, strict=True):
                values += _encoded(value, of.type)
        ir.Operation.create("func.return", operands=values)
    for op in (*found, last):
        op.erase()
    arguments = [a.type for a in block.arguments]
    entry.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, [v.type for v in values]))
    for attribute in ("res_attrs", "arg_attrs"):
        if attribute in entry.attributes:
            del entry.attributes[attribute]
    entry.attributes["sym_name"] = ir.StringAttr.get("main")
    PassManager.parse("builtin.module(symbol-dce)").run(module.operation)


def _collect(root: ir.Operation, *prefixes: str) -> list[ir.Operation]:
    """The ops inside another whose names begin so. (`walk` hands out plain operations; see `reader.Reader`.)"""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(prefixes):
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _name(function: ir.Operation) -> str:
    name: Any = function.attributes["sym_name"]
    return name.value


def _hide(op: ir.Operation) -> None:
    """Puts a barrier behind a float constant: what is tested is what the backend runs, not what its compiler folds."""
    (value,) = op.results
    if not re.search(r"(^|x|<)b?f\d+\w*>?$", str(value.type)) or not list(value.uses):
        return
    following = ir.InsertionPoint.after(op)
    barrier = ir.Operation.create("stablehlo.optimization_barrier", [value.type], [value], ip=following)
    value.replace_all_uses_except(barrier.results[0], barrier)


def _encoded(value: ir.Value, t: Any) -> list[ir.Value]:
    """A value as values of types that numpy has, whichever backend they come from."""
    if not isinstance(t, TensorType):
        raise BackendError("refused", f"a check of a {t} cannot be made outside the backend")
    e = t.element
    if e.is_complex:
        return [_op(f"stablehlo.{part}", value, t, e.part) for part in ("real", "imag")]
    if e.is_float and e.bits == 6:  # no integer has six bits, and f32 holds all these numbers
        return [_op("stablehlo.convert", value, t, ELEMENT_TYPES["f32"])]
    if e.is_float and e.bits == 4:
        value = _op("stablehlo.bitcast_convert", value, t, ELEMENT_TYPES["ui4"])
    elif e.is_float:
        return [_op("stablehlo.bitcast_convert", value, t, ELEMENT_TYPES[f"ui{e.bits}"])]
    if e.kind is Kind.BOOL or e.bits >= 8:
        return [value]
    return [_op("stablehlo.convert", value, t, ELEMENT_TYPES["i8" if e.kind is Kind.SIGNED else "ui8"])]


def _op(name: str, value: ir.Value, t: TensorType, target: ElementType) -> ir.Value:
    shape = [ir.ShapedType.get_dynamic_size() if d is None else d for d in t.shape]
    result = ir.RankedTensorType.get(shape, ir.Type.parse(target.name))
    return ir.Operation.create(name, results=[result], operands=[value]).results[0]


def _decoded(results: Iterator[np.ndarray], t: Any) -> np.ndarray:
    e = t.element
    first = np.asarray(next(results))
    if e.is_complex:
        found = np.empty(first.shape, e.dtype)
        found.real, found.imag = first, np.asarray(next(results))
        return found
    if e.is_float and e.bits != 6:
        return np.ascontiguousarray(first).view(e.dtype).reshape(first.shape)
    return first.astype(e.dtype)
