"""The command line: reads arguments and calls a command. Imports nothing heavy, so that it starts quickly."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..ops.policy import ACCUMULATIONS, OVERFLOWS, ROUNDINGS, Policy
from .errors import CheckFailure, Error, LimitError, OutputError
from .system import host_floats, streams
from .system.isolate import TIMED_OUT, report, run_isolated

FORMS = ("dense", "codes", "json")

_VALUE = """A VALUE is written as in IREE's tools, with MLIR's names of types: 4xf8E4M3FNUZ=1,-2.5,nan,0x7F (0x is a
code), 2x2xi32=[[1 2][3 4]], 4xf32=1.0 (all four), f32=1.5, complex<f32>=(1,2), @x.npy, 8xf8E4M3FN=@codes.npy (uint8
codes).

Exit status: 0 if every check holds, 1 if a check fails, 2 for bad input, 124 after --timeout or --max-steps."""


_CONFORM = """Usage: minihlo conform BACKEND | minihlo conform --list | minihlo conform diff A.json B.json

BACKEND is minihlo, jax:PLATFORM, reference, ml_dtypes, torch:cpu, onnx, onnxruntime, iree:llvm-cpu, pjrt:PLUGIN.so,
exec:COMMAND or a Python object, MODULE:NAME. Cases have signatures such as add.f8E4M3FNUZ; patterns may have * and ?.

Exit status: 0, 1 if there is a FAIL or CRASH that --xfail does not list (diff: if a result got worse), 2 for bad input,
130 after Ctrl-C. The same command with the same --json then continues an unfinished run."""


_DIFF = """Each op gets the operands that the backend has computed, and its result is compared with the exact result of
the same operands: an error is reported where it arises. Without inputs the program runs on seeded samples: ordinary
numbers, then codes of every kind. Exit status 1 if an op is wrong, or if the backend crashes on it, 124 after
--timeout.

"""

_STATUS = """Exit status: 0 if all is well, 1 if a check fails or a backend is wrong, 2 for bad input, 70 for an error
of minihlo itself, 74 if an output cannot be written (standard output or a file), 124 after --timeout
or --max-steps, 130 after Ctrl-C, 141 if the reader of standard output has gone."""


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of this process, and return the exit status."""
    if argv is None:
        streams.prepare()
        host_floats.make_default()
    try:
        status = _status(list(sys.argv[1:] if argv is None else argv))
        streams.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return streams.NO_READER
    except OutputError as failure:
        return streams.give_up(failure)
    except Exception as error:
        return report(error)


def _status(arguments: list[str]) -> int:
    try:
        options = command_parser().parse_args(_guarded(arguments))
        return options.command(options)
    except SystemExit as done:  # --help, or a mistake that is reported already
        return done.code if isinstance(done.code, int) else 2


def _guarded(arguments: list[str]) -> list[str]:
    """argparse takes `-inf` and `-0x1p3` for options: `cast`'s first negative value is marked as what it is."""
    if arguments[:1] == ["cast"]:
        for i, text in enumerate(arguments):
            if text[:1] == "-" and (text[1:2].isdigit() or text[1:2] == "." or text[1:4].lower() in ("inf", "nan")):
                arguments[i] = f" {text}"
    return arguments


def command_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line. The documentation's reference is made of it."""
    summary = "A StableHLO interpreter with exact FP8, FP6 and FP4 arithmetic."
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog="minihlo", description=summary, epilog=_STATUS, allow_abbrev=False, formatter_class=raw)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: Callable[[Any], int], summary: str, epilog: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(command=run)
        return made

    _run_options(command("run", _run, "run a program and print its results", _VALUE))

    _diff_options(command("diff", _diff, "compare a backend with the exact results, op by op", _DIFF + _VALUE))

    test = command("test", _test, "run the checks in .mlir files")
    test.add_argument("paths", nargs="+", metavar="PATH", help="a .mlir file, or a folder of them")
    _limit_options(test, "a program, which fails then,", True)
    test.add_argument("-j", "--jobs", type=_positive, metavar="N", help="processes (default: one for each CPU)")

    formats = command("formats", _lazily("tables", "formats"), "print the facts about the floating-point formats")
    formats.add_argument("name", nargs="?", metavar="NAME", help="one format, such as f8E4M3FN")
    formats.add_argument("--codes", action="store_true", help="print every code of the format with its value")

    cast = command("cast", _lazily("cast"), "convert a number and print code, value, error and neighbours")
    cast.add_argument("value", metavar="VALUE", help="1.5, -2e-3, nan, a typed VALUE such as f32=0.1 or 2xf32=1,2")
    cast.add_argument("format", metavar="FORMAT", help="the type to convert to, such as f8E4M3FN")
    cast.add_argument("--from", dest="source", metavar="TYPE", help="the type of VALUE, which is rounded to it first")
    _conversion_options(cast)

    _conform_options(command("conform", _lazily("conform"), "find a backend's wrong results, op by op", _CONFORM))

    ops = command("ops", _lazily("tables", "ops"), "print the ops, the element types they take and their accuracy")
    ops.add_argument("name", nargs="?", metavar="NAME", help="one op, such as dot_general")
    return parser


