"""jaxlib's module objects -> Program: structure, types, attributes, places, and MLIR's errors in one line."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.op import lookup
from ...ops.programs.custom_call import is_target
from ...ops.types import Type
from ..errors import ProgramError, UnsupportedError, printable
from ..program import BARRIER, CONSTANT, Function, Location, Operation, Program, Region, Value
from . import spmd
from .attributes import AttributeValueError, Converter, Elided
from .containers import ELIDED
from .control_flow import STRUCTURED, Builder, read_blocks
from .rewriting import list_operations
from .syntax import NEWER, end_of_item

#: Ops at the top of a module that declare something other than a function. They are kept as attributes.
_DECLARATIONS = ("sdy.mesh", "stablehlo.mesh")
#: How the names of ops end that end a region.
_TERMINATORS = (".return", ".assuming_yield", "scf.yield", "scf.condition")

#: Dialects whose ops travel as custom calls of their names, with the op's attributes as one of the call's.
_TRAVELLING, _RENAMED = ("mhlo", "chlo", "stablehlo"), {"topk": "top_k"}
#: Ops of MHLO that give what they take.
_UNCHANGED = ("mhlo.copy", "mhlo.domain")

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'


#: Whether this jaxlib has a class for each kind of location. Before, there were methods.
_HAS_KINDS = hasattr(ir, "FileLineColLoc")


def _is(location: Any, kind: str, name: str) -> bool:
    return isinstance(location, getattr(ir, name)) if _HAS_KINDS else getattr(location, f"is_a_{kind}")()


class Locator:
    """Converts locations of MLIR to those of the source file."""

    def __init__(self, file: str, shift: int | None = 0) -> None:
        """`shift` is the number of lines in the file before the text that was parsed; None leaves out lines."""
        self._file = file
        self._shift = shift

    def __call__(self, location: Any) -> Location:
        """The line and column of a location; of one made of others the innermost first."""
        return next((line for line in self._lines(location) if line.line), Location(self._file))

    def stack(self, location: Any) -> tuple[str, list[Location]]:
        """The outermost name of a location, empty where there is none, and its lines, the innermost call first."""
        name, inner = "", location
        while _is(inner, "name", "NameLoc"):  # the names within a stack of calls are those of Python's functions
            name, inner = name or inner.name_str, inner.child_loc
        return name, list(self._lines(inner))

    def _lines(self, location: Any) -> Iterator[Location]:
        """Yield the lines of a location, the innermost call first."""
        place: Any = location
        if type(location) is ir.Location and _HAS_KINDS:  # as diagnostics have it: without its kind
            place = ir.Location.from_attr(location.attr, location.context)
        if _is(place, "file", "FileLineColLoc"):
            if place.filename != "-":  # what MLIR calls a text that came from memory
                yield Location(printable(place.filename), place.start_line, place.start_col)
            elif self._shift is not None and place.start_line:
                yield Location(self._file, place.start_line + self._shift, place.start_col)
        elif _is(place, "name", "NameLoc"):
            yield from self._lines(place.child_loc)
        elif _is(place, "callsite", "CallSiteLoc"):
            yield from self._lines(place.callee)
            yield from self._lines(place.caller)
        elif _is(place, "fused", "FusedLoc"):
            for part in place.locations:
                yield from self._lines(part)

    def error(self, diagnostics: Iterable[Any], otherwise: str, what: str = "") -> ProgramError:
        """MLIR's diagnostics as one line that says `what` first; `otherwise` stands for them where there are none."""
        messages = [(self(d.location), one_line(d.message).replace(f"!{NEWER}", ""), d.notes) for d in diagnostics]
        if not messages:
            return ProgramError(f"{self._file}: {what}{otherwise}")
        at, message, notes = messages[0]
        others = [m for where, m, _ in messages[1:] if where == at and m != message]
        earlier = [n for n in notes if re.search("prior use|existing symbol", n.message)]
        about = [f"{one_line(n.message)}: {self(n.location)}" for n in earlier]
        extra = "; ".join(others[:2] + about)
        return ProgramError(f"{at}: {what}{message}" + (f" ({extra})" if extra else ""))


def one_line(message: str) -> str:
    """A message of MLIR in the form of ours: on one line, with the name of the op first."""
    text = " ".join(message.split())
    if unknown := re.match(r"Dialect `[^']*' not found for custom op '([^']*)'|custom op '([^']*)' is unknown", text):
        op = unknown[1] or unknown[2]
        if op.startswith("check."):
            return f"{op}: expected a form such as check.expect_eq %a, %b : type"
        return f"{op}: unknown op (an op of another dialect must be in generic form)"
    if unknown := re.match(r"unregistered operation '([^']*)' found in dialect", text):
        return f"{unknown[1]}: unknown op"
    text = re.sub(r"^(?:custom op )?'([\w.]+)' (?:op )?", r"\1: ", text)
    return text if len(text) <= 600 else text[:600] + " …"


class Reader:
    """Reads one module. Each MLIR value has one `Value`, whichever regions use it."""

    def __init__(self, module: ir.Module, locate: Locator, elided: Elided | None = None) -> None:
        """What is left of MHLO is what no pass of jaxlib converts. `elided` is of `Converter`."""
        self._module = module
        self.locate = locate
        self._convert = Converter(lambda key: self._resources.get(key), elided)
        self._values: dict[ir.Value, Value] = {}
        self._is_spmd = False  # whether there are calls of GSPMD
        self._operations: dict[ir.Block, list[ir.Operation]] = defaultdict(list)
        for op in list_operations(module.operation)[1:]:
            self._operations[op.block].append(op)

    def program(self, file: str) -> Program:
        """The whole module, which has no modules in it."""
        program = Program({}, file, self.attributes_of(self._module.operation))
        for op in self._operations[self._module.body]:
            if op.name == "func.func":
                function = self._function(op)
                program.functions[function.name] = function
            elif op.name in _DECLARATIONS:
                attributes = self.attributes_of(op)
                program.attributes.setdefault(op.name, {})[attributes.pop("sym_name")] = attributes
            else:
                raise self.unsupported(op, "an op outside a function is not supported (expected func.func)")
        return spmd.with_manual_computations(program) if self._is_spmd else program

    def arguments(self) -> list[Any]:
        """The `value` attribute of each op at the top of the module."""
        return [self.attributes_of(op).get("value") for op in self._operations[self._module.body]]

    def unsupported(self, op: ir.Operation, message: str) -> UnsupportedError:
        """Return the error that something of an operation is not supported, with the place."""
        return UnsupportedError(self._message(op, message))

    def _message(self, op: ir.Operation, message: str) -> str:
        return f"{self.locate(op.location)}: {op.name.removeprefix(NEWER)}: {message}"

    def _function(self, op: ir.Operation) -> Function:
        attributes = self.attributes_of(op, but="function_type")
        kind = op.attributes["function_type"].value  # pyright: ignore[reportAttributeAccessIssue]
        arguments, results = (tuple(self.type_of(op, t) for t in types) for types in (kind.inputs, kind.results))
        region = op.regions[0]
        return Function(
            name=attributes.pop("sym_name"),
            is_public=attributes.pop("sym_visibility", "public") == "public",
            argument_types=arguments,
            result_types=results,
            body=self._region(op, region) if len(region.blocks) else None,
            location=self.locate(op.location),
            attributes=attributes,
        )

    def _region(self, op: ir.Operation, region: ir.Region) -> Region:
        if len(region.blocks) == 0:
            return Region((), [], ())
        if len(region.blocks) > 1:
            return read_blocks(self, op, region)
        block = region.blocks[0]
        arguments = tuple(self.define(op, v) for v in block.arguments)
        operations = self._operations[block]
        ends = bool(operations) and operations[-1].name.endswith(_TERMINATORS)
        body = [o for x in operations[: len(operations) - ends] for o in self.read_operation(x)]
        return Region(arguments, body, self.operands_of(operations[-1]) if ends else ())

    def operations_in(self, block: ir.Block) -> list[ir.Operation]:
        """Return the operations of a block, the terminator last."""
        return self._operations[block]

    def read_operation(self, op: ir.Operation) -> list[Operation]:
        """Return an operation as plain data, or those that it stands for."""
        name = op.name.removeprefix(NEWER)
        if name.startswith("mhlo."):
            name = self._counterpart(op, name)
        operands = self.operands_of(op)
        regions = tuple(self._region(op, r) for r in op.regions)
        results = tuple(self.define(op, v) for v in op.results)
        attributes, location = self.attributes_of(op), self.locate(op.location)
        if name == "stablehlo.custom_call" and attributes.get("call_target_name") == ELIDED:
            name, attributes = CONSTANT, {"value": self._fill(op, results[0].type)}
        elif name == "stablehlo.custom_call":
            # Where sizes are symbolic, JAX adds the shapes of the results to the operands.
            shapes = np.ravel(attributes.pop("indices_of_shape_operands", ())).tolist()
            operands = tuple([v for i, v in enumerate(operands) if i not in shapes])
            name, attributes = self._custom_call(attributes)
        operation = Operation(name, operands, results, attributes, regions, location)
        if name not in STRUCTURED:
            return [operation]
        build = Builder(location)
        STRUCTURED[name](build, operation)
        return build.operations

    def _counterpart(self, op: ir.Operation, name: str) -> str:
        """The name of an op of MHLO that has the same attributes in CHLO or StableHLO, or changes no value."""
        if name in _UNCHANGED:
            return BARRIER
        found = name if name in STRUCTURED else _travelling(name.removeprefix("mhlo."))
        if found is None:
            raise self.unsupported(op, "this op of MHLO has no counterpart in StableHLO")
        return found

    def _fill(self, op: ir.Operation, t: Type) -> np.ndarray:
        try:
            return self._convert.elided(t, "constant({...})")
        except AttributeValueError as e:
            raise UnsupportedError(f"{self.locate(op.location)}: {e}") from None

    def _custom_call(self, attributes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The op and attributes of a custom call; of one that stands for an op of CHLO or StableHLO that op's own."""
        target = str(attributes.get("call_target_name", ""))
        self._is_spmd |= target in (spmd.TO_PARTS, spmd.TO_WHOLE, spmd.TO_LOCAL, spmd.TO_GLOBAL)
        dialect, _, short = target.partition(".")
        given = attributes.get(f"{dialect}.attributes", {})
        if dialect in _TRAVELLING and isinstance(given, dict) and not is_target(target):
            found = _travelling(short)
            if found is not None:
                return found, given
        return "stablehlo.custom_call", attributes

    def operands_of(self, op: ir.Operation) -> tuple[Value, ...]:
        """Return the operands of an operation. Raises ProgramError where one is not defined before."""
        return tuple([self.value_of(op, v) for v in op.operands])

    def value_of(self, op: ir.Operation, value: ir.Value) -> Value:
        """Return the value that an operation uses. Raises ProgramError where it is not defined before."""
        try:
            return self._values[value]
        except KeyError:
            message = "expected operands that are defined before, got one that is not"
            raise ProgramError(self._message(op, message)) from None

    def define(self, op: ir.Operation, value: ir.Value) -> Value:
        """Return a new value, which stands for MLIR's from now on."""
        result = self._values[value] = Value(self.type_of(op, value.type))
        return result

    def type_of(self, op: ir.Operation, t: ir.Type) -> Type:
        """Return a type as plain data."""
        try:
            return self._convert.type(t)
        except AttributeValueError as e:
            raise self.unsupported(op, str(e)) from None

    def attributes_of(self, op: ir.Operation, but: str = "") -> dict[str, Any]:
        """Return the attributes of an operation as plain values."""
        attributes = op.attributes
        names = [attributes[i].name for i in range(len(attributes))]
        try:
            return {name: self._attribute(op, attributes, name) for name in names if name != but}
        except AttributeValueError as e:
            raise self.unsupported(op, str(e)) from None

    def _attribute(self, op: ir.Operation, attributes: ir.OpAttributeMap, name: str) -> Any:
        try:
            attribute = attributes[name]
        except TypeError:
            # jaxlib has no Python class for a few kinds, such as dense elements of a complex type, and refuses to
            # hand them out as plain attributes. (It even aborts in `attributes[i].attr`.) What is left is their text.
            return self._convert.text_attribute(_attribute_text(op, name))
        return self._convert.attribute(attribute)

    @functools.cached_property
    def _resources(self) -> dict[str, bytes]:
        """The data of every `dense_resource`, which is at hand only in the text of the whole module."""
        text: Any = self._module.operation.get_asm(large_elements_limit=16, large_resource_limit=1 << 62)
        _, _, end = text.rpartition("{-#")
        blobs = re.findall(rf'({_STRING}|[\w.$-]+): "0x([0-9A-Fa-f]*)"', end)
        # The first four bytes are the alignment.
        return {key.strip('"'): bytes.fromhex(digits[8:]) for key, digits in blobs}


def _travelling(short: str) -> str | None:
    """The op of CHLO, else of StableHLO, that has this name in MHLO."""
    names = [f"{dialect}.{_RENAMED.get(short, short)}" for dialect in ("chlo", "stablehlo")]
    return next((name for name in names if lookup(name) is not None), None)


def _attribute_text(op: ir.Operation, name: str) -> str:
    """The text of one attribute of an op, from its generic form."""
    text: Any = op.get_asm(print_generic_op_form=True, use_local_scope=True, skip_regions=True)
    key = rf'[{{ ](?:{re.escape(name)}|"{re.escape(name)}") = '
    matches = re.finditer(rf"(?P<key>{key})|{_STRING}", text)
    start = next((m.end() for m in matches if m["key"]), None)
    return "" if start is None else text[start : end_of_item(text, start)]
