"""Runs each command line, a list in JSON on a line of standard input, by `main` and prints what a user would have seen.

A script of its own: one process for all, so that jaxlib is imported once, and one without the threads of JAX, so that
commands can start children by `fork`.
"""

import json
import os
import sys
import tempfile

import jaxlib.mlir.dialects.stablehlo  # noqa: F401 - before any command starts a child
import numpy as np  # noqa: F401

from minihlo.interp import api, cli  # noqa: F401


def main() -> None:
    streams = [os.dup(1), os.dup(2)]
    for line in sys.stdin:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            try:
                status: object = cli.main(json.loads(line))
            except BaseException as error:
                status = repr(error)
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(streams[0], 1)
            os.dup2(streams[1], 2)
            seen = []
            for stream in (out, err):
                stream.seek(0)
                seen.append(stream.read(1_000_000).decode(errors="replace"))
        print(json.dumps([status, *seen]), flush=True)


main()
