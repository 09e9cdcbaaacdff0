"""Errors of the machine, as cause and way out: the one place that turns them into words.

What a part of anchor knows best (a damaged ledger, a wrong setting) it says itself, as an `AnchorError`. This
is for what may happen at any line: no space, no permission, no memory. Everything else is a bug of ours.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import traceback

from anchor.cli.program import as_called
from anchor.errors import AnchorError
from anchor.paths import BUNDLED

REPORT = (
    "\nThis is a bug in anchor, not in what you did. Please report it with the lines above, the command line "
    "and what `anchor doctor` prints."
)
CLOSED_PIPE = 128 + 13
"""Exit code of a program that was ended by SIGPIPE, as shells show it."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CAUSES = {
    errno.EACCES: ("no permission to use {}", "choose another place, or change its permissions"),
    errno.EPERM: ("no permission to use {}", "choose another place, or change its permissions"),
    errno.EROFS: ("{} is on a disk that can only be read", "choose another place"),
    errno.ENOENT: (
        "there is no file or folder {}",
        "check its name; folders in /proc and /sys cannot be made",
    ),
    errno.ENOTDIR: ("a file is in the place of a folder: {}", "choose another place"),
    errno.EEXIST: ("{} exists and is not a folder", "choose another place"),
    errno.EISDIR: ("{} is a folder, not a file", "name a file in it"),
    errno.ENAMETOOLONG: ("the name is too long: {}", "choose a shorter one"),
    errno.ELOOP: ("{} is a link that leads to itself", "name the file itself"),
    errno.EMFILE: ("too many files are open", "raise the limit (ulimit -n), or use fewer workers"),
    errno.EIO: ("the disk reports an error at {}", "copy what you can to another one"),
    errno.ENOMEM: ("the memory is used up", "use fewer workers or smaller batches"),
}


def explain(error: Exception) -> AnchorError | None:
    """What a person can do about an error; None: it is a bug of ours."""
    if isinstance(error, AnchorError):
        return error
    if isinstance(error, MemoryError) or _mentions_memory(error):
        return AnchorError(f"the memory is used up: {error}", "ask for less at once, or use fewer workers")
    if isinstance(error, OSError) and error.errno is not None:
        return _of_system(error)
    if isinstance(error, sqlite3.OperationalError) and "disk is full" in str(error):  # a file of ASE's
        return _of_system(OSError(errno.ENOSPC, str(error)))
    return None


def _mentions_memory(error: Exception) -> bool:
    """torch says so by a RuntimeError."""
    text = str(error).lower()
    return isinstance(error, RuntimeError) and "memory" in text and "alloc" in text


def _of_system(error: OSError) -> AnchorError:
    named = (name for name in (error.filename, error.filename2) if isinstance(name, str | bytes))
    place = " → ".join(f"'{os.fsdecode(name)}'" for name in named)
    if error.errno in NO_SPACE:
        where = place or "the output"
        return AnchorError(
            f"no space is left on the disk for {where}",
            "make room and repeat the command; no half-written file was left behind",
        )
    if place and str(BUNDLED) in place:
        return AnchorError(f"the installation is damaged: {error}", "install anchor again")
    cause, way_out = CAUSES.get(error.errno or 0, ("the system refused: {}", None))
    return AnchorError(cause.format(place if place and "{}" in cause else error), way_out)


def report_bug() -> None:
    """Show the traceback of a bug of ours, and what to do with it."""
    traceback.print_exc()
    print(as_called(REPORT), file=sys.stderr)


def silence_output() -> None:
    """Nobody reads standard output any more, or it takes nothing: Python's last flush must not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
