"""Collective ops: what the processes of a group compute together.

A reduction takes the members in the order of the group, `accumulator = body(accumulator, operand)`, so its results are
the same however the processes are scheduled. Under stochastic rounding its bits are drawn from a stream of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..cast import cast
from ..op import BY_BODY, Body, Call, Run, kernel_of, op
from ..reductions.folds import Step, body_elements, fold_of
from ..require import require, unpack
from ..traits import Effects, OpTraits
from ..types import ElementType, TensorType
from .exchange import Contribution, Future, type_text
from .parallel import current
from .process_groups import Groups, Pairs

_EXCHANGE = OpTraits(effects=Effects.PROCESSES)
_FOLD = OpTraits(effects=Effects.PROCESSES, folds=True)

Values = tuple[Any, ...]
#: Gives the results of each member of a group. Takes the values of each, and their total in reductions.
Combine = Callable[[list[Values], Values], list[Values]]


@op("all_gather", has_effects=True, traits=_EXCHANGE)
def all_gather(call: Call) -> Run:
    """The operands of all processes of a group, joined along all_gather_dim in the order of the group.

    (C1) that is a dimension. (C2, C3, C4) the groups have each process once. (C5) use_global_device_ids needs a
    channel. (C6) only that dimension of the results is longer.
    """
    groups, dim = Groups(call, spans=True), int(call.attribute("all_gather_dim"))
    _check_pairs_of_types(call, but=(dim,))

    def combine(values: list[Values], _: Values) -> list[Values]:
        return [tuple(np.concatenate(parts, dim) for parts in zip(*values, strict=True))] * len(values)

    return _exchange(call, groups, combine, dim)


@op("all_reduce", values="regions", has_effects=True, traits=_FOLD)
def all_reduce(call: Call) -> Run:
    """The operands of all processes of a group, combined element by element by the body in the order of the group.

    (C1, C2, C3) the groups have each process once. (C4) use_global_device_ids needs a channel. (C5) the body takes and
    gives scalars; operands are converted to its type. (C6) results have the operands' shapes. (C7) and the body's type.
    """
    reduction = _Reduction(call, call.bodies)
    _check_pairs_of_types(call, element=reduction.element.name)
    return _exchange(call, Groups(call, spans=True), _same_for_all, reduction=reduction)


@op(
    "cross-replica-sum",
    "bool integer float complex",
    operands=1,
    accuracy=BY_BODY,
    has_effects=True,
    has_section=False,
    traits=_FOLD,
)
def cross_replica_sum(call: Call) -> Run:
    """The sum of the operands of all replicas of a group, in the order of the group."""
    scalar, wide = (TensorType(shape, call.tensor().element) for shape in ((), (None,)))
    step, steps = (kernel_of(call.like("stablehlo.add", (t, t), (t,))) for t in (scalar, wide))
    body = Body((scalar, scalar), (scalar,), "stablehlo.add", {}, lambda x, y: (steps(x, y),))
    reduction = _Reduction(call, (body,), lambda x, y: (step(x, y),))
    _check_pairs_of_types(call)
    return _exchange(call, Groups(call), _same_for_all, reduction=reduction)


def _same_for_all(values: list[Values], total: Values) -> list[Values]:
    return [total] * len(values)


@op("reduce_scatter", values="regions", operands=1, has_effects=True, traits=_FOLD)
def reduce_scatter(call: Call) -> Run:
    """As all_reduce; then each process of a group keeps its part of the result, cut along scatter_dimension.

    (C1) the group's size divides that dimension of the operand. (C2) it is one. (C3, C4, C5) the groups have each
    process once. (C6) use_global_device_ids needs a channel. (C7) the body takes and gives scalars; operands are
    converted to its type. (C8) only that dimension of the result is shorter. (C9) it has the body's type.
    """
    reduction, dim = _Reduction(call, call.bodies), int(call.attribute("scatter_dimension"))
    _check_pairs_of_types(call, but=(dim,), element=reduction.element.name)

    def combine(values: list[Values], total: Values) -> list[Values]:
        return [(part,) for part in _split(total[0], len(values), dim)]

    return _exchange(call, Groups(call, spans=True), combine, dim, reduction=reduction)


@op("all_to_all", has_effects=True, traits=_EXCHANGE)
def all_to_all(call: Call) -> Run:
    """Operands cut along split_dimension, the n-th part sent to the group's n-th process, and joined there.

    The parts that a process receives are joined along concat_dimension.

    (C1, C3) those are dimensions. (C2) split_count divides the first. (C4) it is positive. (C5, C6, C7) the groups have
    each process once. (C8) and split_count members. (C9) only those dimensions of the results differ.
    """
    groups = Groups(call)
    split, concat, count = (
        int(call.attribute(name)) for name in ("split_dimension", "concat_dimension", "split_count")
    )
    require(count >= 1, f"split_count is {count} (expected at least 1)")
    _check_pairs_of_types(call, but=(split, concat))

    def combine(values: list[Values], _: Values) -> list[Values]:
        fits = len(values) == count
        require(fits, f"split_count is {count} in a group of {len(values)} processes (expected {len(values)})")
        parts = [[_split(x, count, split) for x in mine] for mine in values]
        return [
            tuple(np.concatenate([theirs[i][to] for theirs in parts], concat) for i in range(len(call.results)))
            for to in range(count)
        ]

    return _exchange(call, groups, combine, (split, concat, count))


@op("collective_broadcast", has_effects=True, traits=_EXCHANGE)
def collective_broadcast(call: Call) -> Run:
    """The operands of the first process of each group, or the one that the last operand names; zeros outside groups.

    (C1, C2) the groups are disjoint. (C3, C4) results have the operands' types; roots are one i32 for each. (C5) there
    are as many results as operands, but for the roots. (C6) the roots are places in the group.
    """
    groups, roots_of = Groups(call, has_outsiders=True), _roots(call)

    def combine(values: list[Values], _: Values) -> list[Values]:
        return [tuple(values[root][i] for i, root in enumerate(roots_of(mine, len(values)))) for mine in values]

    return _exchange(call, groups, combine, zeros_outside=True)


@op("collective_reduce", values="regions", has_effects=True, traits=_FOLD)
def collective_reduce(call: Call) -> Run:
    """As all_reduce, for the first process of each group or the one that the last operand names; zeros for the others.

    (C1, C2) the groups are disjoint. (C3) results have the operands' shapes; roots are one i32 for each. (C4) the body
    takes and gives scalars; operands are converted to its type.
    """
    groups, roots_of = Groups(call, has_outsiders=True), _roots(call)
    reduction = _Reduction(call, call.bodies)

    def combine(values: list[Values], total: Values) -> list[Values]:
        zeros = _zeros(call, values[0])
        return [
            tuple(total[i] if root == at else zeros[i] for i, root in enumerate(roots_of(mine, len(values))))
            for at, mine in enumerate(values)
        ]

    return _exchange(call, groups, combine, zeros_outside=True, reduction=reduction)


@op("collective_permute", operands=1, has_effects=True, traits=_EXCHANGE)
def collective_permute(call: Call) -> Run:
    """The operand of the process that is paired with this one as its source; zeros where there is none.

    (C1) source_target_pairs lists pairs. (C2, C3) no source and no target is there twice. (C4) they are replicas, or
    partitions where there is a channel. (C5) the result has the operand's type.
    """
    pairs = Pairs(call)
    _check_pairs_of_types(call)
    what = call.name + (f" (channel {pairs.channel})" if pairs.channel else "")

    def kernel(x: Any) -> Any:
        process = current()
        source, target = pairs.of(process)
        if target is not None:
            process.send((call.name, pairs.channel, process.id, target), (x,))
        if source is None:
            return np.zeros(np.shape(x), x.dtype)
        pending = process.receive((call.name, pairs.channel, source, process.id), what, source, (x,))
        return Future(pending) if process.defers else pending.get()[0]

    return kernel


@op("replica_id", "ui32", operands=0, has_effects=True)
def replica_id(call: Call) -> Run:
    """The number of the process's replica."""
    return _place(call, 0)


