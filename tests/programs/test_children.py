"""Child processes: none outlives its command, however that ends; messages between them are data."""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp.backends import BackendError, backend
from minihlo.interp.system import messages
from minihlo.interp.system.child import Child, python, run

from .. import processes
from ..thinned import rotated

LOOP = """func.func @main() -> tensor<i32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.while(%i = %c) : tensor<i32> cond {
    %p = stablehlo.compare EQ, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    stablehlo.return %i : tensor<i32>
  }
  return %r : tensor<i32>
}
"""
#: A simulator that starts a process of its own, and never answers.
SIMULATOR = "#!/bin/sh\nsh -c 'while :; do :; done' &\necho ready > ready\nsleep 1000\n"
FORKS = """import os, time
def f(text, arrays):
    os.fork()
    open("ready", "w").close()
    time.sleep(1000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("arguments", "sent"),
    rotated(
        [
            ("diff", "loop.mlir", "reference", "--how", "program"),
            ("diff", "loop.mlir", "exec:./sim.sh", "--how", "program"),
            ("conform", "exec:./sim.sh", "-j", "2"),
            ("conform", "forks:f", "-j", "2"),
            ("test", "loop.mlir"),
        ],
        [signal.SIGKILL, signal.SIGTERM],
    ),
)
def test_nothing_outlives_a_command(arguments: tuple[str, ...], sent: int, tmp_path: Path) -> None:
    (tmp_path / "loop.mlir").write_text(LOOP)
    (tmp_path / "forks.py").write_text(FORKS)
    (tmp_path / "sim.sh").write_text(SIMULATOR)
    (tmp_path / "sim.sh").chmod(0o755)
    mark = f"{os.getpid()} {sent} {arguments}"
    command = [sys.executable, "-P", "-m", "minihlo.interp.cli", *arguments]
    environment = {**os.environ, processes.MARK: mark}
    # Native code, and the interpreter, say nothing: their processes have used some time.
    is_silent = (arguments[-1] == "program" and "sim" not in arguments[2]) or arguments[0] == "test"
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
                time.sleep(0.1)
                if is_silent and len(processes.marked(mark)) > 1:
                    deadline = min(deadline, time.monotonic() + 1)
            assert len(processes.marked(mark)) > 1
            os.kill(process.pid, sent)
            process.wait(30)
        finally:
            process.kill()  # or it is waited for without an end
    assert not processes.end_all(mark, 5)


def test_children_end_with_what_they_have_started() -> None:
    child = Child(["/bin/sh", "-c", "sleep 1000 & echo $!; wait"])
    assert child.process.stdout is not None
    started = int(child.process.stdout.readline())
    assert child.end() == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while Path(f"/proc/{started}").exists() and "Z" not in Path(f"/proc/{started}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command_has_a_time_limit() -> None:
    with pytest.raises(TimeoutError):
        run(["/bin/sh", "-c", "while :; do :; done"], seconds=0.2)
    assert run(["/bin/sh", "-c", "cat; echo an error >&2; exit 3"], b"x") == (3, b"x", "an error")


@pytest.mark.parametrize("encoding", ["cp500", "utf-16"])
def test_messages_do_not_depend_on_the_encoding_of_streams(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "ä.mlir"
    path.write_text("func.func @main() { return }")
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-P", "-m", "minihlo.interp.cli", "test", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout.decode(encoding)


def through(head: object, *arrays: np.ndarray) -> tuple[object, list[np.ndarray]]:
    pipe = io.BytesIO()
    messages.write(pipe, head, arrays)
    pipe.seek(0)
    return messages.read(messages.from_stream(pipe))


@pytest.mark.parametrize(
    "array",
    [
        np.array(True),
        np.zeros((3, 0), np.int8),
        np.zeros((2, 0), np.complex64).imag,  # which begins behind the memory
        np.arange(6, dtype=">u2").reshape(2, 3),
        np.array([1 + 2j, np.nan], np.complex64),
        np.array([1.5, -2], ml_dtypes.float8_e4m3fn),
        np.array([1, -2], ml_dtypes.int4),
        np.broadcast_to(np.float32(3), (2, 2)),
        np.arange(10.0)[::-2],
    ],
    ids=lambda a: f"{a.dtype} {a.shape}",
)
def test_arrays_arrive_as_they_are(array: np.ndarray) -> None:
    head, (got,) = through({"a": ["ä", 1, None]}, array)
    assert head == {"a": ["ä", 1, None]}
    assert got.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("array", [np.array([object()]), np.array(["x"]), np.zeros(2, [("a", "i4")]), np.array(b"x")])
def test_other_arrays_are_refused(array: np.ndarray) -> None:
    with pytest.raises(messages.MessageError, match="expected arrays of numbers"):
        through(None, array)


def message(text: bytes, rest: bytes = b"") -> messages.Read:
    return messages.from_stream(io.BytesIO(struct.pack("<Q", len(text)) + text + rest))


@pytest.mark.parametrize(
    "text",
    [
        b"\xff",
        b"[1]",
        b"[1, 2, 3]",
        b"[null, 5]",
        b'[null, [["object", [1], 0, null, 8]]]',
        b'[null, [["f4", [3], 0, null, 8]]]',
        b'[null, [["f4", [2], 4, [4], 8]]]',
        b'[null, [["f4", [2], 0, null, -8]]]',
        b'[null, [["f4", [1e99], 0, null, 8]]]',
        b"[null, [[{}, [], 0, null, 8]]]",
        b"[" * 100_000,
        json.dumps([None, [["f4", [1 << 70], 0, None, 8]]]).encode(),
    ],
)
def test_other_messages_are_refused(text: bytes) -> None:
    with pytest.raises(messages.MessageError, match="expected a"):
        messages.read(message(text, bytes(8)))
    with pytest.raises(messages.MessageError, match="header of up to"):
        messages.read(messages.from_stream(io.BytesIO(b"\xff" * 16)))
    with pytest.raises(EOFError):
        messages.read(message(b'[null, [["f4", [2], 0, null, 8]]]', b"half"))


def test_an_object_of_a_backend_does_not_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text(
        "import numpy, os\n"
        "class Evil:\n"
        "    def __reduce__(self):\n"
        "        return os.system, ('touch was_here',)\n"
        "def f(text, arrays):\n"
        "    return [numpy.array([Evil()])]\n"
        "def garbage(text, arrays):\n"
        "    import gc, io\n"
        "    answers = next(x for x in gc.get_objects() if isinstance(x, io.BufferedWriter) and x.fileno() > 2)\n"
        "    answers.write(b'x' * 1000)\n"
        "    answers.flush()\n"
        "    return []\n"
    )
    monkeypatch.chdir(tmp_path)
    for name, words in (("f", "expected arrays of numbers, got one of object"), ("garbage", "expected a message")):
        tested = backend(f"evil:{name}")
        try:
            with pytest.raises(BackendError, match=words) as raised:
                tested.evaluate("", [])
            assert raised.value.how == "died"
        finally:
            tested.close()
    assert not (tmp_path / "was_here").exists()


def test_the_python_of_children_is_this_one() -> None:
    assert python("-c", "")[0] == sys.executable
