"""The Python function of a group: one call of a kernel for each step, on arrays that broadcast together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ops.kernel import Kernel
from ...ops.registry import lookup
from .group import Function, Lookup, Origin, Step
from .leaf import Compute
from .writer import Sources, Writer

#: The kernel of a step, which comes from some op.
KernelOf = Callable[[Step | Lookup, Origin], Kernel]


def generate(
    function: Function,
    origins: Sequence[Origin],
    kernel_of: KernelOf,
    label: str,
    sources: Sources,
    leaves: Sequence[frozenset[int]] = (),
    reason: str = "",
) -> Compute:
    """The function that takes the leaves and gives a tuple of the outputs; `label` and `reason` are for listings.

    Where `leaves` says along which of the group's dimensions each leaf lies, results are written over what nothing
    needs any more: on 10**6 elements quantize and layer norm take a fifth less for it.
    """
    writer = Writer({})
    names = [writer.fresh() for _ in function.leaves]
    along = dict(zip(names, leaves, strict=False))
    whole = frozenset[int]().union(*leaves)
    owned: set[str] = set()  # what has the group's shape and is an array that a step has made
    parameters = list(names)
    names += [writer.name_of(constant.array) for constant in function.constants]
    for step, origin in zip(function.steps, origins, strict=True):
        kernel, operands = kernel_of(step, origin), [names[i] for i in step.operands]
        over = [name for name in operands if kernel.has_out and name in owned]
        name = writer.apply(kernel.call, origin.operation, operands, over)
        if isinstance(step, Step) and _may_be_a_view(step):
            owned.difference_update(operands)
        names.append(name)
        if isinstance(step, Step):
            along[name] = frozenset[int]().union(*[along[v] for v in operands if v in along])
            if kernel.has_out and whole and along[name] == whole:
                owned.add(name)
    return writer.function(parameters, [names[i] for i in function.outputs], label, sources, bool(leaves), reason)


def _may_be_a_view(step: Step) -> bool:
    """Whether the result of a step may have the memory of its operand, as that of a bit cast has."""
    record = lookup(step.name)
    return len(step.operands) == 1 and (record is None or not record.is_function)
