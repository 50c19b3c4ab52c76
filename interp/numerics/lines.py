"""Finds the line of Python that an operation comes from: the innermost one in the user's code."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Sequence

from ...ops import types
from .. import program
from ..program import Location

#: Locations of code that is not the user's: Python's own, installed packages, and this package.
_LIBRARIES = (
    *(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")),
    *(os.path.join(os.path.dirname(str(m.__file__)), "") for m in (program, types)),
)


def own_line(lines: Sequence[Location], fallback: Location) -> Location:
    """The innermost line outside of libraries."""
    own = (x for x in lines if x.line and not x.file.startswith(_LIBRARIES) and "-packages" not in x.file)
    return next(own, next((x for x in lines if x.line), fallback))
