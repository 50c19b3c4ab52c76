"""HTML and SVG from Python: elements with escaped texts, and images as data."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape

import numpy as np


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


#: The content of an element: markup as it is, other text escaped, lists concatenated, None and False omitted.
Content = object

_VOID = ("meta", "link", "br", "img", "line", "rect", "circle", "image", "path")


def element(name: str, /, *content: Content, **attributes: object) -> Markup:
    """`<name …>content</name>`. Attributes: `class_` is `class`, `view_box` `view-box`; None and False are omitted."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{escape(str(value))}"')
    head = " ".join(words)
    if name in _VOID:
        return Markup(f"<{head}/>")
    return Markup(f"<{head}>{join(content)}</{name}>")


def join(content: Content) -> Markup:
    """Concatenates contents to markup."""
    if content is None or content is False:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, (list, tuple)):
        return Markup("".join(join(c) for c in content))
    return Markup(escape(str(content), quote=False))


def scroll_box(label: str, content: Content, role: str = "region") -> Markup:
    """Wide content in a box of its own that the keyboard can scroll."""
    return element("div", content, class_="scroll", tabindex="0", role=role, aria_label=label)


def page_head(title: str, *style: Content) -> Markup:
    """The head of a page, for narrow screens too, light and dark."""
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        *style,
    )


def png(pixels: np.ndarray, palette: list[tuple[int, int, int, int]]) -> str:
    """An image as a data URI: `pixels` are indices into a palette of red, green, blue and opacity."""
    height, width = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.astype(np.uint8)], axis=1)  # 0: no filter
    colours, opacities = bytes(c for p in palette for c in p[:3]), bytes(p[3] for p in palette)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"PLTE", colours), (b"tRNS", opacities), (b"IDAT", zlib.compress(rows.tobytes(), 9))]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*c) for c in [*chunks, (b"IEND", b"")])
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
