"""Sessions of `exec:`: the example of the documentation, and commands that do not keep to the protocol."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.backends import BackendError, ChildBackend, backend
from minihlo.interp.backends.operation import Operation
from minihlo.interp.cli import main
from minihlo.interp.conform.result import load

PAGE = Path(__file__).parents[2] / "docs" / "exec-protocol.md"
NEGATE = Operation("negate", ("f8E4M3FN",), "f8E4M3FN")
CODES = np.array([[0, 1, 0x7E], [0x80, 0xFE, 0x38]], np.uint8)

pytestmark = pytest.mark.usefixtures("in_the_repository")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    (source,) = re.findall(r"^```c\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(source.splitlines()) <= 60
    (tmp_path / "negate.c").write_text(source)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["cc", *flags, str(tmp_path / "negate.c"), "-o", str(tmp_path / "negate")], check=True)
    words = ["--ops", "negate,abs,floor,dot_general", "--formats", "f8E4M3FN", "--form", "array", "-j", "1"]
    path = tmp_path / "j.json"
    assert main(["conform", f"exec:--session {tmp_path / 'negate'}", *words, "--json", str(path)]) == 0
    found = {c.signature: (c.verdict, c.message.rpartition(": ")[2]) for c in load(path).cases}
    assert found == {
        "negate.f8E4M3FN": ("PASS", ""),
        "abs.f8E4M3FN": ("PASS", ""),
        "floor.f8E4M3FN": ("UNSUPPORTED", "only negate and abs"),
    }


#: What a command of Python does with a request: `head` are its lines, `data` its bytes.
COMMAND = """
import os, sys, time
read, write = sys.stdin.buffer, sys.stdout.buffer
def say(text, data=b""):
    write.write(text.encode() + data)
    write.flush()
{start}
starts = open({log!r}, "a")
starts.write("started\\n")
starts.close()
while True:
    head = []
    while not head or not head[-1].startswith("data "):
        line = read.readline()
        if not line:
            sys.exit(0)
        head.append(line.decode().strip())
    data = read.read(int(head[-1].split()[1]))
{body}
"""
OPERATIONS, PROGRAMS = (f'say("minihlo-exec 1 {takes}\\n")' for takes in ("operations", "programs"))


@pytest.fixture
def command(tmp_path: Path):
    made: list[ChildBackend] = []

    def start(body: str, start: str = OPERATIONS) -> ChildBackend:
        path = tmp_path / "command.py"
        text = COMMAND.format(
            start=start, body=textwrap.indent(textwrap.dedent(body), "    "), log=str(tmp_path / "log")
        )
        path.write_text(text)
        found = backend(f"exec:--session {sys.executable} {path}")
        assert isinstance(found, ChildBackend)
        made.append(found)
        return found

    yield start
    for child in made:
        child.close()


def starts(tmp_path: Path) -> int:
    return len((tmp_path / "log").read_text().splitlines())


def test_one_start_answers_many_requests(command, tmp_path: Path) -> None:
    body = """
    assert head == ["operation negate", "operand f8E4M3FN 1 2 2 3", "result f8E4M3FN 1 2 2 3", "data 6"], head
    say("data 6\\n", bytes(c ^ 0x80 for c in data))
    """
    made = command(body)
    assert made.takes == "operations"
    for _ in range(3):
        assert made.operate(NEGATE, [CODES]).tolist() == (CODES ^ 0x80).tolist()
    assert made.operate(NEGATE, [CODES.T.copy().T]).tolist() == (CODES ^ 0x80).tolist()  # codes travel row by row
    assert starts(tmp_path) == 1


def test_attributes_wide_codes_and_scalars(command) -> None:
    body = """
    print(head, data.hex(), file=sys.stderr, flush=True)
    say("failed " + " ".join(head) + " " + data.hex() + "\\n")
    """
    made = command(body)
    attributes = {"comparison_direction": "LT", "compare_type": "FLOAT"}
    arrays = [np.array(0x1234, np.uint16), np.array([1, 0xABCD], np.uint16)]
    with pytest.raises(BackendError) as error:
        made.operate(Operation("compare", ("bf16", "bf16"), "i1", attributes), arrays)
    assert error.value.how == "died"
    assert error.value.text.endswith(
        "operation compare attribute comparison_direction LT attribute compare_type FLOAT "
        "operand bf16 2 0 operand bf16 2 1 2 result i1 1 1 2 data 6 34120100cdab"
    )


@pytest.mark.parametrize(
    ("body", "how", "text"),
    [
        ('say("unsupported no sign bit\\n")', "refused", "no sign bit"),
        ('say("failed the bus is busy\\n")', "died", "the bus is busy"),
        ('say("data 5\\n", b"12345")', "died", "expected 6 bytes of a result, got 5"),
        ('say("data 7\\n", b"1234567")', "died", "expected 6 bytes of a result, got 7"),
        ('say("data 6\\n", b"123"); sys.exit(0)', "died", "ended with exit status 0"),
        ('say("data 99999999999999999999\\n")', "died", "expected data N, result"),
        ('say("hello\\n")', "died", "got 'hello'"),
        ('say("x" * 70000 + "\\n")', "died", ""),
        ('print("board: Error 7", file=sys.stderr); sys.exit(3)', "died", "ended with exit status 3: board: Error 7"),
        ("os.kill(os.getpid(), 9)", "died", "died (SIGKILL)"),
    ],
)
def test_answers_that_are_no_results(command, body: str, how: str, text: str) -> None:
    made = command(body)
    for _ in range(2):  # the next request finds a command that runs
        with pytest.raises(BackendError) as error:
            made.operate(NEGATE, [CODES])
        assert error.value.how == how
        assert text in error.value.text


def test_a_command_that_ended_is_started_again(command, tmp_path: Path) -> None:
    body = """
    if data[0]:
        sys.exit(1)
    say("data 6\\n", data)
    """
    made = command(body)
    for first, is_good in ((0, True), (1, False), (0, True), (0, True)):
        codes = CODES.copy()
        codes[0, 0] = first
        if is_good:
            assert made.operate(NEGATE, [codes]).tolist() == codes.tolist()
        else:
            with pytest.raises(BackendError):
                made.operate(NEGATE, [codes])
    assert starts(tmp_path) == 2


def test_a_request_without_an_answer_is_slow(command) -> None:
    made = command("time.sleep(60) if data[0] else say('data 6\\n', data)")
    codes = CODES.copy()
    assert made.operate(NEGATE, [codes]).tolist() == codes.tolist()
    made.seconds = 0.3
    codes[0, 0] = 1
    with pytest.raises(BackendError, match="gave no answer") as error:
        made.operate(NEGATE, [codes])
    assert error.value.how == "slow"
    made.seconds = 60.0
    codes[0, 0] = 0
    assert made.operate(NEGATE, [codes]).tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("start", "got"),
    [
        ('say("hello\\n")', "got 'hello'"),
        ('say("minihlo-exec 2 operations\\n")', "minihlo-exec 2"),
        ('say("minihlo-exec 1 both\\n")', "both"),
        ("sys.exit(4)", "ended with exit status 4"),
        ('say("minihlo-exec")', ""),
    ],
)
def test_a_command_that_does_not_begin_so_cannot_be_started(command, start: str, got: str) -> None:
    made = command("pass", f"{start}; sys.exit(0)")
    with pytest.raises(BackendError) as error:
        made.operate(NEGATE, [CODES])
    assert error.value.how == "absent"
    assert got in error.value.text


def test_programs(command) -> None:
    body = """
    size = int(head[0].split()[1])
    text, codes = data[:size].decode(), data[size:]
    assert "stablehlo.negate" in text and head[1] == "operand uint8 1 2 2 3", head
    negated = bytes(c ^ 0x80 for c in codes)
    say("result uint8 1 2 2 3\\nresult float32 4 0\\ndata 10\\n", negated + bytes([0, 0, 128, 63]))
    """
    made = command(body, PROGRAMS)
    assert made.takes == "programs"
    first, second = made.evaluate("stablehlo.negate é", [CODES])
    assert first.tolist() == (CODES ^ 0x80).tolist()
    assert second.dtype == np.float32
    assert second.shape == ()
    assert second == 1.0


def test_names(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("exec:--session", "exec:--session ''x\"", "exec:--session /no/such/command"):
        assert main(["conform", name, "--case", "negate.f8E5M2", "-j", "1"]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "Traceback" not in told
