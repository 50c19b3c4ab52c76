"""A badge with a backend's conformance to a profile: as SVG, `badge.html` of the templates, and as JSON."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Sequence
from pathlib import Path

from ... import pages
from ...errors import InputError
from .. import files, profiles
from ..conformance import Assessment

#: Colors on which white text has a contrast of at least 4.5.
_GREEN, _AMBER, _RED = "#1a7f37", "#9a6700", "#cf222e"
#: The margin at both sides of a text, and the average width of a character of 11 px DejaVu Sans.
_MARGIN, _CHARACTER = 6, 6.6


@dataclasses.dataclass(frozen=True)
class Badge:
    """A label, a message, and the color of the message."""

    label: str
    message: str
    color: str

    def json(self) -> str:
        """The badge in the format of a shields.io endpoint (https://shields.io/badges/endpoint-badge)."""
        data = {"schemaVersion": 1, "label": self.label, "message": self.message, "color": self.color.removeprefix("#")}
        return json.dumps(data, ensure_ascii=False) + "\n"

    def svg(self) -> str:
        """The badge as SVG, without fonts or scripts from elsewhere."""
        left, right = (round(len(text) * _CHARACTER) + 2 * _MARGIN for text in (self.label, self.message))
        return _render("badge.html", badge=self, left=left, right=right)


def check(paths: Sequence[str]) -> None:
    """Raises InputError for a file of --badge that is neither SVG nor JSON."""
    for path in paths:
        if Path(path).suffix not in (".svg", ".json"):
            raise InputError(f"--badge: expected a file named .svg or .json, got {path}")


def write(paths: Sequence[str], badge: Badge) -> None:
    """Writes a badge to each file. Raises OutputError if one cannot be written."""
    for path in paths:
        files.write(path, badge.svg() if Path(path).suffix == ".svg" else badge.json())


def of(assessment: Assessment) -> Badge:
    """The badge of a verdict: green, amber with waivers, else red."""
    color = _RED if assessment.problems else _AMBER if assessment.used else _GREEN
    label = assessment.profile.identifier
    return Badge(label if profiles.is_ours(assessment.profile) else f"own profile {label}", assessment.verdict, color)


_render = pages.text_renderer(html.escape)
