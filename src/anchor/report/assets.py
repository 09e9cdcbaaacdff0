"""Scripts and styles of the report, the page and notebooks, and the crystal viewer if it was built."""

from __future__ import annotations

import base64
import gzip
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
VIEWER = Path(__file__).parent / "built" / "crystal-view.js"
"""`make web` builds it from web/; a wheel holds it, a fresh clone does not, and all works without it."""
SCRIPTS = ("core", "charts", "bonds", "sketch", "hulls", "files", "card", "finds", "report")
"""In the order of loading; each adds to `window.anchor`."""


@cache
def script(*names: str) -> str:
    """Our own JavaScript, all of it or the named files."""
    return "\n".join((STATIC / f"{name}.js").read_text(encoding="utf-8") for name in names or SCRIPTS)


@cache
def style() -> str:
    """Our own CSS."""
    return (STATIC / "style.css").read_text(encoding="utf-8")


def viewer() -> bytes | None:
    """The built viewer, an ES module that defines <crystal-view>; None where it was not built."""
    return VIEWER.read_bytes() if VIEWER.is_file() else None


def packed_viewer() -> str | None:
    """The same as text inside a page: gzipped, base64."""
    found = viewer()
    if found is None:
        return None
    return base64.b64encode(gzip.compress(found, compresslevel=9, mtime=0)).decode()
