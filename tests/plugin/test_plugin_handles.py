"""The handles that stand for our objects in the framework."""

import gc
import os
import weakref

import pytest

from minihlo.interp.plugin.pjrt.handles import Pool


def test_memory_of_handles_is_never_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The framework drops handles after the interpreter has cleared our modules, and counts down in that memory."""
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    pool = Pool()
    pool.add("object")
    base = pool._chunks[0][1].base
    assert base is not None
    memory = weakref.ref(base)
    del pool, base
    gc.collect()
    assert memory() is not None
