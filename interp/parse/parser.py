"""MLIR text, MLIR bytecode or a StableHLO portable artifact -> Program, by jaxlib's MLIR bindings."""

from __future__ import annotations

import ctypes
import functools
import importlib
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

# The extensions themselves: `jaxlib.mlir.dialects.…` would import a class for each op, which we do not use.
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _stablehlo

from ...ops.minifloat.formats import FORMATS
from ...ops.types import TensorType, type_of_dtype
from ..errors import ProgramError, UnsupportedError
from ..program import Program
from ..system import depth, host_floats
from ..system.isolate import quiet_native_stderr
from . import containers, syntax
from .attributes import Elided
from .containers import BYTECODE
from .reader import Locator, Reader
from .rewriting import flatten_modules, list_operations, lower_optimized

_BYTE_ORDER_MARK = "\ufeff"  #: some editors begin a file with it
READABLE = "MLIR (text, bytecode, a portable artifact), a file of jax.export, or HLO"
_PORTABLE = re.compile(rb"ML\xefR[\x00-\xff]StableHLO_v")


@host_floats.in_default  # numbers are read
def parse(source: str | bytes, file: str = "<string>", first_line: int = 1, elided: Elided | None = None) -> Program:
    """Read a program.

    Args:
        source: MLIR text, MLIR bytecode, or a StableHLO portable artifact.
        file: The name of the source in messages and places.
        first_line: The number in `file` of the first line of `source`.
        elided: Gives what stands for constants whose data is left out, which are errors otherwise.

    Returns:
        The program as plain data, with a place for each op.

    Raises:
        ProgramError: The source is not valid, or has something that is not supported; with the place.
    """
    locate = Locator(file, first_line - 1)
    with quiet_native_stderr():
        return _program(_module(source, locate, file, first_line), locate, file, elided)


def module(source: str | bytes, file: str = "<string>", first_line: int = 1) -> ir.Module:
    """Return the module that `parse` reads, in which ops that jaxlib does not know have the generic form.

    VHLO and MHLO are converted. Raises ProgramError as `parse` does.
    """
    locate = Locator(file, first_line - 1)
    with quiet_native_stderr():
        return _in_stablehlo(_module(source, locate, file, first_line), locate, file)


@host_floats.in_default
def from_module(module: ir.Module, file: str = "<module>") -> Program:
    """Read a module that jaxlib or JAX has built, in any context.

    Args:
        module: The module. It is not changed.
        file: The name for ops without a place of their own.

    Returns:
        The program as plain data.

    Raises:
        ProgramError: It has something that is not supported; with the place.
    """
    return _program(module, Locator(file), file)


@host_floats.in_default
def parse_attributes(text: str) -> list[tuple[np.ndarray, TensorType]]:
    """Read a list such as `[dense<1.0> : tensor<2xf8E4M3FN>, dense<[1, 2]> : tensor<2xi32>]`.

    Returns:
        The array and the type of each constant.

    Raises:
        ProgramError: It is not such a list.
    """
    file = "<arguments>"
    syntax.check_nesting(text, file)
    syntax.check_numbers(text, file)
    body = text.removeprefix(_BYTE_ORDER_MARK).strip()
    if body[:1] != "[" or body[-1:] != "]":
        raise ProgramError(f"{file}: expected a list of constants, [dense<1.0> : tensor<2xf32>, …]")
    result = []
    for i, item in enumerate(syntax.split_list(body[1:-1])):
        locate = Locator(f"{file}: argument {i}", None)
        with quiet_native_stderr():
            module = _read_text(f'"minihlo.argument"() {{value = {item}}} : () -> ()', locate, file, 1)
            values = _guarded(lambda m=module, p=locate: Reader(m, p).arguments(), locate)
        if len(values) != 1 or not isinstance(values[0], np.ndarray):
            raise ProgramError(f"{file}: argument {i}: expected a dense constant of a tensor type, got {item}")
        result.append((values[0], TensorType(values[0].shape, type_of_dtype(values[0].dtype))))
    return result


def _program(module: ir.Module, locate: Locator, file: str, elided: Elided | None = None) -> Program:
    module = _in_stablehlo(module, locate, file)
    return _guarded(lambda: Reader(module, locate, elided).program(file), locate)


