"""The choice of cases that a report, or a folder of vectors, says it was made with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ..errors import InputError
from . import profiles
from .profiles import Profile
from .run import Choice

#: The options that a choice has once, by their names in a report.
_SINGLE = ("case", "form", "tests", "shard")


def profile_of(options: Mapping[str, Sequence[str]], named: str | None = None) -> Profile | None:
    """The profile of options as `result.Run` has them, None where they have none.

    Args:
        options: the options.
        named: the name or the file of the profile, where it is not one of minihlo's.

    Raises InputError where the profile is not there, or is another one.
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
    """The choice of ops, formats and options as `result.Run` has them, and of their profile."""
    if profile is not None:
        return dataclasses.replace(profile.choice(), shard=(options.get("shard") or [""])[0])
    case, form, tests, shard = (options[name][0] if options.get(name) else "" for name in _SINGLE)
    return Choice(tuple(ops), tuple(formats), case, form, tuple(options.get("beside", ())), tests, shard=shard)
