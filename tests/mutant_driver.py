"""Runs command lines, read as JSON from standard input, by `main` and prints as JSON what their users would have seen.

A script of its own: one process for all, so that jaxlib is imported once and commands can start children.
"""

import json
import os
import sys
import tempfile

import jaxlib.mlir.dialects.stablehlo  # noqa: F401 - before any command starts a child
import numpy as np  # noqa: F401

from minihlo.interp import api, cli  # noqa: F401


def main() -> None:
    results, streams = {}, [os.dup(1), os.dup(2)]
    for name, arguments in json.load(sys.stdin).items():
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            try:
                status: object = cli.main(arguments)
            except BaseException as error:
                status = repr(error)
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(streams[0], 1)
            os.dup2(streams[1], 2)
            seen = []
            for stream in (out, err):
                stream.seek(0)
                seen.append(stream.read(100_000).decode(errors="replace"))
        results[name] = (status, *seen)
    print(json.dumps(results))


main()