def _in_stablehlo(module: ir.Module, locate: Locator, file: str) -> ir.Module:
    """The module, or a copy without modules in it, VHLO and MHLO. Raises ProgramError where it cannot be converted."""
    module = flatten_modules(module)
    names = {op.name for op in list_operations(module.operation, "vhlo.", "mhlo.")} - {"mhlo.return"}
    if any(name.startswith("vhlo.") for name in names):
        return _from_vhlo(module, locate, file)
    return _from_mhlo(module, locate) if names else module


def _from_vhlo(module: ir.Module, locate: Locator, file: str) -> ir.Module:
    """A copy of a module in StableHLO. Raises ProgramError where it has an op or attribute of an unknown version."""
    data = io.BytesIO()
    module.operation.write_bytecode(data)
    try:
        return _stablehlo.deserialize_portable_artifact(make_context(), data.getvalue())
    except ir.MLIRError as e:
        raise locate.error(e.error_diagnostics, "an op cannot be converted", "VHLO to StableHLO: ") from None
    except (ValueError, RuntimeError):
        reason = "VHLO is not supported in this form (expected a portable artifact)"
        raise UnsupportedError(f"{file}: {reason}") from None


def _from_mhlo(module: ir.Module, locate: Locator) -> ir.Module:
    """A copy of a module in StableHLO; ops that StableHLO does not have become custom calls of their names.

    Raises ProgramError where an op cannot be converted.
    """
    from jaxlib.mlir._mlir_libs import _mlirHlo
    from jaxlib.mlir.passmanager import PassManager

    _mlirHlo.register_mhlo_passes()
    data = io.BytesIO()
    module.operation.write_bytecode(data)
    context = make_context()
    converted = ir.Module.parse(data.getvalue(), context)
    try:
        with context:
            lower_optimized(converted)
            PassManager.parse(f"builtin.module({_FROM_MHLO})").run(converted.operation)
    except ir.MLIRError as e:
        raise locate.error(e.error_diagnostics, "an op cannot be converted", "MHLO to StableHLO: ") from None
    return converted


_FROM_MHLO = "hlo-legalize-to-stablehlo{allow-experimental-features=true allow-xla-features=true}"


def _guarded(read: Callable[[], Any], locate: Locator) -> Any:
    try:
        with depth.deep_calls():
            return read()
    except RecursionError:
        raise locate.error([], "expected fewer nested regions, got more than Python's stack holds") from None
    except (UnicodeDecodeError, RuntimeError) as e:
        if isinstance(e, UnicodeDecodeError) or "conversion error" in str(e):  # how nanobind reports it
            raise locate.error([], "expected names in UTF-8, got other bytes") from None
        raise


def _module(source: str | bytes, locate: Locator, file: str, first_line: int) -> ir.Module:
    given, counts = source, containers.process_counts(source)
    source = containers.mlir_of(source, file)
    if isinstance(source, bytes):
        if source.startswith(BYTECODE):
            module = _read_bytecode(source, locate, "not valid MLIR bytecode: " if source == given else "HLO: ")
            with module.context:
                for name, count in counts.items():
                    module.operation.attributes[name] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count)
            return module
        source = _decode(source, file, first_line)
    return _read_text(source.removeprefix(_BYTE_ORDER_MARK), locate, file, first_line)


def _decode(source: bytes, file: str, first_line: int) -> str:
    try:
        return source.decode()
    except UnicodeDecodeError as e:
        line = first_line + source.count(b"\n", 0, e.start)
        column = e.start - source.rfind(b"\n", 0, e.start)
        raise ProgramError(
            f"{file}:{line}:{column}: expected UTF-8 (a program is {READABLE}), got byte 0x{source[e.start]:02X}"
        ) from None


def _read_text(text: str, locate: Locator, file: str, first_line: int) -> ir.Module:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        raise ProgramError(f"{file}: expected valid Unicode, got a lone surrogate") from None
    if "\0" in text:  # MLIR would take it for the end
        raise ProgramError(f"{file}: expected {READABLE}, got a zero byte")
    syntax.check_nesting(text, file, first_line)
    syntax.check_numbers(text, file, first_line)
    syntax.check_names(text, file, first_line)
    text = syntax.generic(text)
    context = make_context(text.__contains__)
    while True:  # each further attempt renames one op or type that this jaxlib does not know
        try:
            return ir.Module.parse(text, context)
        except ValueError:  # of jaxlib, whose vectors cannot grow so far
            raise ProgramError(f"{file}: not valid MLIR: expected dimensions below 2^32, got a larger one") from None
        except ir.MLIRError as e:
            renamed = _renamed(text, e.error_diagnostics)
            if renamed == text:
                raise locate.error(e.error_diagnostics, "not valid MLIR") from None
            text = renamed


