"""`minihlo conform diff`: compares the results of two runs."""

from __future__ import annotations

import argparse
from collections import Counter

from ..conform.verdicts.differences import differences
from .conform_merge import load_report


def main(options: argparse.Namespace) -> int:
    """Print what changed. Returns 1 if a result got worse. Raises InputError for a file that is no result."""
    changes = list(differences(load_report(options.before), load_report(options.after)))
    for difference in changes:
        print(difference)
    counts = Counter(f"{d.kind} that fail" if d.kind == "new" and d.is_bad else d.kind for d in changes)
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()) or "no difference")
    return int(any(d.is_bad for d in changes))
