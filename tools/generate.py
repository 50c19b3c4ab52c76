"""Writes the tables, the output of commands and the pictures of the documentation: `python -m tools.generate`.

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`; NAME is a key of `TABLES`. In a block of `console`
what follows a line `$ COMMAND` is what the command prints. The pictures are those of `PICTURES`. With `--check`
nothing is written, and the differences are printed; the exit status says whether there are any.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .pictures import PICTURES
from .tables import TABLES

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_CONSOLE = re.compile(r"(^```console\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)
# The variables of the environment that reach a command.
_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "USER")
_COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)


def outputs(documents: Iterable[str]) -> dict[str, str]:
    """The output of each command in a block of `console`. Each runs once, in the root of the repository."""
    commands = list(
        dict.fromkeys(c for text in documents for b in _CONSOLE.findall(text) for c in _COMMAND.findall(b[1]))
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(commands, pool.map(_output, commands), strict=True))


def _output(command: str) -> str:
    # Of the caller's environment only what a process needs: `CI`, for one, makes pytest's summary longer.
    environment = {k: v for k, v in os.environ.items() if k in _KEPT}
    environment |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    result = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return result.stdout.decode().rstrip().replace(f"{ROOT}{os.sep}", "")


def generate(text: str, printed: dict[str, str]) -> str:
    """Generates all generated parts of `text` anew. Raises KeyError for a name that is not in TABLES."""

    def console(match: re.Match[str]) -> str:
        lines = [line for c in _COMMAND.findall(match[2]) for line in (f"$ {c}", printed[c]) if line]
        return match[1] + "".join(f"{line}\n" for line in lines) + match[3]

    text = _CONSOLE.sub(console, text)
    return re.sub(
        r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}{TABLES[m[2]]()}\n{m[3]}",
        text,
        flags=re.DOTALL,
    )


def files() -> tuple[dict[Path, str], dict[Path, str]]:
    """The generated files as they are, and as they should be."""
    current = {path: path.read_text() for path in DOCUMENTS}
    printed = outputs(current.values())
    new = {path: generate(text, printed) for path, text in current.items()}
    for name, draw in PICTURES.items():
        path = ROOT / "docs" / "pictures" / f"{name}.svg"
        current[path] = path.read_text() if path.exists() else ""
        new[path] = draw()
    return current, new


def main() -> int:
    current, new = files()
    if "--check" in sys.argv[1:]:
        for path, text in new.items():
            lines = difflib.unified_diff(current[path].splitlines(), text.splitlines(), path.name, "made again", n=0)
            sys.stderr.writelines(f"{line}\n" for line in lines)
        return int(new != current)
    for path, text in new.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
