"""A page to draw on: SVG with classes for colours, in a light and a dark form that the reader's system chooses."""

from __future__ import annotations

from html import escape

#: Width of all pictures. Narrow, so that text of 16 units can be read on a telephone.
WIDTH = 560
#: What each class is drawn with: on light and on dark pages. Colour-blind readers can tell the four hues apart (after
#: Okabe and Ito, Color Universal Design); all have a contrast of at least 3 to the page.
COLOURS = {
    "page": ("#ffffff", "#14171c"),
    "ink": ("#1f2328", "#e8eaed"),
    "faint": ("#5b6470", "#a3abb6"),
    "grid": ("#d5dae0", "#39404a"),
    "quiet": ("#e7ebf0", "#2b313a"),
    "blue": ("#0067a5", "#63b6f2"),
    "red": ("#c04a00", "#ff9457"),
    "green": ("#00795a", "#45c9a0"),
    "purple": ("#8a3f86", "#dd8fd6"),
}


def number(x: float) -> str:
    """A coordinate, to a hundredth of a unit."""
    return f"{x:.2f}".rstrip("0").removesuffix(".")


class Picture:
    """An SVG that is drawn from the back to the front."""

    def __init__(self, height: float, title: str, description: str) -> None:
        self._height, self._title, self._description = height, title, description
        self._parts: list[str] = []

    def rectangle(self, x: float, y: float, width: float, height: float, colour: str, title: str = "") -> None:
        inner = f"<title>{escape(title)}</title></rect>" if title else ""
        self._parts.append(
            f'<rect class="{colour}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}"{">" + inner if inner else "/>"}'
        )

    def line(self, points: list[tuple[float, float]], colour: str, width: float = 1, dashes: str = "") -> None:
        path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.path(path, colour, width, dashes)

    def path(self, path: str, colour: str, width: float = 1, dashes: str = "") -> None:
        """Strokes along a path in SVG's notation."""
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._parts.append(f'<path class="s-{colour}" stroke-width="{number(width)}"{dashed} d="{path}"/>')

    def fill(self, path: str, colour: str) -> None:
        self._parts.append(f'<path class="{colour}" d="{path}"/>')

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", colour: str = "ink", turn: int = 0) -> None:
        """`anchor` is the alignment at the point: start, middle or end. `turn` is in degrees."""
        at = f'x="{number(x)}" y="{number(y)}"' + (
            f' transform="rotate({turn} {number(x)} {number(y)})"' if turn else ""
        )
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text class="{colour}" {at}{place}>{escape(text)}</text>')

    def legend(self, x: float, y: float, entries: list[tuple[str, str, str]]) -> None:
        """Entries one below the other: a colour, a sign in it, and its meaning."""
        for i, (colour, sign, meaning) in enumerate(entries):
            top = y + 22 * i
            self.rectangle(x, top, 18, 18, colour)
            if sign:
                self.text(x + 9, top + 14, sign, anchor="middle", colour="ink" if colour == "quiet" else "page")
            self.text(x + 26, top + 14, meaning)

    def __str__(self) -> str:
        height = number(self._height)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
                f'height="{height}" role="img" aria-labelledby="title description">',
                f'<title id="title">{escape(self._title)}</title>',
                f'<desc id="description">{escape(self._description)}</desc>',
                f"<style>{_STYLE}</style>",
                f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
                *self._parts,
                "</svg>",
                "",
            ]
        )


def _colours(which: int) -> str:
    return "".join(f".{name}{{fill:{c[which]}}}.s-{name}{{stroke:{c[which]};fill:none}}" for name, c in COLOURS.items())


_STYLE = (
    "text{font:16px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    + _colours(0)
    + "@media(prefers-color-scheme:dark){"
    + _colours(1)
    + "}"
)
