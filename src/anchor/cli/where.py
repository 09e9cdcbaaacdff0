"""The options that say where a command works, the same for every command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Literal

import typer

from anchor.errors import InputError

Where = dict[str, Any]
"""What was given, by the names of `anchor.executors.Workplace` and of the config's section `run`."""

NOWHERE: Where = {}
"""Nothing was given: each command has its default."""

OPTIONS: dict[str, Any] = {
    "executor": Annotated[
        Literal["inline", "processes", "ray"] | None,
        typer.Option(help="Work in this process, on several, or on Ray; default: processes."),
    ],
    "workers": Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Processes; default: one for each core. Of Ray: tasks."),
    ],
    "address": Annotated[
        str | None,
        typer.Option(help="Ray cluster of this machine, auto or HOST:PORT; default: a Ray of its own."),
    ],
    "gpus": Annotated[
        float | None, typer.Option(min=0, help="GPUs of each task of Ray; 0.25: four share one.")
    ],
    "labels": Annotated[
        list[str] | None,
        typer.Option("--label", help="Only machines of the cluster with NAME=VALUE (repeatable)."),
    ],
}


def works_somewhere(command: Callable[..., None]) -> Callable[..., None]:
    """Put the options in the place of the parameter `where`, which gets those that were given."""
    own = inspect.signature(command, eval_str=True)
    parameters = [
        parameter
        for known in own.parameters.values()
        for parameter in (_options() if known.name == "where" else [known])
    ]

    @wraps(command)
    def run(*arguments: Any, **named: Any) -> None:
        options = {name: named.pop(name, None) for name in OPTIONS}
        where = {name: value for name, value in options.items() if value not in (None, [])}
        if "labels" in where:
            where["labels"] = dict(_label(text) for text in where["labels"])
        command(*arguments, where=where, **named)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _options() -> list[inspect.Parameter]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(name, kind, default=None, annotation=of) for name, of in OPTIONS.items()]


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError(f"'--label {text}' is not of the form NAME=VALUE", "for example: --label gpu=a100")
    return name, value