@op("partition_id", "ui32", operands=0, has_effects=True)
def partition_id(call: Call) -> Run:
    """The number of the process's partition."""
    return _place(call, 1)


def _place(call: Call, axis: int) -> Run:
    require(str(call.result()) == "tensor<ui32>", f"the result is {call.result()} (expected tensor<ui32>)")
    return lambda: np.uint32(current().id[axis])


# -- what they have in common ------------------------------------------------------------------------------------------


class _Reduction:
    """A body that combines the operands of several processes. `step` is the body on scalars, if it is no region."""

    def __init__(self, call: Call, bodies: Sequence[Body], step: Step | None = None) -> None:
        require(len(bodies) == 1, f"has {len(bodies)} regions (expected 1, the computation)")
        self.element = body_elements(bodies[0], 1)[0]
        self._sources = [call.tensor(i).element for i in range(len(call.results))]
        self._fold, self._step, self._policy, self._random = fold_of(call, bodies[0]), step, call.policy, call.random

    def __call__(self, regions: Sequence[Step], key: tuple[int, ...], values: list[Values]) -> Values:
        step = self._step or regions[0]
        with self._random.aside(np.random.SeedSequence(self._policy.seed, spawn_key=key)):
            return tuple(
                self._fold_parts(step, [self._convert(v[i], source) for v in values])
                for i, source in enumerate(self._sources)
            )

    def _convert(self, x: Any, source: ElementType) -> np.ndarray:
        return np.asarray(x) if source == self.element else cast(np.asarray(x), source, self.element, self._policy)

    def _fold_parts(self, step: Step, parts: list[np.ndarray]) -> np.ndarray:
        first, *rest = parts
        if not rest or not first.size:
            return first
        rows = np.stack([x.reshape(-1) for x in rest])
        (total,) = self._fold(step, (first.reshape(-1),), (rows,))
        return np.asarray(total).reshape(first.shape)


