"""The table of functions that make the cases of ops, and the ops without one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path

from minihlo.ops.op import Op, lookup, ops

from .chunk import Chunk
from .numbers import TESTED

#: Takes the op's record and a format and gives the format's functions.
Maker = Callable[[Op, str], Iterable[Chunk]]

FOLDER = Path(__file__).parents[2] / "mlir_tests"

#: The modules that declare makers.
_MODULES = (
    *("elementwise", "broadcasting", "choice", "conversion", "shape", "indexing", "sizes", "regions", "folds"),
    *("linear", "convolutions", "decomposed", "quantization", "processes", "checking"),
)

#: The dialects whose ops have files; the others are about shapes and sharding.
_DIALECTS = ("stablehlo.", "chlo.", "check.", "interpreter.")

#: Ops that take floats and have no file, and why.
NOT_TESTED = {
    "stablehlo.custom_call": "what it gives is its target's to say",
    "stablehlo.send": "its values are seen by another process only: in recv's file",
    "stablehlo.async_start": "its result is seen by async_done only: in that file",
    "stablehlo.partition_id": "takes and gives no numbers that are floats",
    "stablehlo.replica_id": "takes and gives no numbers that are floats",
    "stablehlo.create_token": "takes and gives no numbers: in the files of infeed, outfeed and recv",
    "stablehlo.tuple": "its result is seen by get_tuple_element only: in that file",
    "interpreter.run_parallel": "part of the interpreters' own dialect: in the files of the collective ops",
    "interpreter.probe": "part of the interpreters' own dialect: in the file of check.expect_serialized_eq",
}

_MAKERS: dict[str, Maker] = {}
#: Of ops that have no record, by name: what makes their files.
_EXTRA: dict[str, Callable[[str], Iterable[Chunk]]] = {}


def cases(*names: str) -> Callable[[Maker], Maker]:
    """The decorated function makes the cases of these ops. Raises ValueError for an op that is not or has a maker."""

    def declare(maker: Maker) -> Maker:
        for name in names:
            record = lookup(name)
            if record is None or record.name in _MAKERS:
                raise ValueError(f"{name} is no op, or has a maker already")
            _MAKERS[record.name] = maker
        return maker

    return declare


def extra_cases(name: str) -> Callable[[Callable[[str], Iterable[Chunk]]], Callable[[str], Iterable[Chunk]]]:
    """The decorated function makes, for a format, the cases of the planner's own ops."""

    def declare(maker: Callable[[str], Iterable[Chunk]]) -> Callable[[str], Iterable[Chunk]]:
        _EXTRA[name] = maker
        return maker

    return declare


def formats_of(op: Op) -> tuple[str, ...]:
    """The formats that an op is tested in: those it takes; for an op with floats in regions or results, all."""
    taken = tuple(f for f in TESTED if any(t.name == f for t in op.types))
    makes_floats = op.name in ("stablehlo.if", "stablehlo.case", "stablehlo.dynamic_iota")
    return TESTED if makes_floats else taken


def takes_floats() -> dict[str, Op]:
    """Every op that takes or makes a tested format."""
    return {name: op for name, op in sorted(ops().items()) if name.startswith(_DIALECTS) and formats_of(op)}


def stem(name: str) -> str:
    """`stablehlo.add` is `add`, `chlo.acos` is `chlo_acos`."""
    return name.removeprefix("stablehlo.").replace(".", "_").replace("-", "_")


def file_of(name: str) -> Path:
    """The file of an op."""
    return FOLDER / f"interpret_{stem(name)}.mlir"


def files() -> dict[Path, str]:
    """Every file that must exist, and the name of its op."""
    _load()
    return {file_of(name): name for name in (*takes_floats(), *_EXTRA) if name not in NOT_TESTED}


def chunks(name: str) -> list[Chunk]:
    """All functions of an op's file. Raises KeyError if no function makes its cases."""
    _load()
    if name in _EXTRA:
        return [c for element in TESTED for c in _EXTRA[name](element)]
    record = takes_floats()[name]
    if record.name not in _MAKERS:
        raise KeyError(f"nothing says how to make test cases of {name} (declare it with @cases in tools/mlir_tests)")
    return [c for element in formats_of(record) for c in _MAKERS[record.name](record, element)]


def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"{__package__}.{module}")
