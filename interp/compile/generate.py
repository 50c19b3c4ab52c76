"""The Python function of a group: one call of a kernel for each step, on arrays that broadcast together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ops.kernel import Kernel
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
    whole_leaves: Sequence[bool] = (),
    reason: str = "",
) -> Compute:
    """The function that takes the leaves and gives a tuple of the outputs; `label` and `reason` are for listings.

    Where `whole_leaves` says which leaves have the group's shape, results are written over what nothing needs any more:
    on 10**6 elements quantize and layer norm take a fifth less for it.
    """
    writer = Writer({})
    names = [writer.fresh() for _ in function.leaves]
    whole = {name for name, is_whole in zip(names, whole_leaves, strict=False) if is_whole}
    owned: set[str] = set()  # what has the group's shape and is an array that a step has made
    parameters = list(names)
    names += [writer.name_of(constant.array) for constant in function.constants]
    for step, origin in zip(function.steps, origins, strict=True):
        kernel, operands = kernel_of(step, origin), [names[i] for i in step.operands]
        over = [name for name in operands if kernel.has_out and name in owned]
        name = writer.apply(kernel.call, origin.operation, operands, over)
        names.append(name)
        if isinstance(step, Step) and not whole.isdisjoint(operands):
            whole.add(name)
            if kernel.has_out:
                owned.add(name)
    return writer.function(parameters, [names[i] for i in function.outputs], label, sources, bool(whole_leaves), reason)