def _limit_options(parser: argparse.ArgumentParser, of: str, steps: bool = True) -> None:
    add = parser.add_argument
    add("--timeout", type=_seconds, metavar="SECONDS", help=f"end {of} after so many seconds")
    if steps:
        text = f"end {of} after so many steps: ops that run, and regions that are entered"
        add("--max-steps", type=_steps, metavar="N", help=text)


def _program_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="MLIR text, bytecode or a portable artifact; - is standard input")
    add("--function", metavar="NAME", help="the function to run (default: @main, or the only public one)")
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--input", action="append", default=[], metavar="VALUE", help="the next argument")
    inputs.add_argument("--args", metavar="LIST", help="all arguments: '[dense<1.0> : tensor<2xf32>, …]', or @FILE")


def _diff_options(parser: argparse.ArgumentParser) -> None:
    _program_options(parser)
    _limit_options(parser, "the comparison", steps=False)
    add = parser.add_argument
    parser.usage = "minihlo diff [options] FILE BACKEND"
    add("backend", metavar="BACKEND", help="as in minihlo conform: jax:cpu, reference, iree:llvm-cpu, MODULE:NAME, …")
    add("--how", choices=("op", "program"), default="op", help="run each op alone, or the program compiled as a whole")
    add(
        "--turns", type=_positive, default=100, metavar="N", help="how many turns of a loop are compared (default: 100)"
    )
    add("--json", metavar="F", help="write the report to F as JSON (- prints it)")
    add("--save", metavar="DIR", help="write each wrong op as a program, with its operands, to a folder in DIR")
    add("--accumulate", choices=ACCUMULATIONS, default=Policy.accumulate, help="how sums of minifloats are rounded")
    _conversion_options(parser)


def _run_options(parser: argparse.ArgumentParser) -> None:
    _program_options(parser)
    _limit_options(parser, "the run")
    add = parser.add_argument
    add("--output", action="append", default=[], metavar="@F.npy", help="write the next result (- prints it)")
    add(
        "--expected",
        action="append",
        default=[],
        metavar="VALUE",
        help="the expected value of the next result, bit for bit",
    )
    add("--format", choices=FORMS, default=FORMS[0], help="how results are printed (default: dense)")
    add("--full", action="store_true", help="print all elements of large results")
    add("--arithmetic", default=Policy.arithmetic, metavar="direct|upcast[:TYPE]", help="how minifloats are computed")
    add("--accumulate", choices=ACCUMULATIONS, default=Policy.accumulate, help="how sums of minifloats are rounded")
    _conversion_options(parser)
    add("--split-input-file", action="store_true", help="accepted; a file with // ----- is always several programs")
    add("--probe-dir", metavar="DIR", help="write every value to DIR as .npy, and an index.csv")
    add("--trace", action="store_true", help="print every op with its results and its fused group")
    add("--print-plan", action="store_true", help="print the generated Python, with the op of each line")
    add("--without", default="", metavar="A,B", help="turn optimizations off: tables, blocks, threads, …")


