"""Inputs for a program that has none: seeded, of several kinds, so that errors show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...ops.cast import array_of, cast
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType, TensorType
from ..diff.source import Source
from ..enclose.values import to_f64
from ..errors import InputError
from ..program import Region
from ..samples import RUNS, sample

#: The kinds of samples, in the order in which they are tried.
KINDS = (RUNS[0], "few numbers, which tie and cancel", "numbers at and beside the midpoints of narrower types", RUNS[1])
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
        is_tensor = isinstance(other, TensorType)
        wanted = f"an --input of type {other}, got none" if is_tensor else f"arguments that are tensors, got {other}"
        raise InputError(f"{source.file}: @{source.function.name}: expected {wanted}")
    floats = sorted(_floats(f.body for f in source.program.functions.values()), key=lambda e: e.name)
    return [_set(static, floats, seed, i) for i in range(count)]


def _floats(regions: Iterable[Region | None]) -> set[ElementType]:
    """Return the float types of the values of regions."""
    found = set()
    for operation in [o for r in regions if r is not None for o in r.operations]:
        types = [v.type for v in operation.results if isinstance(v.type, TensorType)]
        found |= {t.element for t in types if t.element.is_float} | _floats(operation.regions)
    return found


def _set(
    types: Sequence[TensorType], floats: Sequence[ElementType], seed: int, index: int
) -> tuple[str, list[np.ndarray]]:
    rng = np.random.Generator(np.random.Philox([seed, index]))
    kind = index % len(KINDS)
    draws: tuple[Callable[[TensorType], np.ndarray], ...] = (
        lambda t: sample(t, 0, rng), lambda t: _few(t, rng), lambda t: _beside_midpoints(t, floats, rng),
        lambda t: sample(t, 1, rng),
    )  # fmt: skip
    arrays = [draws[kind](t) if t.element.is_float else sample(t, 0, rng) for t in types]
    return f"{KINDS[kind]} (--seed {seed}, sample {index})", arrays


def _few(t: TensorType, rng: np.random.Generator) -> np.ndarray:
    return _cast(rng.choice(_FEW, size=[n or 0 for n in t.shape]), t.element)


def _beside_midpoints(t: TensorType, floats: Sequence[ElementType], rng: np.random.Generator) -> np.ndarray:
    """Return midpoints of neighbours of the narrower types of a program, or the numbers next to them.

    A conversion that rounds twice, or not to even, shows there.
    """
    narrower = [e for e in floats if e.format.precision < t.element.format.precision]
    found = sample(t, 0, rng)
    for i in range(len(narrower)):
        fmt = narrower[i].format
        codes = rng.integers(0, fmt.max_code, size=found.shape)
        ends = [to_f64(array_of((codes + k).astype(fmt.code_dtype), fmt), narrower[i]) for k in (0, 1)]
        sign = rng.choice([-1.0, 1.0], size=found.shape) if fmt.is_signed else 1.0
        middle = _cast(np.asarray((ends[0] / 2 + ends[1] / 2) * sign), t.element)
        beside = [np.nextafter(middle, np.asarray(end, middle.dtype)) for end in (-np.inf, np.inf)]
        place = rng.integers(0, 3, size=found.shape)
        near = np.where(place == 0, middle, np.where(place == 1, *beside))
        found = np.where(rng.integers(0, i + 1, size=found.shape) == 0, near, found)
    return found


def _cast(numbers: Any, element: ElementType) -> np.ndarray:
    return np.asarray(cast(np.asarray(numbers), ELEMENT_TYPES["f64"], element, Policy()))
