"""The command line: reads arguments and calls a command. Imports nothing heavy, so that it starts quickly."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Container, Sequence
from typing import Any, NoReturn

from ..ops.close import hint
from ..ops.policy import Policy
from .command_options import backends, blame, programs, tables, vectors
from .errors import CheckFailure, Error, LimitError, OutputError
from .system import host_floats, memory, streams
from .system.isolate import TIMED_OUT, holding_interrupts, report, run_isolated

_VALUE = """A VALUE is a type and numbers, as in IREE's tools with MLIR's names of types:
4xf8E4M3FNUZ=1,-2.5,nan,0x7F (0x starts a code), 2x2xi32=[[1 2][3 4]], 4xf32=1.0 (four times the same number),
f32=1.5, complex<f32>=(1,2). It can also be a file: @x.npy, or 8xf8E4M3FN=@codes.npy for codes stored as uint8."""

_RUN = f"""{_VALUE}

Exit status: 0 if every check holds, 1 if a check fails, 2 for bad input, 124 after --timeout or --max-steps."""

_EMULATE = """Each function keeps its types, and computes on codes within. What the program computes in f16 and wider
types stays as it is.

Exit status: 0 if the program is written, 2 for bad input and for an op that is not emulated, 74 if the file cannot
be written, 124 after --timeout."""

_TEST = """Exit status: 0 if every program passes, 1 if one fails, 2 for bad input."""

_CONFORM = """Usage: minihlo conform BACKEND | minihlo conform --list

See also minihlo conform profiles, conform verify, conform diff and conform site.

BACKEND is minihlo, jax:PLATFORM, reference, ml_dtypes, torch:cpu, onnx, onnxruntime, iree:llvm-cpu, pjrt:PLUGIN.so,
exec:COMMAND or a Python object, MODULE:NAME. Each case has a signature, such as add.f8E4M3FNUZ. Patterns may contain
* and ?.

Exit status: 0 if no case fails, 1 if there is a FAIL or CRASH that --xfail does not list, 2 for bad input, 74 if a
report cannot be written, 130 after Ctrl-C. After Ctrl-C the same command with the same --json continues the run."""

_CONFORM_VERIFY = """Exit status: 0 if the submission holds and its backend conforms, 1 if one of them does not, 2 for a
file that is no submission."""

_CONFORM_DIFF = """Exit status: 0 if no result got worse, 1 if one did, 2 for bad input."""

_CONFORM_SITE = """The pages need no scripts and no network. They have the failures by cause, the verdicts of all
backends for each operation and format, how each backend sums products, its choices at open points, and the
changes between its runs.

Exit status: 0 if the pages are written, 2 for bad input, 74 if a page cannot be written."""

_DIFF = f"""Each op runs on the operands that the backend has computed. Its result is compared with the exact result on
the same operands, so an error is reported at the op that causes it. Without inputs the program runs on random samples:
ordinary numbers first, then codes of every kind.

{_VALUE}

Exit status: 0 if every op is right, 1 if an op is wrong or the backend crashes, 2 for bad input, 124 after
--timeout."""

_JUDGE = f"""The backend compiles each program as it stands, and only its results are looked at: EXACT (the bits of
minihlo), WITHIN (other bits, which an implementation may give), UNDECIDED, WRONG, UNSUPPORTED or CRASH. Of a wrong
program the smallest part that is wrong by itself is shown. Without inputs the programs run on random samples.

{_VALUE}

Exit status: 0 if no result is wrong, 1 if one is or a backend crashes, 2 for bad input, 74 if a file cannot be
written."""

_BLAME = f"""The program runs op by op in the good way, with a set of its ops computed in the bad way, each on the
operands that it then has. A search finds the contribution of each op to the difference of the outputs, and a smallest
set that explains it. Without inputs the program runs on a random sample of ordinary numbers.

{_VALUE}

Exit status: 0 if the outputs are equal, 1 if they differ, 2 for bad input, 124 after --timeout."""

_PROFILE = f"""The program is evaluated here. For each float result of each op the profile has the share of elements
that underflow, saturate, overflow or are NaN, and the error against the exact result of the same operands. Lines are
those of FILE. Without inputs the program runs on a random sample of ordinary numbers.

{_VALUE}

