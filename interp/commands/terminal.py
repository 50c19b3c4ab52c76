"""Tables and progress bars of commands, by rich. Nothing heavy is imported before they are shown."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table. In a pipe or a file each row is one line."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console() if sys.stdout.isatty() else Console(width=1000)
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    console.print(table)


@contextlib.contextmanager
def progress_bar(total: int, done: int = 0, least: int = 1) -> Iterator[Callable[[int, str], None]]:
    """Show a progress bar with the remaining time on standard error, if that is a terminal and `total` not too small.

    Yields a function of the number that is done and a remark.
    """
    if not sys.stderr.isatty() or total < least:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda done, words: bar.update(task, completed=done, description=words)
