"""Changes of MLIR for which jaxlib has no pass."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from ..errors import ProgramError
from ..parse.reader import Locator
from ..parse.rewriting import list_operations, replace_operands, symbol_of

#: Maximum number of inlined calls; with more, functions call each other without end.
_MOST = 10_000


def inline_calls(module: ir.Module, function: str, places: Locator) -> None:
    """Replaces the calls in a function, those in its regions too, by the called functions.

    MLIR's own pass does not know the dialects of JAX's programs. Ops without a location get that of the call.
    Raises ProgramError for a call that cannot be inlined.
    """
    functions = {symbol_of(op): op for op in list_operations(module.operation) if op.name == "func.func"}
    bodies = {name: _operations(op) for name, op in functions.items()}
    waiting = _calls(functions[function])
    done = 0
    while waiting:
        call = waiting.pop()
        callee: Any = call.attributes["callee"]
        body = bodies.get(callee.value)
        done += 1
        if not body or callee.value == function or done > _MOST:
            raise ProgramError(f"{places(call.location)}: the call of @{callee.value} cannot be inlined")
        block = functions[callee.value].regions[0].blocks[0]
        values = dict(zip(block.arguments, call.operands, strict=True))
        with ir.InsertionPoint(call):
            for op in body[:-1]:
                clone: Any = op.clone()
                replace_operands(clone, values)
                values.update(zip(op.results, clone.results, strict=True))
                if not places(op.location).line:
                    clone.location = call.location
                waiting += _calls(clone)
        for result, returned in zip(call.results, body[-1].operands, strict=True):
            result.replace_all_uses_with(values.get(returned, returned))
        call.erase()


def _calls(op: ir.Operation) -> list[ir.Operation]:
    return [inner for inner in list_operations(op) if inner.name == "func.call"]


def _operations(function: ir.Operation) -> list[ir.Operation]:
    """The ops of a function's body, its terminator last."""
    if not function.regions[0].blocks:
        return []
    block = function.regions[0].blocks[0]
    return [op for op in list_operations(function) if op != function and op.block == block]


def drop_shardings(op: ir.Operation) -> None:
    """Remove the shardings of an op and of those in its regions: an op alone runs on one device."""
    for inner in list_operations(op):
        for name in ("sdy.sharding", "mhlo.sharding"):
            if name in inner.attributes:
                del inner.attributes[name]
