"""Parts that users bring: `module:name` leads to a function or a class of theirs."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from anchor.errors import InputError


def imported(place: str, kind: str) -> Any:
    """What `package.module:name` names; modules in the current folder are found, too.

    Args:
        kind: What it is to be, for the message: "prior", "objective".
    """
    module, _, name = place.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # a script's path begins where the script lies, not where one works
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # a module of somebody else may raise anything while it is imported
        cause = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{kind} '{place}' cannot be imported: {cause}", "mend it, or name another"
        ) from error
