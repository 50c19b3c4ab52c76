"""The options of the commands that run a program: run, diff; and options that other commands share with them."""

from __future__ import annotations

import argparse

from ...ops.policy import OVERFLOWS, ROUNDINGS, Policy
from ..foreign import ELIDED
from .values import natural, positive, seconds, steps, ulps

#: The forms in which `run` prints results.
FORMS = ("dense", "codes", "json")


def add_limits(parser: argparse.ArgumentParser, of: str, then: str = "", has_steps: bool = True) -> None:
    """Add --timeout, and --max-steps where it counts."""
    add = parser.add_argument
    add("--timeout", type=seconds, metavar="SECONDS", help=f"stop {of} after this many seconds{then}")
    if has_steps:
        text = f"stop {of} after N steps; each op that runs and each region that is entered is a step{then}"
        add("--max-steps", type=steps, metavar="N", help=text)


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add the file, its function and its inputs."""
    add = parser.add_argument
    add(
        "file",
        metavar="FILE",
        help="MLIR (text, bytecode, a portable artifact), a file of jax.export, or HLO; -: standard input",
    )
    add("--function", metavar="NAME", help="the function to run (default: @main, or the only public one)")
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        help="the value of the next argument: 2x3xf32=1.5, @x.npy, @w.safetensors:NAME, … (2x3xf32: zeros)",
    )
    inputs.add_argument(
        "--args", metavar="LIST", help="the values of all arguments: '[dense<1.0> : tensor<2xf32>, …]', or @FILE"
    )


def add_conversion(parser: argparse.ArgumentParser) -> None:
    """Add the options of rounding: --rounding, --overflow, --seed."""
    parser.add_argument(
        "--rounding", choices=ROUNDINGS, default=Policy.rounding, help="rounding of results (default: nearest_even)"
    )
    parser.add_argument(
        "--overflow",
        choices=OVERFLOWS,
        help="what a result beyond the range becomes (default: ieee)",
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of stochastic rounding and random ops"
    )
    parser.set_defaults(policy=None, parser=parser)


def run(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo run`."""
    add_program(parser)
    add_limits(parser, "the run")
    add = parser.add_argument
    add(
        "--sample",
        action="store_true",
        help="draw the inputs, ordinary numbers of --seed, as minihlo diff does",
    )
    add("--elided", choices=ELIDED, help="what stands for constants whose data the program leaves out")
    add("--replicas", type=positive, metavar="N", help="run so many replicas (default: by the module)")
    add("--partitions", type=positive, metavar="N", help="run so many partitions (default: by the module)")
    text = "write the next tensor of the results to a file: F.npy, or F.safetensors:NAME (-: print it)"
    add("--output", action="append", default=[], metavar="@F.npy", help=text)
    add(
        "--expected",
        action="append",
        default=[],
        metavar="VALUE",
        help="compare the next tensor of the results with this value, bit for bit",
    )
    add("--format", choices=FORMS, default=FORMS[0], help="format of printed results (default: dense)")
    add("--full", action="store_true", help="print all elements of large results")
    add(
        "--arithmetic",
        default=Policy.arithmetic,
        metavar="direct|upcast[:TYPE]",
        help="arithmetic on minifloats (default: direct)",
    )
    add(
        "--accumulate",
        metavar="HOW",
        help="how products are summed: auto (the default), exact, reproducible, f32, element, a chip, an instruction "
        "(minihlo targets), a record (step=…,keep=…), or @FILE of a record",
    )
    add("--target", metavar="CHIP", help="compute as a chip does: how it sums, and how it converts (minihlo targets)")
    add("--on", metavar="BACKEND", help="emulate the program and run it on a backend of programs, such as jax:cuda")
    add_conversion(parser)
    add(
        "--split-input-file", action="store_true", help="accepted for compatibility: // ----- always separates programs"
    )
    add("--probe-dir", metavar="DIR", help="write each value to a .npy file in DIR, and an index.csv")
    add("--trace", action="store_true", help="print each op with its results and its fused group")
    add("--print-plan", action="store_true", help="print the operations that run, in order, after all passes")
    add(
        "--without",
        default="",
        metavar="A,B",
        help="turn off optimizations: tables, threads (results stay the same)",
    )


