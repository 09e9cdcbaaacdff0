"""A real browser, and everything it complains of: errors of scripts, failed requests, hosts it asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE = 60_000
"""Milliseconds: WebGL is drawn in software, and other tests run beside."""
HARMLESS = ("GPU stall", "willReadFrequently", "WebGL", "Failed to load resource: the server responded")
"""Warnings of software rendering; answers that refuse are counted apart."""


@dataclass
class Complaints:
    """What went wrong on pages, and who was asked."""

    errors: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def check(self, host: str, *, refused: int = 0) -> None:
        """Nothing went wrong but for so many requests, and none left for another host."""
        assert self.errors == []
        assert len(self.refused) == refused, self.refused
        assert self.hosts <= {host}


@contextmanager
def chromium() -> Iterator[object]:
    """Debian's chromium, for one module of tests: it starts once."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip("there is no /usr/bin/chromium: make browser")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def open_page(started: object, **context: object) -> Iterator[tuple[object, Complaints]]:
    """A page of a browser, and what it complains of."""
    found = Complaints()

    def failed(request: object) -> None:
        # leaving a page ends its requests, its event stream above all
        if request.failure != "net::ERR_ABORTED":
            found.errors.append(f"{request.url}: {request.failure}")

    def asked(request: object) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob"):
            found.hosts.add(parts.netloc)

    def said(message: object) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in HARMLESS):
            found.errors.append(f"console {message.type}: {message.text}")

    def answered(response: object) -> None:
        if response.status >= 400:
            found.refused.append(f"{response.status} {response.url}")

    window = started.new_context(**context)
    page = window.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on("requestfailed", failed)
    page.on("request", asked)
    page.on("response", answered)
    page.on("console", said)
    yield page, found
    window.close()
