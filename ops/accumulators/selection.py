"""The accumulator that sums the products of two types under a policy."""

from __future__ import annotations

from ..op import Call, UnsupportedOpError
from ..policy import ACCUMULATIONS, Policy
from ..types import ElementType
from . import units
from .record import Accumulator

_WIDEST = 16  # bits of an operand that an accumulator sums by itself; wider ones are the host's


def accumulator_of(policy: Policy, lhs: ElementType, rhs: ElementType, result: ElementType) -> Accumulator | None:
    """The record that the policy has for products of two types; None where the host, or another rule, sums them.

    It governs floats of up to 16 bits. Raises UnsupportedOpError where the policy's unit does not multiply such types.
    """
    chosen = policy.accumulate
    if chosen in ACCUMULATIONS or not all(t.is_float and t.bits <= _WIDEST for t in (lhs, rhs)):
        return None
    return chosen if isinstance(chosen, Accumulator) else _unit(chosen, lhs.name, rhs.name, result)


def check_accumulator(call: Call) -> None:
    """Raises UnsupportedOpError where the policy's unit does not multiply the types of an op's two operands."""
    accumulator_of(call.policy, call.tensor(0).element, call.tensor(1).element, call.result().element)


def precision_accumulator(policy: Policy, lhs: str, rhs: str) -> Accumulator | None:
    """The record for products into f32 of precision types, `tf32` among them, as an `algorithm` names them.

    None where the policy names neither a record nor a unit that multiplies them.
    """
    chosen = policy.accumulate
    if isinstance(chosen, Accumulator):
        return None if "f64" in (lhs, rhs) else chosen
    found = None if chosen in ACCUMULATIONS else units.row_for(chosen, lhs, rhs, "f32")
    return None if found is None else found.record


def _unit(name: str, lhs: str, rhs: str, result: ElementType) -> Accumulator:
    """A unit's record: of its f16 results for f16, if it has such; else of its f32 results."""
    found = units.row_for(name, lhs, rhs, "f16") if result.name == "f16" else None
    try:
        return (found or units.find(name, lhs, rhs, "f32")).record
    except ValueError as error:
        raise UnsupportedOpError(f"accumulate: {error}") from None
