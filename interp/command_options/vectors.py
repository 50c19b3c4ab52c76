"""The options of the commands for test vectors and shards: conform export, judge and merge."""

from __future__ import annotations

import argparse

from . import backends

#: The forms of the files of vectors.
FORMS = ("npy", "hex", "json", "c", "mlir")


def conform_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo conform export`."""
    add = parser.add_argument
    add("folder", metavar="DIR", help="the folder to write, which is empty or new")
    add(
        "--as",
        dest="files",
        choices=FORMS,
        default="npy",
        help="form of the files: arrays of numpy, hexadecimal text, JSON, C headers with a runner, or StableHLO "
        "programs that check themselves (default: npy)",
    )
    text = "with --as mlir: write portable artifacts of this version of StableHLO, such as 1.8.0 (default: text)"
    add("--stablehlo-version", default="", metavar="V", help=text)
    backends.choice(parser)
    backends.operands(parser)
    backends.profile(parser)


def conform_judge(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo conform judge`."""
    add = parser.add_argument
    add("folder", metavar="DIR", help="the vectors, as minihlo conform export has written them")
    add("results", metavar="RESULTS", help="the results: a text file, as the runner writes it, or a folder of arrays")
    add("--name", default="", metavar="NAME", help="name of the backend in reports (default: as the results say)")
    backends.choice(parser)
    backends.reports(parser)
    backends.ci(parser)
    add("--profile", metavar="P", help="the TOML file of the profile whose vectors these are, if it is not minihlo's")
    backends.claim(parser)


def conform_merge(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo conform merge`."""
    add = parser.add_argument
    add("reports", nargs="+", metavar="FILE", help="the JSON of a shard (minihlo conform BACKEND --shard I/N --json)")
    add("--json", metavar="FILE", help="write the whole run as JSON")
    add("--junit", metavar="FILE", help="write it as JUnit XML")
    add("--html", metavar="FILE", help="write it as one HTML page")
    backends.ci(parser)
    add("--profile", metavar="P", help="the TOML file of the profile that was run, if it is not minihlo's")
    add("--waivers", metavar="FILE", help="waivers, as TOML: cases of the profile that may fail, each with a reason")
    backends.badge(parser)
