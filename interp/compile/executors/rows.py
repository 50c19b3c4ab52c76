"""Groups in which one leaf of 8 bits alone varies along a row: a table for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.engine.amortised import Latest
from ....ops.engine.blocks import Pace, block, for_each
from ....ops.engine.compiled import kernels
from ....ops.engine.lookup import Table, all_of
from ....ops.engine.speed import tuning
from ....ops.traits import Run
from ..leaf import Leaf, Shape, alone
from .job import Job


def leading_rows(leaves: Sequence[Leaf], shape: Shape) -> tuple[int, int] | None:
    """The leaf of 8 bits that alone varies along a row, and how many dimensions number the rows.

    None where there is none, or a table for each row does not pay.
    """
    varying = alone(leaves, shape)
    if varying is None:
        return None
    at, others = varying
    leading = max((d + 1 for s in others for d, n in enumerate(s) if n != 1), default=0)
    return (at, leading) if math.prod(shape[leading:]) >= 256 * tuning().rows_pay else None


def by_rows(job: Job, _: Run | None) -> Run:
    """The kernel that makes a table of all codes of one leaf for each row, where the other leaves stay the same."""
    compute, leaves, shape, types = job.compute, job.group.leaves, job.group.shape, job.group.results
    varying = leading_rows(leaves, shape)
    assert varying is not None
    at, leading = varying
    views, is_single, size = [leaf.view(shape) for leaf in leaves], len(types) == 1, math.prod(shape)
    every = all_of(leaves[at].type.element, 8)
    rows, columns = math.prod(shape[:leading]), math.prod(shape[leading:])
    others = [[*leaf.spread(len(shape))[:leading], 1] for leaf in leaves]
    dtypes = [t.element.dtype for t in types]
    # So few rows at a time that the number of a row fits the upper byte of an index.
    some = min(size >> 2, tuning().rows_block) if size > block(size) else size
    step = min(max(some // columns, 1), 256)
    place = (np.arange(step, dtype=np.uint16) << 8)[:, None]

    pace, latest, nbytes = Pace(), Latest(), sum((1 << 17) * dtype.itemsize for dtype in dtypes)  # with those of pairs

    def tabulated(fixed: Sequence[np.ndarray]) -> list[Table]:
        return [Table(np.broadcast_to(r, (1, 256)).reshape(-1).copy()) for r in compute(*fixed)]

    def kernel(*values: np.ndarray) -> Any:
        laid = [v if lay is None else lay(v) for v, lay in zip(values, views, strict=True)]
        codes = laid[at].view(np.uint8).reshape(rows, columns)
        fixed = [
            every if i == at else np.broadcast_to(v.reshape(n), (*shape[:leading], 1)).reshape(rows, 1)
            for i, (v, n) in enumerate(zip(laid, others, strict=True))
        ]
        if rows == 1:
            operands = [v for i, v in enumerate(fixed) if i != at]
            results = [table.at(codes) for table in latest.at(operands, lambda: tabulated(fixed), nbytes)]
        else:
            results = [np.empty((rows, columns), dtype) for dtype in dtypes]
            bits = [r.view(f"u{r.itemsize}") for r in results]
            compiled = kernels(size)

            def work(first: int) -> None:
                here = slice(first, min(first + step, rows))
                entries = compute(*[v if i == at else v[here] for i, v in enumerate(fixed)])
                if compiled is not None:
                    for result, table in zip(bits, entries, strict=True):
                        tables = np.ascontiguousarray(np.broadcast_to(table, (here.stop - first, 256)))
                        compiled.look_up_lines(codes[here], tables.view(result.dtype), False, result[here])
                    return
                # Widened first: joining two types where one is repeated takes numpy twice as long.
                index = codes[here].astype(np.uint16)
                index |= place[: here.stop - first]
                for result, table in zip(bits, entries, strict=True):
                    table = np.broadcast_to(table, (here.stop - first, 256)).reshape(-1).view(result.dtype)
                    table.take(index, None, result[here], "wrap")

            for_each(range(0, rows, step), work, size, None if compiled is not None else pace)
        results = [r.reshape(shape) for r in results]
        return results[0] if is_single else tuple(results)

    return kernel
