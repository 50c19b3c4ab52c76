"""The command line: reads arguments and calls a command. Imports nothing heavy, so that it starts quickly."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..ops.policy import OVERFLOWS, ROUNDINGS, Policy
from .errors import CheckFailure, Error, LimitError, OutputError
from .system import host_floats, streams
from .system.isolate import TIMED_OUT, report, run_isolated

FORMS = ("dense", "codes", "json")
#: Those of `ops/blocks/scales.py`, which takes long to import.
SCALE_RULES = ("floor", "ceil", "even", "rceil", "nearest")

_VALUE = """A VALUE is a type and numbers, as in IREE's tools with MLIR's names of types:
4xf8E4M3FNUZ=1,-2.5,nan,0x7F (0x starts a code), 2x2xi32=[[1 2][3 4]], 4xf32=1.0 (four times the same number),
f32=1.5, complex<f32>=(1,2). It can also be a file: @x.npy, or 8xf8E4M3FN=@codes.npy for codes stored as uint8."""

_RUN = f"""{_VALUE}

Exit status: 0 if every check holds, 1 if a check fails, 2 for bad input, 124 after --timeout or --max-steps."""

_TEST = """Exit status: 0 if every program passes, 1 if one fails, 2 for bad input."""

_CONFORM = """Usage: minihlo conform BACKEND | minihlo conform --list | minihlo conform diff A.json B.json

BACKEND is minihlo, jax:PLATFORM, reference, ml_dtypes, torch:cpu, onnx, onnxruntime, iree:llvm-cpu, pjrt:PLUGIN.so,
exec:COMMAND or a Python object, MODULE:NAME. Each case has a signature, such as add.f8E4M3FNUZ. Patterns may contain
* and ?.

Exit status: 0 if no case fails, 1 if there is a FAIL or CRASH that --xfail does not list (diff: if a result got worse),
2 for bad input, 130 after Ctrl-C. After Ctrl-C the same command with the same --json continues the run."""

_DIFF = f"""Each op runs on the operands that the backend has computed. Its result is compared with the exact result of
the same operands, so an error is reported at the op that causes it. Without inputs the program runs on random samples:
ordinary numbers first, then codes of every kind.

{_VALUE}

Exit status: 0 if every op is right, 1 if an op is wrong or the backend crashes, 2 for bad input, 124 after
--timeout."""

_PROBE = """Designed dots of a few large and small products show each fact of the accumulator: the products in a step,
the bits that are kept, how the rest is dropped, where the running sum joins, how it is rounded. The record that
predicts them is checked on 10,000 random dots.