def _exchange(
    call: Call,
    groups: Groups,
    combine: Combine,
    *alike: Any,
    zeros_outside: bool = False,
    reduction: _Reduction | None = None,
) -> Run:
    """The kernel of an op by which a group exchanges values. `alike`: what else has to be the same for all members."""
    has_regions, count = bool(call.bodies), len(call.results)
    same = (*map(str, alike), *(str(b.sole_op) for b in call.bodies), f"-> {', '.join(map(str, call.results))}")

    def kernel(*arguments: Any) -> Any:
        process = current()
        regions, values = (arguments[0], arguments[1:]) if has_regions else ((), arguments)

        def results_of(values: list[Values], key: tuple[int, ...]) -> list[Values]:
            results = combine(values, () if reduction is None else reduction(regions, key, values))
            _check_results(call, results[0], len(values))
            return results

        members = groups.of(process)
        if members is None and zeros_outside:
            results = _zeros(call, values)
        else:
            assert members is not None
            own = Contribution(call.name, (*map(type_text, values), *same), values, results_of)
            pending = process.rendezvous(groups.channel, members, own)
            results = tuple(Future(pending, i) for i in range(count)) if process.defers else pending.get()
        return unpack(results)

    return kernel


def _roots(call: Call) -> Callable[[Values, int], tuple[int, ...]]:
    """The place in the group, for each result, of the process it is of."""
    count = len(call.results)
    is_dynamic = bool(call.attributes.get("has_dynamic_root", False))
    require(
        count and len(call.operands) == count + is_dynamic,
        f"expected a result for each operand{' but the roots' * is_dynamic}, "
        f"got {len(call.operands)} operands and {count} results",
    )
    for i in range(count):
        same = call.tensor(i).shape == call.result(i).shape
        require(same, f"expected result {i} with the shape of operand {call.tensor(i)}, got {call.result(i)}")
    if not is_dynamic:
        return lambda _, __: (0,) * count
    given = str(call.tensor(count))
    require(given == f"tensor<{count}xi32>", f"expected roots of type tensor<{count}xi32>, got {given}")

    def roots(values: Values, size: int) -> tuple[int, ...]:
        numbers = tuple(values[count].tolist())
        fits = all(0 <= r < size for r in numbers)
        require(fits, f"expected roots from 0 to {size - 1}, as a group has {size} processes, got {list(numbers)}")
        return numbers

    return roots


def _zeros(call: Call, values: Sequence[Any]) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(np.shape(values[i]), call.result(i).element.dtype) for i in range(len(call.results)))


def _split(x: Any, count: int, dim: int) -> list[np.ndarray]:
    fits = x.shape[dim] % count == 0
    require(fits, f"expected a size that {count} parts divide in dimension {dim}, got {list(x.shape)}")
    return np.split(x, count, dim)


def _check_pairs_of_types(call: Call, but: tuple[int, ...] = (), element: str = "") -> None:
    """That results have the operands' types, but for some dimensions, which exist, and perhaps the element type."""
    require(
        call.operands and len(call.operands) == len(call.results),
        "expected at least one operand and a result for each, "
        f"got {len(call.operands)} operands and {len(call.results)} results",
    )
    for i in range(len(call.operands)):
        source, result = call.tensor(i), call.result(i)
        rank = len(source.shape)
        exist = all(0 <= d < rank for d in but)
        require(exist, f"expected dimensions from 0 to {rank - 1} of operand {source}, got {list(but)}")
        is_same = len(result.shape) == rank and all(
            s == r or d in but or None in (s, r)
            for d, (s, r) in enumerate(zip(source.shape, result.shape, strict=False))
        )
        is_same &= result.element.name == (element or source.element.name)
        require(is_same, f"expected result {i} with the type of operand {source}, got {result}")


def _check_results(call: Call, results: Sequence[np.ndarray], members: int) -> None:
    """That results have the types the program says."""
    for i, result in enumerate(results):
        fits, t = call.result(i).admits(np.shape(result)), call.result(i)
        require(fits, f"expected result {i} of shape {list(np.shape(result))} in a group of {members}, got {t}")
