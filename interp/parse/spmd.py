"""Programs of GSPMD, and Shardy's in HLO: custom calls to parts … custom calls to wholes -> `sdy.manual_computation`.

Each device computes on its own part between the custom calls. Shardy's are around the call of a function. JAX before
Shardy, torch_xla and others write plain operations of the region around them:

    %1 = custom_call @Sharding(%x) {mhlo.sharding = "{devices=[2,1]<=[2]}"}
    %2 = custom_call @SPMDFullToShardShape(%1) {mhlo.sharding = "{manual}"}
    …
    %8 = custom_call @SPMDShardToFullShape(%7) {mhlo.sharding = "{devices=[2,1]<=[2]}"}

An operation belongs to the devices if it depends on a part, or on which device it is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...ops.op import call_attribute, traits_of
from ...ops.processes.sharded import Sharding
from ...ops.traits import Effects
from ...ops.types import TensorType, TupleType
from ..errors import ProgramError, UnsupportedError
from ..program import BARRIER, Function, Location, Operation, Program, Region, Value, all_operations
from . import sharding
from .attributes import Opaque

#: The custom calls that lead to the parts of devices, and back.
TO_PARTS, TO_WHOLE = "SPMDFullToShardShape", "SPMDShardToFullShape"
#: Those of Shardy in HLO, which give a tuple where there are several, and what the functions between them are called.
TO_LOCAL, TO_GLOBAL = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_BODY = "xla.sdy.manual_computation_body"
_ANNOTATION = "Sharding"


def with_manual_computations(program: Program) -> Program:
    """Return the program with a manual_computation in the place of each pair of such calls, and what is between them.

    Raises ProgramError where a sharding cannot be read, and UnsupportedError where two of them share values of devices.
    """
    # HLO has the meshes of Shardy as text.
    texts = _frontend_attributes(program.attributes).get("xla.sdy.meshes", "")
    meshes = {name: {"mesh": Opaque(text)} for name, text in re.findall(r'([\w.$-]+)"? = (#sdy\.mesh<.*?>)', texts)}
    attributes = {**program.attributes, "sdy.mesh": meshes | program.attributes.get("sdy.mesh", {})}
    program = dataclasses.replace(program, attributes=attributes)
    functions = {
        name: f if f.body is None else dataclasses.replace(f, body=_Rewriter(program, f).region(f.body))
        for name, f in program.functions.items()
    }
    return dataclasses.replace(program, functions=functions)


def _frontend_attributes(attributes: Mapping[str, Any]) -> dict[str, str]:
    given = attributes.get("mhlo.frontend_attributes")
    return {name: str(text) for name, text in given.items()} if isinstance(given, Mapping) else {}


def _target(operation: Operation) -> str:
    is_call = operation.name == "stablehlo.custom_call"
    return str(operation.attributes.get("call_target_name", "")) if is_call else ""


def _uses(operation: Operation) -> Iterator[Value]:
    """Yield the operands of an operation and of those in its regions."""
    yield from operation.operands
    for region in operation.regions:
        yield from region.returns
        for inner in all_operations(region):
            yield from inner.operands


def _needed_by_parts(operations: list[Operation]) -> set[Value]:
    """The values that what becomes whole depends on, back to where it was cut."""
    needed: set[Value] = set()
    for operation in reversed(operations):
        target = _target(operation)
        if target == TO_WHOLE or (target != TO_PARTS and not needed.isdisjoint(operation.results)):
            needed.update(_uses(operation))
    return needed


class _Rewriter:
    def __init__(self, program: Program, function: Function) -> None:
        self._program = program
        self._sources: dict[Value, str] = {}  # the declared sharding of a value
        if function.body is not None:
            declared = function.attributes.get("arg_attrs") or ({},) * len(function.body.arguments)
            for value, attributes in zip(function.body.arguments, declared, strict=False):
                if isinstance(attributes, dict) and "mhlo.sharding" in attributes:
                    self._sources[value] = str(attributes["mhlo.sharding"])

    def region(self, region: Region) -> Region:
        """Return the region, and those in it, with manual computations."""
        operations = [
            dataclasses.replace(o, regions=tuple(map(self.region, o.regions))) if o.regions else o
            for o in region.operations
        ]
        for call in [o for o in operations if _BODY in str(o.attributes.get(call_attribute(o.name) or ""))]:
            operations = _of_shardy(self._program, call, operations)
        targets = {_target(o) for o in operations}
        if TO_PARTS not in targets and TO_WHOLE not in targets:
            return Region(region.arguments, operations, region.returns)
        wholes = {v: Value(v.type) for v in region.returns}
        grouped = self._grouped(operations, wholes)
        return Region(region.arguments, grouped, tuple([wholes.get(v, v) for v in region.returns]))

    def _grouped(self, operations: list[Operation], returned: dict[Value, Value]) -> list[Operation]:
        """The operations in groups: those on whole values, then what devices compute of their results, and so on.

        Of `returned`, values that the region returns, those of devices stay, with the whole that is returned for each.
        """
        wholes: dict[int, list[Operation]] = {}
        manual: dict[int, list[Operation]] = {}
        leaving: dict[int, list[Operation]] = {}
        entering: dict[Value, Operation] = {}
        levels: dict[Value, int] = {}
        of_devices: set[Value] = set()
        needed = _needed_by_parts(operations)
        for operation in operations:
            target, uses = _target(operation), list(_uses(operation))
            level = max([levels.get(v, 0) for v in uses], default=0)
            if target == _ANNOTATION:
                self._sources[operation.results[0]] = str(operation.attributes.get("mhlo.sharding", ""))
            if target == TO_PARTS:
                entering[operation.results[0]] = operation
                of_devices.update(operation.results)
            elif target == TO_WHOLE:
                leaving.setdefault(level, []).append(operation)
                level += 1
            elif not of_devices.isdisjoint(uses) or (
                not needed.isdisjoint(operation.results) and _meets(self._program, [operation], set())
            ):
                of_devices.update(operation.results)
                manual.setdefault(level, []).append(operation)
            else:
                wholes.setdefault(level, []).append(operation)
            levels.update(dict.fromkeys(operation.results, level))
        # What is returned as each device has it is the same on all.
        for value, whole in list(returned.items()):
            if value not in of_devices:
                del returned[value]
                continue
            text = {"call_target_name": TO_WHOLE, "mhlo.sharding": "{replicated}"}
            place = next((o.location for o in operations if value in o.results), Location())
            call = Operation("stablehlo.custom_call", (value,), (whole,), text, (), place)
            leaving.setdefault(levels[value], []).append(call)
        result = []
        for level in range(max([*wholes, *manual, *leaving]) + 1):
            result += wholes.get(level, ())
            if level in manual or level in leaving:
                result.append(self._computation(manual.get(level, []), leaving.get(level, []), entering, of_devices))
        return result

    def _computation(
        self,
        operations: list[Operation],
        leaving: list[Operation],
        entering: dict[Value, Operation],
        of_devices: set[Value],
    ) -> Operation:
        place = (operations or leaving)[0].location
        uses = dict.fromkeys([v for o in operations for v in _uses(o)] + [o.operands[0] for o in leaving])
        calls = [entering[v] for v in uses if v in entering]
        own = {r for o in all_operations(Region((), operations, ())) for r in o.results}
        if any(v in of_devices and v not in own and v not in entering for v in uses):
            raise UnsupportedError(f"{place}: values of devices between two manual computations are not supported")
        takes = [self._sharding(o, o.operands[0], o.results[0], self._sources.get(o.operands[0])) for o in calls]
        gives = [
            self._sharding(o, o.results[0], o.operands[0], str(o.attributes.get("mhlo.sharding", ""))) for o in leaving
        ]
        # Several computations may have a part, each with an argument of its own for it.
        parts = tuple([o.results[0] for o in calls])
        arguments = tuple([Value(v.type) for v in parts])
        unchanged = [Operation(BARRIER, arguments, parts, {}, (), place)] if parts else []
        axes = [name for s in (*takes, *gives) for name, _ in s.mesh.axes]
        names = {name for name in axes if not name.startswith(sharding.MANUAL)}
        attributes = {"in_shardings": tuple(takes), "out_shardings": tuple(gives), "manual_axes": tuple(sorted(names))}
        body = Region(arguments, [*unchanged, *operations], tuple([o.operands[0] for o in leaving]))
        return Operation(
            _COMPUTATION,
            tuple([o.operands[0] for o in calls]),
            tuple([o.results[0] for o in leaving]),
            attributes,
            (body,),
            place,
        )

    def _sharding(self, operation: Operation, whole: Value, part: Value, text: str | None) -> Sharding:
        """The sharding of a whole value, which has to be cut as the part's shape says."""
        devices = self._program.attributes.get("mhlo.num_partitions")
        try:
            if not isinstance(whole.type, TensorType) or not isinstance(part.type, TensorType):
                raise ProgramError(f"expected tensors, got {whole.type} and {part.type}")
            if text is None and whole.type == part.type:
                text = "{replicated}"
            count = devices if isinstance(devices, int) and devices > 0 else None
            found = sharding.tiled(text or "", len(whole.type.shape), count)
            expected = tuple(n // p if n else n for n, p in zip(whole.type.shape, found.parts(), strict=True))
            if part.type.shape != expected:
                raise ProgramError(f"expected a part of shape {list(expected)} by {text}, got {part.type}")
        except ProgramError as error:
            raise ProgramError(f"{operation.location}: {operation.name}: {error}") from None
        return found


def _of_shardy(program: Program, call: Operation, operations: list[Operation]) -> list[Operation]:
    """The operations with a manual computation in the place of the call of a body and of the custom calls around it."""
    made = {r: o for o in operations for r in o.results}
    sources = {v for x in call.operands if x in made for v in (x, *made[x].operands)}  # the parts, or their tuple
    cut = [o for o in operations if _target(o) == TO_LOCAL and not sources.isdisjoint(o.results)]
    join = [o for o in operations if _target(o) == TO_GLOBAL and not set(o.operands).isdisjoint(call.results)]
    if len(cut) > 1 or len(join) != 1:
        return operations
    attributes: dict[str, Any] = {"in_shardings": (), "out_shardings": ()}
    for end in (*cut, *join):
        for name, text in _frontend_attributes(end.attributes).items():
            attributes[name.removeprefix("xla.sdy.")] = Opaque(text)
    try:
        attributes = sharding.resolve_shardings(attributes, program)
    except ProgramError as error:
        raise ProgramError(f"{call.location}: {_COMPUTATION}: {error}") from None
    parts = tuple([r for o in cut for r in o.results])
    inner = [o for o in operations if o is call or not set(parts).isdisjoint(o.operands)]
    (arguments, unpacked), (results, packed) = _elements(parts, call), _elements(join[0].results, call)
    body = Region(arguments, [*unpacked, *inner], join[0].operands)
    taken = tuple([x for o in cut for x in o.operands])
    computation = Operation(_COMPUTATION, taken, results, attributes, (body,), call.location)
    new = {id(o): [] for o in (*cut, *inner)} | {id(join[0]): [computation, *packed]}
    return [n for o in operations for n in new.get(id(o), [o])]


def _elements(values: tuple[Value, ...], place: Operation) -> tuple[tuple[Value, ...], list[Operation]]:
    """The values; of a tuple, new values for its elements, and the operation that makes it of them."""
    if not values or not isinstance(values[0].type, TupleType):
        return values, []
    elements = tuple(map(Value, values[0].type.elements))
    return elements, [Operation("stablehlo.tuple", elements, values, {}, (), place.location)]


def meets_processes(program: Program, function: Function) -> bool:
    """Whether a function meets other processes or asks for its own number, outside of manual computations."""
    return function.body is not None and _meets(program, function.body.operations, {function.name})


def _meets(program: Program, operations: Iterable[Operation], seen: set[str]) -> bool:
    """Whether operations do, or functions that they call; `seen` are those that are known not to."""
    for operation in operations:
        if traits_of(operation.name).effects is Effects.PROCESSES or operation.name in _PLACES:
            return True
        if operation.name == _COMPUTATION:
            continue
        name = str(operation.attributes.get(call_attribute(operation.name) or "", ""))
        function = program.functions.get(name) if name not in seen else None
        seen.add(name)
        called = function.body.operations if function is not None and function.body is not None else []
        inner = [o for r in operation.regions for o in r.operations]
        if _meets(program, (*inner, *called), seen):
            return True
    return False


_PLACES = ("stablehlo.partition_id", "stablehlo.replica_id")
_COMPUTATION = "sdy.manual_computation"
