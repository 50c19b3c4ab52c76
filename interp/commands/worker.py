"""A process that runs .mlir files for `minihlo test`. If the parser crashes, only this process dies.

A request (`system.child`) is a file, and how many of its functions to skip. The answers are "start" with a line and a
number before each function, "done" with a message after it (null if it passes), and "end".
"""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from ..system import host_floats
from ..system.child import serve


def main() -> None:
    """Answer requests until standard input ends."""
    host_floats.make_default()
    limits = json.loads(sys.argv[1])

    def answer(head: Any, _: Any) -> Iterator[tuple[Any, tuple[()]]]:
        for line, message in _results(*head, **limits):
            is_start = isinstance(message, _Started)
            yield (("start", (line, message.number)) if is_start else ("done", message)), ()
        yield ("end", None), ()

    serve(answer)


@dataclasses.dataclass(frozen=True)
class _Started:
    number: int


def _tests(text: str, function: str | None) -> list[tuple[str | None, int]]:
    """The functions of a part of a file that are run; None stands for the one that `minihlo run` would run.

    Of several those that take nothing are run. Each has the number of those of its name before it.
    """
    from ..testing.chunks import entries, functions

    declared = functions(text)
    if function is not None:
        *modules, name = function.split("::")
        is_there = any(f.name == name for f in declared) and all(f"@{m}" in text for m in modules)
        return [(function, 0)] if is_there else []
    tests = entries(declared)
    names = [f.name for f in tests]
    empty: list[tuple[str | None, int]] = [
        (f.name, names[:i].count(f.name)) for i, f in enumerate(tests) if not f.has_arguments
    ]
    return empty if empty and len(tests) > 1 else [(None, 0)]


def _within(functions: Iterable[str], name: str | None, number: int) -> str | None:
    """Return the name in the program of the function of that name and number: those in modules may have one name."""
    found = [f for f in functions if f == name or f.endswith(f"::{name}")]
    return found[number] if number < len(found) else name


def _arguments(text: str) -> str:
    """Return the text of the inputs that the first RUN line gives as `--args="[…]"`, by default an empty list."""
    match = re.search(r'^// RUN: (?!not ).*--args="([^"\n]*)"', text, re.MULTILINE)
    return match[1] if match else "[]"


def _results(path: str, skip: int, timeout: float | None, max_steps: int | None, function: str | None = None) -> Any:
    from ...ops.policy import Policy
    from ..api import read
    from ..errors import Error
    from ..machine import run
    from ..parse.parser import parse, parse_attributes
    from ..planner import plan
    from ..testing.chunks import split
    from ..values.values import check_input

    try:
        programs: list[tuple[Any, int]] = list(split(read(path).decode()))
    except UnicodeDecodeError as error:
        programs = [(error.object, 1)]  # the parser reports the place
    except Error as error:
        yield 1, _Started(0)
        yield 1, str(error)
        return
    items = [(t, n, *f) for t, n in programs for f in (_tests(t, function) if isinstance(t, str) else [(function, 0)])]
    refused = None  # the part that cannot be read, which is reported once
    for i, (text, line, name, number) in enumerate(items[skip:], skip):
        if text is refused:
            continue
        yield line, _Started(i)
        if timeout is not None:  # the alarm has no handler, so it ends the process in native code too
            signal.setitimer(signal.ITIMER_REAL, timeout)
        message = None
        try:
            refused = text
            program = parse(text, path, line)
            refused = None
            if program.functions:
                p = plan(program, _within(program.functions, name, number), Policy(), most_steps=max_steps)
                inputs = [array for array, _ in parse_attributes(_arguments(text))]
                if len(p.argument_types) != len(inputs):
                    where = p.function.location
                    wanted = f"{len(p.argument_types)} input{'s' * (len(p.argument_types) != 1)}"
                    message = f"{where}: @{p.function.name}: expected values for {wanted}, got {len(inputs)}"
                    message += " (use minihlo run --input)"
                else:
                    types = enumerate(zip(inputs, p.argument_types, strict=True))
                    run(p, [check_input(value, t, f"input {i}") for i, (value, t) in types])
        except (Error, MemoryError) as error:
            message = " ".join(str(error).split()) or "out of memory"
        except Exception:  # a bug in minihlo must not prevent the other programs from running
            message = "internal error: " + " | ".join(traceback.format_exc().strip().splitlines()[-3:])
        if timeout is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        yield line, message


if __name__ == "__main__":
    main()
