"""Backends that users bring: commands and Python objects; crashes, hangs, refusals and absences are reported."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.backends import OPERATIONS, PROGRAMS, BackendError
from minihlo.interp.backends.operation import Operation

from ..processes import started
from .backend_cases import CODES, DOUBLE, DOUBLED, FLOATS, TO_F8, failure, opened

#: Doubles f8E4M3FN by adding to the exponent what is there, whatever the program.
DOUBLING = """
import sys
from pathlib import Path
import numpy as np
folder = Path(sys.argv[-1])
assert "stablehlo.add" in (folder / "program.mlir").read_text()
assert sorted(p.name for p in folder.iterdir()) == ["input_0.npy", "program.mlir"]
codes = np.load(folder / "input_0.npy")
fields = codes & 0x78
np.save(folder / "output_0.npy", np.where(fields == 0, codes & 0x80 | codes << 1, codes + 8).astype(np.uint8))
print("what it prints is not an answer")
"""


def command(tmp_path: Path, source: str, *words: str) -> str:
    script = tmp_path / "the script.py"
    script.write_text(source)
    return "exec:" + shlex.join([sys.executable, str(script), *words])


def test_a_command(tmp_path: Path) -> None:
    with opened(command(tmp_path, DOUBLING, "--option", "a b")) as actual:
        for _ in range(2):
            (result,) = actual.evaluate(DOUBLE, [CODES])
            assert (result.dtype, result.tolist()) == (np.uint8, DOUBLED)


@pytest.mark.parametrize(
    ("source", "how", "message"),
    [
        ("import sys\nprint('later')\nsys.stderr.write('well\\nno f8\\n')\nsys.exit(69)", "refused", "no f8"),
        ("import sys; sys.exit(69)", "refused", "no reason given"),
        ("raise KeyError('x')", "died", "ended with exit status 1: KeyError: 'x'"),
        ("import os; os.abort()", "died", "died (SIGABRT)"),
        ("", "died", "the command ended with exit status 0 and wrote no output_0.npy"),
        ("import sys; open(sys.argv[1] + '/output_0.npy', 'w').write('1')", "died", "output_0.npy cannot be read"),
    ],
)
def test_commands_that_fail(tmp_path: Path, source: str, how: str, message: str) -> None:
    error = failure(command(tmp_path, source))
    assert error.how == how
    assert message in str(error)


def test_commands_that_are_not_there() -> None:
    error = failure("exec:/no/such/program -x")
    assert error.how == "absent"
    assert str(error).endswith("cannot be started: expected an executable command, got /no/such/program")


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    there = tmp_path / "pid"
    error = failure(
        command(tmp_path, f"import os, time\nopen({str(there)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"), 2
    )
    assert error.how == "slow"
    assert "gave no answer in 2 s" in str(error)
    assert is_gone(int(there.read_text()))


OBJECTS = """
import os, time
import numpy as np

def function(text, arrays):
    assert "stablehlo.add" in text
    return arrays[0] + np.uint8(1)

class Class:
    def evaluate(self, text, arrays):
        return [arrays[0], arrays[0] + np.uint8(1)]

class Unit:
    def operate(self, operation, arrays):
        if operation.op != "convert":
            raise NotImplementedError(f"no {operation.op}")
        return np.full(arrays[0].shape, 7, np.uint8)

class holder:
    unit = Unit()

