"""Values of options: their ranges, each with its message."""

from __future__ import annotations

import argparse


def _number(text: str, most: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= float(most):
        raise argparse.ArgumentTypeError(f"expected {what} above 0 and up to {most}, got {text[:40]!r}")
    return number


def seconds(text: str) -> float:
    """Return a time limit. Raises ArgumentTypeError for any other text."""
    return _number(text, "1e9", "seconds,")


def ulps(text: str) -> float:
    """Return a distance in ULP. Raises ArgumentTypeError for any other text."""
    return _number(text, "1e9", "a number of ULP")


def steps(text: str) -> int:
    """Return a limit of steps. Raises ArgumentTypeError for any other text."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 to 10**18, got {text[:40]!r}")
    return number


def natural(text: str) -> int:
    """Return an integer of at least 0. Raises ArgumentTypeError for any other text."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 40 else -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 0, got {text[:40]!r}")
    return number


def count_or_text(text: str) -> int | str:
    """Return an integer; other text as it is, for a check that knows the bounds."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 40 else text


def positive(text: str) -> int:
    """Return an integer from 1 to 1024. Raises ArgumentTypeError for any other text."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 to 1024, got {text[:40]!r}")
    return number


def share(text: str) -> float:
    """Return a share, above 0 and up to 1. Raises ArgumentTypeError for any other text."""
    return _number(text, "1", "a number")
