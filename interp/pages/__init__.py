"""HTML pages: jinja2 templates beside this file, and the function that renders them.

Every text that a template shows is escaped. A line break in a template, with the spaces around it, is removed beside a
tag and is one space between words.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import jinja2
from markupsafe import Markup

from ..errors import count, printable

#: A sign for each verdict, so that colours are not needed.
SIGNS = {
    "PASS": "✓", "EXACT": "✓", "DIVERGENT": "○", "WITHIN": "○", "ACCURACY": "≈", "UNDECIDED": "?", "FAIL": "✗",
    "WRONG": "✗", "CRASH": "!", "UNSUPPORTED": "–",
}  # fmt: skip
_HERE = Path(__file__).parent
#: A tag of the template language, or a line break with the spaces around it.
_BREAK = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\s*\n\s*", re.DOTALL)


def style(*names: str) -> Markup:
    """Style sheets, concatenated."""
    return Markup("\n".join((_HERE / name).read_text(encoding="utf-8") for name in names))


def renderer(**names: object) -> Callable[..., str]:
    """A function `render(template, **data)`, whose templates know some more names.

    `render("cases.html#describe", case=case)` is a macro of a template with its arguments, for use in other templates.

    Raises jinja2.UndefinedError where a template uses an unknown name.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["thousands"] = "{:,}".format
    environment.globals |= {"count": count, "SIGNS": SIGNS, "style": style, **names}

    def render(template: str, **data: object) -> str:
        name, _, macro = template.partition("#")
        loaded = environment.get_template(name)
        return getattr(loaded.module, macro)(**data) if macro else loaded.render(data)

    return render


def plain(text: str) -> str:
    """Lines of text for a terminal. A program or a report from anyone may have texts with control characters."""
    return "\n".join(map(printable, text.split("\n")))


class Marked(str):
    """Text that a template shows as it is."""


def text_renderer(escape: Callable[[str], str], **names: object) -> Callable[..., str]:
    """A function `render(template, **data)` for text: what a template shows is escaped by `escape`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda x: x if isinstance(x, Marked) else escape(str(x)),
    )
    environment.globals |= {"count": count, **names}
    return lambda template, **data: environment.get_template(template).render(data)


@functools.cache
def _source(name: str) -> tuple[str, str, None]:
    """The text of a template without line breaks; comments in their place keep the numbers of lines."""
    text = (_HERE / name).read_text(encoding="utf-8")

    def replaced(match: re.Match[str]) -> str:
        if match[0].strip():
            return match[0]
        before, after = text[: match.start()][-1:], text[match.end() :][:1]
        is_inside = before not in ">}" and after not in "<{" and before and after
        return (" " if is_inside else "") + "{#" + "\n" * match[0].count("\n") + "#}"

    return _BREAK.sub(replaced, text), str(_HERE / name), None
