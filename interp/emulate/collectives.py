"""Reductions over the processes of a group: operands are gathered as codes, and folded in the order of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from ...ops.op import OpError
from ...ops.processes.process_groups import Groups
from ...ops.types import TensorType
from ..program import Operation, Region
from .expansions import region_of
from .folds import Combiner, to_elements
from .rewrite import Emulation
from .rules import attributes_of, carrier, element_of, emulates, of_codes, refuses, to_codes, types_of
from .tensor import Tensor, write

refuses("XLA has no such operation", "collective_reduce")
refuses("the host or another program would meet codes in place of numbers", "infeed", "outfeed", "send", "recv")

#: Custom calls that give their operand, or a part of it.
_MOVING = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "annotate_device_placement")

#: Custom calls of functions of Python, by which JAX prints and asks.
_CALLBACKS = [f"xla_{kind}_python_{device}_callback" for kind in ("ffi", "buffer") for device in ("cpu", "gpu")]


@emulates("custom_call")
def custom_call(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """A custom call that moves its operand, on codes, or that calls Python, on numbers; others are refused."""
    target = str(operation.attributes.get("call_target_name"))
    if target in _CALLBACKS:
        values = [of_codes(x, element_of(v)) for x, v in zip(operands, operation.operands, strict=True)]
        gives = [element_of(r) for r in operation.results]
        return [to_codes(x) for x in e.rewritten(operation, values, elements=gives)]
    if target == "ApproxTopK":
        return e.rules["minihlo.approx_top_k"](e, operation, operands)
    if target not in _MOVING:
        raise OpError(f"expected a custom call that is emulated, got @{target}")
    return e.copy(operation, operands)


@emulates("all_reduce", "cross-replica-sum")
def all_reduce(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The same fold in every process."""
    element = types_of(operation)[0]
    region = operation.regions[0] if operation.regions else region_of("stablehlo.add", element, operation)
    return _totals(e, operation, region, operands)


@emulates("reduce_scatter")
def reduce_scatter(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The same fold in every process, of which each keeps its part: as the largest of equal integers."""
    (total,), source = _totals(e, operation, operation.regions[0], operands), e.mlir(operation)
    shape = ir.RankedTensorType(source.results[0].type).shape
    return [write(source.name, total.element, shape, total, body="maximum", **attributes_of(source))]


def _totals(e: Emulation, operation: Operation, region: Region, operands: Sequence[Tensor]) -> list[Tensor]:
    source, groups, combiner = e.mlir(operation), Groups(e.call(operation), spans=True), Combiner.of(e, region)
    sizes = set(map(len, groups.rows))
    if groups.strategy == "cross_replica_and_partition" or len(sizes) != 1:
        raise OpError("expected replica_groups of one size, of replicas or of global device ids")
    if combiner.is_drawn or not any(t.is_minifloat for t in combiner.elements):
        raise OpError("expected a body of minifloats that draws nothing")
    names = ("replica_groups", "channel_handle", "use_global_device_ids")
    attributes: dict[str, Any] = {k: v for k, v in attributes_of(source).items() if k in names} | {"all_gather_dim": 0}
    (size,), found = sizes, []
    for x, t in zip(operands, types_of(operation), strict=True):
        gathered = write("all_gather", carrier(t), (size, *x.shape), x.expand(0), **attributes)
        (rows,) = to_elements(e, [gathered], [TensorType(x.shape, t)], combiner.elements)
        first, rest = rows.slice(0, 0, 1).reshape(x.shape), rows.slice(0, 1, size)
        found += combiner.fold([first], [rest]) if size > 1 else [first]
    return found
