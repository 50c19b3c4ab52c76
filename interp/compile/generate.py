"""Generates the Python function of a group: one call of a kernel for each step, on arrays that broadcast together.

Numbers of f16 and bf16 can be held as f32 between the steps. A step that rounds is made on f32 and rounded there;
others are where one of their operands is the result of such a step. So numpy, which computes with these types one
element at a time, is spared most conversions. What only chooses among its operands by their order, or changes signs,
gives the same before they are rounded as after: it leaves rounding to what comes next.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Mapping, Sequence

from ...ops.engine import half
from ...ops.op import lookup
from ...ops.require import identity
from ...ops.traits import Kernel, Run
from ...ops.types import ElementType
from ..program import Operation
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
    is_wide: bool = False,
    fills: bool = False,
) -> Compute:
    """The function that takes the leaves and gives a tuple of the outputs; `label` and `reason` are for listings.

    Where `leaves` says along which of the group's dimensions each leaf lies, results are written over what nothing
    needs any more: on 10**6 elements quantize and layer norm take a fifth less for it. `is_wide` says to hold f16 and
    bf16 as f32 where that pays, which it does for large arrays. With `fills` the function can be given an array
    for each output after the leaves; where the last step can put its result there, that array is the output.
    """
    kernels = [kernel_of(step, origin) for step, origin in zip(function.steps, origins, strict=True)]
    writer = _Writer(function, leaves)
    wide = _wide_steps(function, kernels) if is_wide else set()
    writer.prepare(wide, kernels)
    for i, (step, origin, kernel) in enumerate(zip(function.steps, origins, kernels, strict=True)):
        writer.step(function.first_step + i, step, origin.operation, kernel, i in wide)
    return writer.finish(label, sources, bool(leaves), reason, fills)


def _is_half(element: ElementType) -> bool:
    return element.is_float and element.bits == 16


def _wide_steps(function: Function, kernels: Sequence[Kernel]) -> set[int]:
    """The steps that are made on f32 in place of f16 and bf16."""
    steps: set[int] = set()
    results: set[int] = set()  # what they give
    for i, (step, kernel) in enumerate(zip(function.steps, kernels, strict=True)):
        if not isinstance(step, Step) or kernel.on_f32 is None:
            continue
        is_conversion = kernel.on_f32.call is None
        if is_conversion or (kernel.on_f32.rounds and len(step.operands) > 1) or not results.isdisjoint(step.operands):
            steps.add(i)
            if _is_half(step.element):
                results.add(function.first_step + i)
    # Where the result of a maximum, say, is needed as it is, that is quicker on codes; unless an operand is then not
    # rounded for it, and the others are f32 anyway.
    consumed: set[int] = set()
    uses = collections.Counter([v for step in function.steps for v in set(step.operands)] + list(function.outputs))
    held = results.union(range(len(function.leaves), function.first_step))
    held.update(v for i in steps if not _is_order_based(kernels[i]) for v in function.steps[i].operands)
    for i in sorted(steps, reverse=True):
        step, kernel = function.steps[i], kernels[i]
        assert isinstance(step, Step)
        assert kernel.on_f32 is not None
        is_other = kernel.on_f32.call is not None and not (kernel.on_f32.rounds and len(step.operands) > 1)
        is_other = is_other and _is_half(step.element) and not _spares_rounding(step, kernel, uses, results, held)
        if is_other and function.first_step + i not in consumed:
            steps.discard(i)
            results.discard(function.first_step + i)
        else:
            consumed.update(step.operands)
    # A comparison too whose operands are needed as f32 anyway.
    held = results.union(*[function.steps[i].operands for i in steps])
    for i, (step, kernel) in enumerate(zip(function.steps, kernels, strict=True)):
        is_other = isinstance(step, Step) and kernel.on_f32 is not None and not _is_half(step.element)
        if is_other and held.issuperset(step.operands):
            steps.add(i)
    return steps


def _spares_rounding(step: Step, kernel: Kernel, uses: Mapping[int, int], results: set[int], held: set[int]) -> bool:
    """Whether a maximum, say, on f32 is all that a result of f16 or bf16 is needed for, and the others are f32 anyway.

    A choice by a test keeps the bits of NaN, which conversions may not.
    """
    halves = [v for v, element in zip(step.operands, step.elements, strict=False) if _is_half(element)]
    is_right = _is_order_based(kernel) and kernel.traits.order_based and len(halves) > 1 and held.issuperset(halves)
    return is_right and any(v in results and uses[v] == 1 for v in halves)


def _is_order_based(kernel: Kernel) -> bool:
    """Whether a step of f16 and bf16 on f32 can be made before its operands are rounded: rounding keeps their order."""
    on_f32, traits = kernel.on_f32, kernel.traits
    return on_f32 is not None and not on_f32.rounds and (traits.order_based or traits.selects_operand)


class _Writer:
    """The lines of one function. A value has a name as it is, or one as f32, rounded or not, or several of these."""

    def __init__(self, function: Function, leaves: Sequence[frozenset[int]]) -> None:
        self._function, self._writer = function, Writer({})
        self._parameters = [self._writer.fresh() for _ in function.leaves]
        self._along = dict(zip(self._parameters, leaves, strict=False))  # the dimensions that values lie along
        self._whole = frozenset[int]().union(*leaves)
        self._owned: set[str] = set()  # what has the group's shape and is an array that a step has made
        self._fillable: set[str] = set()  # what has the group's shape and can be put into an array
        constants = [self._writer.name_of(c.array) for c in function.constants]
        self._names: dict[int, str] = dict(enumerate([*self._parameters, *constants]))
        self._wide: dict[int, str] = {}
        self._unrounded: dict[int, str] = {}  # of values that are not in `_wide`
        self._needed: set[int] = set()  # values that are needed as they are
        self._needed_wide: set[int] = set()  # as f32, and rounded
        steps = [s.element for s in function.steps]
        self._elements = [*function.leaves, *(c.element for c in function.constants), *steps]

    def prepare(self, wide: set[int], kernels: Sequence[Kernel]) -> None:
        """Record in which form each value is needed, where some steps are computed in f32."""
        self._needed.update(self._function.outputs)
        in_order: set[int] = set()
        for i, (step, kernel) in enumerate(zip(self._function.steps, kernels, strict=True)):
            for v in step.operands:
                if i not in wide or not _is_half(self._elements[v]):
                    self._needed.add(v)
                else:
                    (in_order if _is_order_based(kernel) else self._needed_wide).add(v)
        for i, constant in enumerate(self._function.constants):
            value = len(self._function.leaves) + i
            if value in self._needed_wide or value in in_order:
                self._wide[value] = self._writer.name_of(half.widen(constant.array))

    def step(self, value: int, step: Step | Lookup, operation: Operation, kernel: Kernel, is_wide: bool) -> None:
        """Write a step whose result is a value."""
        if not is_wide:
            operands = [self._names[v] for v in step.operands]
            if kernel.call is identity:
                self._names[value] = operands[0]
                return
            has_out, is_view = kernel.has_out, isinstance(step, Step) and _may_be_a_view(step)
            fills = has_out or kernel.fills
            self._names[value] = self._call(kernel.call, operation, operands, has_out, fills, is_view, fills)
            return
        assert kernel.on_f32 is not None
        operands = [self._held(v, operation) for v in step.operands]
        name, call = operands[0], kernel.on_f32.call
        if call is not None:
            name = self._call(call, operation, operands, kernel.on_f32.has_out, kernel.on_f32.has_out)
        element = self._elements[value]
        if not _is_half(element):
            self._names[value] = name
            return
        is_rounded = not kernel.on_f32.rounds and self._unrounded.keys().isdisjoint(step.operands)
        if not is_rounded and value in self._needed_wide:
            name, is_rounded = self._call(lambda x: half.rounded(x, element), operation, [name], is_new=True), True
        (self._wide if is_rounded else self._unrounded)[value] = name
        if value in self._needed:
            narrow = functools.partial(half.narrow, dtype=element.dtype)
            self._names[value] = self._call(narrow, operation, [name], is_new=True, fills=True)

    def finish(self, label: str, sources: Sources, writes_over: bool, reason: str, fills: bool) -> Compute:
        """The function."""
        outputs = [self._names[v] for v in self._function.outputs]
        arrays = [self._writer.fresh() for _ in outputs] if fills else []
        for name, array in dict(zip(outputs, arrays, strict=False)).items():
            if name in self._fillable:
                self._writer.put_into(name, array)
        parameters = [*self._parameters, *[f"{array}=None" for array in arrays]]
        return self._writer.function(parameters, outputs, label, sources, writes_over, reason)

    def _held(self, value: int, operation: Operation) -> str:
        """The name of a value, of f16 and bf16 as f32, rounded if it is."""
        if not _is_half(self._elements[value]):
            return self._names[value]
        if value in self._unrounded:
            return self._unrounded[value]
        if value not in self._wide:
            self._wide[value] = self._call(half.widen, operation, [self._names[value]], is_new=True)
        return self._wide[value]

    def _call(
        self,
        call: Run,
        operation: Operation,
        operands: Sequence[str],
        has_out: bool = False,
        is_new: bool = False,
        is_view: bool = False,
        fills: bool = False,
    ) -> str:
        """Write a call: of what may write over an operand, or gives an array of its own, or maybe a view."""
        over = [name for name in operands if has_out and name in self._owned]
        name = self._writer.apply(call, operation, operands, over)
        if is_view:
            self._owned.difference_update(operands)
        self._along[name] = frozenset[int]().union(*[self._along[v] for v in operands if v in self._along])
        if self._whole and self._along[name] == self._whole:
            if is_new:
                self._owned.add(name)
            if fills:
                self._fillable.add(name)
        return name


def _may_be_a_view(step: Step) -> bool:
    """Whether the result of a step may have the memory of its operand, as that of a bit cast has."""
    record = lookup(step.name)
    return len(step.operands) == 1 and (record is None or not record.is_function)
