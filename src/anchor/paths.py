"""Where files live: package data, and the user's cache."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anchor.errors import AnchorError

BUNDLED = Path(__file__).parent / "files"
"""Everything that ships beside code: reference, energies and calibrations, priors, policies, estimates."""


def cache_dir() -> Path:
    """The user's cache folder: $ANCHOR_CACHE, else the platform's convention plus 'anchor'. Not created."""
    if override := os.environ.get("ANCHOR_CACHE"):
        return Path(override)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "anchor"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "anchor"


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def alone(lock: Path, doing: str) -> Iterator[None]:
    """Hold a lock file, which the system lets go when the process ends, however it ends.

    Raises:
        AnchorError: Another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows has none: two processes are not told apart there
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:  # whatever is there keeps its content
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AnchorError(f"another process is {doing}", "wait for it, or end it first") from None
        yield
