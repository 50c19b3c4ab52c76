"""`minihlo conform profiles`: lists the profiles with their hashes, or the cases of one."""

from __future__ import annotations

import argparse

from ..conform import profiles
from ..errors import count


def main(options: argparse.Namespace) -> int:
    """Run the command. Raises InputError for a profile that does not exist."""
    if options.profile is not None:
        return _show(profiles.load(options.profile))
    for name in profiles.names():
        profile = profiles.load(name)
        results = sum(len(entry.forms) for entry in profile.listed)
        print(f"{name}  {profile.title}")
        print(f"  {count(len(profile.listed), 'case')} in {count(results, 'form')}, SHA-256 {profile.sha256}")
    return 0


def _show(profile: profiles.Profile) -> int:
    print(f"{profile.identifier}  {profile.title}")
    print(f"SHA-256 {profile.sha256}")
    for declaration in profile.declarations:
        choices = ", ".join(f"{choice} ({phrase})" for choice, phrase in declaration.choices)
        print(f"may declare {declaration.identifier}: {declaration.default}; {choices}")
    if profile.accumulators:
        print(f"may declare accumulator: {' '.join(profile.accumulators)}")
    width = max(len(entry.signature) for entry in profile.listed)
    for entry in profile.listed:
        print(f"{entry.need:8}  {entry.signature:{width}}  {' '.join(entry.forms)}")
    return 0
