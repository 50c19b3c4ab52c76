"""IREE: its compiler takes StableHLO, and its runtime runs the result on a CPU or GPU."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..system.child import describe_end
from .base import BackendError, Evaluate, Kind

#: The runtime's driver for each target of the compiler, and the options of the target.
_TARGETS: dict[str, tuple[str, list[str]]] = {
    "llvm-cpu": ("local-task", ["--iree-llvmcpu-target-cpu=host"]),
    "vmvx": ("local-task", []),
    "cuda": ("cuda", []),
    "rocm": ("hip", []),
    "vulkan-spirv": ("vulkan", []),
    "metal-spirv": ("metal", []),
}

_NAMES, _PACKAGES = "|".join(_TARGETS), ("iree-base-compiler", "iree-base-runtime")
KIND = Kind("iree:" + _NAMES, _NAMES, ("iree.compiler", "iree.runtime"), extra="iree", packages=_PACKAGES)


def start(target: str) -> Evaluate:
    """Return the function that compiles and runs a program on a target of IREE."""
    compiler: Any = importlib.import_module("iree.compiler")
    runtime: Any = importlib.import_module("iree.runtime")
    driver, options = _TARGETS[target]
    options = [*options, "--iree-input-demote-f64-to-f32=false"]  # the default
    config = runtime.Config(driver)

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            binary = compiler.compile_str(text, target_backends=[target], input_type="stablehlo", extra_args=options)
        except compiler.CompilerToolError as error:
            raise _backend_error(str(error)) from None
        module = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, binary), config)
        results = module["main"](*arrays)
        listed = results if isinstance(results, (tuple, list)) else [results]
        return [np.array(r.to_host() if hasattr(r, "to_host") else r) for r in listed]

    return evaluate


def _backend_error(text: str) -> BackendError:
    """Return an error for the compiler, a process of its own: it refused the program, or crashed."""
    code = re.search(r"Error code: (-?\d+)", text)
    diagnostics = text.partition("Diagnostics:")[2].partition("Invoked with:")[0]
    if code and int(code[1]) < 0:
        return BackendError("died", f"the compiler {describe_end(int(code[1]))}")
    errors = [line.partition("error: ")[2] for line in diagnostics.splitlines() if "error: " in line]
    # The compiler prints the whole operation after the reason.
    reason = re.sub("(explicitly marked illegal): .*", r"\1", (errors or [diagnostics])[0])
    return BackendError("refused", reason)
