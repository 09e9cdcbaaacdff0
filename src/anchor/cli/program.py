"""The program's name as the user called it: after `uvx anchor-crystals …` there is no `anchor` to type."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath

SCRIPTS = ("anchor", "anchor-crystals")
"""Commands that the package installs; texts are written with the first."""
COMMANDS = (
    "search", "resume", "sample", "screen", "verify", "distill", "report", "serve", "export", "catalogue",
    "hull", "relax", "evaluate", "compare", "prior", "generator", "potentials", "dft", "import-dft",
    "compositions", "doctor", "policy", "energies", "data", "study",
)  # fmt: skip
"""Words that make a command of `anchor` before them."""

_CALL = re.compile(rf"(?<![\w./-]){SCRIPTS[0]} (?=(?:{'|'.join(COMMANDS)}|COMMAND)(?![\w/]))")


def program() -> str:
    """The script that runs, or `anchor` where it is none of ours (python -m, a notebook, a test)."""
    name = PurePath(sys.argv[0]).name.removesuffix(".exe") if sys.argv else ""
    return name if name in SCRIPTS else SCRIPTS[0]


def as_called(text: str) -> str:
    """A text whose commands can be typed as this one was: `anchor search` as `anchor-crystals search`."""
    name = program()
    return text if name == SCRIPTS[0] else _CALL.sub(f"{name} ", text)
