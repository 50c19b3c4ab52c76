"""`interp.matmul`: products of arrays as a chip, or any accumulator, forms them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..ops.accumulators import units
from ..ops.accumulators.operands import tf32
from ..ops.accumulators.product import product
from ..ops.accumulators.record import Accumulator
from ..ops.cast import cast
from ..ops.policy import ACCUMULATIONS, Policy
from ..ops.products.contraction import Contraction
from ..ops.random_stream import RandomStream
from ..ops.types import ELEMENT_TYPES, ElementType, type_of_dtype
from .errors import InputError

_TF32 = "tf32"


def matmul(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    result: str = "f32",
    policy: Policy | Accumulator | str | None = None,
    operands: str | None = None,
) -> np.ndarray:
    """The matrix product of two arrays, plus a third, as the policy's accumulator forms it.

    Args:
        a: An array of floats, of shape (..., M, K) or (K,).
        b: An array of floats, of shape (..., K, N) or (K,). Both may have different types, and are broadcast as
            `numpy.matmul` does.
        c: What the sums begin with: an array of floats that broadcasts to the result's shape. A unit and a record have
            it where their instruction has it, rounded to the type of their result; where a sum is rounded once, c is
            part of it; else it is added last. None: zeros.
        result: The type of the result, such as `"f32"`, `"f16"` or `"f8E4M3FN"`. A unit with results of f16 is taken
            for `"f16"`; else a sum in f32 is rounded to the type once.
        policy: A Policy; or its `accumulate` alone: a chip (`"h100"`), an instruction (`"h100.wgmma"`), a record.
            The default is that of `interp.policy(...)` around the call, else `Policy()`.
        operands: `"tf32"` reads f32 arrays as instructions of that type do, without their last 13 bits. None: as they
            are.

    Returns:
        An array of the result's type.

    Raises:
        InputError: The shapes do not fit, an array is not of a float type, or the unit does not multiply the types.
    """
    chosen, to = _policy(policy), _result(result)
    x, y = _array("a", a), _array("b", b)
    left, right = x.ndim == 1, y.ndim == 1
    if not x.ndim or not y.ndim:
        raise InputError(f"expected arrays of at least one dimension, got shapes {x.shape} and {y.shape}")
    x, y = x[None] if left else x, y[:, None] if right else y
    try:
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        if x.shape[-1] != y.shape[-2]:
            raise ValueError
    except ValueError:
        shapes = f"{np.shape(a)} and {np.shape(b)}"
        raise InputError(f"expected shapes (..., M, K) and (..., K, N), got {shapes}") from None
    shape = (*batch, x.shape[-2], y.shape[-1])
    outer = (*batch, *(() if left else shape[-2:-1]), *(() if right else shape[-1:]))
    flat = (int(np.prod(batch, dtype=int)), *shape[-2:])
    start = None
    if c is not None:
        given = _array("c", c)
        try:
            start = np.broadcast_to(given, outer).reshape(flat)
        except ValueError:
            raise InputError(f"c: expected a shape that broadcasts to {outer}, got {given.shape}") from None
    lhs = np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(flat[0], *x.shape[-2:])
    rhs = np.broadcast_to(y, (*batch, *y.shape[-2:])).reshape(flat[0], *y.shape[-2:])
    names = [_name(side, v, operands) for side, v in (("a", x), ("b", y))]
    random = RandomStream()
    random.restart(chosen.seed)
    return _product(lhs, rhs, start, names, to, chosen, random).reshape(outer)


def _product(
    x: np.ndarray,
    y: np.ndarray,
    c: np.ndarray | None,
    names: list[str],
    result: ElementType,
    policy: Policy,
    random: RandomStream,
) -> np.ndarray:
    record = _record(policy, names, result, c is not None)
    if record is None:
        x, y = (tf32(v) if name == _TF32 else v for v, name in zip((x, y), names, strict=True))
        types = type_of_dtype(x.dtype), type_of_dtype(y.dtype)
        if c is None:
            return Contraction(*types, result, policy, random).matmul(x, y)
        # f32 and element, and whatever the host sums.
        wide = ELEMENT_TYPES["f64" if any(v.dtype == np.float64 for v in (x, y, c)) else "f32"]
        kind = result if policy.accumulate == "element" else wide
        sums = Contraction(*types, kind, policy, random).matmul(x, y)
        first, last = (cast(v, type_of_dtype(v.dtype), wide, Policy()) for v in (sums, c))
        return _narrow(first + last, wide, result, policy, random)
    start = None if c is None else cast(c, type_of_dtype(c.dtype), ELEMENT_TYPES["f64"], Policy())
    sums = product(record, x, y, names[0], names[1], start, to_odd=result.name != "f64")
    return _narrow(sums, type_of_dtype(sums.dtype), result, policy, random)


def _record(policy: Policy, names: list[str], result: ElementType, has_c: bool) -> Accumulator | None:
    """The record that sums, None where that is left to the products of operations."""
    chosen = policy.accumulate
    if isinstance(chosen, Accumulator):
        return chosen
    if chosen in ACCUMULATIONS:
        bits = max(32 if n == _TF32 else ELEMENT_TYPES[n].bits for n in names)
        # What is rounded once for these operands is so with c too.
        is_exact = has_c and policy.sums_exactly and (bits <= 8 or (chosen == "exact" and bits <= 32))
        return Accumulator(0, keep="exact") if is_exact else None
    found = units.row_for(chosen, *names, "f16") if result.name == "f16" else None
    try:
        return (found or units.find(chosen, *names, "f32")).record
    except ValueError as error:
        raise InputError(str(error)) from None


def _narrow(
    x: np.ndarray, source: ElementType, result: ElementType, policy: Policy, random: RandomStream
) -> np.ndarray:
    return cast(x, source, result, policy, random.draws(policy))


def _policy(policy: Any) -> Policy:
    from . import policies

    if policy is None:
        return policies.chosen(Policy())
    if isinstance(policy, Policy):
        return policy
    if not isinstance(policy, str | Accumulator):
        raise InputError(f"policy: expected a Policy, a unit's name or an Accumulator, got {type(policy).__name__}")
    try:
        return dataclasses.replace(policies.chosen(Policy()), accumulate=policy)
    except ValueError as error:
        raise InputError(str(error)) from None


def _result(name: str) -> ElementType:
    found = ELEMENT_TYPES.get(name)
    if found is None or not found.is_float:
        raise InputError(f"result: expected a float type, such as f32, got {name!r}")
    return found


def _array(name: str, given: Any) -> np.ndarray:
    x = np.asarray(given)
    try:
        is_float = type_of_dtype(x.dtype).is_float
    except (KeyError, ValueError):
        is_float = False
    if not is_float:
        raise InputError(f"{name}: expected an array of a float type, got {x.dtype}")
    return x


def _name(side: str, x: np.ndarray, operands: str | None) -> str:
    name = type_of_dtype(x.dtype).name
    if operands is None:
        return name
    if operands != _TF32:
        raise InputError(f"operands: expected {_TF32} or None, got {operands!r}")
    if name != "f32":
        raise InputError(f"operands={_TF32}: expected {side} of f32, got {name}")
    return _TF32
