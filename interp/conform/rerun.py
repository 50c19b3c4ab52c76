"""The choice of cases recorded in a report or in a folder of vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ..errors import InputError
from . import profiles
from .profiles import Profile
from .run import Choice

#: The options with a single value, by their names in a report.
_SINGLE = ("case", "form", "tests", "shard")


def profile_of(options: Mapping[str, Sequence[str]], named: str | None = None) -> Profile | None:
    """The profile named in the options of `result.Run`, None if there is none.

    Args:
        options: the options.
        named: the name or the file of the profile, unless it is one of minihlo's.

    Raises InputError if the profile is missing or differs.
    """
    text = (options.get("profile") or [""])[0]
    if not text:
        if named is not None:
            raise InputError(f"--profile: expected none, as the cases are not those of a profile, got {named}")
        return None
    profile = profiles.load(named or text.split()[0])
    if profile.choice().profile != text:
        raise InputError(f"--profile: expected the profile {text}, got {profile.choice().profile}")
    return profile


def choice_of(
    ops: Sequence[str], formats: Sequence[str], options: Mapping[str, Sequence[str]], profile: Profile | None = None
) -> Choice:
    """The choice of ops, formats and options in `result.Run`, and of their profile."""
    if profile is not None:
        return dataclasses.replace(profile.choice(), shard=(options.get("shard") or [""])[0])
    case, form, tests, shard = (options[name][0] if options.get(name) else "" for name in _SINGLE)
    return Choice(tuple(ops), tuple(formats), case, form, tuple(options.get("beside", ())), tests, shard=shard)
