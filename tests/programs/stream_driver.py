"""A process that runs command lines on streams of any state, each in a fork: imports are paid once.

It reads JSON lines, `[arguments, state]`, and answers with `[exit status, standard output, standard error]`. The
streams are made as Python makes them when it starts: what is closed is None.
"""

import io
import json
import os
import sys
import tempfile

import jaxlib.mlir.ir
import numpy as np
import rich.console
import rich.table

from minihlo.interp import cli
from minihlo.interp.commands import cast, conform, diff, run, tables, test  # noqa: F401

IMPORTED = jaxlib.mlir.ir, np, rich.console


def arrange(state: str, out: int, err: int) -> None:
    """Give descriptors 0, 1 and 2 and the objects in `sys` that state."""
    full, null = os.open("/dev/full", os.O_WRONLY), os.open(os.devnull, os.O_RDONLY)
    reader, no_reader = os.pipe()
    os.close(reader)
    os.dup2(null, 0)
    os.dup2({"stdout full": full, "stdout without reader": no_reader}.get(state, out), 1)
    os.dup2(full if state == "stderr full" else err, 2)
    encoding = "ascii" if state == "ascii" else "utf-8"
    names = "stdin", "stdout", "stderr"
    for descriptor, (name, mode) in enumerate(zip(names, ("r", "w", "w"), strict=True)):
        if state == f"{name} closed" or state == "all closed":
            os.close(descriptor)
            stream = None
        else:
            errors = "backslashreplace" if name == "stderr" else "strict"
            stream = open(descriptor, mode, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def ran(arguments: list[str], state: str) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            arrange(state, out.fileno(), err.fileno())
            sys.argv = ["minihlo", *arguments]
            status = cli.main()
            try:  # as Python does at its end
                for stream in filter(None, (sys.stdout, sys.stderr)):
                    stream.flush()
            except BaseException:
                status = 120
            os._exit(status)
        _, ended = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(io.TextIOWrapper(file, "utf-8", errors="surrogateescape").read())
        return os.waitstatus_to_exitcode(ended), texts[0], texts[1]


if __name__ == "__main__":
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        print(json.dumps(ran(*json.loads(line))), file=answers, flush=True)
