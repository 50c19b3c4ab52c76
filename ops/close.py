"""Names that resemble a wrong one, for messages."""

from __future__ import annotations

from collections.abc import Iterable

#: All names are listed if there are no more than these.
_FEW = 6


def hint(name: str, names: Iterable[str], few: int = _FEW) -> str:
    """Return ` (did you mean A or B?)`, what a wrong name may mean, else the names if they are `few` or fewer.

    Those are the ones that begin with it, else those that resemble it.
    """
    import difflib  # which takes some ms to import

    known, given = {n.lower(): n for n in names}, name.lower()[:100]
    begun = [given] if given in known else [n for n in known if n.startswith(given)] if len(given) > 1 else []
    close = begun[:_FEW] or difflib.get_close_matches(given, known, 3)
    if close:
        return f" (did you mean {' or '.join(known[n] for n in close)}?)"
    return f" (one of {', '.join(known.values())})" if 0 < len(known) <= few else ""
