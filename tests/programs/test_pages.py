"""Templates of pages: texts are escaped, unknown names are errors, and line breaks between tags are removed."""

import re
from pathlib import Path

import jinja2
import pytest

from minihlo.interp import pages

HOSTILE = "<script>alert(1)</script>\"'&"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pages, "_HERE", tmp_path)
    pages._source.cache_clear()
    return tmp_path


def test_texts_are_escaped_in_elements_and_attributes(folder: Path) -> None:
    (folder / "a.html").write_text('<p title="{{ x }}">{{ x }}{{ y }}</p>')
    result = pages.renderer()("a.html", x=HOSTILE, y=pages.Markup("<b>"))
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;"
    assert result == f'<p title="{escaped}">{escaped}<b></p>'


def test_line_breaks(folder: Path) -> None:
    (folder / "a.html").write_text(
        "{# about #}\n<ul>\n  {% for i in range(2) %}\n  <li>one\n  two {{ [\n  i] }}\n</li>{% endfor %}\n</ul>\n"
    )
    assert pages.renderer()("a.html") == "<ul><li>one two [0]</li><li>one two [1]</li></ul>"


def test_an_error_names_the_line_of_the_template(folder: Path) -> None:
    (folder / "a.html").write_text("<p>\n\n  {{ 1 +\n 1 }}\n  {% bad %}</p>")
    with pytest.raises(jinja2.TemplateSyntaxError) as caught:
        pages.renderer()("a.html")
    assert caught.value.lineno == 5
    (folder / "b.html").write_text("<p>{{ nothing }}</p>")
    with pytest.raises(jinja2.UndefinedError, match="'nothing' is undefined"):
        pages.renderer()("b.html")


def test_templates_run_no_code_and_escape_everything() -> None:
    templates = sorted(Path(str(pages.__file__)).parent.glob("*.html"))
    assert len(templates) > 10
    for template in templates:
        text = template.read_text().replace("http://www.w3.org/2000/svg", "")  # the name of a namespace
        found = re.findall(r"\|\s*safe|Markup|autoescape|<script|javascript:|\bon[a-z]+=|https?:", text)
        assert not found, (template.name, found)


def test_the_frame_needs_no_other_file() -> None:
    pages._source.cache_clear()
    text = pages.renderer()("page.html", title=HOSTILE)
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "<script" not in text
    assert "<title>&lt;script&gt;" in text
    assert ".badge" in text