def _conform_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="BACKEND", help="the backend to test; or: diff A.json B.json")
    add("--list", action="store_true", help="print the cases with their forms, run nothing")
    add("--ops", action="append", default=[], metavar="A,B", help="only these ops: add, compare_LT, reduce*, …")
    add("--formats", action="append", default=[], metavar="A,B", help="only cases with these types: f8E4M3FN, f6*, …")
    add(
        "--level",
        type=int,
        choices=(1, 2, 3),
        default=1,
        help="how many cases are tried (default: 1, minutes; 3: days)",
    )
    add("--seed", type=_natural, default=0, metavar="N", help="seed of the random operands")
    add("--errors", type=_positive, default=3, metavar="N", help="failures printed for a case (default: 3)")
    add(
        "--ulp",
        type=_natural,
        default=4,
        metavar="N",
        help="permitted error of 16-bit and wider functions (default: 4)",
    )
    add("--xfail", metavar="FILE", help="known failures: a signature or pattern in each line, and optionally a form")
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument("-j", "--jobs", type=_positive, metavar="N", help="processes (default: one for each CPU)")
    workers.add_argument("--dask", metavar="ADDRESS", help="run on a Dask cluster, such as tcp://scheduler:8786")
    add("--json", metavar="FILE", help="write the results; an unfinished run is continued")
    add("--junit", metavar="FILE", help="write the results as JUnit XML")
    add("--html", metavar="FILE", help="write the results as one HTML page")
    add("--timeout", type=_positive, default=20, metavar="S", help="seconds for one program (default: 20)")
    add("--case", default="", metavar="SIGNATURE", help="only cases of this signature or pattern")
    add("--form", default="", metavar="FORM", help="only this form: array, constant, scalar, size-7, …")
    add("--operands", action="append", default=[], metavar="A,B", help="only these codes (0x03,0x40*64: 64 times)")
    add("--beside", action="append", default=[], metavar="SIGNATURE:FORM", help="put this case into the same program")
    add(
        "--tests",
        default="",
        metavar="FOLDER",
        help="folder of .mlir files with checks, for level 2 (default: mlir_tests)",
    )


def _conversion_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounding", choices=ROUNDINGS, default=Policy.rounding, help="how results are rounded (default: nearest_even)"
    )
    parser.add_argument(
        "--overflow", choices=OVERFLOWS, default=Policy.overflow, help="results beyond the range (default: ieee)"
    )
    parser.add_argument(
        "--seed", type=_natural, default=0, metavar="N", help="seed of stochastic rounding and random ops"
    )
    parser.set_defaults(policy=None, parser=parser)


def _run(options: argparse.Namespace) -> int:
    options.policy = _policy(options)
    # Parsing is C++ that may crash on bad input, so it happens in a child process.
    return _isolated("run", options)


def _diff(options: argparse.Namespace) -> int:
    options.policy = _policy(options)
    return _isolated("diff", options)


def _isolated(command: str, options: argparse.Namespace) -> int:
    subject = "<stdin>" if options.file == "-" else options.file
    limit = () if options.timeout is None else (options.timeout,)
    return run_isolated(lambda: _lazily(command)(options), subject, *limit)


def _test(options: argparse.Namespace) -> int:
    return _lazily("test")(options)  # its workers are processes of their own


def _lazily(module: str, function: str = "main") -> Callable[[argparse.Namespace], int]:
    """A command in `commands/`, imported when it is run. Bad input is reported in one line, with status 2."""

    def run(options: argparse.Namespace) -> int:
        if module == "cast":
            options.policy = _policy(options)
        try:
            command = importlib.import_module(f".commands.{module}", __package__)
            return getattr(command, function)(options)
        except (Error, MemoryError) as error:
            if error is streams.failed():  # standard output; `main` reports it
                raise
            sys.stdout.flush()
            print(" ".join(str(error).split()) or "minihlo: out of memory", file=sys.stderr)
            if isinstance(error, OutputError):
                return streams.UNWRITABLE
            if isinstance(error, LimitError):
                return TIMED_OUT
            return 1 if isinstance(error, CheckFailure) else 2

    return run


def _policy(options: argparse.Namespace) -> Policy:
    fields = ("arithmetic", "accumulate", "rounding", "overflow", "seed")
    try:
        return Policy(**{f: getattr(options, f) for f in fields if hasattr(options, f)})
    except ValueError as error:
        parser: _Parser = options.parser
        parser.error(f"argument --{error}")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1e9:
        raise argparse.ArgumentTypeError(f"expected seconds, above 0 and up to 1e9, got {text[:40]!r}")
    return number


def _steps(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 to 10**18, got {text[:40]!r}")
    return number


def _natural(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 40 else -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not an integer of at least 0")
    return number


def _positive(text: str) -> int:
    number = _natural(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not an integer from 1 to 1024")
    return number


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from . import __version__

        print(f"minihlo {__version__}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
