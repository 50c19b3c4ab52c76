"""The options of `minihlo blame`."""

from __future__ import annotations

import argparse

from .programs import add_limits, add_program
from .values import natural, share, steps


def blame(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo blame`."""
    add_program(parser)
    add_limits(parser, "the search", has_steps=False)
    add = parser.add_argument
    parser.usage = "minihlo blame [options] FILE [BACKEND]"
    add("backend", nargs="?", metavar="BACKEND", help="the same as --bad BACKEND")
    ways = (
        "exact, f32, f64 (narrower floats held in that type), a chip (minihlo targets) or a backend (minihlo conform)"
    )
    add("--good", metavar="WAY", help=f"the way to compare with: {ways} (default: exact)")
    add("--bad", metavar="WAY", help="the other way, such as jax:cpu or minihlo:accumulate=f32")
    add("--target", action="append", metavar="CHIP", help="given twice: --good and --bad; once: --good")
    add(
        "--measure",
        choices=("norm", "ulp", "loss"),
        default="norm",
        help="how outputs are compared: the largest relative norm of a difference, the largest distance in ULP, or the "
        "difference of the first floating-point scalar (default: norm)",
    )
    add("--share", type=share, metavar="X", help="share of the difference to explain (default: 0.95; 1 for ulp)")
    add("--evaluations", type=steps, default=1000, metavar="N", help="limit of runs of the program (default: 1000)")
    add(
        "--iterations", type=steps, default=100_000, metavar="N", help="limit of iterations of a loop (default: 100000)"
    )
    add("--seed", type=natural, default=0, metavar="N", help="seed of the sample that stands for missing inputs")
    add("--json", metavar="F", help="write the result as JSON (-: standard output)")
