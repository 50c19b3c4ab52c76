"""`minihlo completion`: prints a script that completes the command line in a shell, made by shtab."""

from __future__ import annotations

import argparse

from ..errors import InputError

#: The metavars of arguments that are files or folders.
_FILES, _FOLDERS = ("FILE", "F", "PATH", "@F.npy", "A.json", "B.json"), ("DIR", "OUT")


def main(options: argparse.Namespace) -> int:
    """Run the command. Raises InputError without shtab."""
    try:
        import shtab  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("expected the package shtab (pip install 'minihlo[completion]'), got none") from None
    parser: argparse.ArgumentParser = options.command_parser()
    commands = _subparsers(parser)
    nested = {name: made for name, made in commands.choices.items() if " " in name}
    for name, made in nested.items():
        first, _, second = name.partition(" ")
        del commands.choices[name]
        _add(commands.choices[first], second, made)
    listed = [c for c in commands._choices_actions if " " not in c.dest]
    commands._choices_actions[:] = listed
    for made in (*commands.choices.values(), *nested.values()):
        for action in made._actions:
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar in _FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _subparsers(parser: argparse.ArgumentParser) -> argparse._SubParsersAction:
    return next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))


def _add(parser: argparse.ArgumentParser, name: str, made: argparse.ArgumentParser) -> None:
    """Make a parser that of a second word: the first positional argument of a command."""
    if not any(isinstance(a, argparse._SubParsersAction) for a in parser._actions):
        parser.add_subparsers(metavar="COMMAND")
        parser._actions.insert(0, parser._actions.pop())
    action = _subparsers(parser)
    action.choices[name] = made  # type: ignore[index]
    action._choices_actions.append(action._ChoicesPseudoAction(name, (), made.description))
