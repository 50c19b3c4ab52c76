"""The options of the commands that print facts: formats, cast, targets, ops."""

from __future__ import annotations

import argparse

from .programs import add_conversion

#: Those of `ops/blocks/scales.py`, which takes long to import.
SCALE_RULES = ("floor", "ceil", "even", "rceil", "nearest")


def formats(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo formats`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="one format, such as f8E4M3FN or mxfp8_e4m3")
    parser.add_argument("--codes", action="store_true", help="print each code of the format with its value")


def cast(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo cast`."""
    parser.add_argument(
        "value",
        metavar="VALUE",
        help="a number such as 1.5, -2e-3 or nan, or a typed VALUE such as f32=0.1 or 2xf32=1,2; for a block format "
        "also a list such as '[1, 2, 448]'",
    )
    parser.add_argument(
        "format",
        metavar="FORMAT",
        help="the type to convert to, such as f8E4M3FN, or a block format, such as mxfp8_e4m3",
    )
    parser.add_argument("--from", dest="source", metavar="TYPE", help="round VALUE to this type first")
    parser.add_argument(
        "--scale", choices=SCALE_RULES, help="how the scale of a block is chosen (default: as the block format says)"
    )
    add_conversion(parser)
    parser.set_defaults(overflow=None)  # ieee, and saturate to a block format


def targets(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo targets`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="one chip, such as h100, or instruction: h100.wgmma")


def ops(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo ops`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="one op, such as dot_general")


def completion(parser: argparse.ArgumentParser) -> None:
    """Add the shell of `minihlo completion`."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), metavar="SHELL", help="bash, zsh or tcsh")
