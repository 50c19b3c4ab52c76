"""The options of the commands that judge a backend: conform, probe."""

from __future__ import annotations

import argparse

from .values import count_or_text, natural, positive


def conform(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo conform`."""
    add = parser.add_argument
    add("backend", nargs="?", metavar="BACKEND", help="the backend to test")
    add("--list", action="store_true", help="print the cases and their forms, and run nothing")
    choice(parser)
    operands(parser)
    reports(parser)
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument(
        "-j", "--jobs", type=positive, metavar="N", help="number of processes (default: one for each CPU)"
    )
    workers.add_argument("--dask", metavar="ADDRESS", help="run on a Dask cluster, such as tcp://scheduler:8786")
    ci(parser)
    profile(parser)
    claim(parser)
    add("--timeout", type=positive, default=20, metavar="S", help="time limit of one program in seconds (default: 20)")
    add(
        "--operands",
        action="append",
        default=[],
        metavar="A,B",
        help="run only these operands, as codes (0x40*64 repeats a code 64 times)",
    )
    add(
        "--beside",
        action="append",
        default=[],
        metavar="SIGNATURE:FORM",
        help="compile this case into the same program",
    )
    add(
        "--tests",
        default="",
        metavar="FOLDER",
        help="folder of .mlir files with checks, for level 2 (default: mlir_tests)",
    )


def choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose cases."""
    add = parser.add_argument
    add("--ops", action="append", default=[], metavar="A,B", help="run only these ops: add, compare_LT, reduce*, …")
    add(
        "--formats",
        action="append",
        default=[],
        metavar="A,B",
        help="run only cases with these types: f8E4M3FN, f6*, …",
    )
    add("--case", default="", metavar="SIGNATURE", help="run only cases with this signature or pattern")
    add("--form", default="", metavar="FORM", help="run only this form: array, constant, scalar, size-7, …")
    add(
        "--shard",
        default="",
        metavar="I/N",
        help="run only the I-th of N parts of the cases (minihlo conform merge joins the reports)",
    )


def operands(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the operands of cases, and how results are judged."""
    add = parser.add_argument
    add(
        "--level",
        type=int,
        choices=(1, 2, 3),
        default=1,
        help="how many cases to run (default: 1, which takes minutes; 3 takes days)",
    )
    add("--seed", type=natural, default=0, metavar="N", help="seed of the random operands")
    add(
        "--ulp",
        type=natural,
        default=4,
        metavar="N",
        help="permitted error in ULP of functions of 16-bit and wider types (default: 4)",
    )


def ci(parser: argparse.ArgumentParser) -> None:
    """Add the option of annotations."""
    text = "print failures as annotations of GitHub Actions, one for each cause"
    parser.add_argument("--github", action="store_true", help=text)


def reports(parser: argparse.ArgumentParser) -> None:
    """Add the options of reports and of known failures."""
    add = parser.add_argument
    add(
        "--errors",
        type=positive,
        default=3,
        metavar="N",
        help="number of failures to print for each case (default: 3)",
    )
    add("--xfail", metavar="FILE", help="known failures: on each line a signature or pattern, and optionally a form")
    add("--json", metavar="FILE", help="write the results as JSON; continue an unfinished run")
    add("--junit", metavar="FILE", help="write the results as JUnit XML")
    add("--html", metavar="FILE", help="write the results as one HTML page")
    add(
        "--accumulate",
        action="append",
        default=[],
        metavar="RECORD",
        help="accumulator that may explain sums of products, as minihlo probe finds it: step=16,bits=13,… or @FILE",
    )


def probe(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo probe`."""
    add = parser.add_argument
    add("backend", metavar="BACKEND", help="the backend: jax:cpu, reference, MODULE:NAME, … (see minihlo conform)")
    add(
        "--type",
        default="f8E4M3FN",
        metavar="T[,T]",
        help="element type of the operands, or those of both (default: f8E4M3FN)",
    )
    add("--result", default="f32", metavar="T", help="element type of the results (default: f32)")
    add("-k", type=count_or_text, default=256, metavar="N", help="number of products of a dot (default: 256)")
    add("--seed", type=natural, default=0, metavar="N", help="seed of the random dots")
    add("--json", metavar="F", help="write the record as JSON, for --accumulate @F (-: standard output)")


def profile(parser: argparse.ArgumentParser) -> None:
    """Add the option of a profile."""
    text = "run the cases of a profile, such as ocp-fp8-1.0 (see minihlo conform profiles), or of a TOML file"
    parser.add_argument("--profile", metavar="P", help=text)


def claim(parser: argparse.ArgumentParser) -> None:
    """Add the options of a claim that a backend conforms to a profile."""
    add = parser.add_argument
    add("--waivers", metavar="FILE", help="waivers, as TOML: cases of the profile that may fail, each with a reason")
    add("--submit", metavar="FILE", help="write a submission, a zip that minihlo conform verify checks")
    badge(parser)


def badge(parser: argparse.ArgumentParser) -> None:
    """Add the option of a badge."""
    parser.add_argument(
        "--badge",
        action="append",
        default=[],
        metavar="FILE",
        help="write a badge with the verdict: FILE.svg, or FILE.json for shields.io",
    )


def conform_profiles(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo conform profiles`."""
    parser.add_argument("profile", nargs="?", metavar="P", help="print the cases of this one: its name, or a TOML file")


def conform_verify(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo conform verify`."""
    parser.add_argument("file", metavar="FILE", help="a submission, as minihlo conform --submit writes it")
    badge(parser)


def conform_diff(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo conform diff`."""
    parser.add_argument("before", metavar="A.json", help="the results of a run, as --json writes them")
    parser.add_argument("after", metavar="B.json", help="those of a later run")


def conform_site(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo conform site`."""
    text = "folder with results of runs, as --json writes them (*.json, *.json.gz)"
    parser.add_argument("results", metavar="DIR", help=text)
    text = "folder for the pages: empty, or with an earlier site, whose files are replaced"
    parser.add_argument("out", metavar="OUT", help=text)