Exit status: 0 if the record predicts every dot, 1 if none does or the backend is faulty, 2 for bad input."""

_STATUS = """Exit status: 0 if all checks hold, 1 if a check fails or a backend is wrong, 2 for bad input, 70 for an
error of minihlo itself, 74 if an output cannot be written (standard output or a file), 124 after --timeout
or --max-steps, 130 after Ctrl-C, 141 if the reader of standard output has closed it."""


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
    """Mark the first negative value of `cast` as a value: argparse takes `-inf` and `-0x1p3` for options."""
    if arguments[:1] == ["cast"]:
        for i, text in enumerate(arguments):
            if text[:1] == "-" and (text[1:2].isdigit() or text[1:2] == "." or text[1:4].lower() in ("inf", "nan")):
                arguments[i] = f" {text}"
    return arguments


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line. The reference in the documentation is generated from it."""
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

    _run_options(command("run", _run, "run a program and print its results", _RUN))

    _diff_options(command("diff", _diff, "compare a backend with the exact results, op by op", _DIFF))

    test = command("test", _test, "run the checks in .mlir files", _TEST)
    test.add_argument("paths", nargs="+", metavar="PATH", help="a .mlir file, or a folder with .mlir files")
    _limit_options(test, "each program", "; the program fails")
    test.add_argument(
        "-j", "--jobs", type=_positive, metavar="N", help="number of processes (default: one for each CPU)"
    )

    formats = command("formats", _lazily("tables", "formats"), "print the properties of the formats")
    formats.add_argument("name", nargs="?", metavar="NAME", help="one format, such as f8E4M3FN or mxfp8_e4m3")
    formats.add_argument("--codes", action="store_true", help="print each code of the format with its value")

    cast = command("cast", _lazily("cast"), "convert a number to a format; print its code, value, error and neighbours")
    cast.add_argument(
        "value",
        metavar="VALUE",
        help="a number such as 1.5, -2e-3 or nan, or a typed VALUE such as f32=0.1 or 2xf32=1,2; for a block format "
        "also a list such as '[1, 2, 448]'",
    )
    cast.add_argument(
        "format",
        metavar="FORMAT",
        help="the type to convert to, such as f8E4M3FN, or a block format, such as mxfp8_e4m3",
    )
    cast.add_argument("--from", dest="source", metavar="TYPE", help="round VALUE to this type first")
    cast.add_argument(
        "--scale", choices=SCALE_RULES, help="how the scale of a block is chosen (default: as the block format says)"
    )
    _conversion_options(cast)
    cast.set_defaults(overflow=None)  # ieee, and saturate to a block format

    _conform_options(command("conform", _lazily("conform"), "find a backend's wrong results, op by op", _CONFORM))

    targets = command("targets", _lazily("targets"), "print the chips whose arithmetic is known, with sources")
    targets.add_argument("name", nargs="?", metavar="NAME", help="one chip, such as h100, or instruction: h100.wgmma")
    _probe_options(command("probe", _lazily("probe"), "find how a backend sums products", _PROBE))

    ops = command("ops", _lazily("tables", "ops"), "print the ops, the element types they take and their accuracy")
    ops.add_argument("name", nargs="?", metavar="NAME", help="one op, such as dot_general")
    return parser


def _limit_options(parser: argparse.ArgumentParser, of: str, then: str = "", steps: bool = True) -> None:
    add = parser.add_argument
    add("--timeout", type=_seconds, metavar="SECONDS", help=f"stop {of} after this many seconds{then}")
    if steps:
        text = f"stop {of} after N steps; each op that runs and each region that is entered is a step{then}"
        add("--max-steps", type=_steps, metavar="N", help=text)


def _program_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="MLIR text, MLIR bytecode or a StableHLO portable artifact (-: standard input)")
    add("--function", metavar="NAME", help="the function to run (default: @main, or the only public one)")
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--input", action="append", default=[], metavar="VALUE", help="the value of the next argument")
    inputs.add_argument(
        "--args", metavar="LIST", help="the values of all arguments: '[dense<1.0> : tensor<2xf32>, …]', or @FILE"
    )


def _diff_options(parser: argparse.ArgumentParser) -> None:
    _program_options(parser)
    _limit_options(parser, "the comparison", steps=False)
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
        "--turns",
        type=_positive,
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
    _conversion_options(parser)


