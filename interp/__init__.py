"""Load StableHLO programs, run them exactly, compare backends with them, and convert numbers.

The names below are imported on first use, so that the command line starts quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..ops.accumulators.record import Accumulator
    from ..ops.policy import Policy

    __version__: str
    from .api import load
    from .blocks.convert import dequantize, quantize, straight_through
    from .blocks.packing import pack, unpack
    from .diff.compare import compare
    from .errors import CheckFailure, Error, ExecutionError, InputError, OutputError, ProgramError, ResourceError
    from .judgement.judge import judge
    from .loaded import LoadedProgram
    from .numerics.blame import blame
    from .numerics.plan import quantize_plan
    from .numerics.profile import profile
    from .numerics.profile_loop import profiling
    from .numerics.watch import watch
    from .policies import policy
    from .probing.probe import probe
    from .products import matmul
    from .transform.emulated import emulate
    from .transform.function import jit
    from .values.numbers import cast, scale

_HOME = {
    "Accumulator": "..ops.accumulators.record",
    "Policy": "..ops.policy",
    "load": ".api",
    "LoadedProgram": ".loaded",
    **dict.fromkeys(
        ("CheckFailure", "Error", "ExecutionError", "InputError", "OutputError", "ProgramError", "ResourceError"),
        ".errors",
    ),
    **dict.fromkeys(("cast", "scale"), ".values.numbers"),
    **dict.fromkeys(("pack", "unpack"), ".blocks.packing"),
    **dict.fromkeys(("dequantize", "quantize", "straight_through"), ".blocks.convert"),
    "blame": ".numerics.blame",
    "compare": ".diff.compare",
    "emulate": ".transform.emulated",
    "jit": ".transform.function",
    "judge": ".judgement.judge",
    "matmul": ".products",
    "policy": ".policies",
    "probe": ".probing.probe",
    "profile": ".numerics.profile",
    "profiling": ".numerics.profile_loop",
    "quantize_plan": ".numerics.plan",
    "watch": ".numerics.watch",
}

__all__ = [
    "Accumulator",
    "CheckFailure",
    "Error",
    "ExecutionError",
    "InputError",
    "LoadedProgram",
    "OutputError",
    "Policy",
    "ProgramError",
    "ResourceError",
    "blame",
    "cast",
    "compare",
    "dequantize",
    "emulate",
    "jit",
    "judge",
    "load",
    "matmul",
    "pack",
    "policy",
    "probe",
    "profile",
    "profiling",
    "quantize_plan",
    "quantize",
    "scale",
    "straight_through",
    "unpack",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("minihlo")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOME[name], __name__), name)
    except ImportError as error:  # JAX is not installed, so hasattr gives False
        raise AttributeError(str(error)) from error


def __dir__() -> list[str]:
    return sorted(__all__)
