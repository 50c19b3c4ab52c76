"""Counts the ops and formats that functions of .mlir files cover, by their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized

from ...ops.minifloat.formats import FORMATS
from ...ops.op import ops

_OP = re.compile(r"(?<![\w.#!@])(?:stablehlo|chlo|check|interpreter)\.[\w-]+")
#: Those of StableHLO, which has the types that have a dtype of their own.
_NARROW = [name for name, fmt in FORMATS.items() if fmt.bits <= 16 and fmt.dtype_name != "uint8"]
_FORMAT = re.compile("|".join(sorted(_NARROW, key=len, reverse=True)))
#: The op whose types depend on its target.
_BY_TARGET = "stablehlo.custom_call"
_DIALECTS = ("stablehlo.", "chlo.", "check.", "interpreter.")


def pairs_of(texts: Iterable[str]) -> set[tuple[str, str]]:
    """Return the pairs of an op and a format of at most 16 bits that occur in one function."""
    covered = {(op, f) for text in texts for op in set(_OP.findall(text)) for f in set(_FORMAT.findall(text))}
    return covered & all_pairs()


def all_pairs() -> set[tuple[str, str]]:
    """Return all pairs of an op that takes floats and a format of at most 16 bits that it takes."""
    names = [(name, op) for name, op in ops().items() if name.startswith(_DIALECTS) and name != _BY_TARGET]
    return {(name, t.name) for name, op in names for t in op.types if t.name in _NARROW}


def summary(functions: int, files: int, texts: Iterable[str]) -> str:
    """Return one line that describes the coverage of functions that pass."""
    covered, existing = pairs_of(texts), all_pairs()
    count = f"{_number({op for op, _ in covered}, 'op')} × {_number({f for _, f in covered}, 'format')}, "
    if covered == existing:
        count += f"all {len(existing):,} pairs of an op that takes floats and a format that it takes: complete"
    else:
        count += f"{len(covered):,} of {len(existing):,} pairs of an op that takes floats and a format that it takes"
    return f"{_number(range(functions), 'function')} in {_number(range(files), 'file')} pass: {count}"


def _number(items: Sized, noun: str) -> str:
    return f"{len(items):,} {noun}{'s' * (len(items) != 1)}"
