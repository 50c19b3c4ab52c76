"""What the tests of both tables of divergences share."""

import platform

import pytest

from tools.crosscheck.peers import PEERS

#: The peers whose packages are installed.
INSTALLED = [p.name for p in PEERS.values() if p.version is not None]


def skip_unless_about_these(versions: dict[str, str]) -> None:
    """Skip where a table is about other versions of what is installed, or about another processor."""
    here = {PEERS[name].package: PEERS[name].version for name in INSTALLED if PEERS[name].package in versions}
    if not here.items() <= versions.items():
        pytest.skip(f"the table is about {versions}, and this is {here}")
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"the table is about x86-64, and this is {platform.machine()}")
