"""Serving a folder on this machine."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from anchor.catalogue.catalogue import SHIPPED, load_catalogue
from anchor.errors import InputError
from anchor.server.app import create, state_folder
from anchor.server.folder import Folder
from anchor.server.guard import new_token

HOST = "127.0.0.1"
LAST_WORDS = 3
"""Seconds that open pages have to hear that the server ends."""


def serve(root: Path, *, port: int, open_browser: bool, say: Callable[[str], object]) -> None:
    """Serve until Ctrl-C.

    Args:
        root: Folder to show.
        port: To listen at; 0: a free one.
        open_browser: Also open the page.
        say: Told the address, and how it ended.

    Raises:
        InputError: There is no such folder, or the port is taken.
    """
    folder = Folder(root)
    with _listening(port) as listener:
        chosen = listener.getsockname()[1]
        state = state_folder(folder.root)
        secret = state / "token"
        token = new_token(secret)
        catalogue = load_catalogue() if SHIPPED.is_file() else None
        app = create(folder, catalogue, token=token, port=chosen, state=state)
        address = f"http://{HOST}:{chosen}/#token={token}"
        say(f"{folder.root} at {address}\nOPTIMADE at http://{HOST}:{chosen}/optimade/  (Ctrl-C ends)")
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=LAST_WORDS,
            server_header=False,
        )
        if open_browser:
            webbrowser.open(address)
        try:
            _Server(config, app.state.shop).run(sockets=[listener])
        except KeyboardInterrupt:
            pass
        finally:
            secret.unlink(missing_ok=True)
        stopped = app.state.shop.jobs.asked
        if stopped:
            say(f"asked to stop: {', '.join(stopped)}; anchor resume goes on with them")


class _Server(uvicorn.Server):
    """Tells open event streams that it ends, so that nobody waits for them."""

    def __init__(self, config: uvicorn.Config, shop: Any) -> None:
        super().__init__(config)
        self._shop = shop

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._shop.closing = True
        super().handle_exit(sig, frame)


def _listening(port: int) -> socket.socket:
    """A socket of this machine only."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"port {port} cannot be used: {error.strerror}", "choose another: --port 0"
        ) from None
    return listener
