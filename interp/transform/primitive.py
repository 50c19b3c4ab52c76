"""The primitive of JAX that calls a `Computation`, and how JAX's transformations act on it.

Evaluated eagerly it runs here and now. In a program of XLA it is a call back to Python. Its derivatives are
computations again, so they too are evaluated here; reverse mode computes residuals forward and transposes what is
linear in tangents.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import callback as jax_callback
from jax._src import core, dtypes, effects, source_info_util
from jax._src.ad_util import Zero
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax
from jax.extend.core import Primitive
from jaxlib import xla_client

from ..errors import InputError
from .computation import Computation, Linearized, lowered_under

#: Programs and errors name the caller's line, not one of these files.
source_info_util.register_exclusion(os.path.dirname(__file__))

call_p = Primitive("minihlo")
call_p.multiple_results = True
#: The jaxprs in its parameters are lowered by rules of its own.
call_p.is_high = lambda *_, **__: False


def bind(computation: Computation, *args: Any) -> list[Any]:
    """Calls a computation, its constants included.

    JAX reads the devices of a program out of the jaxprs in parameters, so that those that XLA is to run are one.
    """
    jaxpr = computation.jaxpr if computation.is_emulated else None
    return call_p.bind(*computation.constants, *args, computation=computation, jaxpr=jaxpr)


@call_p.def_effectful_abstract_eval
def _abstract(*_: Any, computation: Computation, **__: Any) -> tuple[Any, Any]:
    return computation.results, computation.jaxpr.effects


# -- evaluating --------------------------------------------------------------------------------------------------------


@call_p.def_impl
def _evaluate(*args: Any, computation: Computation, **given: Any) -> list[Any]:
    if computation.is_emulated:
        return jax.jit(functools.partial(call_p.bind, computation=computation, **given))(*args)
    target = _target(args)
    values = [
        np.asarray(a, dtype) if dtype is not None else to_numpy(a, aval)
        for a, aval, dtype in zip(args, computation.arguments, computation.plain_dtypes, strict=True)
    ]
    results = computation.run(values)
    default: Any = getattr(jax.config, "jax_default_device", None) or jax.local_devices()[0]
    device = default if target is None else target
    if not isinstance(device, jax.Device) or not computation.has_plain_results:
        arrays = jax.device_put(results, target)
        return [_of_type(a, aval) for a, aval in zip(arrays, computation.results, strict=True)]
    # as `device_put`, in a fifth of its time: an optimizer has hundreds of results
    sharding, devices, is_committed = jax.sharding.SingleDeviceSharding(device), [device], target is not None
    put, left = xla_client.batched_device_put, list(results)[::-1]
    del results  # what JAX copies is dropped at once
    return [put(aval, sharding, [left.pop()], devices, is_committed) for aval in computation.plain_results]


def evaluate(computation: Computation, args: Sequence[Any]) -> list[Any]:
    """The results of a computation for arguments of its types, where nothing is being traced."""
    return _evaluate(*computation.constants, *args, computation=computation)


def to_numpy(value: Any, aval: Any) -> np.ndarray:
    """An argument as what a program takes for it; `aval` is its abstract value."""
    if dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        # An array of keys has its words, which `key_data` gives in some 100 calls of functions.
        words = getattr(value, "_base_array", None)
        value = jax.random.key_data(value) if words is None else words
    elif aval.dtype == jax.dtypes.float0:  # which programs have as booleans
        return np.zeros(aval.shape, bool)
    else:  # a number of Python or, without x64, an array of numpy may be of another type
        return np.asarray(value, aval.dtype)
    return np.asarray(value)


def _of_type(array: Any, aval: Any) -> Any:
    """A result as what JAX takes it for."""
    if dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(array, impl=aval.dtype._impl)
    if aval.dtype == jax.dtypes.float0:
        return np.zeros(aval.shape, jax.dtypes.float0)
    return lax._convert_element_type(array, aval.dtype, weak_type=True) if aval.weak_type else array


def _target(args: Sequence[Any]) -> Any:
    """Where the results go: to the devices to which arguments are committed, None where none is."""
    shardings = [a.sharding for a in args if isinstance(a, jax.Array) and a.committed]
    places = {frozenset(s.device_set) for s in shardings}
    if len(places) > 1:
        names = " and ".join(sorted(", ".join(sorted(f"{d.platform}:{d.id}" for d in p)) for p in places))
        raise InputError(f"the arguments are committed to different devices: {names} (expected one device for all)")
    if not shardings or len(shardings[0].device_set) == 1:
        return next(iter(shardings[0].device_set)) if shardings else None
    shared = next((s.mesh for s in shardings if isinstance(s, jax.sharding.NamedSharding)), None)
    if shared is None:
        devices = sorted(shardings[0].device_set, key=lambda d: d.id)
        shared = jax.sharding.Mesh(np.array(devices), ("all",))
    return jax.sharding.NamedSharding(shared, jax.sharding.PartitionSpec())


#: Lowers computations that are emulated; `emulated.py` adds it, which this file cannot import.
_emulated: list[Callable[..., Any]] = []


def lower_with(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the decorated function as the one that lowers emulated computations."""
    _emulated.append(function)
    return function


