"""Python files of the current directory are never run, unless the user names one as a backend."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What a child may import, of the package, of what it needs, of the standard library and of Python's own start.
NAMES = ["numpy", "ml_dtypes", "jaxlib", "jax", "rich", "mpmath", "minihlo", "pickle", "json", "argparse"]
NAMES += ["sitecustomize", "usercustomize", "conftest"]

PROGRAM = """\
func.func @main() -> tensor<2xf8E4M3FN> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>
  %1 = stablehlo.add %0, %0 : tensor<2xf8E4M3FN>
  check.expect_eq_const %1, dense<[2.0, 4.0]> : tensor<2xf8E4M3FN>
  return %1 : tensor<2xf8E4M3FN>
}
"""
LOAD = """
import io, sys
from minihlo import interp
from jaxlib.mlir import ir
from jax._src.interpreters.mlir import make_ir_context
text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
module = ir.Module.parse(text, make_ir_context())
file = io.BytesIO()
module.operation.write_bytecode(file)
print(*interp.load(file.getvalue())(2.0))
"""
CHIP = "def add(text, arrays):\n    raise NotImplementedError('nothing')\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory of files that write their name into `run` where they are imported."""
    for name in NAMES:
        text = f"open({str(tmp_path / 'run')!r}, 'a').write({name!r} + '\\n')\n"
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "iree").mkdir()
    (tmp_path / "iree" / "__init__.py").write_text((tmp_path / "numpy.py").read_text())
    (tmp_path / "chip.py").write_text(CHIP)
    (tmp_path / "x.mlir").write_text(PROGRAM)
    (tmp_path / "y.mlir").write_text(PROGRAM)
    return tmp_path


def started(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What became of a command line that was started as the installed command starts it."""
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


ADD = ("--ops", "add", "--formats", "f8E4M3FN,f8E5M2", "--form", "array")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("run", "x.mlir"), 0),
        (("test", "."), 0),
        (("diff", "x.mlir", "reference"), 0),
        pytest.param(("conform", "minihlo", *ADD, "-j", "2"), 0, marks=pytest.mark.exhaustive),
        (("conform", "iree:llvm-cpu", *ADD), None),
    ],
    ids=["run", "test", "diff", "conform in two processes", "conform without the package"],
)
def test_commands(arguments: tuple[str, ...], status: int | None, hostile: Path) -> None:
    done = started("-m", "minihlo.interp.cli", *arguments, cwd=hostile)
    assert not (hostile / "run").exists(), (hostile / "run").read_text()
    assert status is None or done.returncode == status, done.stdout + done.stderr


def test_only_the_named_backend_is_imported(hostile: Path) -> None:
    done = started("-m", "minihlo.interp.cli", "conform", "chip:add", *ADD, "-j", "2", cwd=hostile)
    assert not (hostile / "run").exists(), (hostile / "run").read_text()
    assert "2 UNSUPPORTED" in done.stdout, done.stdout + done.stderr


def test_bytecode_from_python(hostile: Path) -> None:
    done = started("-c", LOAD, cwd=hostile)
    assert not (hostile / "run").exists(), (hostile / "run").read_text()
    assert done.stdout == "2.0\n", done.stderr


def test_children_are_as_strict_as_their_parent(hostile: Path) -> None:
    """Python's own variables name the directory, and -E says not to look at them."""
    command = [sys.executable, "-E", "-P", "-m", "minihlo.interp.cli", "test", "."]
    environment = {**os.environ, "PYTHONPATH": str(hostile)}
    done = subprocess.run(command, cwd=hostile, env=environment, capture_output=True, text=True, timeout=300)
    assert not (hostile / "run").exists(), (hostile / "run").read_text()
    assert done.returncode == 0, done.stdout + done.stderr


#: What starts processes, and where it may stand.
STARTERS = {"sys.executable": {"system/child.py"}, "subprocess.Popen": {"system/child.py"}, "subprocess.run": set()}
UNUSED = {f"os.{name}" for name in ("system", "popen", "execv", "execve", "execvp", "spawnv", "posix_spawn")}
UNUSED |= {"multiprocessing", "runpy", "pty", "concurrent.futures.ProcessPoolExecutor"}
LAST = {name.rpartition(".")[2] for name in {*STARTERS, *UNUSED}}
SOURCES = sorted([*ROOT.glob("interp/**/*.py"), *ROOT.glob("ops/**/*.py")])


def test_children_are_started_in_one_way() -> None:
    places: dict[str, set[str]] = {name: set() for name in STARTERS}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in LAST:
                name = ast.unparse(node)
                assert name not in UNUSED, f"{path}:{node.lineno}"
                if name in STARTERS:
                    places[name].add(str(path.relative_to(ROOT / "interp")))
            elif isinstance(node, ast.Import):
                assert not UNUSED & {a.name for a in node.names}, f"{path}:{node.lineno}"
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert not (UNUSED | set(STARTERS)) & {f"{node.module}.{a.name}" for a in node.names}, path
                assert node.module not in UNUSED, f"{path}:{node.lineno}"
    assert places == STARTERS


def test_arrays_are_read_without_pickles() -> None:
    """`np.load` says so each time, and nothing else reads pickles."""
    readers = 0
    for path in SOURCES:
        for call in (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)):
            if getattr(call.func, "attr", "") not in ("load", "loads", "Unpickler"):
                continue
            name = ast.unparse(call.func)
            if name in ("np.load", "numpy.load"):
                options = {k.arg: ast.unparse(k.value) for k in call.keywords}
                assert options.get("allow_pickle") == "False", f"{path}:{call.lineno}"
                readers += 1
            assert not name.startswith("pickle."), f"{path}:{call.lineno}"
    assert readers > 2
