"""The command line: reads arguments and calls a command. Imports nothing heavy, so that it starts quickly."""

from __future__ import annotations

import argparse
import dataclasses
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


@dataclasses.dataclass(frozen=True)
class _Command:
    """A command: its name, options and help, and the function in `commands/` that runs it."""

    name: str
    add_options: Callable[[Any], None]
    summary: str
    epilog: str = ""
    function: str = "main"  #: of the module; after a dot where the module has another name than the command
    policies: int = 0  #: how many policies the options give: `policy`, and `second`
    is_isolated: bool = False  #: parsing is C++ that may crash on bad input, so it happens in a child process
    is_confined: bool = False  #: memory is limited; others start backends, which may reserve what they never use

    def run(self, options: argparse.Namespace) -> int:
        """Run the command, imported now. Bad input is reported in one line, with status 2."""
        targets = [*(_listed(getattr(options, "target", None))), None, None]
        for name, target in zip(("policy", "second")[: self.policies], targets, strict=False):
            setattr(options, name, _policy(options, target))
        if not self.is_isolated:
            return self._main(options)
        file = options.file if "file" in options else options.places[0]
        limits = _listed(getattr(options, "timeout", None))
        return run_isolated(lambda: self._main(options), "<stdin>" if file == "-" else file, *limits)

    def _main(self, options: argparse.Namespace) -> int:
        module, _, function = self.function.rpartition(".")
        try:
            if self.is_confined:
                memory.confine()
            with holding_interrupts():
                command = importlib.import_module(f".commands.{module or self.name.replace(' ', '_')}", __package__)
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


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


_COMMANDS = (
    _Command("run", programs.run, "run a program and print its results", _RUN,
             policies=1, is_isolated=True, is_confined=True),
    _Command("emulate", programs.emulate,
             "write a program that computes the same minifloats with integers and tables, for any compiler", _EMULATE,
             policies=1, is_isolated=True),
    _Command("diff", programs.diff, "compare a backend with the exact results, op by op", _DIFF,
             policies=2, is_isolated=True),
    _Command("judge", programs.judge,
             "judge programs as wholes on backends, against all results that an implementation may give", _JUDGE,
             is_isolated=True),
    _Command("blame", blame.blame, "find the ops that make the difference between two ways of computing a program",
             _BLAME, is_isolated=True),
    _Command("profile", programs.profile, "count the losses of a program's ops in their formats", _PROFILE,
             policies=1, is_isolated=True, is_confined=True),
    _Command("test", programs.test, "run the checks in .mlir files", _TEST),  # in workers
    _Command("formats", tables.formats, "print the properties of the formats", function="tables.formats"),
    _Command("cast", tables.cast, "convert a number to a format; print its code, value, error and neighbours",
             policies=1),
    _Command("conform", backends.conform, "find a backend's wrong results, op by op", _CONFORM),
    _Command("conform diff", backends.conform_diff, "compare two results of minihlo conform", _CONFORM_DIFF),
    _Command("conform site", backends.conform_site, "write static pages of many results of minihlo conform",
             _CONFORM_SITE),
    _Command("conform profiles", backends.conform_profiles, "list the profiles, or the cases of one"),
    _Command("conform verify", backends.conform_verify, "check a submission: judge it again from its results",
             _CONFORM_VERIFY),
    _Command("conform export", vectors.conform_export,
             "write test vectors: operands and acceptable results, for chips and simulators without Python",
             _CONFORM_EXPORT),
    _Command("conform judge", vectors.conform_judge, "grade the results of test vectors", _CONFORM_JUDGE),
    _Command("conform merge", vectors.conform_merge, "join the reports of shards", _CONFORM_MERGE),
    _Command("targets", tables.targets, "print the chips whose arithmetic is known, with sources"),
    _Command("probe", backends.probe, "find how a backend sums products", _PROBE),
    _Command("ops", tables.ops, "print the ops, the element types they take and their accuracy",
             function="tables.ops"),
    _Command("completion", tables.completion, "print a script that completes this command line in a shell",
             _COMPLETION),
)  # fmt: skip


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

    for command in _COMMANDS:
        summary = command.summary
        description = f"{summary[0].upper()}{summary[1:]}."
        made = commands.add_parser(
            command.name, help=summary, description=description, epilog=command.epilog, allow_abbrev=False,
            formatter_class=raw,
        )  # fmt: skip
        made.set_defaults(command=command.run, command_parser=command_parser)
        command.add_options(made)
    return parser, commands.choices


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
