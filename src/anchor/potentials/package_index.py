"""A wheel from the package index, read with the standard library: pip is not everywhere (uvx, pipx run).

The index is the user's own, as pip and uv are told of it, else PyPI. Nothing is asked of any other host than
that of the index and the one PyPI keeps its files on, redirects included.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from anchor.errors import AnchorError

PYPI = "https://pypi.org/simple"
FILES = {"pypi.org": "files.pythonhosted.org"}
"""Where an index keeps its files, if not on its own host."""
VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
"""Of the environment, that name an index."""
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
TIMEOUT = 20.0
"""Seconds without an answer."""
BLOCK = 2**18
"""Bytes read at once."""

Meter = Callable[[int, int], None]
"""Told how many bytes have come, and of how many (0: nobody says)."""


def index_url() -> str:
    """Address of the user's index."""
    for name in VARIABLES:
        if value := os.environ.get(name):
            return value
    for path in _pip_files():
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # pip complains about it, when it is asked
        for section in ("download", "install", "global"):
            if value := parser.get(section, "index-url", fallback=""):
                return value
    return PYPI


def _pip_files() -> list[Path]:
    """Where pip looks, what counts most first."""
    named = os.environ.get("PIP_CONFIG_FILE")
    config = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config"))
    return [
        *([Path(named)] if named else []),
        Path(sys.prefix) / "pip.conf",
        config / "pip" / "pip.conf",
        Path.home() / ".pip" / "pip.conf",
        Path("/etc/pip.conf"),
    ]


def download_wheel(name: str, version: str, tag: str, target: Path, *, meter: Meter) -> None:
    """Write a wheel of a project to a file.

    Args:
        name, version: Of the project.
        tag: That its file name must have, as cp39.
        target: Where to.
        meter: Hears of progress.

    Raises:
        AnchorError: The index has no such wheel, or sends elsewhere.
    """
    index = index_url()
    opener = urllib.request.build_opener(_SameHosts(allowed_hosts(index)))
    page = urljoin(index.rstrip("/") + "/", re.sub(r"[-_.]+", "-", name).lower() + "/")
    with _open(opener, page, index) as answer:
        text = answer.read().decode("utf-8", errors="replace")
        links = _links(text, answer.headers.get_content_type())
        page = answer.url
    head = f"{re.sub(r'[-_.]+', '_', name)}-{version}-{tag}-".lower()
    found = sorted(file for file in links if file.lower().startswith(head) and file.endswith(".whl"))
    linux = [file for file in found if "x86_64" in file] or found
    if not linux:
        raise AnchorError(f"the index {_plain(index)} has no wheel of {name} {version} for {tag}")
    with _open(opener, urljoin(page, links[linux[0]]), index) as answer, target.open("wb") as file:
        total, done = int(answer.headers.get("Content-Length") or 0), 0
        while block := answer.read(BLOCK):
            file.write(block)
            done += len(block)
            meter(done, total)


def allowed_hosts(index: str) -> frozenset[str]:
    """Hosts that may be asked."""
    host = urlsplit(index).hostname or ""
    return frozenset([host, FILES.get(host, host)])


class _SameHosts(urllib.request.HTTPRedirectHandler):
    """Follows no redirect to a host that is not allowed, nor from https to http."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self.hosts = hosts

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check(newurl, self.hosts, secure=req.full_url.startswith("https:"))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check(url: str, hosts: frozenset[str], *, secure: bool) -> None:
    parts = urlsplit(url)
    if parts.hostname not in hosts or parts.scheme not in (("https",) if secure else ("https", "http")):
        raise AnchorError(
            f"the index sends to {parts.scheme}://{parts.hostname}, which is not asked",
            "download the file yourself and hand it over: anchor potentials fetch NAME --from FILE",
        )


def _open(opener: Any, url: str, index: str) -> Any:
    """An answer; a name and password in the index's address go to its own host only."""
    _check(url, allowed_hosts(index), secure=index.startswith("https:"))
    parts, own = urlsplit(url), urlsplit(index)
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(plain, headers={"User-Agent": "anchor", "Accept": ACCEPT})
    if own.username and parts.hostname == own.hostname:
        import base64

        said = f"{own.username}:{own.password or ''}".encode()
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(said).decode()}")
    try:
        return opener.open(request, timeout=TIMEOUT)
    except urllib.error.URLError as error:
        raise AnchorError(f"{_plain(url)}: {getattr(error, 'reason', error)}") from error


def _plain(url: str) -> str:
    """Without a password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class _Anchors(HTMLParser):
    """File names and addresses of a page of links."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href") if tag == "a" else None
        if address:
            self.links[urlsplit(address).path.rpartition("/")[2]] = address


def _links(text: str, kind: str) -> dict[str, str]:
    """Addresses of a project's files by name, of either form of the index."""
    if kind.endswith("json"):
        try:
            return {str(file["filename"]): str(file["url"]) for file in json.loads(text)["files"]}
        except (ValueError, KeyError, TypeError) as error:
            raise AnchorError(
                f"the index answers with something that is no list of files: {error}"
            ) from error
    parser = _Anchors()
    parser.feed(text)
    return parser.links