#: Ops that later versions of StableHLO take in more forms than some version of jaxlib that we support. Where its
#: verifier refuses one, the op is read without being verified; the planner verifies every op.
_WIDENED = ("stablehlo.collective_broadcast",)
#: The types that are not StableHLO's, whose ops convert them all the same; some version of jaxlib reads none of them.
_UNKNOWN_TYPES = tuple(f.name for f in FORMATS.values() if not f.has_dtype)


def _renamed(text: str, diagnostics: Sequence[ir.DiagnosticInfo]) -> str:
    """The text with the op or type marked that this jaxlib is too old for, if the diagnostics are about that."""
    for d in diagnostics:
        if match := re.match(r"unknown stablehlo type: (\w+)", d.message):
            return syntax.rename_type(text, f"!stablehlo.{match[1]}")
        if d.message == "expected non-function type":  # as of any word that is no type
            return functools.reduce(syntax.rename_type, _UNKNOWN_TYPES, text)
        match = re.match(r"'([^']*)' op (?:operand|result) #\d+ must be .*, but got (.*)", d.message)
        if match and any(name in match[2] for name in _UNKNOWN_TYPES):
            return syntax.rename(text, match[1])
        if match := re.match(r"unregistered operation '([^']*)' found in dialect", d.message):
            return syntax.rename(text, match[1])
        if (match := re.match(r"'([^']*)' op requires (?:a single operand|one result)", d.message)) and (
            match[1] in _WIDENED
        ):
            return syntax.rename(text, match[1])
    return text


def _read_bytecode(data: bytes, locate: Locator, what: str) -> ir.Module:
    context = make_context(lambda name: name.strip(".!").encode() in data)
    heard: list[Any] = []

    def hear(d: ir.Diagnostic) -> bool:
        heard.append(ir.DiagnosticInfo(d))
        return True

    handler: Any = context.attach_diagnostic_handler(hear)
    try:
        if _PORTABLE.match(data):
            return _stablehlo.deserialize_portable_artifact(context, data)
        return ir.Module.parse(data, context)
    except (ir.MLIRError, ValueError, RuntimeError) as e:
        # A context that has read damaged bytecode is never freed: that can crash, even when the interpreter exits.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(context))
        message = "the data is damaged or of another kind"
        raise locate.error([*heard, *getattr(e, "error_diagnostics", ())], message, what) from None
    finally:
        handler.detach()


def make_context(mentions: Callable[[str], bool] = lambda _: True) -> ir.Context:
    """A context that reads programs. A rarer dialect is loaded only if the program mentions it, such as `sdy.`."""
    context = ir.Context()
    context.append_dialect_registry(_registry())
    _stablehlo.register_dialect(context)
    for mark, (extension, function) in _RARE.items():
        if mentions(mark):
            getattr(importlib.import_module(f"jaxlib.mlir._mlir_libs.{extension}"), function)(context)
    context.allow_unregistered_dialects = True
    if mentions("!quant."):
        _load_quant(context)
    return context


def _load_quant(context: ir.Context) -> None:
    """Loads the dialect of quantized types, which no extension registers: a pass that depends on it does."""
    from jaxlib.mlir.passmanager import PassManager

    _stablehlo.register_stablehlo_passes()
    with context:
        PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(ir.Module.parse("").operation)


_RARE = {
    "chlo.": ("_chlo", "register_dialect"),
    "sdy.": ("_sdy", "register_dialect"),
    "mhlo.": ("_mlirHlo", "register_mhlo_dialect"),
    "interpreter.": ("_stablehlo", "register_interpreter_dialect"),
}


@functools.cache
def _registry() -> ir.DialectRegistry:
    """The dialects that JAX itself uses beside StableHLO: func, arith, math, scf, …"""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    return registry


def text_of(module: ir.Module) -> str:
    """Return the text of a module, in the generic form where MLIR cannot read the ops' own form.

    (A `dynamic_slice` of a scalar is printed with an empty list of starts, which the reader refuses.)
    """
    text: Any = module.operation.get_asm(enable_debug_info=False)
    with module.context, quiet_native_stderr():
        try:
            ir.Module.parse(text)
        except ir.MLIRError:
            text = module.operation.get_asm(enable_debug_info=False, print_generic_op_form=True)
    return text
