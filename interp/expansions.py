"""Expands ops that are not declared here into others, by jaxlib's own compiler passes.

CHLO's functions without a StableHLO op (lgamma, digamma, erf_inv …) are defined in practice by such a pass: every
backend computes what it expands to. So are some functions of complex numbers near infinity and one. Our own
declarations come first; they are exact for the formats they take.
"""

from __future__ import annotations

import functools

from .errors import ProgramError
from .program import Function, Operation

_PASSES = "builtin.module(func.func(chlo-legalize-to-stablehlo,stablehlo-complex-math-expander))"


def expansion(operation: Operation) -> Function | None:
    """A function that computes `operation`, None where the passes do not know the op."""
    # How accurate a result has to be is no part of what is computed.
    if (
        operation.attributes.keys() - {"result_accuracy"}
        or operation.regions
        or not operation.name.startswith(("chlo.", "stablehlo."))
    ):
        return None
    types = [tuple(str(v.type) for v in values) for values in (operation.operands, operation.results)]
    return _expanded(operation.name, *types)


@functools.lru_cache(256)
def _expanded(name: str, operands: tuple[str, ...], results: tuple[str, ...]) -> Function | None:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _stablehlo
    from jaxlib.mlir.passmanager import PassManager

    from .parse import parser

    names = [f"%a{i}" for i in range(len(operands))]
    takes, gives = ", ".join(operands), ", ".join(results)
    returned = ", ".join(f"%r#{i}" for i in range(len(results)))
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, operands, strict=True))
    text = f"""func.func @expansion({arguments}) -> ({gives}) {{
      %r:{len(results)} = "{name}"({", ".join(names)}) : ({takes}) -> ({gives})
      func.return {returned} : {gives}
    }}"""
    _stablehlo.register_stablehlo_passes()
    try:
        context = parser.make_context(text.__contains__)
        module = ir.Module.parse(text, context)
        with context:
            PassManager.parse(_PASSES).run(module.operation)
        function = parser.from_module(module, name).functions["expansion"]
    except (ir.MLIRError, ProgramError, RuntimeError):
        return None
    assert function.body is not None
    left = [o for o in function.body.operations if o.name == name or o.name.startswith("chlo.")]
    # log_plus_one of complex numbers is made of log_plus_one of real ones.
    return None if any(tuple(str(v.type) for v in o.operands) == operands for o in left) else function