Exit status: 0, 1 if a check of the program fails, 2 for bad input, 124 after --timeout."""

_CONFORM_EXPORT = """The folder has the vectors and manifest.json, which lists the cases with the SHA-256 of each file.
With --as c there are headers, a runner that calls one function, and a session for
minihlo conform 'exec:--session COMMAND'.

Exit status: 0 if the vectors are written, 2 for bad input, 74 if a file cannot be written."""

_CONFORM_JUDGE = """The results are graded like those of a live run: the same verdicts, the same reports. All files of
the vectors and all results are checked first. RESULTS is a text file or a folder, as described in docs/vectors.md.

Exit status: 0 if no case fails, 1 if there is a FAIL or CRASH that --xfail does not list, 2 for bad input or for
results that are missing, damaged or of other vectors."""

_CONFORM_MERGE = """The report is that of the whole run, except for times.

Exit status: 0 if no case fails, 1 if one does, 2 if the reports are not all shards of one run."""

_PROBE = """Designed dots of a few large and small products show each fact of the accumulator: the products in a step,
the bits that are kept, how the rest is dropped, where the running sum joins, how it is rounded. The record that
predicts them is checked on 10,000 random dots.

Exit status: 0 if the record predicts every dot, 1 if none does or the backend is faulty, 2 for bad input."""

_COMPLETION = """For bash: minihlo completion bash > ~/.local/share/bash-completion/completions/minihlo.
It needs the package shtab (pip install 'minihlo[completion]').

Exit status: 0, 2 without shtab."""

_STATUS = """Exit status: 0 if all checks hold, 1 if a check fails or a backend is wrong, 2 for bad input, 70 for an
error of minihlo itself, 74 if an output cannot be written (standard output or a file), 124 after --timeout
or --max-steps, 130 after Ctrl-C, 141 if the reader of standard output has closed it."""


_INTERRUPTED = 130  #: exit code after Ctrl-C


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, which names the command."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """The same, with no argument left over: argparse would report those of a command without its name."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            wrong = next((a for a in rest if a.startswith("-")), rest[0])
            close = hint(wrong.partition("=")[0], [o for a in self._actions for o in a.option_strings if o[:2] == "--"])
            self.error(f"unrecognized arguments: {' '.join(rest)}{close if wrong.startswith('-') else ''}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint(str(value), action.choices)}")

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
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except BrokenPipeError:
        return streams.NO_READER
    except OutputError as failure:
        return streams.give_up(failure)
    except Exception as error:
        return report(error)
    if status == _INTERRUPTED and argv is None:
        os._exit(status)  # the shutdown of Python could meet threads that still run, and crash
    return status


def _status(arguments: list[str]) -> int:
    try:
        parser, names = _parser()
        options = parser.parse_args(_guard(_join(arguments, names)))
        return options.command(options)
    except SystemExit as done:  # --help, or a mistake that is reported already
        return done.code if isinstance(done.code, int) else 2


def _join(arguments: list[str], names: Container[str]) -> list[str]:
    """Join a command of two words, such as `conform diff`."""
    name = " ".join(arguments[:2])
    return [name, *arguments[2:]] if name in names else arguments


