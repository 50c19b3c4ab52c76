"""`minihlo emulate`: writes a program that computes the same minifloats with integers and tables."""

from __future__ import annotations

import argparse
import contextlib
import sys

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _stablehlo
from jaxlib.mlir.passmanager import PassManager

from ..diff.source import Source
from ..emulate.program import emulate_module
from ..errors import InputError, OutputError
from ..parse.parser import text_of
from ..system.isolate import quiet_native_stderr
from ..values.values import read_values
from .run import read_source


def main(options: argparse.Namespace) -> int:
    """Run the command. Raises the errors of `errors.py`."""
    text, name = read_source(options.file)
    source = Source.of_text(text, name, 1, options.function)
    if options.input:
        known = [t for _, t in read_values(options.input, "--input") if t is not None]
        if len(known) != len(source.function.argument_types):
            count = len(source.function.argument_types)
            raise InputError(f"{name}: expected {count} --input with their types, got {len(known)}")
        source = source.refine(known)
    module = emulate_module(source.module, options.policy, codes=options.codes, file=name)
    with module.context, contextlib.suppress(ir.MLIRError):  # a compiler may know no CHLO
        _stablehlo.register_stablehlo_passes()
        PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)
    _write(options.output, _serialize(module, options))
    return 0


def _serialize(module: ir.Module, options: argparse.Namespace) -> bytes:
    """Return an artifact of a version of StableHLO, bytecode, or text."""
    text = text_of(module)
    if options.for_version:
        try:
            with quiet_native_stderr():
                return _stablehlo.serialize_portable_artifact_str(text, options.for_version)
        except (ValueError, RuntimeError, ir.MLIRError) as error:
            wanted = (
                f"expected a version of StableHLO up to {_stablehlo.get_current_version()}, with the program's types"
            )
            wanted += f", got {options.for_version}" + ("" if options.codes else "; --codes leaves out minifloats")
            raise InputError(f"--for-version: {wanted} ({' '.join(str(error).split())[:300]})") from None
    if options.output.endswith(".mlirbc"):
        import io

        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
        return stream.getvalue()
    return text.encode()


def _write(path: str, data: bytes) -> None:
    if path == "-":
        sys.stdout.buffer.write(data)
        return
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None