nothing = None
def refuses(text, arrays): raise NotImplementedError("no\\nadd")
def raises(text, arrays): return {}["key"]
def aborts(text, arrays): print("Check failed: x"); os.abort()
def leaves(text, arrays): os._exit(3)
def hangs(text, arrays): open("hanging", "w").close(); time.sleep(60)
"""


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_backend.py").write_text(OBJECTS)
    (tmp_path / "broken.py").write_text("import no_such_thing")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("objects")
def test_python_objects() -> None:
    with opened("my_backend:function") as actual:
        assert [r.tolist() for r in actual.evaluate(DOUBLE, [CODES])] == [(CODES + 1).tolist()]
    with opened("my_backend:Class") as actual:
        assert len(actual.evaluate(DOUBLE, [CODES])) == 2
    with opened("my_backend:holder.unit") as actual:
        assert actual.takes == OPERATIONS
        assert actual.operate(TO_F8, [FLOATS]).tolist() == [7] * 8
        with pytest.raises(BackendError, match="refuses the operation: no sine"):
            actual.operate(Operation("sine", ("f32",), "f32"), [FLOATS])


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("attribute", "how", "message"),
    [
        ("refuses", "refused", "my_backend:refuses refuses the program: no add"),
        ("raises", "died", "my_backend:raises died: it raised KeyError: 'key'"),
        ("aborts", "died", "my_backend:aborts died (SIGABRT): Check failed: x"),
        ("leaves", "died", "my_backend:leaves ended with exit status 3: it wrote no message"),
        ("hangs", "slow", "my_backend:hangs gave no answer in 1 s"),
        ("absent", "absent", "my_backend:absent cannot be started: module 'my_backend' has no attribute 'absent'"),
        ("nothing", "absent", "nothing: expected a function or an object with evaluate or operate, got NoneType"),
    ],
)
def test_python_objects_that_fail(attribute: str, how: str, message: str) -> None:
    error = failure(f"my_backend:{attribute}", 1 if attribute == "hangs" else 60)
    assert error.how == how
    assert str(error).endswith(message)


@pytest.mark.usefixtures("objects")
def test_a_module_that_cannot_be_imported() -> None:
    assert str(failure("broken:x")) == "broken:x cannot be started: No module named 'no_such_thing'"


@pytest.mark.usefixtures("objects")
def test_one_that_died_or_hung_is_started_again() -> None:
    with opened("my_backend:function") as actual:
        for stop in (signal.SIGKILL, signal.SIGSTOP):
            assert actual.takes == PROGRAMS
            actual.evaluate(DOUBLE, [CODES])
            assert actual.pid
            os.kill(actual.pid, stop)
            actual.seconds = 1
            with pytest.raises(BackendError):
                actual.evaluate(DOUBLE, [CODES])
            actual.seconds = 60
            assert len(actual.evaluate(DOUBLE, [CODES])) == 1


@pytest.mark.usefixtures("objects")
def test_children_end_with_their_parent(tmp_path: Path) -> None:
    code = """if True:
        from minihlo.interp.backends import backend
        b = backend("my_backend:hangs")
        b.takes
        print(b.pid, flush=True)
        b.evaluate("", [])
    """
    with started([sys.executable, "-c", code], stderr=None, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        while not (tmp_path / "hanging").exists():
            time.sleep(0.05)
        parent.kill()
    assert is_gone(child)


def test_the_example() -> None:
    examples = Path(__file__).parents[2] / "examples"
    assert len((examples / "chip.py").read_text().splitlines()) < 60
    command = [sys.executable, "-m", "minihlo.interp.cli", "conform", "chip:Chip", "--ops", "divide,convert", "-j", "1"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    reported = subprocess.run(
        [*command, "--formats", "f8E5M2"], cwd=examples, env=environment, capture_output=True, text=True
    )
    assert reported.returncode == 1, reported.stderr
    assert "multiplied by the reciprocal, rounded to f16, and not divided" in reported.stdout
    assert "the result is rounded twice, to f16 first" in reported.stdout
    assert reported.stderr == ""


def is_gone(pid: int, seconds: float = 60) -> bool:
    """Whether a process ends within so many seconds."""
    end = time.monotonic() + seconds
    while True:
        try:
            os.kill(pid, 0)
            zombie = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (ProcessLookupError, FileNotFoundError):
            return True
        if zombie or time.monotonic() > end:
            return zombie
        time.sleep(0.05)
