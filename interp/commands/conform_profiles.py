"""`minihlo conform profiles`: lists the profiles with their hashes, or the cases of one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..conform import profiles
from ..errors import count, printable


def main(options: argparse.Namespace) -> int:
    """Run the command. Raises InputError for a profile that does not exist."""
    for line in _list() if options.profile is None else _show(profiles.load(options.profile)):
        print(printable(line))
    return 0


def _list() -> Iterator[str]:
    for name in profiles.names():
        profile = profiles.load(name)
        results = sum(len(entry.forms) for entry in profile.listed)
        yield f"{name}  {profile.title}"
        yield f"  {count(len(profile.listed), 'case')} in {count(results, 'form')}, SHA-256 {profile.sha256}"


def _show(profile: profiles.Profile) -> Iterator[str]:
    yield f"{profile.identifier}  {profile.title}"
    yield f"SHA-256 {profile.sha256}"
    for point, phrases in profile.declare.items():
        choices = ", ".join(f"{choice} ({phrase})" for choice, phrase in profile.choices(point).items())
        yield f"may declare {point}: {phrases[profiles.DEFAULT]}; {choices}"
    if profile.accumulators:
        yield f"may declare accumulator: {' '.join(profile.accumulators)}"
    width = max(len(entry.signature) for entry in profile.listed)
    for entry in profile.listed:
        yield f"{entry.need:8}  {entry.signature:{width}}  {' '.join(entry.forms)}"
