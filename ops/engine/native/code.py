"""Code that LLVM makes of the text of a function, without numba: some ten milliseconds each, in this process only."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import threading
from collections.abc import Callable
from typing import Any


def NOTHING(*_: int) -> int:  # noqa: N802
    """Stands for a function that is not there."""
    raise NotImplementedError


class _Compiler:
    """One for all functions: with one for each, each would take 0.9 MB."""

    def __init__(self) -> None:
        self._llvm: Any = importlib.import_module("llvmlite.binding")
        self._llvm.initialize_native_target()
        self._llvm.initialize_native_asmprinter()
        self._machine = self._target_machine()
        self._engine: Any = self._llvm.create_mcjit_compiler(self._llvm.parse_assembly(""), self._target_machine())

    def _target_machine(self) -> Any:
        features = self._llvm.get_host_cpu_features().flatten()
        host = self._llvm.Target.from_default_triple()
        return host.create_target_machine(cpu=self._llvm.get_host_cpu_name(), features=features, opt=2, jit=True)

    def address(self, text: str, name: str) -> int:
        """Where the code of the function `run` is, which gets a name of its own."""
        module = self._llvm.parse_assembly(text.replace("@run(", f"@{name}(", 1))
        module.verify()
        options = self._llvm.create_pipeline_tuning_options(speed_level=1)
        builder = self._llvm.create_pass_builder(self._machine, options)
        builder.getModulePassManager().run(module, builder)
        self._engine.add_module(module)
        self._engine.finalize_object()
        address = self._engine.get_function_address(name)
        self._engine.remove_module(module)  # the code stays
        return address


_lock = threading.Lock()
_compiler: list[_Compiler] = []
#: Where the functions are, by what tells their texts, and those that Python calls.
_addresses: dict[str, int] = {}
_made: dict[str, Callable[..., int]] = {}


def address(text: str) -> int:
    """Where the function `run` of a text is.

    Raises RuntimeError where LLVM does not take the text, and ImportError where it is not there.
    """
    name = _name(text)
    with _lock:
        if name not in _addresses:
            if not _compiler:
                _compiler.append(_Compiler())
            _addresses[name] = _compiler[0].address(text, name)
        return _addresses[name]


def compiled(text: str, operands: int) -> Callable[..., int]:
    """The same as a function that takes so many addresses or whole numbers of 64 bits, and gives one."""
    name = _name(text)
    if name not in _made:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * operands)
        _made[name] = kind(address(text))
    return _made[name]


def has_halves() -> bool:
    """Whether the processor converts f16 to f32 and back: LLVM would call functions that are not there."""
    llvm = importlib.import_module("llvmlite.binding")
    is_arm = llvm.get_default_triple().startswith(("aarch64", "arm64"))
    return is_arm or bool(llvm.get_host_cpu_features().get("f16c"))


def _name(text: str) -> str:
    return f"minihlo_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