def _run_options(parser: argparse.ArgumentParser) -> None:
    _program_options(parser)
    _limit_options(parser, "the run")
    add = parser.add_argument
    add("--output", action="append", default=[], metavar="@F.npy", help="write the next result to a file (-: print it)")
    add(
        "--expected",
        action="append",
        default=[],
        metavar="VALUE",
        help="compare the next result with this value, bit for bit",
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
    _conversion_options(parser)
    add(
        "--split-input-file", action="store_true", help="accepted for compatibility: // ----- always separates programs"
    )
    add("--probe-dir", metavar="DIR", help="write each value to a .npy file in DIR, and an index.csv")
    add("--trace", action="store_true", help="print each op with its results and its fused group")
    add("--print-plan", action="store_true", help="print the generated Python code, with the op of each line")
    add(
        "--without",
        default="",
        metavar="A,B",
        help="turn off optimizations: tables, blocks, threads, … (results stay the same)",
    )


def _conform_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="BACKEND", help="the backend to test; or: diff A.json B.json")
    add("--list", action="store_true", help="print the cases and their forms, and run nothing")
    add("--ops", action="append", default=[], metavar="A,B", help="run only these ops: add, compare_LT, reduce*, …")
    add(
        "--formats",
        action="append",
        default=[],
        metavar="A,B",
        help="run only cases with these types: f8E4M3FN, f6*, …",
    )
    add(
        "--level",
        type=int,
        choices=(1, 2, 3),
        default=1,
        help="how many cases to run (default: 1, which takes minutes; 3 takes days)",
    )
    add("--seed", type=_natural, default=0, metavar="N", help="seed of the random operands")
    add(
        "--errors",
        type=_positive,
        default=3,
        metavar="N",
        help="number of failures to print for each case (default: 3)",
    )
    add(
        "--ulp",
        type=_natural,
        default=4,
        metavar="N",
        help="permitted error in ULP of functions of 16-bit and wider types (default: 4)",
    )
    add("--xfail", metavar="FILE", help="known failures: on each line a signature or pattern, and optionally a form")
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument(
        "-j", "--jobs", type=_positive, metavar="N", help="number of processes (default: one for each CPU)"
    )
    workers.add_argument("--dask", metavar="ADDRESS", help="run on a Dask cluster, such as tcp://scheduler:8786")
    add("--json", metavar="FILE", help="write the results as JSON; continue an unfinished run")
    add("--junit", metavar="FILE", help="write the results as JUnit XML")
    add("--html", metavar="FILE", help="write the results as one HTML page")
    add("--timeout", type=_positive, default=20, metavar="S", help="time limit of one program in seconds (default: 20)")
    add("--case", default="", metavar="SIGNATURE", help="run only cases with this signature or pattern")
    add("--form", default="", metavar="FORM", help="run only this form: array, constant, scalar, size-7, …")
    add(
        "--operands",
        action="append",
        default=[],
        metavar="A,B",
        help="run only these operands, as codes (0x40*64 repeats a code 64 times)",
    )
    add(
        "--accumulate",
        action="append",
        default=[],
        metavar="RECORD",
        help="accumulator that may explain sums of products, as minihlo probe finds it: step=16,bits=13,… or @FILE",
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


def _probe_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("backend", metavar="BACKEND", help="the backend: jax:cpu, reference, MODULE:NAME, … (see minihlo conform)")
    add(
        "--type",
        default="f8E4M3FN",
        metavar="T[,T]",
        help="element type of the operands, or those of both (default: f8E4M3FN)",
    )
    add("--result", default="f32", metavar="T", help="element type of the results (default: f32)")
    add("-k", type=_positive, default=256, metavar="N", help="number of products of a dot (default: 256)")
    add("--seed", type=_natural, default=0, metavar="N", help="seed of the random dots")
    add("--json", metavar="F", help="write the record as JSON, for --accumulate @F (-: standard output)")


def _conversion_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounding", choices=ROUNDINGS, default=Policy.rounding, help="rounding of results (default: nearest_even)"
    )
    parser.add_argument(
        "--overflow",
        choices=OVERFLOWS,
        help="what a result beyond the range becomes (default: ieee)",
    )
    parser.add_argument(
        "--seed", type=_natural, default=0, metavar="N", help="seed of stochastic rounding and random ops"
    )
    parser.set_defaults(policy=None, parser=parser)


def _run(options: argparse.Namespace) -> int:
    options.policy = _policy(options, options.target)
    # Parsing is C++ that may crash on bad input, so it happens in a child process.
    return _isolated("run", options)


def _diff(options: argparse.Namespace) -> int:
    targets = [*(options.target or ()), None, None]
    options.policy, options.second = _policy(options, targets[0]), _policy(options, targets[1])
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


def _policy(options: argparse.Namespace, target: str | None = None) -> Policy:
    """The policy of the options, of a chip's where one is named. Those that are given win over the chip's."""
    from .policies import accumulation, target_fields

    fields = ("arithmetic", "accumulate", "rounding", "overflow", "seed")
    given = {f: getattr(options, f) for f in fields if getattr(options, f, None) is not None}
    try:
        if "accumulate" in given:
            given["accumulate"] = accumulation(given["accumulate"])
        return Policy(**(target_fields(target) if target else {}) | given)
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
        raise argparse.ArgumentTypeError(f"expected an integer of at least 0, got {text[:40]!r}")
    return number


def _positive(text: str) -> int:
    number = _natural(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 to 1024, got {text[:40]!r}")
    return number


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from . import __version__

        print(f"minihlo {__version__}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
