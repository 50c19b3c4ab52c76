"""Names that resemble a wrong one, for messages."""

from __future__ import annotations

from collections.abc import Iterable

#: All names are listed if there are no more than these.
_FEW = 6


def hint(name: str, names: Iterable[object], few: int = _FEW) -> str:
    """Return ` (did you mean A or B?)`, what a wrong name may mean, else the names if they are `few` or fewer.

    Those are the ones that begin with it, else those that resemble it, else those whose beginning does.
    """
    from difflib import get_close_matches  # which takes some ms to import

    known, given = {str(n).lower(): str(n) for n in names}, name.lower()[:100]
    begun = [given] if given in known else [n for n in known if n.startswith(given)] if len(given) > 1 else []
    begins = get_close_matches(given, {n[: len(given)] for n in known}, 3, 0.75)
    close = begun or get_close_matches(given, known, 3) or [n for n in known if n[: len(given)] in begins]
    if close:
        return f" (did you mean {' or '.join(known[n] for n in close[:_FEW])}?)"
    return f" (one of {', '.join(known.values())})" if 0 < len(known) <= few else ""
