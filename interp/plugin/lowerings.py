"""How JAX lowers, for this platform, what has no general form: factorizations and calls of Python functions.

Everything here is registered for platform `minihlo` alone. It leans on modules of JAX that are not public, so what a
version of JAX does not have is left out.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax._src import callback as jax_callback
from jax._src import debugging, dtypes, sharding_impls
from jax._src import mesh as mesh_lib
from jax._src.export import _export as jax_export
from jax._src.interpreters import mlir
from jax._src.lax import linalg
from jax.sharding import NamedSharding, PartitionSpec

from .pjrt.runtime import PLATFORM

try:
    from jax._src.cudnn import scaled_matmul_stablehlo as scaled_matmul
except ImportError:  # of a version of JAX without it
    scaled_matmul = None


def register() -> None:
    """Tell JAX."""
    for name, target, options in _LINEAR_ALGEBRA:
        primitive = getattr(linalg, name, None)
        if primitive is not None:
            mlir.register_lowering(primitive, functools.partial(_call_target, target, options), platform=PLATFORM)
    # What is exported may be kept for long, so JAX lets custom calls in whose targets stay what they are, as ours do.
    stable = getattr(jax_export, "_CUSTOM_CALL_TARGETS_GUARANTEED_STABLE", None)
    if isinstance(stable, set):
        stable.update(target for _, target, _ in _LINEAR_ALGEBRA)
    for module, name, rule in (
        (debugging, "debug_callback_p", "debug_callback_lowering"),
        (debugging, "debug_print_p", "debug_print_lowering_rule"),
    ):
        if hasattr(module, name) and hasattr(module, rule):
            mlir.register_lowering(getattr(module, name), getattr(module, rule), platform=PLATFORM, cacheable=False)
    inspect_p, rule = (getattr(debugging, n, None) for n in ("inspect_sharding_p", "_inspect_sharding_lowering_rule"))
    if inspect_p is not None and rule is not None:
        mlir.register_lowering(inspect_p, functools.partial(_inspect_sharding, rule), platform=PLATFORM)
    scaled_p, rule = (getattr(scaled_matmul, n, None) for n in ("_scaled_matmul_p", "_scaled_matmul_gpu_lowering"))
    if scaled_p is not None and rule is not None:
        mlir.register_lowering(scaled_p, rule, platform=PLATFORM)
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
    types = ir_types(ctx, ctx.avals_out)
    return mlir.custom_call(target, result_types=types, operands=operands, backend_config=config, api_version=4).results


def ir_types(ctx: Any, avals: Sequence[Any]) -> list[Any]:
    """The types of MLIR, by a function that lately takes the module's context too."""
    of: Any = mlir.aval_to_ir_type
    takes_context = len(inspect.signature(of).parameters) > 1
    return [of(ctx.module_context, aval) if takes_context else of(aval) for aval in avals]


# -- Python functions that a program calls -----------------------------------------------------------------------------


def _emit_callback(
    otherwise: Callable[..., Any],
    ctx: Any,
    callback: Callable[..., Sequence[Any]],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *arguments: Any,
    **options: Any,
) -> Any:
    """In the place of JAX's function of this name: emits the call of a Python function.

    Where it is to run is written down as on JAX's CPU. It changes nothing: outside of manual computations a program
    runs once, whatever its devices.
    """
    if tuple(ctx.module_context.platforms) != (PLATFORM,):
        return otherwise(ctx, callback, token, operands, operand_avals, result_avals, *arguments, **options)

    from . import host_callbacks

    canonicalize = getattr(dtypes, "canonicalize_value", lambda x: x)
    holder = host_callbacks.Callback(callback, tuple(result_avals), canonicalize, bool(options.get("partitioned")))
    ctx.module_context.add_keepalive(holder)
    types = ir_types(ctx, result_avals)
    tokens = [token] if token else []
    result = mlir.custom_call(
        host_callbacks.TARGET,
        result_types=[t.type for t in tokens] + types,
        operands=[*tokens, *operands],
        backend_config=_numbered(holder.number),
        has_side_effect=bool(options.get("has_side_effect", True)),
        api_version=4,
    )
    sharding = options.get("sharding")
    if sharding is not None:
        put: Any = mlir.set_sharding  # which takes the module's context too from jax 0.10 on
        takes_context = len(inspect.signature(put).parameters) > 2
        where = _with_token(sharding) if tokens and types else sharding
        put(*([ctx.module_context] if takes_context else []), result, where)
    results = list(result.results)
    return results[len(tokens) :], (results[0] if tokens else None), holder


def _with_token(sharding: Any) -> Any:
    """The sharding of the results of a call whose first result is a token, which lies as the next one does.

    A call without other results has one sharding all the same, so that its token needs none of its own.
    """
    values = getattr(sharding, "shardings", None)
    if not values:
        return sharding
    return type(sharding)((dataclasses.replace(values[0], mesh_shape=(), dim_shardings=()), *values))


def _numbered(number: int) -> dict[str, Any]:
    from jaxlib.mlir import ir

    return {"number": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)}


def _inspect_sharding(otherwise: Callable[..., Any], ctx: Any, value: Any, *, callback: Callable[..., Any]) -> Any:
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
        return otherwise(ctx, value, callback=callback)
    from jaxlib import xla_client

    from . import host_callbacks

    def record(message: bytes) -> None:
        proto = xla_client.OpSharding()
        proto.ParseFromString(message)
        lies = xla_client.HloSharding.from_proto(proto)
        if mesh.empty:
            return callback(sharding_impls.GSPMDSharding(devices, lies))
        spec = PartitionSpec() if lies.is_manual() else sharding_impls.parse_flatten_op_sharding(lies, mesh)[0]
        return callback(NamedSharding(mesh, spec))

    holder = host_callbacks.Inspector(record)
    ctx.module_context.add_keepalive(holder)
    config = _numbered(holder.number)
    mlir.custom_call(
        host_callbacks.INSPECT,
        result_types=[],
        operands=[value],
        backend_config=config,
        has_side_effect=True,
        api_version=4,
    )
    return []
