"""`minihlo probe`: finds how a backend sums products."""

from __future__ import annotations

import argparse

from ..probing.probe import probe
from .diff import write_json


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if no record predicts every dot."""
    types = options.type.split(",")
    report = probe(
        options.backend,
        type=types[0] if len(types) == 1 else types,
        result=options.result,
        k=options.k,
        seed=options.seed,
    )
    print(report)
    write_json(options.json, report.to_json())
    return int(not report.is_found)
