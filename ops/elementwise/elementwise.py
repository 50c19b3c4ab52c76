"""How elementwise ops on one and two operands are declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cast import cast, wrap
from ..minifloat.number import Number
from ..op import Accuracy, Call, Op, Run, element_types, full_name, op, register
from ..policy import Policy
from ..require import require
from ..traits import NOTHING, OpTraits
from ..types import ELEMENT_TYPES, ElementType, Kind
from .float_kernels import Function, float_kernel

Host = Callable[..., Any]


def elementwise(
    name: str,
    types: str,
    *,
    accuracy: Accuracy,
    operands: int = 1,
    direct: Callable[..., Number] | None = None,
    integer: Host | None = None,
    boolean: Host | None = None,
    is_native: bool = False,
    expanded: str = "",
    doc: str = "",
    traits: OpTraits = NOTHING,
) -> Callable[[Host], Host]:
    """Declare an op by what it does to numpy's own types; for floats `direct` is the exact definition.

    The decorated function serves floats and complex numbers, and integers and booleans where `integer` and `boolean`
    are not given. Integers below eight bits come as bytes and are wrapped after. `float_kernels.py` says how floats are
    computed, and what `is_native` means. `expanded` and `traits` are for `Op.expanded` and `Op.traits`; `doc` is for
    functions of numpy's own, which have another docstring.
    """

    def declare(host: Host) -> Host:
        function = direct and Function(direct, host, operands, not accuracy.is_near, is_native=is_native)

        def bind(call: Call) -> Run:
            element = call.tensor().element
            if element.is_float and function is not None:
                return float_kernel(function, element, call)
            if element.is_integer:
                return _on_integers(integer or host, element)
            if element.is_complex and element.bits == 64 and accuracy.is_near:  # by complex<f64>
                return lambda *xs: np.asarray(host(*(x.astype(np.complex128) for x in xs))).astype(element.dtype)
            return boolean if element.kind is Kind.BOOL and boolean is not None else host

        what = full_name(name), bind, element_types(types), "numbers", accuracy, operands, doc or host.__doc__ or ""
        expand = element_types(expanded)
        register(Op(*what, is_elementwise=True, is_function=True, expanded=expand, traits=traits))
        return host

    return declare


def declare_test(name: str, doc: str, direct: Callable[[Number], np.ndarray], host: Host) -> None:
    """Declare an op that says of each float whether it is of some kind."""
    function = Function(direct, host, 1, is_basic=True, is_predicate=True)

    def bind(call: Call) -> Run:
        t, result = call.tensor(), call.result()
        fits = result.element.kind is Kind.BOOL and result.admits(t.shape)
        require(fits, f"expected a result of {list(t.shape)} of i1, got {result}")
        return float_kernel(function, t.element, call)

    bind.__doc__ = doc
    op(name, "float", values="numbers", operands=1, is_elementwise=True)(bind)


def _on_integers(host: Host, element: ElementType) -> Run:
    if element.bits >= 8:
        return host
    wide = element.working_dtype
    return lambda *xs: wrap(np.asarray(host(*(x.astype(wide) for x in xs))), element)


def cell(value: float, element: ElementType) -> np.ndarray:
    """A real number as an array of rank 0: rounded to a float type, or an integer that wraps."""
    if element.is_float:
        return np.asarray(cast(np.array(float(value)), ELEMENT_TYPES["f64"], element, Policy()))
    if element.kind is Kind.BOOL:
        return np.array(bool(value))
    return np.asarray(wrap(np.array(int(value) % (1 << 64), np.uint64), element))
