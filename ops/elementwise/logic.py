"""Logical operations on the bits of integers, and on booleans."""

from __future__ import annotations

import numpy as np

from ..op import EXACT
from ..traits import Combining, OpTraits
from .elementwise import elementwise

for _name, _host, _doc in (
    ("and", np.bitwise_and, "Bitwise and."),
    ("or", np.bitwise_or, "Bitwise or."),
    ("xor", np.bitwise_xor, "Bitwise exclusive or."),
):
    _traits = OpTraits(combining=Combining(_host))
    elementwise(_name, "bool integer", accuracy=EXACT, operands=2, doc=_doc, traits=_traits)(_host)
elementwise("not", "bool integer", accuracy=EXACT, doc="Bitwise complement.")(np.invert)
