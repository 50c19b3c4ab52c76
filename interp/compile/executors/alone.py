"""Operations that run by themselves: by their own kernel, as a view, by ranks, or as a scan."""

from __future__ import annotations

from ....ops.engine.blocks import empty
from ....ops.engine.speed import tuning
from ....ops.traits import Kernel, Run
from ....ops.types import TensorType
from ...program import Operation
from ..leaf import Leaf, Shape, laid
from .job import Job
from .scan import ScanRunner


def by_kernel(job: Job, _: Run | None) -> Run:
    """The kernel of an elementwise operation."""
    return filling(job.kernels.of_operation(job.operation), job.operation)


def filling(kernel: Kernel, operation: Operation) -> Run:
    """What calls a kernel; it puts a large result into an array that `empty` makes, if it can."""
    if not (kernel.has_out or kernel.fills) or len(operation.results) != 1:
        return kernel.call
    call, t = kernel.call, operation.results[0].type
    if not isinstance(t, TensorType) or not t.is_static or t.nbytes < tuning().aligned_bytes:
        return call
    shape, dtype = t.shape, t.element.dtype
    return lambda *values: call(*values, out=empty(shape, dtype))  # type: ignore[arg-type]


def as_view(job: Job, _: Run | None) -> Run:
    """The kernel that lays a tensor along the dimensions of another one."""
    (source,), (result,) = job.operation.operands, job.operation.results
    assert isinstance(source.type, TensorType)
    assert isinstance(result.type, TensorType)
    shape: Shape = result.type.shape  # type: ignore[assignment]
    return laid(Leaf(source.type, job.operation.attributes["axes"]), shape)


def by_ranks(job: Job, _: Run | None) -> Run:
    """The kernel that gives the rank that wins along some dimensions of a leaf."""
    attributes, leaf = job.operation.attributes, job.operation.operands[0].type
    assert isinstance(leaf, TensorType)
    shape: Shape = leaf.shape  # type: ignore[assignment]
    return job.kernels.ranked(attributes["ranked"]).rank(shape, attributes["dimensions"])


def of_ranks(job: Job, _: Run | None) -> Run:
    """The kernel that turns ranks into values."""
    return job.kernels.ranked(job.operation.attributes["ranked"]).value


def by_scan(job: Job, _: Run | None) -> Run:
    """The kernel that makes all turns of a scan at once, if that pays."""
    scan = job.operation.attributes["scan"]
    return ScanRunner(scan, job.kernels.evaluated(scan.step))
