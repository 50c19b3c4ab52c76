"""Programs that JAX has compiled."""

from __future__ import annotations

import collections
import contextvars
import ctypes
import functools
import hashlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.policy import Policy
from ...ops.processes import parallel
from ...ops.types import TensorType, TokenType, Type
from .. import machine, planner, policies
from ..parse import parser
from ..planner import Plan
from ..program import Function, Program
from . import layouts, xla_options
from .analysis import Analysis
from .buffers import CODES, TOKEN_ARRAY, spec_of
from .client import NUM_DEVICES, Client
from .options import CompileOptions, read_compile_options, write_assignment
from .pjrt import abi
from .pjrt.errors import INTERNAL, INVALID_ARGUMENT, UNIMPLEMENTED, PluginError
from .pjrt.handles import destroyer
from .pjrt.interruptible import interruptible
from .pjrt.runtime import NamedValues, Sized, fallible, objects, pool
from .sharding import partition

#: The number of policies for which an executable keeps plans: a limit of memory.
_PLANS = 8
#: A program that takes more seconds runs beside its caller. Python switches threads every five milliseconds, so a
#: shorter one would not let its caller run anyway.
_SHORT = 5e-3
#: The seconds to expect, before a program has run, for each evaluation of an op, and for each operation and each byte.
#: tuning: a loop of 5,000 iterations of four scalar operations takes 31 ms, an addition of 10**6 f32 0.5 ms.
_EVALUATION, _OPERATION = 2e-6, 1e-9
_clock = time.perf_counter
_DONOR, _ALIAS = "jax.buffer_donor", "tf.aliasing_output"
#: Contexts in which numpy does not warn and that no thread is in.
_contexts: list[contextvars.Context] = []


def _make_context() -> contextvars.Context:
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


class Executable:
    """The object of an executable's handle, loaded or not.

    Attributes:
        client: The client; None when the executable has been deleted.
        specs: The properties of the results of all devices.
        num_outputs: The number of results of a device.
        donated: The arguments that are gone after a run.
        tokens: The arguments that are tokens.
        has_known_length: Whether the number of iterations of each loop is known.
        runs_here: Whether it runs in the thread of its caller, since it does more than compute results.
        is_short: Whether it takes so little time that its caller waits for it.
    """

    def __init__(self, client: Client, code: bytes, options: CompileOptions) -> None:
        self.client: Client | None = client
        self.program = program = _parsed(code)
        self.code, self.options = code, options
        self.function: Function = planner.find_function(program)
        self.name = str(program.attributes.get("sym_name") or self.function.name)
        self.policy = client.policy
        self._plans: dict[Policy, Plan] = {}
        self.partition = partition.Partition(self.function, program, options.partitions)
        self.current_plan()

        each = options.partitions
        rows = options.devices or tuple(tuple(range(r * each, (r + 1) * each)) for r in range(options.replicas))
        missing = [i for row in rows for i in row if i not in client.by_id]
        if missing:
            raise PluginError(
                INVALID_ARGUMENT,
                f"there is no device {missing[0]} (there are {len(client.devices)}; {NUM_DEVICES} says how many)",
            )
        self.devices = [client.by_id[i] for row in rows for i in row]

        types = [_tensor(t) for t in self.function.result_types]
        shapes = [tiling.shape for tiling in self.partition.results]
        codes = [CODES[t.element.dtype] if t else abi.TOKEN for t in types]
        places = layouts.places(self.function)[1]
        self.specs = [
            spec_of(device.memories[place.memory], code, shape, place.order)
            for device in self.devices
            for code, shape, place in zip(codes, shapes, places, strict=True)
        ]
        self.num_outputs = len(types)
        self.donated = _donated(self.function, [t.shape for t in self.partition.arguments], types, shapes)
        self.tokens = [i for i, t in enumerate(self.function.argument_types) if isinstance(t, TokenType)]
        self.analysis = analysis = Analysis(program, self.function)
        #: The bytes of the results, and of the largest value on the way to them, on all devices.
        self.result_bytes = sum(t.nbytes for t in types if t) * options.replicas
        self.largest = analysis.largest * options.replicas
        self.runs_here = not types or bool(self.tokens) or analysis.calls_python
        expected = sum(analysis.costs[:3]) * _OPERATION + analysis.costs.evaluations * _EVALUATION
        self.has_known_length = analysis.has_known_length
        self.is_short = expected <= _SHORT and self.has_known_length

        self.serialized: Sized | None = None
        self.properties = self._properties(rows)

    def _properties(self, devices: tuple[tuple[int, ...], ...]) -> dict[str, int | tuple[int, ...]]:
        outputs = self.specs[: self.num_outputs]
        kinds = [spec.memory.properties["Kind"] for spec in outputs]
        sizes = Sized.items([n for spec in outputs for n in spec.shape])
        ranks = Sized.items([len(spec.shape) for spec in outputs])
        texts, lengths = (Sized.items([kind[i] for kind in kinds]) for i in range(2))
        assignment = Sized.text(self.options.assignment or write_assignment(devices))
        self._memory = sizes, ranks, texts, lengths, assignment
        return {
            "Name": Sized.text(self.name),
            "NumReplicas": self.options.replicas,
            "NumPartitions": self.options.partitions,
            "NumOutputs": self.num_outputs,
            "SizeOfGeneratedCodeInBytes": 0,
            "Fingerprint": Sized.text(hashlib.sha256(self.code).hexdigest()),
            "AddressableDevices": Sized.items([d.handle for d in self.devices]),
            "OutputElementTypes": Sized.items([spec.code for spec in outputs], ctypes.c_int),
            "OutputDimensions": (self.num_outputs, sizes.address, ranks.address),
            "OutputMemoryKinds": (self.num_outputs, texts.address, lengths.address),
            "GetDeviceAssignment": (*assignment, *NOTHING_TO_DELETE),
        }

    @functools.cached_property
    def cost_analysis(self) -> NamedValues:
        """The costs of a run by XLA's names."""
        flops, transcendentals, accessed, _ = map(float, self.analysis.costs)
        return NamedValues({"flops": flops, "transcendentals": transcendentals, "bytes accessed": accessed})

    @functools.cached_property
    def optimized(self) -> bytes:
        """The "optimized program"; see `Partition.optimized_program`."""
        return self.partition.optimized_program(self.options.replicas)

    def current_plan(self) -> Plan:
        """Return the plan under the current policy."""
        policy = policies.chosen(self.policy)
        plan = self._plans.get(policy)
        if plan is None:
            plan = planner.plan(self.partition.program, self.partition.function.name, policy)
            while len(self._plans) >= _PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[policy] = plan
        return plan

    def compute(
        self, plan: Plan, arguments: Sequence[Sequence[Any]], process: parallel.Process | None = None
    ) -> list[Any]:
        """Return the results of all devices, of the arguments of each: arrays in row-major order.

        Raises what `machine.run` does, and PluginError if a result has another type than the program declares.
        """
        context = _contexts.pop() if _contexts else _make_context()
        start = _clock()
        try:
            if len(self.devices) == 1:
                results = context.run(machine.run_without_warnings, plan, arguments[0], process)
            else:
                results = context.run(self.partition.run, plan, self.options.replicas, arguments, process)
        finally:
            _contexts.append(context)
        self.is_short = _clock() - start <= _SHORT and self.has_known_length
        for i, spec in enumerate(self.specs):
            result = results[i]
            if result is None:
                result = results[i] = TOKEN_ARRAY
            if result.shape != spec.shape or (result.dtype is not spec.dtype and result.dtype != spec.dtype):
                raise PluginError(INTERNAL, f"result {i} has type {result.dtype}{list(result.shape)}")
        return results

    def __str__(self) -> str:
        return f"the result of {self.name}"  # for errors about memory


