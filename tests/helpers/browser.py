"""A real browser for tests: Debian's chromium, driven by Playwright; `make browser` installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
MISSING = "there is no chromium: make browser installs it"
LOCAL = ("file:", "data:", "blob:", "about:")
SECONDS = 90_000
"""ms to wait for anything: two busy cores draw WebGL in software."""


@dataclass
class Watched:
    """A page, and everything about it that should not happen."""

    page: Any
    faults: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)


@contextmanager
def launched() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def opened(browser: Any, url: str, *, ready: str = "html[data-ready=yes]", **options: Any) -> Watched:
    """A page in a context of its own; console errors, exceptions and requests to elsewhere are kept."""
    context = browser.new_context(accept_downloads=True, **options)
    context.set_default_timeout(SECONDS)
    watched = Watched(context.new_page())
    page = watched.page
    page.on("console", lambda m: watched.faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: watched.faults.append(str(error)))
    page.on("dialog", lambda dialog: (watched.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda r: None if r.url.startswith(LOCAL) else watched.outside.append(r.url))
    page.goto(url)
    page.wait_for_selector(ready)
    return watched
