"""Programs that JAX has compiled."""

from __future__ import annotations

import collections
import ctypes
import functools
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.policy import Policy
from ...ops.processes import parallel
from ...ops.types import TensorType, TokenType, Type
from .. import machine as planner
from .. import policies
from ..code import detach
from ..machine import Plan
from ..parse import parser
from ..program import Function, Program
from . import cost, layouts, quick, xla_options
from .buffers import CODES
from .client import NUM_DEVICES, Client
from .devices import MEMORY_KINDS
from .options import CompileOptions, read_compile_options, write_assignment
from .pjrt import abi
from .pjrt.errors import INVALID_ARGUMENT, UNIMPLEMENTED, PluginError
from .pjrt.handles import FACTS
from .pjrt.interruptible import interruptible
from .pjrt.runtime import Addresses, NamedValues, Text, fallible, objects, pool, words
from .running import run
from .sharding import partition

#: An executable keeps plans for so many policies: a limit of memory.
_PLANS = 8
#: Up to so many values are compared with each other; of more a set is made. Both take about as long at this number.
_FEW = 8
_DONOR, _ALIAS = "jax.buffer_donor", "tf.aliasing_output"

Values = Sequence[Any]


class Executable:
    """What a handle of an executable, loaded or not, stands for."""

    def __init__(self, client: Client, code: bytes, options: CompileOptions) -> None:
        self.client: Client | None = client
        self.program = program = _parsed(code)
        self.code, self.options = code, options
        self.function: Function = planner.find_function(program)
        self.name = str(program.attributes.get("sym_name") or self.function.name)
        self.policy = client.policy
        self._plans: dict[Policy, Plan] = {}
        self.last: tuple[Policy | None, Plan | None] = None, None
        self.partition = partition.Partition(self.function, program, options.partitions)
        self.plan(policies.chosen(self.policy))

        rows = options.devices or _default_devices(client, options)
        missing = [i for row in rows for i in row if i not in client.by_id]
        if missing:
            raise PluginError(
                INVALID_ARGUMENT,
                f"there is no device {missing[0]} (there are {len(client.devices)}; {NUM_DEVICES} says how many)",
            )
        self.devices = [client.by_id[i] for row in rows for i in row]

        self.tokens = [i for i, t in enumerate(self.function.argument_types) if isinstance(t, TokenType)]
        self.is_single = len(self.devices) == 1
        #: Whether a result can be an argument, unchanged.
        self.may_alias = not set(self.function.argument_types).isdisjoint(self.function.result_types)
        types = [_tensor(t) for t in self.function.result_types]
        shapes = [tiling.shape for tiling in self.partition.results]
        codes = [CODES[t.element.dtype] if t else abi.TOKEN for t in types]
        self.donated = _donated(self.function, [t.shape for t in self.partition.arguments], types, shapes)
        #: Of each result on a device: the number of its type, and its shape.
        self.results = list(zip(codes, shapes, strict=True))
        #: The bytes of the results, on all devices.
        self.result_bytes = sum(t.nbytes for t in types if t) * self.options.replicas
        #: The bytes of the largest value on the way to them.
        self.largest = cost.largest(program, self.function) * self.options.replicas
        #: Whether it has to run where it is called, since it does more than compute results.
        self.stays = not types or bool(self.tokens) or cost.calls_python(program, self.function)
        #: The seconds it is likely to take.
        self.seconds = cost.estimate(program, self.function)
        #: Whether it is so quick that its caller may wait.
        self.long_seconds = cost.LONG
        self.is_quick = self.seconds < self.long_seconds
        #: Runs it the shortest way, once it is known that it can.
        self.quick: quick.Runner | None = None
        self.listed = {
            "devices": Addresses([d.handle for d in self.devices]),
            "assignment": Text(options.assignment or write_assignment(rows)),
            "types": Addresses(codes, ctypes.c_int),
            "fingerprint": Text(hashlib.sha256(code).hexdigest()),
        }
        self.num_outputs = len(types)
        self.output_dims = Addresses([n for shape in shapes for n in shape])
        self.output_ranks = Addresses([len(shape) for shape in shapes])
        self.places = layouts.places(self.function)[1]
        kinds = [list(MEMORY_KINDS.values())[place.memory] for place in self.places]
        self.memory_kinds = Addresses([kind.address for kind in kinds])
        self.memory_kind_sizes = Addresses([kind.size for kind in kinds])
        #: What is made of it when it is asked for.
        self.optimized: bytes | None = None
        self.serialized: Text | None = None
        self.costs: NamedValues | None = None
        self.is_small = quick.is_small(self)
        self._name = Text(self.name)
        self._facts = Addresses(
            [options.replicas, options.partitions, self.num_outputs, self._name.address, self._name.size]
        )

    @property
    def facts(self) -> int:
        """The address of what is often asked."""
        return self._facts.address

    def plan(self, policy: Policy) -> Plan:
        """The plan under a policy."""
        known, plan = self.last
        if known is policy and plan is not None:
            return plan
        plan = self._plans.get(policy)
        if plan is None:
            plan = planner.plan(self.partition.program, self.partition.function.name, policy)
            while len(self._plans) >= _PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[policy] = plan
        self.last = policy, plan
        return plan

    def compute(self, plan: Plan, arguments: Sequence[Values], process: parallel.Process | None = None) -> list[Values]:
        """The results on each device, of its arguments: arrays that are no part of others; None for tokens."""
        if not self.is_single:
            rows = self.partition.run(plan, self.options.replicas, arguments, process)
            return [[v if v is None or _is_whole(v) else np.array(v, order="C") for v in row] for row in rows]
        results = run(plan, arguments[0], process)
        for result in results:
            if type(result) is not np.ndarray or result.base is not None or not result.flags.c_contiguous:
                break
        else:
            return [_unshared(results, arguments[0], self.donated) if self.may_alias else results]
        del result
        return [[r if r is None or r.flags.c_contiguous else r.copy("C") for r in detach(list(results))]]

    def describe_results(self) -> str:
        """What takes memory when it runs."""
        return f"the result of {self.name}"

    def took(self, seconds: float) -> None:
        """Learn how long a run took."""
        if seconds > self.long_seconds:
            self.is_quick = False
        elif seconds < self.long_seconds / 2 and math.isfinite(self.seconds):  # it takes about as long each time
            self.is_quick = True


