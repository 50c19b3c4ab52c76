"""Programs that JAX has compiled, and their execution."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops import parallel
from ...ops.policy import Policy
from ...ops.types import TensorType, TokenType, Type
from .. import machine, parser, planner, policies
from ..planner import Plan
from ..program import Function, Program
from . import abi, interrupts, partition, shutdown
from .buffers import CODES, Buffer, FailedBuffer, FailedError
from .client import NUM_DEVICES, Client
from .devices import MEMORY_KIND, Device
from .errors import FAILED_PRECONDITION, INVALID_ARGUMENT, UNIMPLEMENTED, ErrorObject, PluginError
from .options import CompileOptions, read_compile_options, write_assignment
from .runtime import Addresses, Text, failed, failure, fallible, getter, objects, pool, ready, too_deep, words

#: An executable keeps plans for so many policies.
_PLANS = 8
_DONATED = ("jax.buffer_donor", "tf.aliasing_output")

Values = Sequence[Any]


class Executable:
    """What a handle of an executable, loaded or not, stands for."""

    def __init__(self, client: Client, program: Program, options: CompileOptions, fingerprint: str) -> None:
        self.client: Client | None = client
        self.program, self.options = program, options
        self.function: Function = planner.find_function(program)
        self.policy = client.policy
        self._plans: dict[Policy, Plan] = {}
        self.last: tuple[Policy | None, Plan | None] = None, None
        self.plan(policies.chosen(self.policy))

        rows = options.devices or _default_devices(client, options)
        missing = [i for row in rows for i in row if i not in client.by_id]
        if missing:
            raise PluginError(
                INVALID_ARGUMENT,
                f"there is no device {missing[0]} (there are {len(client.devices)}; {NUM_DEVICES} says how many)",
            )
        self.devices = [client.by_id[i] for row in rows for i in row]

        self.donated = _donated(self.function)
        self.tokens = [i for i, t in enumerate(self.function.argument_types) if isinstance(t, TokenType)]
        self.partition = partition.Partition(self.function, program, options.partitions)
        self.is_single = len(self.devices) == 1
        #: Whether a result can be an argument, unchanged.
        self.may_alias = not set(self.function.argument_types).isdisjoint(self.function.result_types)
        types = [_tensor(t) for t in self.function.result_types]
        shapes = [tiling.shape for tiling in self.partition.results]
        codes = [CODES[t.element.dtype] if t else abi.TOKEN for t in types]
        self.result_kinds = list(zip(shapes, codes, strict=True))
        self.listed = {
            "name": Text(str(program.attributes.get("sym_name") or self.function.name)),
            "devices": Addresses([d.handle for d in self.devices]),
            "assignment": Text(options.assignment or write_assignment(rows)),
            "types": Addresses(codes, ctypes.c_int),
            "fingerprint": Text(fingerprint),
        }
        self.num_outputs = len(types)
        self.output_dims = Addresses([n for shape in shapes for n in shape])
        self.output_ranks = Addresses([len(shape) for shape in shapes])
        self.memory_kinds = Addresses([MEMORY_KIND.address] * len(types))
        self.memory_kind_sizes = Addresses([MEMORY_KIND.size] * len(types))
        self.optimized: bytes | None = None

    def plan(self, policy: Policy) -> Plan:
        """The plan under a policy."""
        known, plan = self.last
        if known is policy and plan is not None:
            return plan
        plan = self._plans.get(policy)
        if plan is None:
            plan = planner.plan(self.program, self.function.name, policy)
            while len(self._plans) >= _PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[policy] = plan
        self.last = policy, plan
        return plan

    def run(self, rows: list[list[int]]) -> list[Values]:
        """The results on each device, of the handles of its arguments."""
        if self.client is None:
            raise PluginError(FAILED_PRECONDITION, "the executable has been deleted")
        policy = policies.chosen(self.policy)
        known, plan = self.last
        if known is not policy or plan is None:
            plan = self.plan(policy)
        arguments = []
        for handles in rows:
            values: list[Any] = []
            for handle in handles:
                buffer = objects[handle]
                array = buffer.array
                if array is None:
                    raise PluginError(FAILED_PRECONDITION, "an argument has been deleted or donated")
                if buffer.error is not None:
                    raise FailedError(buffer.error)
                values.append(array)
            arguments.append(values)
        for i in self.tokens:
            for values in arguments:
                values[i] = None
        if self.is_single:
            results = _run(plan, arguments[0])
            if self.may_alias:
                # What is not donated is not to be shared: others may be let to write to it.
                given = set(map(id, arguments[0])).difference([id(arguments[0][i]) for i in self.donated])
                results = [r.copy() if id(r) in given and r is not None else r for r in results]
            return [results]
        if len(rows) != len(self.devices):
            raise PluginError(
                UNIMPLEMENTED, f"a program for {len(self.devices)} devices was started on {len(rows)} of them"
            )
        return self.partition.run(plan, self.options.replicas, arguments, _run)

    def failed_results(self, error: ErrorObject, device: Device) -> list[Buffer]:
        """Buffers on one device that tell of an error."""
        return [FailedBuffer(error, shape, code, device) for shape, code in self.result_kinds]


def _tensor(t: Type) -> TensorType | None:
    if isinstance(t, TokenType):
        return None
    if not isinstance(t, TensorType) or not t.is_static:
        raise PluginError(UNIMPLEMENTED, f"a program with a result of type {t} is not supported")
    return t


def _default_devices(client: Client, options: CompileOptions) -> tuple[tuple[int, ...], ...]:
    if options.replicas * options.partitions == 1:
        return ((client.devices[0].id,),)
    return tuple(tuple(range(r * options.partitions, (r + 1) * options.partitions)) for r in range(options.replicas))


def _donated(function: Function) -> tuple[int, ...]:
    attributes = function.attributes.get("arg_attrs") or ()
    return tuple(i for i, a in enumerate(attributes) if a and any(name in a for name in _DONATED))


@functools.lru_cache(256)
def _parsed(code: bytes) -> Program:
    return parser.parse(code, "<program>")


@fallible("Client_Compile")
def compile_(a: Any) -> None:
    """Read a program and bind its ops."""
    program = abi.Program.from_address(a.program)
    if ctypes.string_at(program.format, program.format_size) != b"mlir":
        raise PluginError(INVALID_ARGUMENT, "a program must be MLIR")
    options = read_compile_options(ctypes.string_at(a.compile_options, a.compile_options_size))
    code = ctypes.string_at(program.code, program.code_size)
    a.executable = pool.add(interrupts.interruptible(_compiled, objects[a.client], code, options))


def _compiled(client: Client, code: bytes, options: CompileOptions) -> Executable:
    return Executable(client, _parsed(code), options, hashlib.sha256(code).hexdigest())


# -- running ---------------------------------------------------------------------------------------------------------

#: Contexts in which numpy does not warn. Entering one takes a tenth of the time of `np.errstate`.
_quiet: list[contextvars.Context] = []


def _quiet_context() -> contextvars.Context:
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


def _run(plan: Plan, values: Values) -> Values:
    """The results of a plan. As `machine.run`, but they may be arrays that somebody else has too."""
    plan.random.restart(plan.policy.seed)
    before = parallel.enter(None)
    try:
        context = _quiet.pop()
    except IndexError:
        context = _quiet_context()
    try:
        return context.run(plan.entry, *values)
    except Exception as error:
        raise machine.as_ours(error, plan) from None
    finally:
        _quiet.append(context)
        parallel.enter(before)


def _buffer(value: Any, device: Device) -> int:
    """The handle of a result."""
    if value is None:
        return pool.add(Buffer(_TOKEN, device, abi.TOKEN))
    if type(value) is not np.ndarray:
        value = np.asarray(value)
    elif value.base is not None or not value.flags.c_contiguous:
        value = value.copy("C")
    return pool.add(Buffer(value, device), value.nbytes)


_TOKEN = np.zeros(0, bool)


@getter("LoadedExecutable_Execute")
def _execute(p: int) -> int | None:
    if shutdown.closing:
        shutdown.park()
    made: list[int] = []
    try:
        if not interrupts.installed:
            interrupts.install()
        at = p >> 3
        executable: Executable = objects[words[at + 2]]
        lists, num_devices, num_args = words[at + 4] >> 3, words[at + 5], words[at + 6]
        rows = []
        for i in range(lists, lists + num_devices):
            row = words[i] >> 3
            rows.append(words[row : row + num_args].tolist() if num_args else [])
        devices = executable.devices if not words[at + 9] else [objects[words[at + 9]]]
        failed_with: ErrorObject | None = None
        try:
            results = interrupts.interruptible(executable.run, rows)
            for i, device in enumerate(devices):
                for value in results[i]:
                    made.append(_buffer(value, device))
        except RecursionError:
            raise
        except BaseException as error:
            if not executable.num_outputs:
                raise
            # The framework makes a ValueError of what fails at once; of what fails later its own kind of error.
            failed_with = error.error if isinstance(error, FailedError) else failure(error)
            made = [pool.add(b) for device in devices for b in executable.failed_results(failed_with, device)]
        if executable.donated:
            _donate(executable, words[at + 3] >> 3, rows)
        outputs, events, number = words[at + 7] >> 3, words[at + 8] >> 3, 0
        for i in range(num_devices):
            row = words[outputs + i] >> 3
            for j in range(executable.num_outputs):
                words[row + j] = made[number]
                number += 1
            if events:
                words[events + i] = ready if failed_with is None else pool.add(failed_with)
    except BaseException as error:
        try:
            for handle in made:
                pool.discard(handle)
            return failed(error)
        except RecursionError:
            return too_deep
    if shutdown.closing:
        shutdown.park()
    return None


def _donate(executable: Executable, options: int, handles: list[list[int]]) -> None:
    at = options
    kept = set(words[words[at + 7] >> 3 : (words[at + 7] >> 3) + words[at + 8]].tolist()) if words[at + 8] else ()
    for i in executable.donated:
        if i not in kept:
            for row in handles:
                objects[row[i]].array = None
