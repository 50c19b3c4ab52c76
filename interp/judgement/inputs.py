"""Inputs for a program that has none: seeded, of several kinds, so that errors show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.cast import cast
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, TensorType
from ..diff.source import Source
from ..errors import InputError
from ..samples import RUNS, sample

#: The kinds of samples, in the order in which they are tried.
KINDS = (RUNS[0], "few numbers, which tie and cancel", RUNS[1])
_FEW = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)


def draw(source: Source, seed: int, count: int) -> list[tuple[str, list[np.ndarray]]]:
    """Return so many sets of arguments for a program, each with its name; one without a name if it takes none.

    Raises InputError for arguments that are no tensors of known sizes.
    """
    types = source.function.argument_types
    if not types:
        return [("no inputs", [])]
    static = [t for t in types if isinstance(t, TensorType) and t.is_static]
    if len(static) < len(types):
        other = next(t for t in types if not isinstance(t, TensorType) or not t.is_static)
        raise InputError(f"{source.file}: @{source.function.name}: expected an --input of type {other}, got none")
    return [_set(static, seed, i) for i in range(count)]


def _set(types: Sequence[TensorType], seed: int, index: int) -> tuple[str, list[np.ndarray]]:
    rng = np.random.Generator(np.random.Philox([seed, index]))
    kind = index % len(KINDS)
    if kind == 1:
        arrays = [_few(t, rng) for t in types]
    else:
        arrays = [sample(t, int(kind == 2 and t.element.is_float), rng) for t in types]
    return f"{KINDS[kind]} (--seed {seed}, sample {index})", arrays


def _few(t: TensorType, rng: np.random.Generator) -> np.ndarray:
    if not t.element.is_float:
        return sample(t, 0, rng)
    numbers: Any = rng.choice(_FEW, size=[n or 0 for n in t.shape])
    return np.asarray(cast(np.asarray(numbers), ELEMENT_TYPES["f64"], t.element, Policy()))
