"""The cache of compiled kernels: it is used, heals itself, is read only where it is safe, and can be missing."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minihlo.ops.engine import compiled, compiled_cache

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")


def double(x: float) -> float:
    return 2.0 * x


def again() -> Any:
    """The function compiled, or read from the cache, as a new process would."""
    numba: Any = importlib.import_module("numba")
    result = compiled_cache.compiled(numba, double, (numba.float64,), "double")
    assert result(3.5) == 7.0
    return result


def is_hit(result: Any) -> bool:
    """Whether the cache had it."""
    return sum(result.stats.cache_hits.values()) == 1


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of caches of its own."""
    with monkeypatch.context() as patch:
        patch.delenv("NUMBA_CACHE_DIR", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
        yield tmp_path / "caches" / "minihlo"
    importlib.import_module("numba").config.reload_config()  # it has read the variables of a test


def test_it_is_kept(home: Path) -> None:
    assert not is_hit(again())
    assert {p.suffix for p in home.rglob("*") if p.is_file()} == {".nbi", ".nbc", ".sha256"}
    assert is_hit(again())
    assert is_hit(again())


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


class Evil:
    """What runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.abort, ()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "one byte less": lambda data: data[:-1],
    "random": lambda data: np.random.default_rng(1).bytes(len(data)),
    "zeros": lambda data: bytes(len(data)),
    "one bit": _flipped,
    "twice": lambda data: data + data,
    "a pickle that runs code": lambda data: pickle.dumps(Evil()),
}


@pytest.mark.parametrize("suffix", [".nbi", ".nbc", ".sha256"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_it_heals(damage: str, suffix: str, home: Path) -> None:
    again()
    for path in home.rglob(f"*{suffix}"):
        path.write_bytes(DAMAGE[damage](path.read_bytes()))
    again()
    assert is_hit(again())


def test_a_directory_in_the_place_of_a_file(home: Path) -> None:
    again()
    (index,) = home.rglob("*.nbi")
    index.unlink()
    index.mkdir()
    again()  # which removes everything
    again()
    assert is_hit(again())


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners here")
@pytest.mark.parametrize("which", ["", "double"])
@pytest.mark.parametrize("change", ["group", "world", "owner"])
def test_a_directory_of_others_is_not_read(change: str, which: str, home: Path) -> None:
    again()
    if change == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root gives directories away")
        os.chown(home / which, 65534, 65534)
    else:
        (home / which).chmod(0o770 if change == "group" else 0o707)
    before = sorted(home.rglob("*"))
    for _ in range(2):
        assert not is_hit(again())
    assert sorted(home.rglob("*")) == before


def test_nobody_else_may_write_whatever_the_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        again()
    finally:
        os.umask(before)
    assert not home.stat().st_mode & 0o77
    assert not (home / "double").stat().st_mode & 0o77
    assert is_hit(again())


@pytest.mark.parametrize(
    "variables",
    [
        {"XDG_CACHE_HOME": "/dev/null"},
        {"XDG_CACHE_HOME": "/proc/no"},
        {"XDG_CACHE_HOME": "", "HOME": "/dev/null"},
        {"XDG_CACHE_HOME": "", "HOME": "no"},
        {"XDG_CACHE_HOME": "caches", "HOME": "/dev/null"},
        {"NUMBA_CACHE_DIR": "/dev/null/x"},
    ],
    ids=lambda v: " ".join(f"{a}={b}" for a, b in v.items()),
)
@pytest.mark.usefixtures("home")
def test_without_a_directory_it_is_compiled_each_time(variables: dict[str, str], tmp_path: Path) -> None:
    def files() -> list[Path]:
        packages = Path(__file__).parent, Path(compiled_cache.__file__).parent
        return sorted([*tmp_path.rglob("*"), *(p for package in packages for p in package.rglob("*.nb[ci]"))])

    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.chdir(tmp_path)
        before = files()
        for _ in range(2):
            assert not is_hit(again())
        assert files() == before


def test_numbas_own_variable_names_the_directory(home: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "other"))
        again()
        assert is_hit(again())
    assert (tmp_path / "other" / "minihlo" / "double").is_dir()
    assert not home.exists()


_LARGE = """
import sys
import numpy as np
from minihlo import interp
program = interp.load('''func.func @main(%x: tensor<1000000xf8E5M2>) -> tensor<1000000xf8E5M2> {
  %y = stablehlo.negate %x : tensor<1000000xf8E5M2>
  %z = stablehlo.tanh %y : tensor<1000000xf8E5M2>
  return %z : tensor<1000000xf8E5M2>
}''')
x = np.full(1000000, 0, np.uint8).view(interp.cast([0], "f8E5M2").dtype)
for _ in range(12):
    (y,) = program(x)
print(set(y.tobytes()), "numba" in sys.modules)
"""


def test_a_program_over_a_damaged_cache(home: Path) -> None:
    """All of it, kernels and machine, and no file of the current directory says where the cache is."""
    evil = home.parent / "evil"
    evil.mkdir(parents=True)
    (home.parent / ".numba_config.yaml").write_text(f"cache_dir: {evil}\ndisable_jit: 0\n")
    sizes = []
    for _ in range(3):
        # numba says so where it meets the file and has no YAML to read it with.
        command = [sys.executable, "-W", "ignore:A Numba config file", "-P", "-c", _LARGE]
        done = subprocess.run(command, cwd=home.parent, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout, done.stderr) == (0, "{128} True\n", "")
        files = [p for p in home.rglob("*.nb[ci]") if p.is_file()]
        sizes.append(sorted(p.stat().st_size for p in files))
        for i, path in enumerate(files):
            path.write_bytes([b"", b"damaged", path.read_bytes()[:100]][i % 3])
    assert sizes[0]
    assert [len(s) for s in sizes] == [len(sizes[0])] * 3
    assert min(sizes[2]) > 100
    assert not list(evil.iterdir())
