"""Output that depends on the process: printing, and calls of listeners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..ops.processes.parallel import current
from .program import Operation
from .values.printing import format_value

#: Held while something is printed or a listener is called, so that the output of one process stays in one piece.
_output_lock = threading.RLock()


def print_operands(operation: Operation, *values: Any) -> None:
    """Print the operands of `interpreter.print`, with the place and, where there are several processes, the process."""
    process = current()
    where = f"{operation.location}" + (f" process {process.id}" if process.grid.shape != (1, 1) else "")
    texts = [f"{where}: {format_value(v, o.type)}" for v, o in zip(values, operation.operands, strict=True)]
    with _output_lock:
        print("\n".join(texts), flush=True)


def one_at_a_time(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function as one that only one process runs at a time."""

    def run(*arguments: Any) -> None:
        with _output_lock:
            function(*arguments)

    return run