def emulate(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo emulate`."""
    add = parser.add_argument
    add("file", metavar="FILE", help="MLIR text, MLIR bytecode or a StableHLO portable artifact (-: standard input)")
    add("-o", "--output", default="-", metavar="OUT", help="the file to write; OUT.mlirbc is bytecode (default: print)")
    add("--function", metavar="NAME", help="the function that --input is for (default: @main, or the only public one)")
    add("--input", action="append", default=[], metavar="VALUE", help="a value of the next argument, for its sizes")
    add("--codes", action="store_true", help="take and give minifloats as their codes, ui8")
    add("--for-version", metavar="V", help="write a portable artifact of this version of StableHLO, such as 1.0.0")
    add("--arithmetic", default=Policy.arithmetic, metavar="direct|upcast[:TYPE]", help="arithmetic on minifloats")
    add("--accumulate", metavar="HOW", help="how products are summed, as for minihlo run")
    add("--target", metavar="CHIP", help="compute as a chip does: how it sums, and how it converts (minihlo targets)")
    add_limits(parser, "the rewriting", has_steps=False)
    add_conversion(parser)


def diff(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo diff`."""
    add_program(parser)
    add_limits(parser, "the comparison", has_steps=False)
    add = parser.add_argument
    parser.usage = "minihlo diff [options] FILE [BACKEND]"
    add(
        "backend",
        nargs="?",
        metavar="BACKEND",
        help="the backend to compare: jax:cpu, reference, iree:llvm-cpu, … (see minihlo conform)",
    )
    add(
        "--how",
        choices=("op", "program"),
        default="op",
        help="run each op alone, or compile the whole program (default: op)",
    )
    add(
        "--flush",
        choices=("allow", "report", "forbid"),
        default="report",
        help="whether taking subnormal numbers as zero passes, is reported in one line, or fails (default: report)",
    )
    add(
        "--iterations",
        type=positive,
        default=100,
        metavar="N",
        help="number of iterations of a loop to compare (default: 100)",
    )
    add("--json", metavar="F", help="write the report as JSON (-: standard output)")
    add("--save", metavar="DIR", help="write a program and its operands to a folder in DIR for each wrong op")
    add(
        "--accumulate",
        metavar="HOW",
        help="how products are summed: auto (the default), exact, reproducible, f32, element, a chip, an instruction "
        "(minihlo targets), a record (step=…,keep=…), or @FILE of a record",
    )
    text = "compare with a chip's arithmetic (minihlo targets); given twice, without BACKEND: two chips with each other"
    add("--target", action="append", metavar="CHIP", help=text)
    add_conversion(parser)


def judge(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo judge`."""
    add = parser.add_argument
    parser.usage = "minihlo judge [options] PROGRAM… BACKEND…"
    add("places", nargs="+", metavar="PROGRAM… BACKEND…", help="files, folders or tar archives of programs; backends")
    add("--function", metavar="NAME", help="the function to judge (default: @main, or the only public one)")
    inputs = parser.add_mutually_exclusive_group()
    text = "the value of the next argument of one program, as for minihlo run"
    inputs.add_argument("--input", action="append", default=[], metavar="VALUE", help=text)
    inputs.add_argument("--args", metavar="LIST", help="the values of all arguments, as for minihlo run")
    add("--samples", type=positive, default=4, metavar="N", help="how many sets of inputs are drawn (default: 4)")
    add("--seed", type=natural, default=0, metavar="N", help="the seed of the inputs")
    text = "whether subnormal numbers may be taken as zero (default: allow)"
    add("--flush", choices=("allow", "forbid"), default="allow", help=text)
    text = "highest: products of f32 may not round operands to tf32 or bf16 (default: as the program asks)"
    add("--precision", choices=("default", "highest"), default="default", help=text)
    text = "the most ULP that a function may be off (default: by type, as for minihlo conform)"
    add("--ulp", type=ulps, metavar="N", help=text)
    add("--no-where", action="store_true", help="do not look for the part that is wrong")
    add("--minimize", action="store_true", help="make the sizes and inputs of the wrong part smaller too")
    add("--limit", type=seconds, default=60.0, metavar="SECONDS", help="time for the search in a program (default: 60)")
    text = "time for a program on a backend (default: 60)"
    add("--timeout", dest="seconds", type=seconds, metavar="SECONDS", help=text)
    add("-j", "--jobs", type=positive, metavar="N", help="how many programs are judged at once (default: 1)")
    add("--shard", default="", metavar="I/N", help="judge the I-th of N parts of the programs")
    text = "show every verdict where there are at most N, else the wrong ones alone (default: 20)"
    add("--show", type=natural, default=20, metavar="N", help=text)
    text = "write a judgement in each line of a file; those that it has already are not made again"
    add("--json", metavar="F", help=text)
    add("--html", metavar="F", help="write one HTML page")
    add("--save", metavar="DIR", help="write the wrong part and its inputs to a folder in DIR for each wrong program")


def profile(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo profile`."""
    add_program(parser)
    add_limits(parser, "the run", has_steps=False)
    add = parser.add_argument
    add("--blocks", action="append", default=[], metavar="A,B", help="count losses in block formats too: mxfp8_e4m3, …")
    add("--all", action="store_true", help="print every row of the table (default: the worst 20)")
    add("--json", metavar="F", help="write the profile as JSON (-: standard output)")
    add("--html", metavar="F", help="write the profile as one HTML page")
    add("--accumulate", metavar="HOW", help="how products are summed, as for minihlo run")
    add("--target", metavar="CHIP", help="compute as a chip does (minihlo targets)")
    add_conversion(parser)


def test(parser: argparse.ArgumentParser) -> None:
    """Add the options of `minihlo test`."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a .mlir file, or a folder with .mlir files")
    text = "the function to run in each program that has it (default: @main, or every public one without arguments)"
    parser.add_argument("--function", metavar="NAME", help=text)
    add_limits(parser, "each program", "; the program fails")
    parser.add_argument(
        "-j", "--jobs", type=positive, metavar="N", help="number of processes (default: one for each CPU)"
    )
