"""The child process that runs the command: exit codes, signals, and crashes reported in one line."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .. import processes
from ..processes import started

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="without fork nothing is isolated")

SCRIPT = """
import os, signal, sys, time
from minihlo.interp.system.isolate import quiet_native_stderr, run_isolated
def main():
{body}
sys.exit(run_isolated(main, "x.mlir"))
"""


def script(body: str) -> list[str]:
    return [sys.executable, "-c", SCRIPT.format(body="\n".join("    " + line for line in body.splitlines()))]


def run(body: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(script(body), capture_output=True, text=True, timeout=120, **options)


def start(body: str) -> contextlib.AbstractContextManager[subprocess.Popen]:
    """Starts a script that prints a line (the child's process id) when it is ready; in a process group of its own."""
    return started(script(body), text=True)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # in a container nobody may collect the zombies


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_the_exit_code_comes_through(code: int) -> None:
    assert run(f"return {code}").returncode == code


@pytest.mark.parametrize(("argument", "code"), [("", 0), ("None", 0), ("3", 3), ("'gone wrong'", 1)])
def test_sys_exit_ends_the_command(argument: str, code: int) -> None:
    done = run(f"sys.exit({argument})")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == ("gone wrong\n" if code == 1 else "")


def test_output_is_whole_and_printed_once() -> None:
    done = run("print('a' * 100_000)\nsys.stderr.write('b')\nreturn 0")
    assert (done.stdout, done.stderr) == ("a" * 100_000 + "\n", "b")


def test_stdin_can_be_a_pipe() -> None:
    assert run("print(sys.stdin.read())\nreturn 0", input="program").stdout == "program\n"


def test_exceptions_are_no_failed_checks() -> None:
    done = run("raise KeyError('bug')")
    assert done.returncode == 70
    assert "KeyError: 'bug'" in done.stderr


def test_an_abort_while_parsing_is_one_line() -> None:
    done = run("with quiet_native_stderr():\n  os.write(2, b'PLEASE submit a bug report')\n  os.abort()")
    assert done.returncode == 2
    message = "minihlo: x.mlir: the MLIR parser in jaxlib died on it (SIGABRT); the file is not a valid program\n"
    assert done.stderr == message


def test_a_crash_after_parsing_is_not_blamed_on_the_parser() -> None:
    done = run("with quiet_native_stderr():\n  pass\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert (done.returncode, done.stderr) == (2, "minihlo: x.mlir: the process died (SIGSEGV) while the program ran\n")


def test_a_killed_child_is_likely_out_of_memory() -> None:
    done = run("os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == 2
    assert done.stderr == "minihlo: x.mlir: killed (SIGKILL), most likely because memory ran out\n"


def test_stderr_comes_back_after_parsing() -> None:
    done = run(
        "with quiet_native_stderr():\n  os.write(2, b'noise')\nos.write(2, b'told')\n"
        "try:\n  with quiet_native_stderr():\n    raise ValueError\n"
        "except ValueError:\n  os.write(2, b' again')\nreturn 0"
    )
    assert done.stderr == "told again"


def test_outside_a_child_stderr_is_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    from minihlo.interp.system.isolate import quiet_native_stderr

    with quiet_native_stderr():
        os.write(2, b"of another thread")
    assert capfd.readouterr().err == "of another thread"


@pytest.mark.parametrize("to_group", [False, True], ids=["to the parent", "from a terminal"])
def test_ctrl_c_interrupts_the_child_once(to_group: bool) -> None:
    body = (
        "try:\n  print(os.getpid(), flush=True)\n  time.sleep(120)\n"
        "except KeyboardInterrupt:\n  time.sleep(0.2)\n  print('interrupted')\n  raise\n"
    )
    with start(body) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        os.kill(-process.pid if to_group else process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "interrupted\n", "")
    assert not is_running(child)


def test_a_second_ctrl_c_ends_a_child_that_does_not_listen() -> None:
    body = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint(os.getpid(), flush=True)\ntime.sleep(120)"
    with start(body) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert not is_running(child)


def test_a_terminated_parent_takes_the_child_along() -> None:
    with start("print(os.getpid(), flush=True)\ntime.sleep(120)") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    wait_until_gone(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_killed_parent_leaves_no_orphan() -> None:
    with start("print(os.getpid(), flush=True)\ntime.sleep(120)") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.communicate(timeout=60)
    wait_until_gone(child)


def test_a_reader_that_has_gone_away_is_no_traceback() -> None:
    with start("print(os.getpid(), flush=True)\ntime.sleep(0.3)\nprint('x' * 1_000_000)\nreturn 0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(10) == 128 + signal.SIGPIPE


def test_without_fork_the_command_runs_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from minihlo.interp.system.isolate import run_isolated

    monkeypatch.delattr(os, "fork")
    process = []
    assert run_isolated(lambda: process.append(os.getpid()) or 5, "x.mlir") == 5
    assert process == [os.getpid()]


def test_nothing_heavy_is_imported_before_the_fork() -> None:
    heavy = "numpy", "jaxlib", "ctypes"
    code = f"import sys, minihlo.interp.system.isolate; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_the_callers_signal_handlers_are_put_back() -> None:
    again = (
        "state = lambda: (signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
        "before = state()\n"
        "assert run_isolated(lambda: 4, 'y.mlir') == 4\n"
        "return 0 if state() == before else 1"
    )
    assert run(again).returncode == 0


def test_what_tests_start_ends_with_them() -> None:
    command = [sys.executable, "-c", "print(flush=True); import time; time.sleep(100)"]
    mark = f"{os.getpid()}-x"
    with started(command, env={**os.environ, processes.MARK: mark}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if sys.platform == "linux":
            assert list(processes.marked(mark)) == [process.pid]
            assert len(processes.end_all(mark, 0)) == 1
            process.wait(60)
            assert not processes.marked(mark)
    with started(command) as process:
        assert process.poll() is None
    assert not is_running(process.pid)


def test_children_hear_signals_that_this_process_ignores() -> None:
    code = (
        "import signal, subprocess, sys\n"
        "for s in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\n"
        "from tests import processes\n"
        "processes.hear_signals()\n"
        "code = 'import signal as s; print([s.getsignal(x) for x in (s.SIGQUIT, s.SIGHUP)], s.getsignal(s.SIGINT))'\n"
        "subprocess.run([sys.executable, '-c', code])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.stdout == "[<Handlers.SIG_DFL: 0>, <Handlers.SIG_DFL: 0>] <built-in function default_int_handler>\n"


def test_one_ctrl_c_ends_a_parser_that_loops() -> None:
    body = (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"  # as native code that never returns
        "with quiet_native_stderr():\n  print(flush=True)\n  time.sleep(120)\n"
    )
    with start(body) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(20) == 130


def test_ctrl_c_is_held_back_while_libraries_are_imported() -> None:
    script = (
        "import os, signal\n"
        "from minihlo.interp.system.isolate import holding_interrupts\n"
        "try:\n"
        "    with holding_interrupts():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        print('imported')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "imported\ninterrupted\n"


@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.75, 0.9])
def test_an_early_ctrl_c_ends_a_command(seconds: float) -> None:
    """While libraries are imported, and while workers start."""
    command = [sys.executable, "-P", "-m", "minihlo.interp.cli", "conform", "ml_dtypes", "-j", "2"]
    with started(command) as process:
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 130
