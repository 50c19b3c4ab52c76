"""What the tests of passes share: regions from text, folded and fused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minihlo import interp
from minihlo.interp.compile.group import Group, Lookup
from minihlo.interp.compile.passes.fold_constants import fold_constants
from minihlo.interp.compile.passes.fuse import fuse
from minihlo.interp.program import Operation, Region, Value
from minihlo.ops.engine.speed import Speed
from minihlo.ops.op import Call, lookup
from minihlo.ops.policy import Policy
from minihlo.ops.traits import Kernel

PLAIN, NUMPY = Policy(), Speed(compiled=False)


def region_of(body: str, arguments: str, returns: str, types: str) -> Region:
    """The body of `@main`."""
    text = f"func.func @main({arguments}) -> ({types}) {{\n{body}\nreturn {returned(returns, types)}\n}}"
    result = interp.load(text).program.functions["main"].body
    assert result is not None
    return result


def returned(values: str, types: str) -> str:
    return f"{values} : {types}"


def kernel_of(operation: Operation) -> Kernel | None:
    record = lookup(operation.name)
    assert record is not None
    types = [tuple(v.type for v in values) for values in (operation.operands, operation.results)]
    return record.kernel(Call(operation.name, *types, operation.attributes))


def folded(region: Region, policy: Policy = PLAIN) -> tuple[Region, Mapping[Value, Any]]:
    return fold_constants(region, policy, kernel_of)


def names(region: Region) -> list[str]:
    return [operation.name.partition(".")[2] for operation in region.operations]


def steps(group: Group) -> list[str]:
    return ["table" if isinstance(s, Lookup) else s.name.partition(".")[2] for s in group.function.steps]


def fused(body: str, arguments: str, returns: str, types: str, speed: Speed = NUMPY) -> Region:
    region, constants = folded(region_of(body, arguments, returns, types))
    result = fuse(region, constants, speed, PLAIN)
    assert (result.arguments, result.returns) == (region.arguments, region.returns)
    return result


V, F = "tensor<4x300xf8E4M3FN>", "tensor<4x300xf32>"
