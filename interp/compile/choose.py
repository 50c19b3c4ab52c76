"""Chooses how an operation runs, and says why."""

from __future__ import annotations

import math

from ...ops.engine.blocks import block
from ...ops.engine.compiled import is_available
from ...ops.engine.speed import Speed, tuning
from ...ops.op import lookup
from ...ops.types import QuantizedType, TensorType
from ..program import Operation
from .chains.program import RowProgram
from .decision import Decision, inputs
from .executors.columns import trailing_columns
from .executors.compiled import is_for_machine
from .executors.recurrence import chunks
from .executors.row_pairs import varying_leaf
from .executors.rows import leading_rows
from .group import (
    GROUP,
    LOOPS,
    NUMBER,
    PACK,
    RANK,
    RECURRENCE,
    ROWS,
    SCAN,
    SPREAD,
    TURNS,
    UNPACK,
    UNRANK,
    Function,
    Group,
    Reduction,
    Step,
)
from .passes.fusible import is_fusible


def choose(operation: Operation, speed: Speed) -> Decision:
    """How an operation of a region that has gone through the passes runs with some optimizations."""
    attributes = operation.attributes
    if operation.name == GROUP:
        group, reduction = attributes["group"], attributes["reduction"]
        return _group(group, speed) if reduction is None else _fold(group, reduction, speed)
    if operation.name == RANK:
        function, name = attributes["ranked"].function, attributes["ranked"].name
        return Decision("ranks", f"ranks of {function.cases} codes: {inputs(function)} reduced by {name}")
    if operation.name == UNRANK:
        return Decision("values of ranks", "values of ranks: a table of 256 entries")
    if operation.name == SPREAD:
        return Decision("view", "view: elements are repeated, not computed")
    if operation.name == SCAN:
        scan = attributes["scan"]
        return Decision("scan", f"transition table of 65,536 entries: {scan.limit:,} turns at most over {scan.source}")
    if operation.name == TURNS:
        return Decision("turns", f"{attributes['count']:,} turns side by side: no turn needs what another one computes")
    if operation.name == RECURRENCE:
        count, affine = attributes["count"], attributes.get("affine")
        plain = f"{count:,} turns over rows, one after the other"
        if "numbers" in attributes:
            plain += ", on single numbers"
        if affine is not None:
            how = f"{count:,} turns composed: they are affine over {affine.step.ring.value}"
            return Decision("composition", how, Decision("recurrence", plain))
        if "ahead" in attributes:
            plain = f"{count:,} turns together, where they read nothing new; else {plain}"
        elif len(operation.regions) > 1:
            number, length = chunks(count)
            plain = f"{number:,} chunks of {length:,} turns, where their states settle; else {plain}"
        if "vectors" in attributes:
            plain = f"code for all {count:,} turns on small vectors, once it pays; else {plain}"
        return Decision("recurrence", plain)
    if operation.name == LOOPS:
        sizes, last = attributes["widths"], attributes["last"]
        ends = f"the last {last:,} one after the other" if last > 1 else "the last one by itself"
        return Decision("loops", f"{sizes[0]:,} loops side by side until each has ended; {ends}")
    if operation.name == ROWS:
        return _rows(attributes["program"], speed)
    if operation.name == NUMBER:
        return Decision("numbers", "a single number")
    if operation.name in (UNPACK, PACK):
        return Decision("numbers", f"single numbers in the place of {attributes['type']}")
    return Decision("alone", why_alone(operation))


def _is_short_on_integers(function: Function) -> bool:
    """Whether compiled steps on pairs of integers take less time than a lookup."""
    steps = function.steps
    if len(function.leaves) != 2 or len(steps) > tuning().integer_steps:
        return False
    elements = [e for step in steps if isinstance(step, Step) for e in step.elements]
    return all(isinstance(step, Step) for step in steps) and all(e.is_integer for e in elements)


