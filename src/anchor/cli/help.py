"""Help that can be read on a terminal of 80 columns: names on the left, words on the right, no boxes."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Sequence
from inspect import cleandoc
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from anchor.cli.program import as_called, program

WIDEST = 100
"""Columns that a line takes at most: longer ones are hard to read."""
NAMES = 24
"""Columns for names; what is longer stands on a line of its own."""
OPTIONS = "Options"
MAINTAINERS = "maintainers"
"""Section of commands that users do not need."""


USAGE_ERROR: Any = typer.BadParameter.__base__
"""Of whichever click typer has; an unknown option is one."""
SYNONYMS = {
    "--format": "--as",
    "--output": "--out",
    "-o": "--out",
    "--structures": "-n",
    "--number": "-n",
    "--limit": "-n",
    "--lr": "--learning-rate",
    "--time-limit": "--hours",
    "--start": "--start-from",
    "--random-seed": "--seed",
    "--jobs": "--workers",
    "-j": "--workers",
    "--processes": "--workers",
    "--model": "--potential",
    "--calculator": "--potential",
    "--force": "--overwrite",
}
"""What other programs call an option, and what it is called here."""


class HelpCommand(TyperCommand):
    """A command with such help, whose numbers are numbers: NaN is in no range, and out of none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, args)
        except USAGE_ERROR as error:
            ours = SYNONYMS.get(getattr(error, "option_name", None) or "")
            if ours is not None and any(ours in parameter.opts for parameter in self.params):
                error.possibilities = [ours]
            raise
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            value = ctx.params.get(parameter.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise typer.BadParameter(f"{value} is not a finite number", ctx=ctx, param=parameter)
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(page(self, ctx))


class HelpGroup(TyperGroup):
    """A group of commands with such help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, _first_sentence(command)) for name, command in _shown(self)]
        formatter.write(page(self, ctx, {"Commands": rows}))


class App(typer.Typer):
    """`typer.Typer` whose commands and groups have such help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": HelpGroup, "rich_markup_mode": None, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, **{"cls": HelpCommand, **settings})


def page(command: Any, ctx: Any, more: dict[str, Sequence[tuple[str, str]]] | None = None) -> str:
    """The help of a command: usage, what it does, arguments, options by section, and further sections."""
    width = columns()
    pieces = " ".join(["[OPTIONS]", *_arguments(command)]) if not more else "COMMAND [OPTIONS]"
    parts = [f"Usage: {ctx.command_path} {pieces}", words(as_called(command.help or ""), width)]
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            title = "Arguments" if parameter.param_type_name == "argument" else _section(parameter)
            sections.setdefault(title, []).append((record[0], as_called(record[1])))
    for title, rows in {**sections, **(more or {})}.items():
        parts.append("\n".join([f"{title}:", *two_columns(rows, width)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def columns() -> int:
    """Of the terminal, within reason."""
    return min(shutil.get_terminal_size().columns, WIDEST)


def words(text: str, width: int) -> str:
    """A docstring in lines of this width; what is indented stays as it is written."""
    found = []
    for paragraph in cleandoc(text.replace("\b", "")).split("\n\n"):
        if paragraph.startswith(" "):
            found.append(paragraph)
        else:
            found.append(textwrap.fill(" ".join(paragraph.split()), width, break_on_hyphens=False))
    return "\n\n".join(found)


def two_columns(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Names and what they mean."""
    left = min(max((len(name) for name, _ in rows), default=0), NAMES)
    found = []
    for name, text in rows:
        lines = textwrap.wrap(text, width - left - 4, break_on_hyphens=False) or [""]
        head = f"  {name:<{left}}  "
        if len(name) > left:
            found.append(head.rstrip())
            head = " " * (left + 4)
        found += [f"{head if i == 0 else ' ' * (left + 4)}{line}".rstrip() for i, line in enumerate(lines)]
    return found


def _section(parameter: Any) -> str:
    return getattr(parameter, "rich_help_panel", None) or OPTIONS


def _arguments(command: Any) -> list[str]:
    found = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = str(parameter.name).upper() + ("..." if parameter.nargs == -1 else "")
            found.append(name if parameter.required else f"[{name}]")
    return found


def _shown(group: Any) -> list[tuple[str, Any]]:
    return [(name, command) for name, command in group.commands.items() if not command.hidden]


def _first_sentence(command: Any) -> str:
    """Of a command's help, without its full stop."""
    text = " ".join((command.help or "").split("\n\n")[0].split())
    return text.split(". ")[0].removesuffix(".")


class Front(HelpGroup):
    """`anchor --help`: what people do first, then the other commands, those of maintainers by name only.

    Attributes:
        first: Example and meaning of the commands that people begin with, by name.
    """

    first: ClassVar[dict[str, tuple[str, str]]]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 — typer hands it over
        width = columns()
        begin = [(as_called(example), text) for example, text in self.first.values()]
        rest = [(n, c) for n, c in _shown(self) if n not in self.first]
        ours = [n for n, c in rest if c.rich_help_panel == MAINTAINERS]
        others = [(n, _short(_first_sentence(c), width - 17)) for n, c in rest if n not in ours]
        left = max(len(example) for example, _ in begin)
        lines = [
            f"{(self.help or '').strip()}",
            "",
            *(f"  {example:<{left}}  {text}" for example, text in begin),
            "",
            *(f"  {name:<13} {text}" for name, text in others),
            "",
            f"More: {program()} COMMAND --help. For maintainers: {', '.join(ours)}.",
        ]
        formatter.write("\n".join(lines) + "\n")


def _short(text: str, width: int) -> str:
    return textwrap.shorten(text, width, placeholder=" …")
