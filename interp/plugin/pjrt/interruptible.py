"""Work that Ctrl-C may interrupt although the framework waits for it.

This module holds nothing else: `interrupts` recognizes such work by the module of the frame that started it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import interrupts


def interruptible(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that KeyboardInterrupt may interrupt.

    The function must be defined in a module that no function of the PJRT table is defined in. Otherwise Ctrl-C waits
    for it.
    """
    return function(*arguments)


interrupts.allow_in(__name__)
