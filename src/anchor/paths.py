"""Where files live: package data, and the user's cache."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

BUNDLED = Path(__file__).parent / "data" / "files"
"""Folder of the data committed with the package (reference, hull, energies, calibrations)."""


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