#: The owner and the deleter of memory that lives as long as the executable, which the framework copies at once: the
#: deleter sets the third word of the owner to null, as `Destroy` does.
_OWNER = Sized.items([0, 0, 0, 0])
NOTHING_TO_DELETE = (_OWNER.address, destroyer())


def _tensor(t: Type) -> TensorType | None:
    if isinstance(t, TokenType):
        return None
    if not isinstance(t, TensorType) or not t.is_static:
        raise PluginError(UNIMPLEMENTED, f"a program with a result of type {t} is not supported")
    return t


def _donated(
    function: Function,
    argument_shapes: Sequence[tuple[int, ...]],
    results: Sequence[TensorType | None],
    result_shapes: Sequence[tuple[int, ...]],
) -> tuple[int, ...]:
    """The arguments that are gone after a run, by the shapes of arguments and results on a device.

    An argument that is offered without a result to take its place is donated if it has as many bytes as one, as in XLA.
    """
    attributes = function.attributes.get("arg_attrs") or ()
    replaced = {i for i, a in enumerate(attributes) if a and _ALIAS in a}
    taken = {int(attributes[i][_ALIAS]) for i in replaced}
    free = collections.Counter(
        _bytes(t, shape)
        for i, (t, shape) in enumerate(zip(results, result_shapes, strict=True))
        if t and i not in taken
    )
    result = set(replaced)
    for i, a in enumerate(attributes):
        t = function.argument_types[i]
        if a and _DONOR in a and i not in replaced and isinstance(t, TensorType):
            size = _bytes(t, argument_shapes[i])
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
    a.executable = pool.add(compile_program(objects[a.client], code, options))


def compile_program(client: Client, code: bytes, options: bytes) -> Executable:
    """Return the executable of a program, with serialized options.

    Raises PluginError, ValueError and what planning does.
    """
    read = read_compile_options(options)
    xla_options.check(read.overrides)
    return interruptible(Executable, client, code, read)
