"""Errors meant for people: what went wrong, and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AnchorError(Exception):
    """A failure with a cause a person can act on.

    Args:
        message: What is wrong, naming the offending value.
        hint: What to do about it (optional).
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  {self.hint}"


class InputError(AnchorError):
    """The input is bad: exit code 2 on the command line, every other AnchorError is 1."""


class MissingDependencyError(AnchorError):
    """An optional package or a weight file is not here; the hint says how to get it."""


class Notice(UserWarning):
    """Something people should know although nothing failed; the command line shows it as one line."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """'did you mean …?' for a misspelt name, or the list of choices when nothing is close."""
    options = sorted(choices)
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else f"choose one of: {', '.join(options)}"
