"""What the tests of both tables of divergences share."""

from __future__ import annotations

import platform

import pytest

from tools.crosscheck.peers import PEERS


def skip_unless_about_these(versions: dict[str, str]) -> None:
    """Skip where a table is about other versions or another processor than there are here."""
    here = {p.package: p.version for p in PEERS.values() if p.package in versions}
    if here != versions:
        pytest.skip(f"the table is about {versions}, and this is {here}")
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"the table is about x86-64, and this is {platform.machine()}")
