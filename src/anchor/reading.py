"""Reading files that something may have happened to: what is wrong with them is said by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from anchor.errors import InputError

DEEPEST = 3000
"""Frames that a parser may take: some libraries raise Python's limit beyond what the stack holds."""

MOST_DIGITS = 18
"""Of a number that people write down."""


def plain_file(path: Path) -> Path:
    """The path of a file that has an end; a pipe or a device would be read for ever.

    Raises:
        InputError: There is none, or it is something else.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file", "name a file in it")
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if not path.is_file():
        raise InputError(f"{path} is a pipe or a device, not a plain file", "save it as a file first")
    return path


def whole_number(text: str) -> int | None:
    """A number of plain digits, None for any other text: Python's `int` fails at '²' and at 5,000 digits."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def read_json(path: Path, *, hint: str | None = None) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
        path: Where it is.
        hint: How to get a good one.

    Raises:
        InputError: It cannot be read, or holds something else.
    """
    return json_object(plain_file(path).read_bytes(), str(path), hint=hint)


def json_object(text: str | bytes, name: str, *, hint: str | None = None) -> dict[str, Any]:
    """The object that a JSON text is; `name` says in errors where the text stands."""
    before = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(min(before, DEEPEST))
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is damaged, it is not JSON: {error}", hint) from None
    finally:
        sys.setrecursionlimit(before)
    if not isinstance(found, dict):
        raise InputError(f"{name} is damaged: it holds a {type(found).__name__}, not an object", hint)
    return found