def _group(group: Group, speed: Speed) -> Decision:
    function, shape, size = group.function, group.shape, math.prod(group.shape)
    what = f"{inputs(function)}, {size:,} elements"
    step = block(size, len(function.steps))
    by = f"blocks of {step:,} elements" if size > step else "one block"
    if speed.tables and function.pays_as_table:
        table = Decision("table", f"table of {function.cases:,} entries: {what}", Decision("blocks", by))
        if not _is_compiled(group, None, speed) or not _is_short_on_integers(group.function):
            return table
        return Decision("compiled", f"compiled code, once it is loaded: {len(function.steps)} steps on integers", table)
    rows = leading_rows(group.leaves, shape) if speed.tables else None
    columns = trailing_columns(group.leaves, shape) if speed.tables else None
    if rows is not None:
        at, leading = rows
        count, code = math.prod(shape[:leading]), f"only one {function.leaves[at]} input varies along a row"
        if leading == 0:
            return Decision("rows", f"table of 256 entries, made anew where other inputs change: {what}")
        plain = Decision("rows", f"a table of 256 entries for each of {count:,} rows: {code}, {size:,} elements")
    elif columns is not None:
        at, leading = columns
        count, code = math.prod(shape[leading:]), f"only one {function.leaves[at]} input varies down a column"
        plain = Decision("columns", f"a table of 256 entries for each of {count:,} columns: {code}, {size:,} elements")
    else:
        plain = Decision("blocks", f"{by}: {what}")
    if not _is_compiled(group, None, speed):
        return plain
    compiled = Decision(
        "compiled", f"compiled code, once it is loaded, where it knows all {len(function.steps)} steps", plain
    )
    if columns is None or rows is not None:
        return compiled
    return Decision("repeated columns", f"{plain.reason}, once the other inputs stay the same", compiled)


def _fold(group: Group, reduction: Reduction, speed: Speed) -> Decision:
    function, size = group.function, math.prod(group.shape)
    is_table = speed.tables and function.pays_as_table
    what = f"{size:,} elements of {reduction.element} are never held together"
    of = f"table of {function.cases:,} entries: {inputs(function)}; " if is_table else ""
    plain = Decision("table fold" if is_table else "fold", f"{of}reduced by {reduction.name} block by block: {what}")
    if is_table and varying_leaf(group, reduction) is not None:
        plain = Decision(
            "row pairs", f"two rows in which one code stays the same are looked up at a time: {what}", plain
        )
    if not _is_compiled(group, reduction, speed):
        return plain
    name = "compiled table fold" if is_table else "compiled fold"
    return Decision(name, f"compiled code, once it is loaded, where it knows all {len(function.steps)} steps", plain)


def _rows(program: RowProgram, speed: Speed) -> Decision:
    rows, columns = math.prod(program.shape[: program.kept]), math.prod(program.shape[program.kept :])
    count, folds = len(program.steps), len(program.folds)
    what = f"{rows:,} rows of {columns:,} elements, {count} steps, {folds} of them reductions"
    plain = Decision("row steps", "one step after the other")
    if not (speed.compiled and is_available()):
        return plain
    return Decision("compiled rows", f"compiled code for a few rows at a time, once it is loaded: {what}", plain)


def _is_compiled(group: Group, reduction: Reduction | None, speed: Speed) -> bool:
    return speed.compiled and is_available() and is_for_machine(group, reduction)


def why_alone(operation: Operation) -> str:
    """Why an operation is part of no group."""
    record = lookup(operation.name)
    if record is None:
        return "alone: not declared"
    if not record.is_elementwise:
        return "alone: not elementwise"
    tensors = [v.type for v in (*operation.operands, *operation.results) if isinstance(v.type, TensorType)]
    if not all(t.is_static for t in tensors):
        return "alone: sizes are not known before it runs"
    if any(not t.shape for t in tensors[-1:]):
        return "alone: single numbers"
    if any(isinstance(t.element, QuantizedType) for t in tensors):
        return "alone: quantized elements"
    if any(t.element.is_complex for t in tensors):
        return "alone: complex elements"
    if any(t.size == 0 for t in tensors):
        return "alone: no elements"
    if not is_fusible(operation, record):
        return "alone: its elements are not computed one by one"
    return "alone: no operation beside it to fuse with"
