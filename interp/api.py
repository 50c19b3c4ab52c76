"""The Python interface: load a program, call it."""

from __future__ import annotations

import os
import stat
from typing import IO, Any

import numpy as np

from ..ops.policy import Policy
from ..ops.speed import Speed
from . import machine, parser
from .child_python import python
from .errors import InputError, ProgramError
from .isolate import death_in_child
from .planner import Listener, Plan, find_function, plan, speed_without
from .program import Program
from .values import check_input

#: How many plans a program keeps: one for each function and policy in use.
_PLANS = 16

#: A pipe or device that gives more has no end, most likely. Files may be larger.
MOST_STREAMED = 1 << 30
_PART = 1 << 20


class LoadedProgram:
    """A program that can be called, as `load` returns it. Several threads may call it at the same time."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.speed: Speed | None = None  #: optimizations; None: those that the environment leaves on
        self._plans: dict[tuple[str, Policy], Plan] = {}
        self._plain: Plan | None = None  # the one for nothing named

    def __call__(self, *arrays: Any, function: str | None = None, policy: Policy | None = None) -> list[np.ndarray]:
        """Run a function of the program.

        Args:
            *arrays: One array for each argument, of its shape and dtype. Minifloats have the dtypes of ml_dtypes. A
                token is None.
            function: The name of the function. The default is `@main`, or the only public function.
            policy: The choices that StableHLO leaves to an implementation. The default is `Policy()`.

        Returns:
            A list of new numpy arrays, one for each result. Minifloats have the dtypes of ml_dtypes.

        Raises:
            InputError: The arrays do not have the argument types, or there is no such function.
            ProgramError: The function uses what is not supported.
            CheckFailure: A check of the program does not hold.
            ResourceError: A value does not fit into memory.
            ExecutionError: An operation failed while it ran.
        """
        return self.run(self.plan(function, policy), arrays)

    def plan(self, function: str | None = None, policy: Policy | None = None, listener: Listener | None = None) -> Plan:
        """Return the plan of a function under a policy. It is kept for the next call unless there is a `listener`."""
        if function is None and policy is None and listener is None and self._plain is not None:
            return self._plain
        if policy is not None and not isinstance(policy, Policy):
            raise InputError(f"expected a minihlo.interp.Policy, got a {type(policy).__name__}")
        is_plain, policy = function is None and policy is None, policy or Policy()
        if listener is not None:
            return plan(self.program, function, policy, listener, self.speed)
        key = find_function(self.program, function).name, policy
        found = self._plans.get(key)
        if found is None:
            found = plan(self.program, key[0], policy, speed=self.speed)
            while len(self._plans) >= _PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = found
        if is_plain:
            self._plain = found
        return found

    def run(self, plan: Plan, arrays: tuple[Any, ...] | list[Any]) -> list[np.ndarray]:
        """Run a plan of this program on arrays; see `__call__`."""
        types = plan.argument_types
        if len(arrays) != len(types):
            takes = f"takes {len(types)} input{'s' * (len(types) != 1)} ({', '.join(map(str, types)) or 'none'})"
            raise InputError(f"{self.program.file}: @{plan.function.name} {takes}, not {len(arrays)}")
        values = [
            a if type(a) is np.ndarray and (a.dtype, a.shape) == fits else check_input(a, t, f"input {i}")
            for i, (a, t, fits) in enumerate(zip(arrays, types, plan.accepted, strict=True))
        ]
        return machine.run(plan, values)


def load(source: str | bytes | os.PathLike[str] | Any, *, without: str = "") -> LoadedProgram:
    """Read a program.

    Args:
        source: The program in one of these forms:

            - a path, as a string or path object;
            - MLIR text. A string is text if it has a line break, or if it looks like MLIR and no file has that name;
            - bytes of MLIR bytecode or of a StableHLO portable artifact;
            - an `ir.Module` of jaxlib;
            - a function that JAX has lowered (`jax.stages.Lowered`) or exported (`jax.export.Exported`, with symbolic
              sizes too).
        without: Optimizations to turn off, such as `"tables,blocks"`, beside those that the environment variable
            `MINIHLO_WITHOUT` lists. No result changes.

    Returns:
        A LoadedProgram. A lowered or exported function gives a JaxProgram, whose method `call` takes and returns the
        pytrees of the function.

    Raises:
        ProgramError: The program cannot be read. The message starts with the file, the line and the column.
        InputError: `source` is none of these forms, or `without` names an unknown optimization.

    jaxlib's reader of bytecode can abort on damaged input. A child process tries it first, which takes about 0.2 s.
    """
    speed = speed_without(without, "without") if without else None
    program = _load(source)
    program.speed = speed
    return program


def _load(source: str | bytes | os.PathLike[str] | Any) -> LoadedProgram:
    if isinstance(source, bytes | str | os.PathLike):
        data, file = (source, "<bytes>") if isinstance(source, bytes) else contents(source)
        if not data.strip():
            raise ProgramError(f"{file}: expected a program, got nothing but white space")
        return LoadedProgram(parser.parse(data, file)) if isinstance(data, str) else _load_bytes(data, file)
    if hasattr(source, "operation"):
        return LoadedProgram(parser.from_module(source, "<module>"))
    from .lowered import of_jax  # which is made of this module

    program = of_jax(source)
    if program is None:
        kinds = "a path, MLIR text, bytes, an ir.Module, jax.stages.Lowered or jax.export.Exported"
        raise InputError(f"cannot load a {type(source).__name__} ({kinds})")
    return program


def contents(source: str | os.PathLike[str]) -> tuple[str | bytes, str]:
    """The program that a string is, or that stands in the file of that name; and what to call it in errors."""
    text = os.fspath(source)
    if text == "":
        raise ProgramError("expected a program or a path, got an empty string")
    if isinstance(source, str) and ("\n" in text or "{" in text or "func" in text) and not os.path.exists(text):
        return text, "<string>"
    return read(text), text


def _load_bytes(data: bytes, file: str) -> LoadedProgram:
    if data.startswith(parser.BYTECODE):
        child = f"import sys; from {parser.__name__} import parse; parse(sys.stdin.buffer.read())"
        death = death_in_child(python("-c", child), data)
        if death:
            raise ProgramError(f"{file}: {death}")
    return LoadedProgram(parser.parse(data, file))


def read(path: str) -> bytes:
    """The bytes of a file. Raises ProgramError where it cannot be read, or is a device or a pipe without an end."""
    try:
        with open(path, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else read_stream(file, path)
    except (OSError, ValueError) as error:
        raise ProgramError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _part(file: IO[bytes], name: str) -> bytes:
    try:
        return file.read(_PART)
    except OSError as error:  # it is closed, or a directory
        raise ProgramError(f"{name}: {error.strerror or error}") from None


def read_stream(file: IO[bytes], name: str) -> bytes:
    """The bytes of a pipe or device, as far as a program may go. Raises ProgramError where they cannot be one."""
    parts: list[bytes] = []
    size = 0
    while part := _part(file, name):
        parts.append(part)
        size += len(part)
        if b"\0" in part and not parts[0].startswith(parser.BYTECODE):
            raise ProgramError(f"{name}: a zero byte in the text (a program is {parser.READABLE})")
        if size > MOST_STREAMED:
            raise ProgramError(f"{name}: expected at most {MOST_STREAMED} bytes from a pipe or device, got more")
    return b"".join(parts)