# -- in a program ------------------------------------------------------------------------------------------------------


def _lower(ctx: Any, *operands: Any, computation: Computation, **_: Any) -> Any:
    if computation.is_emulated:
        return _emulated[0](ctx, operands, computation)
    if lowered_under.get() == computation.policy:  # part of a program of our own: nothing is called
        return mlir.lower_fun(lambda *args: computation.function(*args), multiple_results=True)(ctx, *operands)
    computation.program()  # before it runs, when JAX may be used

    physical: Any = [[core.physical_aval(a) for a in avals] for avals in (ctx.avals_in, ctx.avals_out)]
    avals_in, avals_out = physical
    carried_in, carried_out = ([_carried(a) for a in avals] for avals in (avals_in, avals_out))

    def call(*args: Any) -> tuple[np.ndarray, ...]:
        results = computation.run([np.asarray(x).astype(a.dtype) for x, a in zip(args, avals_in, strict=True)])
        return tuple(r.astype(a.dtype) for r, a in zip(results, carried_out, strict=True))

    ordered = [e for e in computation.jaxpr.effects if effects.ordered_effects.contains(e)]
    token = ctx.tokens_in.get(ordered[0]) if ordered else None
    results, token, _ = jax_callback.emit_python_callback(
        ctx.replace(avals_in=carried_in, avals_out=carried_out),
        call,
        token,
        [_converted(ctx, x, a, c) for x, a, c in zip(operands, avals_in, carried_in, strict=True)],
        carried_in,
        carried_out,
        has_side_effect=bool(computation.jaxpr.effects),
        returns_token=bool(ordered),
        sharding=jax_callback._callback_op_sharding(ctx.module_context.axis_context, None, ctx.avals_out),
    )
    if ordered:
        ctx.set_tokens_out(mlir.TokenSet(dict.fromkeys(ordered, token)))
    return [_converted(ctx, x, c, a) for x, c, a in zip(results, carried_out, avals_out, strict=True)]


def _carried(aval: Any) -> Any:
    """What goes to Python for an array and comes back: some versions of JAX garble types below eight bits."""
    if dtypes.itemsize_bits(aval.dtype) >= 8 or aval.dtype == bool:
        return aval
    wide = np.float32 if dtypes.issubdtype(aval.dtype, np.floating) else np.int8
    return aval.update(dtype=np.dtype(wide))


def _converted(ctx: Any, value: Any, source: Any, target: Any) -> Any:
    if source is target:
        return value
    inner = ctx.replace(primitive=None, avals_in=[source], avals_out=[target])
    return mlir.lower_fun(lambda x: x.astype(target.dtype), multiple_results=False)(inner, value)[0]


mlir.register_lowering(call_p, _lower, cacheable=False)

# -- transformations ---------------------------------------------------------------------------------------------------


def _batch(
    axis: Any, args: Sequence[Any], dims: Sequence[Any], *, computation: Computation, **_: Any
) -> tuple[Any, Any]:
    name = None if axis.name is core.no_axis_name else axis.name
    mapped = tuple(d if isinstance(d, int) else None for d in dims)
    batched, out_dims = computation.batched(axis.size, name, mapped)
    return bind(batched, *args), out_dims


batching.fancy_primitive_batchers[call_p] = _batch


def _differentiate(
    primals: Sequence[Any], tangents: Sequence[Any], *, computation: Computation, **_: Any
) -> tuple[list[Any], list[Any]]:
    varying = tuple(type(t) is not Zero for t in tangents)
    linearized: Linearized = computation.linearized(varying)
    count = len(computation.results)
    results = bind(linearized.forward, *primals)
    moving = [t for t, v in zip(tangents, varying, strict=True) if v]
    derived = iter(bind(linearized.tangent, *results[count:], *moving))
    zeros = [Zero(a.to_tangent_aval()) for a in computation.results]
    return results[:count], [next(derived) if h else z for h, z in zip(linearized.has_tangent, zeros, strict=True)]


ad.primitive_jvps[call_p] = _differentiate


def _transpose(cotangents: Sequence[Any], *args: Any, computation: Computation, **_: Any) -> list[Any]:
    linear = tuple(ad.is_undefined_primal(a) for a in args)
    has_cotangent = tuple(type(c) is not Zero for c in cotangents)
    transposed = computation.transposed(linear, has_cotangent)
    known = [a for a, v in zip(args, linear, strict=True) if not v]
    given = [c for c, has in zip(cotangents, has_cotangent, strict=True) if has]
    cotangents_of_linear = iter(bind(transposed, *known, *given))
    return [next(cotangents_of_linear) if v else None for v in linear]


ad.primitive_transposes[call_p] = _transpose
