"""`minihlo profile`: counts the losses of each op of a program in its formats."""

from __future__ import annotations

import argparse

from ..errors import InputError, OutputError
from ..numerics.profile import Profile
from ..numerics.profile_report import text
from .diff import first_inputs, sources_of
from .run import read_inputs


def main(options: argparse.Namespace) -> int:
    """Run the command. Raises the errors of `errors.py`."""
    given = read_inputs(options)
    blocks = [name.strip() for names in options.blocks for name in names.split(",") if name.strip()]
    sources = sources_of(options)
    if len(sources) > 1 and (options.json or options.html):
        raise InputError(f"{options.file}: expected one program for --json and --html, got {len(sources)}")
    for source in sources:
        profile = Profile(options.policy, blocks)
        what, arrays = first_inputs(source, given, options.seed)
        profile.run(source, arrays)
        if options.json != "-":
            print(f"{source.file}: {what}" if what else source.file)
            print(f"{text(profile, None if options.all else 20)}\n", flush=True)
        for option, path, write in (("--json", options.json, profile.to_json), ("--html", options.html, profile.html)):
            if path == "-" and option == "--json":
                print(profile.to_json())
            elif path:
                try:
                    write(path)
                except OutputError as error:
                    raise OutputError(f"{option}: {error}") from None
    return 0
