"""Lowerings of JAX primitives: factorizations, functions of real numbers, and calls of Python functions.

They are registered for platform `minihlo` only. They use private modules of JAX, so that a function is left out if the
installed version of JAX does not have it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax._src import callback as jax_callback
from jax._src import checkify, custom_partitioning, debugging, dtypes, sharding_impls
from jax._src import core as jax_core
from jax._src import mesh as mesh_lib
from jax._src.export import _export as jax_export
from jax._src.interpreters import mlir
from jax._src.lax import linalg
from jax.sharding import NamedSharding, PartitionSpec

from .pjrt.runtime import PLATFORM

try:
    from jax._src.cudnn import scaled_matmul_stablehlo as scaled_matmul
except ImportError:  # in some versions of JAX
    scaled_matmul = None


def register() -> None:
    """Register the lowerings with JAX."""
    for name, target, options in _LINEAR_ALGEBRA:
        primitive = getattr(linalg, name, None)
        if primitive is not None:
            mlir.register_lowering(primitive, functools.partial(_call_target, target, options), platform=PLATFORM)
    for module, name, rule_name, replace, cacheable in _RULES:
        primitive, rule = getattr(module, name, None), getattr(module, rule_name, None)
        if primitive is not None and rule is not None:
            rule = rule if replace is None else functools.partial(replace, rule)
            mlir.register_lowering(primitive, rule, platform=PLATFORM, cacheable=cacheable)
    general = getattr(mlir, "_lowerings", {})
    for primitive in [p for p in general if p.name in _FUNCTIONS]:
        rule = functools.partial(_keep_function, getattr(general[primitive], "rule", general[primitive]))
        mlir.register_lowering(primitive, rule, platform=PLATFORM)
    # Exported programs may be kept for long, so JAX accepts only custom calls whose targets stay what they are.
    stable = getattr(jax_export, "_CUSTOM_CALL_TARGETS_GUARANTEED_STABLE", None)
    if isinstance(stable, set):
        stable.update(target for _, target, _ in _LINEAR_ALGEBRA)
        stable.update(_CHLO + name for name in _FUNCTIONS.values())
    donating = getattr(mlir, "_platforms_with_donation", None)
    if isinstance(donating, list) and PLATFORM not in donating:
        donating.append(PLATFORM)
    emit = getattr(jax_callback, "emit_python_callback", None)
    if emit is not None:
        jax_callback.emit_python_callback = functools.wraps(emit)(functools.partial(_emit_callback, emit))


# -- factorizations ----------------------------------------------------------------------------------------------------

#: JAX's primitive, our target, and which of the primitive's parameters the target takes, under which names.
_LINEAR_ALGEBRA: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("lu_p", "LuDecomposition", {}),
    ("eigh_p", "minihlo.eigh", {"lower": "lower"}),
    ("eig_p", "minihlo.eig", {"compute_left_eigenvectors": "left", "compute_right_eigenvectors": "right"}),
    ("svd_p", "minihlo.svd", {"full_matrices": "full_matrices", "compute_uv": "compute_uv"}),
    ("geqp3_p", "minihlo.geqp3", {}),
    ("hessenberg_p", "minihlo.hessenberg", {}),
    ("schur_p", "minihlo.schur", {"compute_schur_vectors": "compute_schur_vectors"}),
    ("tridiagonal_p", "minihlo.tridiagonal", {"lower": "lower"}),
    ("tridiagonal_solve_p", "minihlo.tridiagonal_solve", {"perturb_singular": "perturb_singular"}),
)


def _call_target(target: str, options: dict[str, str], ctx: Any, *operands: Any, **parameters: Any) -> Sequence[Any]:
    from jaxlib.mlir import ir

    chosen = parameters.get("subset_by_index")
    if chosen is not None and tuple(chosen) != (0, min(ctx.avals_in[0].shape[-2:])):
        raise NotImplementedError(f"subset_by_index is not implemented for platform {PLATFORM}")
    if parameters.get("sort_eig_vals"):
        raise NotImplementedError(f"sort_eig_vals is not implemented for platform {PLATFORM}")
    config: dict[str, Any] = {ours: ir.BoolAttr.get(bool(parameters.get(theirs))) for theirs, ours in options.items()}
    types, shapes = ir_types(ctx, ctx.avals_out), _shapes_if_symbolic(ctx)
    use: dict[str, Any] = {"operands": operands, "result_shapes": shapes, "backend_config": config}
    return mlir.custom_call(target, result_types=types, api_version=4, **use).results


def _shapes_if_symbolic(ctx: Any) -> list[Any] | None:
    """The shapes of a primitive's results, which a custom call takes where sizes are symbolic."""
    if all(t.has_static_shape for t in ir_types(ctx, ctx.avals_out)):
        return None
    return [mlir.eval_dynamic_shape_as_tensor(ctx, aval.shape) for aval in ctx.avals_out]


