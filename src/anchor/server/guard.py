"""Who may ask: the border of the page, before anything else sees a request.

- Host must be a name of this machine: a foreign one that somebody pointed at 127.0.0.1 (DNS rebinding) is
  refused.
- Origin, where a browser names one, must be the page itself; a browser that says a request comes from another
  site (Sec-Fetch-Site) is believed.
- What changes anything needs the token, in a header that no form and no link of another page can send.
- Answers forbid everything that is not from here (Content-Security-Policy), frames and guessing of types.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anchor.errors import InputError
from anchor.reading import whole_number

TOKEN_HEADER = "x-anchor-token"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
"""Names of this machine. Any port is right: a tunnel (ssh -L) may end on another one."""
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
"""Methods that change nothing."""
LARGEST_BODY = 100_000
"""Bytes of a request: limits of a search are a few hundred."""
SAME_SITE = {"", "same-origin", "none"}
"""Sec-Fetch-Site of the page itself, of an address that was typed, and of programs."""

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; "
    "worker-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""No other origin and no script in the text of a page. Plots and the crystal viewer set styles, draw through
blobs, and find symmetry by WebAssembly."""
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def new_token(path: Path) -> str:
    """A token for this run of the page, also in a file that only its owner can read."""
    token = secrets.token_urlsafe(24)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)  # a new file gets the mode below, and no link is followed
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"somebody else writes {path} at this moment", "start again") from None
    with os.fdopen(handle, "w") as file:
        file.write(token + "\n")
    return token


class Guard:
    """Middleware around the whole page."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
                for name in [name for name in headers if name.startswith("access-control-")]:
                    del headers[name]  # OPTIMADE's app would let every page read
            await send(message)

        refusal = self.refusal(scope)
        if refusal is not None:
            status, error, hint = refusal
            answer = JSONResponse({"error": error, "hint": hint}, status)
            await answer(scope, receive, sealed)
            return
        await self.app(scope, receive, sealed)

    def refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        """Why a request is refused: status, cause and way out; None if it is not."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if scope["type"] != "http":
            return 403, "there are no sockets here", "reload the page"
        if _name(host) not in LOOPBACK:
            return (
                421,
                f"'{host[:100]}' is not a name of this machine",
                "open the address that anchor printed",
            )
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "the request comes from another page", "open the address that anchor printed"
        if headers.get("sec-fetch-site", "") not in SAME_SITE and headers.get("sec-fetch-mode") != "navigate":
            return 403, "the request comes from another site", "open the address that anchor printed"
        if scope["method"] in SAFE_METHODS:
            return None
        if not secrets.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self.token.encode()):
            return 403, "the token is missing or wrong", "open the address with the token that anchor printed"
        length = whole_number(headers.get("content-length", ""))
        if length is None or length > LARGEST_BODY:
            return 413, "the request is too long, or does not say how long it is", "send less"
        return None


def _name(host: str) -> str:
    """Host name of 'name:port' or '[::1]:port', in lower case; '' if it is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for a port that is no number
        return parts.hostname or "" if not (parts.username or parts.path or parts.query) else ""
    except ValueError:
        return ""
