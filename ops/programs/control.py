"""Control flow: if, case, while and calls.

The machine runs the regions. The kernel of `if` and `case` gives the number of the branch, `while` needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..op import Call, Run, op
from ..require import require
from ..traits import OpTraits, RegionSemantics
from ..types import TensorType, element_type


@op("if", "bool", values="regions", operands=1, any_sizes=True, traits=OpTraits(regions=RegionSemantics.ONE))
def if_(call: Call) -> Run:
    """The results of the first branch where pred is true, else of the second; the other is not run.

    (I1) pred is a scalar. (C1) the branches take nothing. (C2, C3) both give the result types.
    """
    _check_branches(call, "pred")
    require(len(call.bodies) == 2, f"has {len(call.bodies)} branches (expected 2)")
    return lambda pred: 0 if pred else 1


@op("case", "i32", values="regions", operands=1, any_sizes=True, traits=OpTraits(regions=RegionSemantics.ONE))
def case(call: Call) -> Run:
    """The results of the branch that index names, or of the last if there is no such branch. No other is run.

    (I1) index is a scalar. (C1) there is a branch. (C2) the branches take nothing. (C3, C4) all give the result types.
    """
    _check_branches(call, "index")
    last = len(call.bodies) - 1
    require(last >= 0, "has no branches (expected 1 or more)")
    return lambda index: index if 0 <= index <= last else last


@op("while", values="regions", any_sizes=True, traits=OpTraits(regions=RegionSemantics.LOOP))
def while_(call: Call) -> Run:
    """The body applied to the operands, then to its own results, as long as cond of them is true.

    (C1) cond takes the operands' types and gives a scalar i1. (C2) body takes and gives them. (C3) so do the results.
    """
    require(len(call.bodies) == 2, f"has {len(call.bodies)} regions (expected 2: cond and body)")
    condition, body = call.bodies
    count, flag = len(call.operands), TensorType((), element_type("i1"))
    fits = len(condition.arguments) == count and condition.results == (flag,)
    require(fits, f"cond has type {condition} (expected one that takes {count} values and returns a {flag})")
    fits = len(body.arguments) == len(body.results) == len(call.results) == count
    require(fits, f"body has type {body} (expected one that takes {count} values and returns {count})")
    return lambda *state: state


def _check_branches(call: Call, name: str) -> None:
    require(call.tensor().shape == (), f"{name} is {call.tensor()} (expected a scalar)")
    for body in call.bodies:
        expected = f"one that takes none and returns {len(call.results)} values"
        fits = not body.arguments and len(body.results) == len(call.results)
        require(fits, f"a branch has type {body} (expected {expected})")


def _called(call: Call, attribute: str) -> Run:
    """The function that an attribute names."""
    callee = call.functions[str(call.attribute(attribute))]
    return (lambda *values: callee.run(*values)[0]) if len(call.results) == 1 else callee.run


#: A call is pure if what it calls is, which is asked op by op.
_CALL = OpTraits(is_pure=True, is_call=True)


@op("func.call", values="regions", has_effects=True, calls=("callee",), any_sizes=True, traits=_CALL)
def call_(call: Call) -> Run:
    """The results of another function of the program."""
    return _called(call, "callee")


@op("composite", values="regions", has_effects=True, calls=("decomposition",), any_sizes=True, traits=_CALL)
def composite(call: Call) -> Run:
    """The results of its decomposition, a function of the program, or of what its name is known to mean."""
    bind = _COMPOSITES.get(str(call.attributes.get("name")))
    known = bind(call) if bind is not None else None
    return _called(call, "decomposition") if known is None else known


#: Binders of composites that are computed otherwise than by their decompositions; None: not this use.
_COMPOSITES: dict[str, Callable[[Call], Run | None]] = {}


def known_composite(name: str) -> Callable[[Callable[[Call], Run | None]], Callable[[Call], Run | None]]:
    """Make the decorated function the binder of composites of a name. It returns None to decompose a use."""

    def declare(bind: Callable[[Call], Run | None]) -> Callable[[Call], Run | None]:
        if name in _COMPOSITES:
            raise ValueError(f"composite {name!r} is declared twice")
        _COMPOSITES[name] = bind
        return bind

    return declare


def is_known_composite(attributes: Mapping[str, Any]) -> bool:
    """Whether a call has the name of composites that are computed otherwise than by their decompositions."""
    return attributes.get("name") in _COMPOSITES