def ir_types(ctx: Any, avals: Sequence[Any]) -> list[Any]:
    """Return the types of MLIR."""
    return [_with_context(ctx, mlir.aval_to_ir_type, aval) for aval in avals]


def _with_context(ctx: Any, function: Any, *arguments: Any) -> Any:
    """Call a function of JAX that takes the module's context first in newer versions."""
    takes_context = len(inspect.signature(function).parameters) > len(arguments)
    return function(*([ctx.module_context] if takes_context else []), *arguments)


# -- functions ---------------------------------------------------------------------------------------------------------

_CHLO = "chlo."
#: JAX's names of functions, and CHLO's. They stand here, as a platform that nobody selects must not load `ops`.
_FUNCTIONS = {
    name: name
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cosh", "digamma", "erf", "erf_inv", "erfc",
        "lgamma", "polygamma", "sinh", "square", "tan", "zeta",
    )
} | {"nextafter": "next_after"}  # fmt: skip


def _keep_function(rule: Callable[..., Any], ctx: Any, *operands: Any, **parameters: Any) -> Any:
    """Lower a function of floats to a custom call that stands for its op of CHLO.

    jaxlib expands the op itself to ops that each round to the format, or refuses to.
    """
    shapes = _shapes_if_symbolic(ctx)
    results = rule(ctx, *operands, **parameters)
    if not dtypes.issubdtype(ctx.avals_out[0].dtype, np.floating):
        return results
    op = results[0].owner.operation
    if op.name == "sdy.sharding_constraint":
        op = op.operands[0].owner.operation
    old = op.results[0]
    if not op.name.startswith(_CHLO):
        return results
    from jaxlib.mlir import ir

    with ir.InsertionPoint(op):
        call = mlir.custom_call(op.name, result_types=[old.type], operands=list(op.operands), result_shapes=shapes)
    new = call.results[0]
    results = [new if r == old else r for r in results]
    old.replace_all_uses_with(new)
    op.erase()
    return results


# -- Python functions that a program calls -----------------------------------------------------------------------------


def _emit_callback(
    fallback: Callable[..., Any],
    ctx: Any,
    callback: Callable[..., Sequence[Any]],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *arguments: Any,
    **options: Any,
) -> Any:
    """Replaces JAX's function of this name: emits the call of a Python function.

    The program states its device as on JAX's CPU, without effect: outside of manual computations a program runs once,
    whatever its devices.
    """
    if tuple(ctx.module_context.platforms) != (PLATFORM,):
        return fallback(ctx, callback, token, operands, operand_avals, result_avals, *arguments, **options)

    from . import host_callbacks

    canonicalize = getattr(dtypes, "canonicalize_value", lambda x: x)
    holder = host_callbacks.Callback(callback, tuple(result_avals), canonicalize, bool(options.get("partitioned")))
    types = ir_types(ctx, result_avals)
    tokens = [token] if token else []
    has_effect = bool(options.get("has_side_effect", True))
    result = _call_holder(
        ctx, host_callbacks.TARGET, holder, [t.type for t in tokens] + types, [*tokens, *operands], has_effect
    )
    sharding = options.get("sharding")
    if sharding is not None:
        _with_context(ctx, mlir.set_sharding, result, _with_token(sharding) if tokens and types else sharding)
    results = list(result.results)
    return results[len(tokens) :], (results[0] if tokens else None), holder