def _is_whole(array: Any) -> bool:
    """Whether this is an array that is no part of another, its elements in order."""
    return type(array) is np.ndarray and array.base is None and array.flags.c_contiguous


def _unshared(results: Values, arguments: Values, donated: Sequence[int]) -> Values:
    """The results, with copies of those that are arguments: others may be let to write to either.

    What is donated may stay.
    """
    if len(arguments) < _FEW and len(results) == 1 and not donated:
        (result,) = results
        for argument in arguments:
            if argument is result and result is not None:
                return (result.copy(),)
        return results
    shared = set(map(id, arguments)).difference([id(arguments[i]) for i in donated])
    return [r.copy() if id(r) in shared and r is not None else r for r in results]


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


def _donated(
    function: Function,
    takes: Sequence[tuple[int, ...]],
    results: Sequence[TensorType | None],
    gives: Sequence[tuple[int, ...]],
) -> tuple[int, ...]:
    """The arguments that are gone after a run, by the shapes of arguments and results on a device.

    What is offered without a result to take its place is donated where it has as many bytes as one, as in XLA.
    """
    attributes = function.attributes.get("arg_attrs") or ()
    replaced = {i for i, a in enumerate(attributes) if a and _ALIAS in a}
    taken = {int(attributes[i][_ALIAS]) for i in replaced}
    free = collections.Counter(
        _bytes(t, shape) for i, (t, shape) in enumerate(zip(results, gives, strict=True)) if t and i not in taken
    )
    result = set(replaced)
    for i, a in enumerate(attributes):
        t = function.argument_types[i]
        if a and _DONOR in a and i not in replaced and isinstance(t, TensorType):
            size = _bytes(t, takes[i])
            if free[size]:
                free[size] -= 1
                result.add(i)
    return tuple(sorted(result))


def _bytes(t: TensorType, shape: tuple[int, ...]) -> int:
    return TensorType(shape, t.element).nbytes


@functools.lru_cache(256)
def _parsed(code: bytes) -> Program:
    return parser.parse(code, "<program>")


@fallible("Client_Compile")
def compile_(a: Any) -> None:
    """Read a program and bind its ops."""
    program = abi.Program.from_address(a.program)
    if ctypes.string_at(program.format, program.format_size) != b"mlir":
        raise PluginError(INVALID_ARGUMENT, "a program must be MLIR")
    options = ctypes.string_at(a.compile_options, a.compile_options_size)
    code = ctypes.string_at(program.code, program.code_size)
    a.executable = handle(compiled(objects[a.client], code, options))


def handle(executable: Executable) -> int:
    """A new handle of an executable."""
    address = pool.add(executable)
    words[(address >> 3) + FACTS] = executable.facts
    return address


def compiled(client: Client, code: bytes, options: bytes) -> Executable:
    """The executable of a program, with serialized options. Raises PluginError, ValueError and what planning does."""
    read = read_compile_options(options)
    xla_options.check(dict(read.overrides))
    return interruptible(_compiled, client, code, read)


def _compiled(client: Client, code: bytes, options: CompileOptions) -> Executable:
    return Executable(client, code, options)
