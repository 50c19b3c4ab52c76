"""`minihlo blame`: finds the ops that make the difference between the outputs of two ways of computing a program."""

from __future__ import annotations

import argparse
import json

from ..errors import InputError
from ..numerics.blame import examine
from ..numerics.evaluators import Choice, choice
from .diff import backend_of, first_inputs, sources_of, write_json
from .run import read_inputs


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if the outputs differ."""
    given = read_inputs(options)
    good, bad = _ways(options)
    differs, results = False, []
    try:
        for source in sources_of(options):
            what, arrays = first_inputs(source, given, options.seed)
            result = examine(
                source, arrays, good, bad, options.measure, options.share, options.evaluations, options.iterations
            )
            print(f"{source.file}: {what}\n{result}\n" if what else f"{result}\n", flush=True)
            results.append({"file": source.file, "inputs": what} | result.data())
            differs |= result.differs
    finally:
        good.close()
        bad.close()
    write_json(options.json, json.dumps(results, indent=1))
    return int(differs)


def _ways(options: argparse.Namespace) -> tuple[Choice, Choice]:
    """The two ways. Raises InputError if a way is given twice, or the bad one not at all."""
    targets = options.target or []
    goods = [w for w in (options.good, *targets[:1]) if w is not None]
    bads = [w for w in (options.backend, options.bad, *targets[1:]) if w is not None]
    if len(goods) > 1 or len(bads) != 1:
        counts = f"{len(bads)} and {len(goods)}"
        ways = "one bad way (BACKEND, --bad or a second --target) and at most one good way"
        raise InputError(f"expected {ways}, got {counts}")
    good = choice(goods[0] if goods else "exact", "--good", backend_of)
    return good, choice(bads[0], "--bad", backend_of)
