"""The command line: `python -m tools.random_programs --count 2000 --seed 0 [-j 2] [--keep DIR]`."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
from pathlib import Path

from .builder import random_program
from .peers import PEERS
from .run import Finding, Tally, check_all, check_share

#: Findings that are ours to look into; the others are what a peer cannot do.
FAULTS = ("crash", "inconsistent", "difference", "whole")


def report(tally: Tally, keep: Path | None) -> int:
    """Prints the tally; returns the number of unexplained kinds of findings."""
    print(f"{tally.programs} programs, {sum(tally.steps.values())} ops of {len(tally.steps)} kinds")
    for peer, count in sorted(tally.compared.items()):
        print(f"{peer}: {count} elements compared; {tally.wholes[peer]} programs agree as a whole, bit for bit")
    for title, counts in (("explained differences (elements)", tally.explained), ("not asked (ops)", tally.left_out)):
        print(f"\n{title}")
        for why, count in counts.most_common():
            print(f"  {count:7} {why}")
    groups: dict[tuple[str, str], list[Finding]] = collections.defaultdict(list)
    for finding in tally.findings:
        groups[finding.kind, finding.subject].append(finding)
    faults = 0
    for number, ((kind, subject), result) in enumerate(
        sorted(groups.items(), key=lambda g: (g[0][0] not in FAULTS, g[0]))
    ):
        faults += kind in FAULTS
        print(f"\n{kind}: {subject} ({len(result)} times)\n{result[0].text}")
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            path = keep / f"{number:03}-{kind}.mlir"
            comments = "".join(f"// {line}\n" for line in f"{subject}\n{result[0].text}".splitlines())
            path.write_text(comments + result[0].program)
            print(f"  {path}")
    print(f"\n{faults} kinds of unexplained findings")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.random_programs", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many programs (200)")
    parser.add_argument("--first", type=int, default=0, help="number of the first program, to run one again (0)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this peer; may be given twice")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes, each with peers of its own (1)")
    parser.add_argument("--keep", type=Path, help="a folder for one program of each finding")
    parser.add_argument("--show", action="store_true", help="print the programs instead of running them")
    options = parser.parse_args()
    whole = range(options.first, options.first + options.count)
    if options.show:
        for index in whole:
            print(random_program(options.seed, index).module().named())
        return 0
    peers = options.peer or PEERS
    if options.jobs == 1:
        tally = check_all(options.seed, whole, peers)
    else:
        tally = Tally()
        shares = [(options.seed, whole[i :: options.jobs * 8], peers) for i in range(options.jobs * 8)]
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            for part in pool.imap(check_share, shares):
                tally.add(part)
                print(f"{tally.programs} of {options.count}", file=sys.stderr)
    return int(report(tally, options.keep) > 0)


if __name__ == "__main__":
    sys.exit(main())
