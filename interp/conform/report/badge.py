"""A badge with a backend's conformance to a profile: as SVG, and as JSON for shields.io."""

from __future__ import annotations

import dataclasses
import json
from xml.sax.saxutils import escape, quoteattr

from .. import profiles
from ..conformance import Assessment

#: Colors on which white text has a contrast of at least 4.5.
_GREEN, _AMBER, _RED = "#1a7f37", "#9a6700", "#cf222e"
_LABEL = "#424a53"
#: The height, the margin at both sides of a text, and the average width of a character of 11 px DejaVu Sans.
_HEIGHT, _MARGIN, _CHARACTER = 20, 6, 6.6


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
        left, right = _width(self.label), _width(self.message)
        title = f"{self.label}: {self.message}"
        text = 'y="14" fill="#fff" font-family="DejaVu Sans,Verdana,Geneva,sans-serif" font-size="11"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
            f"aria-label={quoteattr(title)}>\n"
            f"<title>{escape(title)}</title>\n"
            f'<clipPath id="r"><rect width="{left + right}" height="{_HEIGHT}" rx="3"/></clipPath>\n'
            f'<g clip-path="url(#r)">\n'
            f'<rect width="{left}" height="{_HEIGHT}" fill="{_LABEL}"/>\n'
            f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{self.color}"/>\n'
            f"</g>\n"
            f'<text x="{_MARGIN}" {text} textLength="{left - 2 * _MARGIN}">{escape(self.label)}</text>\n'
            f'<text x="{left + _MARGIN}" {text} textLength="{right - 2 * _MARGIN}">{escape(self.message)}</text>\n'
            f"</svg>\n"
        )


def of(assessment: Assessment) -> Badge:
    """The badge of a verdict: green, amber with waivers, else red."""
    color = _RED if assessment.problems else _AMBER if assessment.used else _GREEN
    label = assessment.profile.identifier
    return Badge(label if profiles.is_ours(assessment.profile) else f"own profile {label}", assessment.verdict, color)


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER) + 2 * _MARGIN
