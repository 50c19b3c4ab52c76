"""JAX's own tests on JAX's CPU and here: `python -m tools.jax_tests FOLDER`, FOLDER being `tests` of a JAX checkout.

Runs the files that `files.toml` lists on both platforms, keeps the results in a folder, and writes docs/jax-tests.md.
What has been run is not run again: without FOLDER the page is written of what is there, and of the page before where a
file has no results. Fetches nothing.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from . import page, run

ROOT = Path(__file__).parent.parent.parent
HERE = "minihlo"
PLATFORMS = ("cpu", HERE)


def list_files() -> list[run.File]:
    """The files of `files.toml`."""
    table = _table()
    return [
        run.File(
            f["name"],
            f.get("devices", 1),
            f.get("cases", table["cases"]),
            tuple(f.get("left_out", {}).items()),
        )
        for f in table["file"]
    ]


def _table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "files.toml").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="?", type=Path, help="the folder `tests` of a JAX checkout")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "jax_tests", help="where results are kept")
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE", help="files to run (default: all)")
    parser.add_argument("--platform", choices=PLATFORMS, help="run on this platform alone")
    parser.add_argument("--again", action="store_true", help="forget what the files gave on minihlo")
    parser.add_argument("--failed", action="store_true", help="forget what failed on minihlo and passes on the CPU")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a test may take (default: 300)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "jax-tests.md")
    arguments = parser.parse_args()
    files = [f for f in list_files() if not arguments.only or f.name in arguments.only]
    for file in files if arguments.tests else ():
        if arguments.again or arguments.failed:
            _forget(arguments.results, file, every=arguments.again)
        for platform in [arguments.platform] if arguments.platform else PLATFORMS:
            result = run.run(arguments.tests.resolve(), file, platform, arguments.results, arguments.limit)
            passed, failed, skipped = (result.count(*kinds) for kinds in ((run.PASSED,), run.BAD, (run.SKIPPED,)))
            counts = f"{passed} passed, {failed} failed, {skipped} skipped"
            print(f"{file.name} on {platform}: {counts}, {result.seconds:.0f} s", flush=True)
    if not arguments.only:
        arguments.output.parent.mkdir(exist_ok=True)
        before = arguments.output.read_text() if arguments.output.exists() else ""
        arguments.output.write_text(page.text(list_files(), arguments.results, page.reasons(), _table(), before))


def _forget(results: Path, file: run.File, every: bool) -> None:
    path = run.path_of(results, file, HERE)
    ours, theirs = run.Result.load(path), run.Result.load(run.path_of(results, file, "cpu"))
    if every:
        path.unlink(missing_ok=True)
        return
    for name in page.worse(theirs, ours):
        del ours.outcomes[name]
        ours.messages.pop(name, None)
        ours.is_complete = False
    ours.save(path)


if __name__ == "__main__":
    main()
