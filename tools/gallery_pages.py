"""A hook of mkdocs: the documentation's gallery, made of the results in `docs/gallery`, as files of the site."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minihlo.interp.conform.site import build, read

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "gallery"


def on_files(files: Files, config: Any) -> Files:
    """Build the pages and add them below `gallery/`."""
    from mkdocs.structure.files import File  # which only the documentation's environment has

    shutil.rmtree(PAGES, ignore_errors=True)
    build.build(read.reports(ROOT / "docs" / "gallery")[0], PAGES)
    for path in sorted(p for p in PAGES.rglob("*") if p.suffix in (".html", ".css")):
        address = f"gallery/{path.relative_to(PAGES).as_posix()}"
        files.append(File.generated(config, address, abs_src_path=str(path)))
    return files
