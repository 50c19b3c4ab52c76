"""Every operation that takes minifloats is emulated, or refused with a reason."""

import pytest

from minihlo.interp.emulate.rewrite import rules
from minihlo.ops.op import lookup, ops
from minihlo.ops.traits import RegionSemantics
from minihlo.ops.types import ELEMENT_TYPES

MINIFLOATS = {t for t in ELEMENT_TYPES.values() if t.is_minifloat}
#: Operations whose results are what their regions give, or those of a function.
RUN_REGIONS = (RegionSemantics.ONE, RegionSemantics.LOOP, RegionSemantics.ALL)
#: Elements are not only moved by these, though they have any type.
COMPUTE = {"stablehlo.cross-replica-sum", "interpreter.run_parallel", "stablehlo.async_start"}


def how(name: str) -> str | None:
    """How an operation on minifloats is emulated; None where it is not."""
    record, (emulations, refusals) = lookup(name), rules()
    assert record is not None
    if name in refusals:
        return "refused"
    if name in emulations:
        return "a rule"
    if name in COMPUTE:
        return None
    if record.is_elementwise and record.values == "numbers":
        return "a table"
    if record.values == "codes":
        return "codes that move"
    return "its regions" if record.traits.is_call or record.traits.regions in RUN_REGIONS else None


@pytest.mark.parametrize("name", [n for n in ops() if lookup(n).types & MINIFLOATS])
def test_every_operation_on_minifloats_is_emulated_or_refused(name):
    assert how(name) is not None, f"{name}: declare an emulation by `emulates`, or a reason by `refuses`"


def test_rules_are_of_operations():
    emulations, refusals = rules()
    names = [n for n in (*emulations, *refusals) if not n.startswith(("minihlo.", "xla.")) and "$" not in n]
    assert [n for n in names if lookup(n) is None] == []  # but for groups and composites
    assert all(len(reason) > 10 for reason in refusals.values())