def _call_holder(
    ctx: Any, target: str, holder: Any, types: Sequence[Any], operands: Sequence[Any], has_effect: bool = True
) -> Any:
    """Emit a custom call that names a holder of a Python function by its number."""
    from jaxlib.mlir import ir

    ctx.module_context.add_keepalive(holder)
    return mlir.custom_call(
        target,
        result_types=types,
        operands=operands,
        backend_config={"number": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), holder.number)},
        has_side_effect=has_effect,
        api_version=4,
    )


def _with_token(sharding: Any) -> Any:
    """The sharding of the results of a call whose first result is a token, with the sharding of the next one.

    A call without other results has one sharding as well, so that its token needs none of its own.
    """
    values = getattr(sharding, "shardings", None)
    if not values:
        return sharding
    return type(sharding)((dataclasses.replace(values[0], mesh_shape=(), dim_shardings=()), *values))


def _inspect_sharding(fallback: Callable[..., Any], ctx: Any, value: Any, *, callback: Callable[..., Any]) -> Any:
    """`jax.debug.inspect_array_sharding` where there are several devices: the callback is called at compilation."""
    context = ctx.module_context.axis_context
    devices: Any = None
    mesh: Any = None
    if isinstance(context, sharding_impls.ShardingContext):
        devices, axes = context.device_assignment, context.abstract_mesh
        current = mesh_lib.thread_resources.env.physical_mesh
        mesh = current if axes is None else mesh_lib.Mesh(np.reshape(devices, axes.axis_sizes), axes.axis_names)
    elif isinstance(context, sharding_impls.SPMDAxisContext):
        mesh = context.mesh
        devices = tuple(mesh.devices.flat)
    if devices is None or len(devices) == 1:
        return fallback(ctx, value, callback=callback)
    from jaxlib import xla_client

    from . import host_callbacks

    def record(message: bytes) -> None:
        proto = xla_client.OpSharding()
        proto.ParseFromString(message)
        sharding = xla_client.HloSharding.from_proto(proto)
        if mesh.empty:
            return callback(sharding_impls.GSPMDSharding(devices, sharding))
        spec = PartitionSpec() if sharding.is_manual() else sharding_impls.parse_flatten_op_sharding(sharding, mesh)[0]
        return callback(NamedSharding(mesh, spec))

    _call_holder(ctx, host_callbacks.INSPECT, host_callbacks.Inspector(record), [], [value])
    return []


def _whole(_rule: Callable[..., Any], ctx: Any, *values: Any, call: Any, **_: Any) -> Any:
    """A function with a partitioning of its own: programs are not partitioned, so the function as it is."""
    return mlir.lower_fun(jax_core.jaxpr_as_fun(call), multiple_results=True)(ctx, *values)


#: Rules of JAX: its module, the primitive, the rule, what replaces the rule, and whether the lowering may be cached.
_RULES: tuple[tuple[Any, str, str, Any, bool], ...] = (
    (checkify, "check_p", "check_lowering_rule", None, False),
    (debugging, "debug_callback_p", "debug_callback_lowering", None, False),
    (debugging, "debug_print_p", "debug_print_lowering_rule", None, False),
    (debugging, "inspect_sharding_p", "_inspect_sharding_lowering_rule", _inspect_sharding, True),
    (custom_partitioning, "custom_partitioning_p", "_custom_partitioning_lowering_rule", _whole, True),
    (scaled_matmul, "_scaled_matmul_p", "_scaled_matmul_gpu_lowering", None, True),
)
