"""The peers, each in a child process that may die: XLA's CPU compiler and StableHLO's C++ interpreter.

A child takes modules with arrays on standard input and answers on standard output, in frames of a length and a pickle.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import select
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from minihlo.ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType

from .program import Module, codes

PEERS = ("xla", "reference")
LENGTH = struct.Struct("<Q")
_SECONDS = 120.0
_FLAGS = "--xla_allow_excess_precision=false --xla_cpu_multi_thread_eigen=false"


@dataclasses.dataclass(frozen=True)
class Failure:
    """A peer gave no results: it `refused`, `died` or was `slow`."""

    how: str
    text: str


class Peer:
    """A peer that is started when it is first asked, and again after it has died."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def run(self, module: Module, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | Failure:
        """The results of a module."""
        if self.name == "reference":
            text = encoded(module)
            sent = [part for x, t in zip(arrays, module.arguments, strict=True) for part in _encode(x, t.element)]
        else:
            text, sent = module.named(), list(arrays)
        sent = [np.ascontiguousarray(x).reshape(x.shape) for x in sent]
        answer = self._ask(pickle.dumps((text, sent)))
        if isinstance(answer, Failure):
            return answer
        if self.name != "reference":
            return answer
        parts = iter(answer)
        return [_decode(parts, t) for t in module.results]

    def close(self) -> None:
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            self._child.wait()
            self._child = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the child
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
        environment["XLA_FLAGS"] = _FLAGS
        command = [sys.executable, "-m", f"{__package__}.peer_process", self.name]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment
        )

    def _ask(self, request: bytes) -> Any:
        if self._child is None:
            self._child = self._start()
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(LENGTH.pack(len(request)) + request)
            child.stdin.flush()
            if not select.select([child.stdout], [], [], _SECONDS)[0]:
                child.kill()
                child.wait()
                self._child = None
                return Failure("slow", f"no answer in {_SECONDS:g} s")
            return pickle.loads(frame(child.stdout))
        except (EOFError, BrokenPipeError):
            code = child.wait()
            self._child = None
            return Failure("died", f"signal {-code}: {self._last_words()}" if code < 0 else f"exit {code}")

    def _last_words(self) -> str:
        assert self._log is not None
        self._log.seek(0)
        lines = [x.strip() for x in self._log.read()[-20000:].decode(errors="replace").splitlines()]
        errors = [x for x in lines if any(w in x for w in ("rror", "ssertion", "Check failed", "UNREACHABLE", "LLVM"))]
        return " ".join((errors or lines or [""])[0].split())[:300]


def frame(stream: IO[bytes]) -> bytes:
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        raise EOFError
    return body


# -- what the C++ interpreter's attributes can carry -------------------------------------------------------------------
#
# Python reads and writes attributes of numpy's own types. Others go as bytes and are turned inside the module.


def _carriers(t: ElementType) -> list[str]:
    """The types in which a value of type `t` travels."""
    if t.is_complex:
        return [t.part.name] * 2
    if t.is_integer and t.bits < 8:
        return ["ui8" if t.kind is Kind.UNSIGNED else "i8"]
    if t.is_float and t.bits == 6:  # no integer has six bits; f32 holds all these numbers, and there is no NaN
        return ["f32"]
    if t.is_float and t.bits <= 16:
        return ["ui16" if t.bits == 16 else "ui8"]
    return [t.name]


def _encode(x: np.ndarray, t: ElementType) -> list[np.ndarray]:
    if t.is_complex:
        return [np.ascontiguousarray(p).reshape(x.shape) for p in (np.real(x), np.imag(x))]
    carrier = ELEMENT_TYPES[_carriers(t)[0]]
    is_bits = t.is_float and carrier.is_integer
    return [codes(x) if is_bits else x.astype(carrier.dtype)]


def _decode(parts: Any, t: TensorType) -> np.ndarray:
    e, x = t.element, np.asarray(next(parts)).reshape(t.shape)  # pyright: ignore[reportArgumentType, reportCallIssue]
    if e.is_complex:
        result = np.empty(x.shape, e.dtype)
        result.real, result.imag = x, np.asarray(next(parts)).reshape(x.shape)
        return result
    if e.is_float and ELEMENT_TYPES[_carriers(e)[0]].is_integer:
        return np.ascontiguousarray(x).view(e.dtype).reshape(x.shape)
    return x.astype(e.dtype)


def encoded(module: Module) -> str:
    """The module with an entry that takes and gives what attributes can carry."""
    lines, takes, arguments = [], [], []
    for i, t in enumerate(module.arguments):
        names = [f"%a{i}_{j}" for j in range(len(_carriers(t.element)))]
        carriers = [_with(t, c) for c in _carriers(t.element)]
        takes += [f"{n}: {c}" for n, c in zip(names, carriers, strict=True)]
        arguments.append(_turned(lines, names[0] if len(names) == 1 else ", ".join(names), carriers, t, f"%b{i}"))
    types = ", ".join(map(str, module.results))
    call = f"func.call @program({', '.join(arguments)}) : ({', '.join(map(str, module.arguments))}) -> ({types})"
    lines.append(f"%r:{len(module.results)} = {call}")
    returned, gives = [], []
    for i, t in enumerate(module.results):
        carriers = [_with(t, c) for c in _carriers(t.element)]
        gives += carriers
        if t.element.is_complex:
            for part in ("real", "imag"):
                lines.append(f"%{part}{i} = stablehlo.{part} %r#{i} : ({t}) -> {carriers[0]}")
                returned.append(f"%{part}{i}")
        else:
            returned.append(_back(lines, f"%r#{i}", t, carriers[0], f"%o{i}"))
    gives = ", ".join(gives)
    head = f"func.func @main({', '.join(takes)}) -> ({gives}) {{"
    tail = [f"return {', '.join(returned)} : {gives}", "}"]
    inner = module.named("program").replace("func.func @program", "func.func private @program")
    return "\n".join([head, *lines, *tail, inner])


def _with(t: TensorType, element: str) -> str:
    return str(TensorType(t.shape, ELEMENT_TYPES[element]))


def _turned(lines: list[str], names: str, carriers: list[str], t: TensorType, name: str) -> str:
    """From a carrier to the type itself."""
    if len(carriers) == 2:
        lines.append(f"{name} = stablehlo.complex {names} : {t}")
        return name
    if carriers[0] == str(t):
        return names
    if t.element.is_float and t.element.bits == 4:
        lines.append(f"{name}_4 = stablehlo.convert {names} : ({carriers[0]}) -> {_with(t, 'ui4')}")
        names, carriers = f"{name}_4", [_with(t, "ui4")]
    how = "bitcast_convert" if t.element.is_float and t.element.bits != 6 else "convert"
    lines.append(f"{name} = stablehlo.{how} {names} : ({carriers[0]}) -> {t}")
    return name


def _back(lines: list[str], value: str, t: TensorType, carrier: str, name: str) -> str:
    """From a type to its carrier."""
    if carrier == str(t):
        return value
    source = str(t)
    if t.element.is_float and t.element.bits == 4:
        lines.append(f"{name}_4 = stablehlo.bitcast_convert {value} : ({t}) -> {_with(t, 'ui4')}")
        value, source = f"{name}_4", _with(t, "ui4")
    how = "bitcast_convert" if t.element.is_float and t.element.bits not in (4, 6) else "convert"
    lines.append(f"{name} = stablehlo.{how} {value} : ({source}) -> {carrier}")
    return name
