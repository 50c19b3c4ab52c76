"""How elementwise ops on one and two operands are declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cast import wrap
from ..engine.fast.divisions import FLOORED
from ..minifloat.number import Number
from ..op import EXACT, Accuracy, Call, Op, Run, element_types, full_name, register
from ..traits import NOTHING, Kernel, OnF32, OpTraits
from ..types import ElementType, Kind
from .float_kernels import Function, float_kernel
from .half_words import Words, is_of_words
from .ziv import Wide

Host = Callable[..., Any]


def elementwise(
    name: str,
    types: str,
    *,
    accuracy: Accuracy,
    operands: int = 1,
    direct: Callable[..., Number] | None = None,
    integer: Host | None = None,
    floored: Host | None = None,
    boolean: Host | None = None,
    has_out: bool = False,
    words: Words | None = None,
    wide: Wide | None = None,
    expanded: str = "",
    traits: OpTraits = NOTHING,
) -> Callable[[Host], Host]:
    """Declare an op by what it does to numpy's own types; for floats `direct` is the exact definition.

    The decorated function serves floats and complex numbers, and integers and booleans where `integer` and `boolean`
    are not given. Integers below eight bits come as bytes and are wrapped after. A host that takes `out` can put the
    results there, which may be an operand, says so by `has_out`. `words` computes on arrays of f16 and bf16 by their
    codes, `wide` on f64 in place, `floored` on integers where the attribute `FLOORED` is set. `expanded` and `traits`
    are for `Op.expanded` and `Op.traits`.
    """

    def declare(host: Host) -> Host:
        function = None
        if direct is not None:
            function = Function(direct, host, operands, not accuracy.is_near, has_out=has_out, wide=wide)

        def bind(call: Call) -> Run:
            element = call.tensor().element
            if element.is_float and function is not None:
                kernel = float_kernel(function, element, call.policy, call.random, call.result())
                draws = call.policy.rounding == "stochastic"
                if not is_of_words(element) or not call.result().shape or draws:
                    return kernel
                made = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
                is_right = function.is_basic and call.policy.rounding == "nearest_even"
                on_f32 = OnF32(host, accuracy != EXACT, has_out) if is_right else None
                run = made.call if words is None else words(made.call, element)
                return dataclasses.replace(made, call=run, on_f32=on_f32)
            if element.is_integer:
                whole = floored if FLOORED in call.attributes else integer
                if whole is not None or element.bits < 8:
                    return _on_integers(whole or host, element)
            elif element.is_complex and accuracy.is_near:
                return _on_complex(host, element)
            elif element.kind is Kind.BOOL and boolean is not None:
                return boolean
            return Kernel(host, has_out=has_out)

        doc = host.__doc__ or ""
        taken = element_types(types)
        expand = element_types(expanded)
        what = full_name(name), bind, taken, "numbers", accuracy, operands, doc
        register(Op(*what, is_elementwise=True, is_function=True, expanded=expand, traits=traits))
        return host

    return declare


def _on_integers(host: Host, element: ElementType) -> Run:
    if element.bits >= 8:
        return host
    wide = np.int8 if element.kind is Kind.SIGNED else np.uint8
    return lambda *xs: wrap(np.asarray(host(*(x.astype(wide) for x in xs))), element)


def _on_complex(host: Host, element: ElementType) -> Run:
    """complex<f32> is computed in complex<f64> and rounded."""
    if element.bits == 128:
        return host
    return lambda *xs: np.asarray(host(*(x.astype(np.complex128) for x in xs))).astype(element.dtype)
