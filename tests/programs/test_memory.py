"""What may be asked for is bounded by machine, control group and process."""

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.errors import InputError, ResourceError
from minihlo.interp.system import memory
from minihlo.ops.types import TensorType, element_type


def test_the_limit_is_a_share_of_the_least_free_memory() -> None:
    free = [8 << 30, 16 << 30, 4 << 30]
    assert memory.limit(free=free) == 3 << 30
    memory.check(3 << 30, "this", free=free)
    with pytest.raises(ResourceError, match=r"^this takes 3\.5 GiB, but only 3\.0 GiB are available$"):
        memory.check(7 << 29, "this", free=free)
    assert memory.limit(free=[*free, -5]) == 0
    assert memory.limit() > 0
    assert memory.limit() <= min(memory.free_memory()) * 1.5  # both change from moment to moment


def test_control_groups_leave_what_is_below_their_limits(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    for folder, most, used in ((tmp_path, "max", 5), (inner.parent, "1000", 400), (inner, "500", 300)):
        (folder / "memory.max").write_text(f"{most}\n")
        (folder / "memory.current").write_text(f"{used}\n")
    (inner / "memory.stat").write_text("anon 7\ninactive_file 50\n")
    files = "memory.max", "memory.current", "inactive_file"
    assert list(memory.free_in_groups(tmp_path, "/a/b", *files)) == [500 - 300 + 50, 1000 - 400]
    # A path of the host that does not exist in the container.
    assert list(memory.free_in_groups(inner.parent, "/x/y", *files)) == [600]


@pytest.mark.parametrize("shape", [(10**13,), (10**40,), (0, 2**63), (0, 2**62, 2**62), (1,) * 65])
def test_what_numpy_cannot_hold_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ResourceError):
        memory.check_type(TensorType(shape, element_type("f32")))


@pytest.mark.parametrize("shape", [(), (0,), (1000, 1000), (0, 2**40), (1,) * 64])
def test_what_fits_is_allowed(shape: tuple[int, ...]) -> None:
    memory.check_type(TensorType(shape, element_type("f8E4M3FN")))


def test_sizes() -> None:
    sizes = {"8GiB": 8 << 30, "0.5 MiB": 1 << 19, "3kB": 3000, "2TB": 2 * 10**12, "17": 17, "17B": 17, "1e6": 10**6}
    assert {text: memory.parse_size(text) for text in sizes} == sizes
    assert 0 < memory.parse_size("50%") * 2 - memory.parse_size("100%") + 2 < 4
    for text in ("", "-1", "8 GiBs", "1.2.3", "%", "5 %%", "many"):
        with pytest.raises(InputError, match=r"^expected a size"):
            memory.parse_size(text)


def test_the_ceiling_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    free = [8 << 30]
    monkeypatch.delenv(memory.LIMIT, raising=False)
    assert (memory.ceiling(), memory.limit(4, free)) == (None, (6 << 30) + 3 - 4)
    monkeypatch.setenv(memory.LIMIT, "1GiB")
    assert memory.limit(1 << 20, free) == (1 << 30) - (1 << 20)
    memory.check(1 << 30, "this", free=free)
    with pytest.raises(ResourceError, match=r"^this takes 1 bytes, but only 0 bytes are available$"):
        memory.check(1, "this", used=1 << 30)
    monkeypatch.setenv(memory.LIMIT, "all of it")
    with pytest.raises(InputError, match=r"^MINIHLO_MEMORY_LIMIT: expected a size .*got 'all of it'$"):
        memory.limit()
    memory.set_ceiling(100)
    try:
        assert memory.limit(40) == 60
    finally:
        memory.set_ceiling(None)


_TYPE = "tensor<256x1024xf32>"  # 1 MiB


def _values(operation: str, count: int = 40) -> str:
    """A program with so many results, each made of the one before."""
    lines = [operation.format(i=i, p="a" if i == 0 else i - 1, t=_TYPE) for i in range(count)]
    results = ", ".join(f"%{i}" for i in range(count))
    types = ", ".join([_TYPE] * count)
    called = (
        f"func.func private @f(%a: {_TYPE}) -> {_TYPE} {{ %0 = stablehlo.negate %a : {_TYPE}\nreturn %0 : {_TYPE} }}"
    )
    start = f"func.func @main(%a: {_TYPE}, %s: tensor<1x1xf32>, %k: tensor<i32>) -> ({types}) {{"
    return "\n".join([start, *lines, f"return {results} : {types} }}", called])


@pytest.mark.parametrize(
    ("operation", "is_refused"),
    [
        ("%{i} = stablehlo.add %{p}, %a : {t}", True),
        ("%{i} = func.call @f(%{p}) : ({t}) -> {t}", True),
        (
            "%{i} = stablehlo.dynamic_update_slice %{p}, %s, %k, %k : "
            "({t}, tensor<1x1xf32>, tensor<i32>, tensor<i32>) -> {t}",
            True,
        ),
        ("%{i} = stablehlo.reshape %{p} : ({t}) -> {t}", False),
        ("%{i} = stablehlo.reverse %{p}, dims = [0] : {t}", False),  # views
    ],
    ids=["add", "call", "update", "reshape", "reverse"],
)
def test_the_limit_holds_for_all_values_together(
    operation: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = interp.load(_values(operation))
    inputs = np.ones((256, 1024), np.float32), np.zeros((1, 1), np.float32), np.int32(3)
    monkeypatch.setenv(memory.LIMIT, "1GiB")
    assert len(program(*inputs)) == 40
    monkeypatch.setenv(memory.LIMIT, str(memory.used() + (20 << 20)))
    if is_refused:
        with pytest.raises(
            interp.ResourceError, match=r"<string>:\d+.* takes 1.0 MiB, but only .* beside the .* of other"
        ):
            program(*inputs)
    else:
        assert len(program(*inputs)) == 40


def test_values_that_are_dropped_count_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    before = memory.used()
    array = np.ones(1 << 20)
    assert memory.count(array[::2]) == 8 << 20
    assert memory.count(array) == 0
    assert memory.used() == before + (8 << 20)
    del array
    assert memory.used() == before
    text = f"func.func @main(%a: {_TYPE}) -> {_TYPE} {{ %0 = stablehlo.add %a, %a : {_TYPE}\nreturn %0 : {_TYPE} }}"
    program, a = interp.load(text), np.ones((256, 1024), np.float32)
    monkeypatch.setenv(memory.LIMIT, str(before + (10 << 20)))
    for _ in range(20):
        program(a)
    held = []
    with contextlib.suppress(interp.ResourceError):
        for _ in range(20):
            held.append(program(a))
    assert 5 < len(held) < 12


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_scratch_space_is_limited_too() -> None:
    script = (
        "import numpy as np; from minihlo.interp.system import memory\n"
        "memory.free_memory = lambda: [200 << 20]\n"
        "memory.confine()\n"
        "np.zeros(100 << 20, np.uint8)\n"
        "try: np.zeros(400 << 20, np.uint8)\n"
        "except MemoryError: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr
