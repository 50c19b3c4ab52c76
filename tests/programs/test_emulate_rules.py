"""Every operation that takes minifloats is emulated, or refused with a reason."""

import pytest

from minihlo.interp.emulate.rules import rules
from minihlo.ops.op import lookup, ops
from minihlo.ops.traits import RegionSemantics
from minihlo.ops.types import ELEMENT_TYPES

MINIFLOATS = {t for t in ELEMENT_TYPES.values() if t.is_minifloat}
#: Operations whose results are what their regions give, or those of a function.
RUN_REGIONS = (RegionSemantics.ONE, RegionSemantics.LOOP, RegionSemantics.ALL)
#: Elements are not only moved by these, though they have any type.
COMPUTE = {"stablehlo.cross-replica-sum", "interpreter.run_parallel", "stablehlo.async_start"}


def is_known(name: str) -> bool:
    """Whether an operation on minifloats is refused, or has a rule, a table, codes that move, or regions that run."""
    record, (emulations, refusals) = lookup(name), rules()
    if name in refusals or name in emulations or name in COMPUTE:
        return name not in COMPUTE or name in {**refusals, **emulations}
    is_table = record.is_elementwise and record.values == "numbers"
    return is_table or record.values == "codes" or record.traits.is_call or record.traits.regions in RUN_REGIONS


@pytest.mark.parametrize("name", [n for n in ops() if lookup(n).types & MINIFLOATS])
def test_every_operation_on_minifloats_is_emulated_or_refused(name):
    assert is_known(name), f"{name}: declare an emulation by `emulates`, or a reason by `refuses`"


def test_rules_are_of_operations():
    emulations, refusals = rules()
    names = [n for n in (*emulations, *refusals) if not n.startswith(("minihlo.", "xla.")) and "$" not in n]
    assert [n for n in names if lookup(n) is None] == []  # but for groups and composites
    assert all(len(reason) > 10 for reason in refusals.values())