def _guard(arguments: list[str]) -> list[str]:
    """Mark the first negative value of `cast` as a value: argparse takes `-inf` and `-0x1p3` for options."""
    if arguments[:1] == ["cast"]:
        for i, text in enumerate(arguments):
            if text[:1] == "-" and (text[1:2].isdigit() or text[1:2] == "." or text[1:4].lower() in ("inf", "nan")):
                arguments[i] = f" {text}"
    return arguments


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line. The reference in the documentation is generated from it."""
    return _parser()[0]


def _parser() -> tuple[argparse.ArgumentParser, Container[str]]:
    """Return the parser and the names of the commands."""
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

    programs.run(command("run", _run, "run a program and print its results", _RUN))
    summary = "write a program that computes the same minifloats with integers and tables, for any compiler"
    programs.emulate(command("emulate", _emulate, summary, _EMULATE))
    programs.diff(command("diff", _diff, "compare a backend with the exact results, op by op", _DIFF))
    summary = "judge programs as wholes on backends, against all results that an implementation may give"
    programs.judge(command("judge", _judge, summary, _JUDGE))
    summary = "find the ops that make the difference between two ways of computing a program"
    blame.blame(command("blame", _blame, summary, _BLAME))
    summary = "count the losses of a program's ops in their formats"
    programs.profile(command("profile", _profile, summary, _PROFILE))
    programs.test(command("test", _test, "run the checks in .mlir files", _TEST))
    tables.formats(command("formats", _lazily("tables", "formats"), "print the properties of the formats"))
    summary = "convert a number to a format; print its code, value, error and neighbours"
    tables.cast(command("cast", _lazily("cast"), summary))
    backends.conform(command("conform", _lazily("conform"), "find a backend's wrong results, op by op", _CONFORM))
    summary = "compare two results of minihlo conform"
    backends.conform_diff(command("conform diff", _lazily("conform_diff"), summary, _CONFORM_DIFF))
    summary = "write static pages of many results of minihlo conform"
    backends.conform_site(command("conform site", _lazily("conform_site"), summary, _CONFORM_SITE))
    summary = "list the profiles, or the cases of one"
    backends.conform_profiles(command("conform profiles", _lazily("conform_profiles"), summary))
    summary = "check a submission: judge it again from its results"
    backends.conform_verify(command("conform verify", _lazily("conform_verify"), summary, _CONFORM_VERIFY))
    summary = "write test vectors: operands and acceptable results, for chips and simulators without Python"
    vectors.conform_export(command("conform export", _lazily("conform_export"), summary, _CONFORM_EXPORT))
    summary = "grade the results of test vectors"
    vectors.conform_judge(command("conform judge", _lazily("conform_judge"), summary, _CONFORM_JUDGE))
    summary = "join the reports of shards"
    vectors.conform_merge(command("conform merge", _lazily("conform_merge"), summary, _CONFORM_MERGE))
    summary = "print the chips whose arithmetic is known, with sources"
    tables.targets(command("targets", _lazily("targets"), summary))
    backends.probe(command("probe", _lazily("probe"), "find how a backend sums products", _PROBE))
    summary = "print the ops, the element types they take and their accuracy"
    tables.ops(command("ops", _lazily("tables", "ops"), summary))
    summary = "print a script that completes this command line in a shell"
    made = command("completion", _lazily("completion"), summary, _COMPLETION)
    made.set_defaults(command_parser=command_parser)
    tables.completion(made)
    return parser, commands.choices


def _run(options: argparse.Namespace) -> int:
    options.policy = _policy(options, options.target)
    # Parsing is C++ that may crash on bad input, so it happens in a child process.
    return _isolate("run", options)


def _emulate(options: argparse.Namespace) -> int:
    options.policy = _policy(options, options.target)
    return _isolate("emulate", options)


def _diff(options: argparse.Namespace) -> int:
    targets = [*(options.target or ()), None, None]
    options.policy, options.second = _policy(options, targets[0]), _policy(options, targets[1])
    return _isolate("diff", options)


def _judge(options: argparse.Namespace) -> int:
    options.file = options.places[0]
    limit, options.timeout = options.timeout, None
    options.seconds = limit
    return _isolate("judge", options)


def _blame(options: argparse.Namespace) -> int:
    return _isolate("blame", options)


def _profile(options: argparse.Namespace) -> int:
    options.policy = _policy(options, options.target)
    return _isolate("profile", options)


def _isolate(command: str, options: argparse.Namespace) -> int:
    subject = "<stdin>" if options.file == "-" else options.file
    limit = () if options.timeout is None else (options.timeout,)

    def main() -> int:
        if command in ("run", "profile"):  # others start backends, which may reserve memory that they never use
            memory.confine()
        return _lazily(command)(options)

    return run_isolated(main, subject, *limit)


def _test(options: argparse.Namespace) -> int:
    return _lazily("test")(options)  # its workers are processes of their own


def _lazily(module: str, function: str = "main") -> Callable[[argparse.Namespace], int]:
    """A command in `commands/`, imported when it is run. Bad input is reported in one line, with status 2."""

    def run(options: argparse.Namespace) -> int:
        if module == "cast":
            options.policy = _policy(options)
        try:
            with holding_interrupts():
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
    """The policy of the options, or of the named chip. Given options override the chip's."""
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


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from . import __version__

        print(f"minihlo {__version__}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
