"""What may be asked for is bounded by machine, control group and process."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    assert (memory.ceiling(), memory.limit(5, free)) == (None, 6 << 30)
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
