"""A program beside the MLIR that it was read from, whose operations are copied where they stay as they are."""

from __future__ import annotations

from jaxlib.mlir import ir

from ..parse import parser
from ..parse.reader import Locator, Reader
from ..parse.syntax import NEWER
from ..program import Operation


class _Recorder(Reader):
    """A reader that notes the MLIR of each operation."""

    def __init__(self, module: ir.Module, places: Locator) -> None:
        super().__init__(module, places)
        self.operations: dict[Operation, ir.Operation] = {}

    def read_operation(self, op: ir.Operation) -> list[Operation]:
        """Return an operation as plain data, and note its MLIR where it is that operation."""
        found = super().read_operation(op)
        if len(found) == 1 and found[0].name == op.name.removeprefix(NEWER):
            self.operations[found[0]] = op
        return found


class Source:
    """A program and its MLIR."""

    def __init__(self, module: ir.Module, places: Locator, file: str) -> None:
        self._recorder = _Recorder(module, places)
        self.module = module
        self.program = self._recorder.program(file)
        self.functions = {
            ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
            for op in module.body.operations
            if op.operation.name == "func.func"
        }

    @classmethod
    def of_text(cls, text: str | bytes, file: str = "<string>") -> Source:
        """Read a program from text, bytecode or an artifact. Raises ProgramError where it cannot be read."""
        return cls(parser.module(text, file), Locator(file), file)

    def mlir(self, operation: Operation) -> ir.Operation | None:
        """Return the operation of MLIR that one of the program, or the one that it was derived from, was read from."""
        found = self._recorder.operations.get(operation)
        if found is None and operation.origin is not None:
            return self._recorder.operations.get(operation.origin)
        return found
