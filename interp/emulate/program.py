"""Emulates a whole program: text, bytecode or a module in, a module or its text out."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from ...ops.policy import Policy
from ..machine import find_function
from ..parse.reader import Locator
from .rewrite import Emulation
from .source import Source


def emulate_module(
    module: ir.Module, policy: Policy | None = None, *, codes: bool = False, dots: str = "auto", file: str = "<module>"
) -> ir.Module:
    """Return a module that computes the results of another with integers, tables and exact products.

    Args:
        module: The program, which is not changed; the result is in its context.
        policy: What the implementation may choose.
        codes: Whether arguments and results of minifloats are codes, `ui8`, instead.
        dots: How exact sums of products are formed, as `Emulation` says.
        file: The name of the program in messages.

    Raises:
        UnsupportedError: An operation on minifloats is not emulated; with the place.
        ProgramError: The program is not valid.
    """
    return _emulate(Source(module, Locator(file), file), policy, codes, dots)


def emulate_text(
    source: str | bytes,
    policy: Policy | None = None,
    *,
    codes: bool = False,
    dots: str = "auto",
    file: str = "<string>",
) -> str:
    """Return the text of the module that `emulate_module` gives for a program in text, bytecode or an artifact."""
    module = _emulate(Source.of_text(source, file), policy, codes, dots)
    text: Any = module.operation.get_asm()
    return text


def _emulate(source: Source, policy: Policy | None, codes: bool, dots: str) -> ir.Module:
    functions = source.program.functions
    public = [f.name for f in functions.values() if f.is_public] or [find_function(source.program).name]
    module = Emulation(source, policy or Policy(), dots).module(public, codes)
    with source.module.context:
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            raise Locator("<emulated>").error(error.error_diagnostics, "the emulated program is not valid") from None
    return module
