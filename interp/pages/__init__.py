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

_HERE = Path(__file__).parent
#: A tag of the template language, or a line break with the spaces around it.
_BREAK = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\s*\n\s*", re.DOTALL)


def style(*names: str) -> Markup:
    """Style sheets, concatenated."""
    return Markup("\n".join((_HERE / name).read_text(encoding="utf-8") for name in names))


def renderer(**names: object) -> Callable[..., Markup]:
    """A function `render(template, **data)`, whose templates know some more names.

    Raises jinja2.UndefinedError where a template uses an unknown name.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.globals |= {"style": style, "count": count, **names}

    def render(template: str, **data: object) -> Markup:
        return Markup(environment.get_template(template).render(data))

    return render


def count(n: int, noun: str) -> str:
    """A number and its noun, in the plural except for one."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


@functools.cache
def _source(name: str) -> str:
    """The text of a template without line breaks; comments in their place keep the numbers of lines."""
    text = (_HERE / name).read_text(encoding="utf-8")

    def replaced(match: re.Match[str]) -> str:
        if match[0].strip():
            return match[0]
        before, after = text[: match.start()][-1:], text[match.end() :][:1]
        is_inside = before not in ">}" and after not in "<{" and before and after
        return (" " if is_inside else "") + "{#" + "\n" * match[0].count("\n") + "#}"

    return _BREAK.sub(replaced, text)
