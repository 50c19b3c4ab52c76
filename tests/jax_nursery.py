"""Runs pieces of Python, each in a child of its own that finds JAX and minihlo imported, but no backend.

A request is a line of standard input in JSON: the code, the variables of its environment, and its folder. The answer is
the exit status, the output and the errors.
"""

import gc
import json
import os
import sys
import tempfile
import warnings

import jax  # noqa: F401
import jaxlib.mlir.dialects.stablehlo  # noqa: F401

from minihlo.interp import api  # noqa: F401
from minihlo.interp.plugin import register  # noqa: F401
from minihlo.ops import op as registry


def seen(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as stream:
        return stream.read(1_000_000).decode(errors="replace")


def asked() -> str | None:
    """The code that this process, a child, is to run; None where there are no more requests."""
    warnings.simplefilter("ignore")  # JAX warns of forks; no thread has been started yet
    for line in sys.stdin:
        code, variables, folder = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                for stream, number in ((os.open(os.devnull, os.O_RDONLY), 0), (out.fileno(), 1), (err.fileno(), 2)):
                    os.dup2(stream, number)
                os.environ.update(variables)
                os.chdir(folder)
                warnings.resetwarnings()
                return code
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(json.dumps([status, seen(out.fileno()), seen(err.fileno())]), flush=True)
    return None


registry.ops()
gc.freeze()  # a child that collects garbage writes to no page of what is imported
if (code := asked()) is not None:
    sys.argv = ["-c"]
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
