"""`interp.emulate`: a function that JAX traces, whose minifloats XLA computes exactly with integers and tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

try:
    import jax
except ImportError:
    raise ImportError("minihlo.interp.emulate needs JAX, which is not installed (pip install jax)") from None

import numpy as np
from jax._src import core, effects
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from ...ops.policy import Policy
from .. import policies
from ..emulate.program import emulate_module
from ..errors import InputError, UnsupportedError
from .computation import Computation, lowered_under
from .primitive import bind, lower_with

_NAME = "minihlo.emulated"


def emulate(
    function: Callable[..., Any] | None = None, /, *, policy: Policy | None = None, target: str = "", **options: Any
) -> Any:
    """Compile a function by `jax.jit` so that minifloats have the interpreter's bits. Used as `jax.jit`.

    The program is rewritten into integer operations, lookup tables and exact products, and XLA compiles it for any of
    its devices, jitted and sharded. What the program computes in f16 and wider types is the device's. Emulated
    functions can be transformed: `jax.vmap(emulate(f))`, `emulate(jax.grad(f))`, calls inside `jax.jit`.

    Args:
        function: A function that JAX can trace. Without it, `emulate` returns a decorator.
        policy: What the implementation may choose. The default is that of `interp.policy(...)` around the call that
            traces the function, else `Policy()`.
        target: A chip, such as `"h100"`, or one of its instructions: sums and conversions are that chip's.
        **options: Options of `jax.jit`: static and donated arguments, shardings, and others.

    Returns:
        What `jax.jit` returns for the rewritten function, with its methods `lower`, `trace` and so on.

    Raises:
        InputError: `function` is not callable, `policy` is not a Policy, or there is no such target.

    Calls raise UnsupportedError for an operation on minifloats that is not emulated.
    """
    if function is None:
        return functools.partial(emulate, policy=policy, target=target, **options)
    if not callable(function):
        raise InputError(f"emulate: expected a function, got {type(function).__name__}")
    if policy is not None and not isinstance(policy, Policy):
        raise InputError(f"emulate: policy: expected a minihlo.interp.Policy, got {type(policy).__name__}")

    @functools.wraps(function)
    def emulated(*args: Any, **kwargs: Any) -> Any:
        chosen = _policy(policies.chosen(Policy()) if policy is None else policy, target)
        leaves, tree = jax.tree.flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if isinstance(x, core.Tracer | jax.Array | np.ndarray)]
        results: list[Any] = []

        def on_arrays(*arrays: Any) -> list[Any]:
            given = list(leaves)
            for i, x in zip(places, arrays, strict=True):
                given[i] = x
            inner_args, inner_kwargs = jax.tree.unflatten(tree, given)
            flat, result = jax.tree.flatten(function(*inner_args, **inner_kwargs))
            results.append(result)
            return flat

        arrays = [leaves[i] for i in places]
        closed = jax.make_jaxpr(on_arrays)(*arrays)
        return jax.tree.unflatten(results[-1], bind(Computation(closed, chosen, is_emulated=True), *arrays))

    if target:
        _policy(Policy(), target)  # raises where there is no such target
    return jax.jit(emulated, **options)


def _policy(policy: Policy, target: str) -> Policy:
    if not target:
        return policy
    try:
        chip = Policy.target(target)
    except ValueError as error:
        raise InputError(f"emulate: {error}") from None
    return policy.replaced(accumulate=chip.accumulate, overflow=chip.overflow)


@lower_with
def _lower(ctx: Any, operands: Sequence[Any], computation: Computation) -> Sequence[ir.Value]:
    """Lower a computation into a function of the module, and call what that is rewritten to."""
    if any(effects.ordered_effects.contains(e) for e in computation.jaxpr.effects):
        raise UnsupportedError(f"{computation.name}: expected no ordered effects in an emulated function, got some")
    module: ir.Module = ctx.module_context.module
    operands = _flatten(operands)
    types = [v.type for v in operands]
    with ir.InsertionPoint(module.body):
        function = ir.Operation.create("func.func", attributes=_signature(_NAME, types, []), regions=1)
    block = function.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    with ir.InsertionPoint(block):
        lower = mlir.lower_fun(computation.function, multiple_results=True)
        token = lowered_under.set(computation.policy)
        try:
            results = _flatten(lower(ctx, *block.arguments))
        finally:
            lowered_under.reset(token)
        ir.Operation.create("func.return", operands=results)
    gives = [r.type for r in results]
    function.attributes["function_type"] = _signature(_NAME, types, gives)["function_type"]
    emulated = emulate_module(_cut_out(module, function), computation.policy, file=f"<{computation.name}>")
    function.erase()
    name = _merge(module, emulated)
    call = ir.Operation.create("func.call", gives, list(operands), {"callee": ir.FlatSymbolRefAttr.get(name)})
    return list(call.results)


def _flatten(values: Sequence[Any]) -> list[ir.Value]:
    return [v for value in values for v in (value if isinstance(value, tuple | list) else (value,))]


def _signature(name: str, takes: Sequence[ir.Type], gives: Sequence[ir.Type]) -> dict[str, ir.Attribute]:
    kind = ir.FunctionType.get(list(takes), list(gives))
    visibility = "public" if name == _NAME else "private"
    return {
        "sym_name": ir.StringAttr.get(name),
        "function_type": ir.TypeAttr.get(kind),
        "sym_visibility": ir.StringAttr.get(visibility),
    }


def _functions(module: ir.Module) -> dict[str, ir.Operation]:
    """Return the functions of a module by name."""
    found = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    return {ir.StringAttr(op.attributes["sym_name"]).value: op for op in found}


def _called(function: ir.Operation) -> set[str]:
    """Return the names of the functions that a function mentions."""
    names: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        for i in range(len(op.attributes)):
            if op.attributes[i].name in ("callee", "decomposition", "called_computations"):
                names.update(part.strip('@" []') for part in str(op.attributes[i].attr).split(","))
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return names


def _cut_out(module: ir.Module, function: ir.Operation) -> ir.Module:
    """Return a module of a function and those that it calls."""
    functions, result = _functions(module), ir.Module.create()
    needed, pending = set(), [function]
    with ir.InsertionPoint(result.body):
        while pending:
            op = pending.pop()
            op.clone()
            new = _called(op) - needed
            needed |= new
            pending += [functions[name] for name in new if name in functions]
    return result


def _merge(module: ir.Module, emulated: ir.Module) -> str:
    """Move the functions of a module into another, as private ones under new names. Return the name of the entry."""
    taken, added = set(_functions(module)), _functions(emulated)
    names: dict[str, str] = {}
    for name in added:
        new, number = name, 0
        while new in taken:
            new, number = f"{name}_{number}", number + 1
        taken.add(new)
        names[name] = new
    with ir.InsertionPoint(module.body):
        for name, op in added.items():
            copy = op.clone().operation
            copy.attributes["sym_name"] = ir.StringAttr.get(names[name])
            copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
            _rename_calls(copy, names)
    return names[_NAME]


def _rename_calls(function: ir.Operation, names: dict[str, str]) -> None:
    def visit(op: ir.Operation) -> ir.WalkResult:
        for key in ("callee", "decomposition"):
            if key in op.attributes:
                name = ir.FlatSymbolRefAttr(op.attributes[key]).value
                op.attributes[key] = ir.FlatSymbolRefAttr.get(names.get(name, name))
        return ir.WalkResult.ADVANCE

    function.walk(visit)
