"""The choice of cases that a report, or a folder of vectors, says it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .run import Choice

#: The options that a choice has once, by their names in a report.
_SINGLE = ("case", "form", "tests", "shard")


def choice_of(ops: Sequence[str], formats: Sequence[str], options: Mapping[str, Sequence[str]]) -> Choice:
    """The choice of ops, formats and options as `result.Run` has them."""
    case, form, tests, shard = (options[name][0] if options.get(name) else "" for name in _SINGLE)
    return Choice(tuple(ops), tuple(formats), case, form, tuple(options.get("beside", ())), tests, shard=shard)
