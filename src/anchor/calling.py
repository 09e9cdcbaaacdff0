"""Rooms whose name is also what people do there: `anchor.relax(structure)` beside `anchor.relax.engine`."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that can be called: the function of its name in `anchor.api` answers."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(import_module("anchor.api"), self.__name__.rpartition(".")[2])(*args, **options)


def can_be_called(module: str) -> None:
    """Let a module, by its full name, be called. Typed code imports from `anchor.api` instead."""
    sys.modules[module].__class__ = CallableModule
