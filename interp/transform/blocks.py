"""Block formats in JAX programs: primitives that quantize and dequantize, and how JAX's transformations act on them.

On the platform `minihlo`, and in functions of `interp.jit`, they are custom calls; elsewhere XLA calls back to Python.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core
from jax._src.ad_util import Zero, instantiate
from jax._src.interpreters import ad, batching, mlir
from jax.extend.core import Primitive

from ...ops.blocks.blockwise import Layout
from ...ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from ...ops.blocks.targets import DEQUANTIZE, QUANTIZE
from ...ops.policy import Policy
from ...ops.types import ElementType
from .. import plugin
from ..blocks.checks import Options
from ..errors import InputError
from ..plugin.lowerings import ir_types
from .computation import PLATFORM
from .function import Jitted


def quantize(x: Any, fmt: BlockFormat, axes: tuple[int, ...], options: Options, tensor_scale: Any) -> tuple[Any, ...]:
    """`interp.quantize` of a JAX array."""
    _require_dtype(fmt)
    if (not jnp.issubdtype(x.dtype, np.number) and x.dtype != bool) or jnp.issubdtype(x.dtype, np.complexfloating):
        raise InputError(f"expected an array of real numbers, got dtype {x.dtype}")
    given = []
    if tensor_scale is not None:
        if fmt.tensor_scale is None:
            raise InputError(f"tensor_scale: expected none for {fmt.name}, got {tensor_scale!r}")
        given = [_scalar(tensor_scale)]
    results = quantize_p.bind(x, *given, name=fmt.name, axes=axes, options=options, tensors=0)
    if isinstance(x, core.Tracer):
        _remember(results[0], x)
    return tuple(results)


def dequantize(
    codes: Any,
    scales: Any,
    fmt: BlockFormat,
    axes: tuple[int, ...],
    options: Options,
    target: ElementType,
    tensor_scale: Any,
) -> Any:
    """`interp.dequantize` of JAX arrays."""
    _require_dtype(fmt)
    for what, x, dtype in (("codes", codes, fmt.element_dtype), ("scales", scales, fmt.scale_format.dtype)):
        if x.dtype not in (dtype, np.dtype(f"u{dtype.itemsize}")):
            raise InputError(f"{what}: expected dtype {dtype} or uint{8 * dtype.itemsize}, got {x.dtype}")
    shape = Layout.of(codes.shape, fmt, axes).scale_shape
    if scales.shape != shape:
        raise InputError(f"scales: expected shape {list(shape)}, got {list(scales.shape)}")
    if (tensor_scale is None) != (fmt.tensor_scale is None):
        raise InputError(f"tensor_scale: expected {'one' if fmt.tensor_scale else 'none'}, got {tensor_scale!r}")
    given = [] if tensor_scale is None else [_scalar(tensor_scale)]
    arguments = {"name": fmt.name, "axes": axes, "options": options, "tensors": 0, "target": target.dtype}
    source = _source(codes)
    result = dequantize_p.bind(codes, scales, *given, **arguments)[0]
    if source is None or source.shape != result.shape:
        return result
    return _with_derivative_of(jax.lax.stop_gradient(result), source)


def _require_dtype(fmt: BlockFormat) -> None:
    if not fmt.scale_format.has_dtype:
        raise InputError(f"expected a block format whose scales have a dtype of JAX, got {fmt.name} ({fmt.scale})")


def straight_through(x: Any, round_trip: Callable[[Any], Any]) -> Any:
    """`interp.straight_through` of a JAX array."""
    return _with_derivative_of(jax.lax.stop_gradient(round_trip(x)), x)


@jax.custom_jvp
def _with_derivative_of(value: Any, source: Any) -> Any:  # noqa: ARG001
    """A value, with the derivative of `source`."""
    return value


@_with_derivative_of.defjvp
def _straight(primals: Any, tangents: Any) -> tuple[Any, Any]:
    moved = tangents[1]
    integers = moved.dtype == jax.dtypes.float0
    return primals[0], jnp.zeros_like(primals[0]) if integers else moved.astype(primals[0].dtype)


#: What elements were made of, by the identity of the elements' tracer, as long as that is in use. Elements have too few
#: bits for a derivative, so `dequantize` of them takes that of the numbers themselves.
_sources: dict[int, tuple[weakref.ref[Any], Any]] = {}


def _remember(codes: Any, source: Any) -> None:
    key = id(codes)
    _sources[key] = (weakref.ref(codes, lambda _: _sources.pop(key, None)), source)


def _source(codes: Any) -> Any:
    found = _sources.get(id(codes))
    return found[1] if found is not None and found[0]() is codes else None


def _scalar(value: Any) -> Any:
    scale = jnp.asarray(value, np.float32)
    if scale.shape != ():
        raise InputError(f"tensor_scale: expected a number, got shape {list(scale.shape)}")
    return scale


# -- the primitives ----------------------------------------------------------------------------------------------------

quantize_p, dequantize_p = Primitive("quantize"), Primitive("dequantize")
quantize_p.multiple_results = dequantize_p.multiple_results = True


@quantize_p.def_abstract_eval
def _quantized(x: Any, *_: Any, name: str, axes: tuple[int, ...], tensors: int, **__: Any) -> list[Any]:
    fmt = BLOCK_FORMATS[name]
    found = [
        core.ShapedArray(x.shape, _dtype(fmt)),
        core.ShapedArray(Layout.of(x.shape, fmt, axes).scale_shape, fmt.scale_format.dtype),
    ]
    return found if fmt.tensor_scale is None else [*found, core.ShapedArray(x.shape[:tensors], np.dtype(np.float32))]


@dequantize_p.def_abstract_eval
def _dequantized(codes: Any, *_: Any, target: np.dtype, **__: Any) -> list[Any]:
    return [core.ShapedArray(codes.shape, target)]


def _dtype(fmt: BlockFormat) -> np.dtype:
    """The type of elements in JAX, which has none of six bits."""
    return np.dtype(np.uint8) if fmt.element_bits == 6 else fmt.element_dtype


def _lower_here(call: str, ctx: Any, *operands: Any, name: str, axes: Any, options: Options, **more: Any) -> Any:
    from jaxlib.mlir import ir

    i64 = ir.IntegerType.get_signless(64)
    policy = options.policy
    words = {"format": name, "rule": options.rule, "rounding": policy.rounding, "overflow": policy.overflow}
    config: dict[str, Any] = {k: ir.StringAttr.get(v) for k, v in words.items()}
    config |= {k: ir.IntegerAttr.get(i64, v) for k, v in (("seed", policy.seed), ("tensors", more["tensors"]))}
    config["axes"] = ir.DenseI64ArrayAttr.get(list(axes))
    types = ir_types(ctx, ctx.avals_out)
    return mlir.custom_call(call, result_types=types, operands=operands, backend_config=config, api_version=4).results


@functools.lru_cache(256)
def _called(primitive: Primitive, parameters: tuple[tuple[str, Any], ...]) -> Jitted:
    """The primitive as a function that this interpreter evaluates."""

    def blocks(*args: Any) -> list[Any]:
        return primitive.bind(*args, **dict(parameters))

    return Jitted(blocks, Policy(), None, None)


def _elsewhere(primitive: Primitive, ctx: Any, *operands: Any, **parameters: Any) -> Any:
    function = _called(primitive, tuple(parameters.items()))
    return mlir.lower_fun(lambda *args: function(*args), multiple_results=True)(ctx, *operands)


plugin.initialize()  # which tells JAX of the platform
for _primitive, _target in ((quantize_p, QUANTIZE), (dequantize_p, DEQUANTIZE)):
    _primitive.def_impl(lambda *args, p=_primitive, **parameters: _called(p, tuple(parameters.items()))(*args))
    mlir.register_lowering(_primitive, functools.partial(_elsewhere, _primitive), cacheable=False)
    mlir.register_lowering(_primitive, functools.partial(_lower_here, _target), platform=PLATFORM)

# -- transformations ---------------------------------------------------------------------------------------------------


def _batch(primitive: Primitive, args: Sequence[Any], dims: Sequence[Any], **parameters: Any) -> tuple[Any, Any]:
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if isinstance(d, int))
    args = [
        jnp.moveaxis(x, d, 0) if isinstance(d, int) else jnp.broadcast_to(x, (size, *x.shape))
        for x, d in zip(args, dims, strict=True)
    ]
    parameters["axes"] = tuple(a + 1 for a in parameters["axes"])
    parameters["tensors"] += 1
    results = primitive.bind(*args, **parameters)
    return results, [0] * len(results)


for _primitive in (quantize_p, dequantize_p):
    batching.primitive_batchers[_primitive] = functools.partial(_batch, _primitive)


def _factors(scales: Any, of_tensor: Any, shape: tuple[int, ...], fmt: BlockFormat, axes: tuple[int, ...]) -> Any:
    """The factor of each element, in f32."""
    factors = _number(scales, fmt.scale_format.dtype)
    for axis, size in zip(axes, fmt.block[len(fmt.block) - len(axes) :], strict=True):
        factors = jax.lax.slice_in_dim(jnp.repeat(factors, size, axis), 0, shape[axis], axis=axis)
    return factors if of_tensor is None else factors * _spread(of_tensor, shape)


def _spread(of_tensor: Any, shape: tuple[int, ...]) -> Any:
    return jnp.reshape(of_tensor, of_tensor.shape + (1,) * (len(shape) - of_tensor.ndim))


def _number(x: Any, dtype: np.dtype) -> Any:
    return (x if x.dtype == dtype else jax.lax.bitcast_convert_type(x, dtype)).astype(np.float32)


def _differentiate_quantize(primals: Sequence[Any], tangents: Sequence[Any], **parameters: Any) -> tuple[Any, Any]:
    """Straight through: elements as `x / scale`, with the scale held constant."""
    results = quantize_p.bind(*primals, **parameters)
    fmt = BLOCK_FORMATS[parameters["name"]]
    zeros = [Zero(jax.typeof(r).to_tangent_aval()) for r in results]
    if type(tangents[0]) is Zero or not jnp.issubdtype(results[0].dtype, np.floating):
        return results, zeros
    of_tensor = results[2] if len(results) > 2 else None
    factors = _factors(results[1], of_tensor, primals[0].shape, fmt, parameters["axes"])
    moved = (tangents[0].astype(np.float32) / factors).astype(results[0].dtype)
    return results, [moved, *zeros[1:]]


def _differentiate_dequantize(primals: Sequence[Any], tangents: Sequence[Any], **parameters: Any) -> tuple[Any, Any]:
    """Of the product of element, scale and the scale of the tensor."""
    result = dequantize_p.bind(*primals, **parameters)
    fmt, axes = BLOCK_FORMATS[parameters["name"]], parameters["axes"]
    codes, scales = primals[:2]
    of_tensor: Any = primals[2] if len(primals) > 2 else None
    total = None
    for i, tangent in enumerate(tangents):
        if type(tangent) is Zero or tangent.dtype == jax.dtypes.float0:
            continue
        tangent = instantiate(tangent).astype(np.float32)
        shape: tuple[int, ...] = codes.shape
        if i == 0:
            part = tangent * _factors(scales, of_tensor, shape, fmt, axes)
        else:
            elements = _number(codes, fmt.element_dtype)
            moved = tangent if i == 1 else scales
            part = elements * _factors(moved, tangent if i == 2 else of_tensor, shape, fmt, axes)
        total = part if total is None else total + part
    aval = jax.typeof(result[0])
    return result, [Zero(aval.to_tangent_aval()) if total is None else total.astype(aval.dtype)]


ad.primitive_jvps[quantize_p] = _differentiate_quantize
ad.primitive_jvps[dequantize_p] = _differentiate_dequantize
