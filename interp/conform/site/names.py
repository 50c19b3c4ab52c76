"""File names and anchors for arbitrary texts from report files."""

from __future__ import annotations

import hashlib
import re

#: Longer names are truncated and get a hash.
_LONGEST = 60


class Names:
    """Gives each text a name of letters, digits, `_`, `.` and `-`, unique without regard to case.

    A name depends on its text alone, unless an earlier text has taken it.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, text: str) -> str:
        """The name of a text, the same each time."""
        if text not in self._names:
            name = _readable(text)
            if name is None or name.casefold() in self._taken:
                digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
                name = f"{(name or 'x')[:_LONGEST]}-{digest[:10]}"
            self._taken.add(name.casefold())
            self._names[text] = name
        return self._names[text]


def _readable(text: str) -> str | None:
    """The text with `-` for other characters; None if little of it would be left."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", text[: 4 * _LONGEST]).strip("-.")
    name = re.sub(r"\.{2,}", ".", name)
    return name if name and len(text) <= _LONGEST else None
