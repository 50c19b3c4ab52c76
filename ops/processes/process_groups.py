"""How attributes split the grid of processes into groups and pairs: `replica_groups`, `source_target_pairs`, channels.

The four strategies have the specification's names. What the attributes say of a grid is known only when the op runs,
since a program does not say how many processes run it; it is worked out once for each shape of a grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..op import Call, OpError
from .exchange import ProcessId
from .parallel import Process

Rows = tuple[tuple[int, ...], ...]
Members = tuple[ProcessId, ...]


def channel_of(call: Call) -> int:
    """The number of the channel; 0 where there is none."""
    handle = call.attributes.get("channel_handle")
    return int(handle["handle"]) if isinstance(handle, Mapping) else 0


class Groups:
    """The groups of a collective op."""

    def __init__(self, call: Call, *, spans: bool = False, has_outsiders: bool = False) -> None:
        """`spans`: a channel makes groups span partitions and replicas, as in all_reduce; else only partitions.

        `has_outsiders`: a process may be in no group. Raises OpError for groups that are not disjoint.
        """
        self.channel = max(channel_of(call), 0)
        self.rows = _rows(call.attribute("replica_groups"))
        flattened = bool(call.attributes.get("use_global_device_ids", False))
        if flattened and not self.channel:
            raise OpError("use_global_device_ids without a channel (expected a channel_handle above 0)")
        if not self.channel:
            self.strategy = "cross_replica"
        elif not spans:
            self.strategy = "cross_partition"
        else:
            self.strategy = "flattened_ids" if flattened else "cross_replica_and_partition"
        ids = [i for row in self.rows for i in row]
        if len(set(ids)) < len(ids) or min(ids, default=0) < 0:
            raise OpError(f"expected distinct replica_groups of at least 0, got {_text(self.rows)}")
        self._has_outsiders = has_outsiders
        self._known: dict[tuple[int, int], dict[ProcessId, Members]] = {}

    def of(self, process: Process) -> Members | None:
        """The group a process is in, None where it is in none. Raises OpError where the groups do not fit the grid."""
        shape = process.grid.shape
        if shape not in self._known:
            groups = expand(self.strategy, self._rows_of(shape), *shape)
            self._known[shape] = {member: members for members in groups for member in members}
        return self._known[shape].get(process.id)

    def _rows_of(self, shape: tuple[int, int]) -> Rows:
        size, kind = _size(self.strategy, shape)
        if not self.rows:  # as XLA takes it
            return (tuple(range(size)),)
        ids = {i for row in self.rows for i in row}
        if max(ids, default=0) >= size or (len(ids) < size and not self._has_outsiders):
            name = "some" if self._has_outsiders else "each"
            said = f"replica_groups are {_text(self.rows)}, but the program runs as {_count(size, kind)}"
            raise OpError(f"{said} (expected {name} of 0 to {size - 1}, by {self.strategy})")
        return self.rows


class Pairs:
    """The pairs of processes that send values: of replicas, or of partitions where there is a channel."""

    def __init__(self, call: Call) -> None:
        """Raises OpError where a process would send or receive twice."""
        self.channel = max(channel_of(call), 0)
        pairs = np.asarray(call.attribute("source_target_pairs"))
        if pairs.size and (pairs.ndim != 2 or pairs.shape[1] != 2):
            raise OpError(f"source_target_pairs has shape {list(pairs.shape)} (expected [N, 2])")
        rows = [(int(s), int(t)) for s, t in pairs.reshape(-1, 2)]
        self._targets, self._sources = dict(rows), {t: s for s, t in rows}
        self._largest = max((i for row in rows for i in row), default=-1)
        if (
            len(self._targets) < len(rows)
            or len(self._sources) < len(rows)
            or min(itertools.chain(*rows), default=0) < 0
        ):
            raise OpError(
                f"expected source_target_pairs with distinct sources and targets from 0, got {_text(tuple(rows))}"
            )

    def of(self, process: Process) -> tuple[ProcessId | None, ProcessId | None]:
        """Where a process receives from and where it sends to. Raises OpError where the pairs do not fit the grid."""
        axis = int(self.channel > 0)
        size = process.grid.shape[axis]
        if self._largest >= size:
            runs = _count(size, ("replica", "partition")[axis])
            raise OpError(f"expected source_target_pairs within {runs}, got {self._largest}")
        replica, partition = process.id

        def at(i: int | None) -> ProcessId | None:
            return None if i is None else (replica, i) if axis else (i, partition)

        own = process.id[axis]
        return at(self._sources.get(own)), at(self._targets.get(own))


def expand(strategy: str, rows: Rows, replicas: int, partitions: int) -> list[Members]:
    """The groups of processes that rows of numbers stand for."""
    if strategy == "cross_replica":
        return [tuple((r, p) for r in row) for row in rows for p in range(partitions)]
    if strategy == "cross_partition":
        return [tuple((r, p) for p in row) for row in rows for r in range(replicas)]
    if strategy == "cross_replica_and_partition":
        return [tuple((r, p) for p in range(partitions) for r in row) for row in rows]
    return [tuple(divmod(i, partitions) for i in row) for row in rows]


def _size(strategy: str, shape: tuple[int, int]) -> tuple[int, str]:
    """The number of ids in all groups together, and the kind of things that they number."""
    if strategy == "cross_partition":
        return shape[1], "partition"
    return (math.prod(shape), "process") if strategy == "flattened_ids" else (shape[0], "replica")


def _rows(groups: Any) -> Rows:
    """The rows of the attribute, without the -1 that fills up short ones."""
    if isinstance(groups, Mapping):
        return _rows_of_axes(groups)
    array = np.asarray(groups)
    if array.dtype.kind not in "iu" or (array.ndim != 2 and array.size):
        raise OpError("expected replica_groups to be lists of numbers, or axes of a mesh")
    array = array.reshape(len(array), -1) if array.size else np.empty((0, 0), np.int64)
    used = np.flatnonzero((array != -1).any(0))
    rows = array[:, : used[-1] + 1 if len(used) else 0].tolist()  # without columns of nothing but -1 at the end
    return tuple(
        tuple(row[: row.index(-1)] if -1 in row and not any(i >= 0 for i in row[row.index(-1) :]) else row)
        for row in rows
    )


def _rows_of_axes(groups: Mapping[str, Any]) -> Rows:
    """The groups that differ only along the listed axes of a mesh, each in the order of the axes."""
    mesh = groups.get("mesh")
    if not isinstance(mesh, Mapping):
        raise OpError(f"expected replica_groups to name a mesh of the program, got {mesh!r}")
    # Each axis becomes the sub-axes that the references cut it into, the major one first.
    names: list[tuple[str, int]] = []  # name, and the product of the sizes of the sub-axes before
    sizes: list[int] = []
    for axis in mesh["axes"]:
        name, size = axis["name"], int(axis["size"])
        infos = [r.get("sub_axis_info") for r in groups["axes"] if r["name"] == name]
        ends = {int(i["pre_size"]) for i in infos if i} | {int(i["pre_size"]) * int(i["size"]) for i in infos if i}
        cuts = sorted({1, size} | ends)
        if any(after % before for before, after in itertools.pairwise(cuts)) or cuts[-1] != size:
            raise OpError(f"expected cuts of axis {name!r} of size {size} that divide each other, got {cuts}")
        for before, after in itertools.pairwise(cuts):
            names.append((name, before))
            sizes.append(after // before)
    listed: list[int] = []
    for reference in groups["axes"]:
        info = reference.get("sub_axis_info")
        first, last = (int(info["pre_size"]), int(info["pre_size"]) * int(info["size"])) if info else (1, None)
        rows = [
            i for i, (n, b) in enumerate(names) if n == reference["name"] and b >= first and (last is None or b < last)
        ]
        if not rows and all(a["name"] != reference["name"] for a in mesh["axes"]):
            raise OpError(f"expected an axis of the mesh in replica_groups, got {reference['name']!r}")
        listed += rows
    ids = mesh.get("device_ids")
    count = math.prod(sizes)
    devices = np.arange(count) if ids is None or not np.size(ids) else np.ravel(ids)
    if len(devices) != count or len(set(listed)) < len(listed):
        raise OpError(f"expected replica_groups of distinct axes of {len(devices)} devices, got axes of {count}")
    kept = [i for i in range(len(sizes)) if i not in listed]
    length = math.prod(sizes[i] for i in listed)
    return tuple(map(tuple, devices.reshape(sizes).transpose(kept + listed).reshape(-1, length).tolist()))


def _count(size: int, kind: str) -> str:
    return f"{size} {kind}" + ("" if size == 1 else "es" if kind.endswith("s") else "s")


def _text(rows: Rows | tuple[tuple[int, int], ...]) -> str:
    text = str([list(row) for row in rows])
    return text if len(text) <= 80 else text[:80] + " …"
