"""reduce: a body applied along some dimensions of tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..cast import cast
from ..op import Call, Run, op
from ..require import require, require_dimensions, unpack
from ..traits import OpTraits, Shapes
from .folds import PAIRS_FROM, Step, body_elements, fold_of, long_fold_of


def _additions(operands: Shapes, results: Shapes, _: Mapping[str, Any]) -> float:
    """How often the body runs: once for each element but the first of each sum."""
    return max(math.prod(operands[0]) - math.prod(results[0]), 0)


@op("reduce", values="regions", traits=OpTraits(is_pure=True, folds=True, linear=range, body_runs=_additions))
def reduce(call: Call) -> Run:
    """The elements along dimensions combined by the body, from the init value, in row-major order.

    From `PAIRS_FROM` elements on, a body of several ops combines neighbours in pairs, and the pairs in pairs.

    (C1) the inputs have one shape. (C3) as many init values and results as inputs. (C4, C5) the dimensions are distinct
    and below the rank. (C6) the body takes and gives scalars; inputs are converted to their element types. (C7) the
    results have the dimensions that are left. (C8) and the body's element types.
    """
    body, dimensions, count = call.bodies[0], call.integers("dimensions"), len(call.operands) // 2
    fits = count and len(call.operands) == 2 * count and len(call.results) == count
    require(fits, f"expected 2N operands and N results, got {len(call.operands)} and {len(call.results)}")
    inputs = [call.tensor(i) for i in range(count)]
    rank = len(inputs[0].shape)
    same = f"expected inputs of one shape, got {', '.join(map(str, inputs))}"
    require(all(len(t.shape) == rank for t in inputs), same)
    require_dimensions("dimensions", dimensions, rank)
    elements = body_elements(body, count)
    sources = [call.tensor(i).element for i in range(2 * count)]
    order = [*sorted(dimensions), *(d for d in range(rank) if d not in dimensions)]
    short, long, folded = fold_of(call, body), long_fold_of(call, body), len(dimensions)

    def kernel(regions: tuple[Step, ...], *values: np.ndarray) -> Any:
        operands = zip(values, sources, elements * 2, strict=True)
        arrays = [np.asarray(cast(x, s, e, call.policy)) for x, s, e in operands]
        shape = [arrays[0].shape[d] for d in order]
        steps, kept = math.prod(shape[:folded]), shape[folded:]
        width = math.prod(kept)
        rows = [x.transpose(order).reshape(steps, width) for x in arrays[:count]]
        starts = [np.full(width, init, init.dtype) for init in arrays[count:]]
        fold = short if steps < PAIRS_FROM else long
        results = fold(regions[0], starts, rows) if steps and width else starts
        return unpack(tuple([np.asarray(r).reshape(kept) for r in results]))

    return kernel
