"""Writes docs/cli.md, config.md and studies.md from commands, configuration and studies (`make docs`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from anchor.cli.main import app
from anchor.config import PRESETS, describe_fields
from anchor.studies.declaration import SCALES, Given, Row, paper_tables
from anchor.studies.declared import STUDIES


def cli_page() -> str:
    """Every command with its help, options and example."""
    lines = ["# Commands", "", "Made by `make docs` from the commands' own help.", ""]
    lines += _command(typer.main.get_command(app), "anchor", 2)
    return "\n".join(lines) + "\n"


def config_page() -> str:
    """Every value of the configuration with its default and meaning."""
    lines = ["# Configuration", "", "Made by `make docs`. YAML sections and `--set section.name=value`.", ""]
    lines += ["| name | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | `{value}` | {_cell(text)} |" for name, value, text in describe_fields()]
    lines += ["", "## Presets", ""]
    for name, values in PRESETS.items():
        settings = [f"`{s}.{n}={v}`" for s, section in values.items() for n, v in section.items()]
        lines.append(f"- **{name}**: {', '.join(settings) or 'the defaults above'}")
    return "\n".join(lines) + "\n"


def studies_page() -> str:
    """Every study with its rows, and how each is made."""
    lines = [
        "# Studies",
        "",
        "Made by `make docs` from the declarations. Every table of the paper is a command; ours stands "
        "beside the paper's numbers, with both budgets:",
        "",
        "    anchor study list",
        "    anchor study run exploration --scale laptop",
        "    anchor study plan exploration --scale paper",
        "    anchor study table exploration --scale laptop --as latex",
        "",
        "A cell (a search or a source of compositions) is known by its settings: studies that need the "
        "same one share it, and a study that was killed goes on.",
        "",
        "| scale | budget |",
        "| --- | --- |",
        *(f"| {name} | {scale.budget} |" for name, scale in SCALES.items()),
    ]
    for study in STUDIES.values():
        lines += ["", f"## {study.name}", "", f"{study.title}. The paper: {study.claim}"]
        if study.paper is not None:
            table = paper_tables()[study.paper]
            lines.append(f"Beside `{study.paper}`: {table['what']}; {table['budget']}.")
        if study.rows:
            lines += ["", "| row | made by | judged by |", "| --- | --- | --- |"]
            lines += [f"| {_cell(row.label)} | {_made_by(row)} | {_judged_by(row)} |" for row in study.rows]
    return "\n".join(lines) + "\n"


def _made_by(row: Row) -> str:
    if row.cell is None:
        return row.needs
    if isinstance(row.cell, Given):
        return f"the source `{row.cell.source}`"
    return " ".join(f"`--set {setting}`" for setting in row.cell.settings) or "the paper's search"


def _judged_by(row: Row) -> str:
    options = "".join(f", {name} {value}" for name, value in row.judging.options)
    return f"{row.judging.protocol}{options}, prior {row.judging.prior}"


def _command(command: Any, path: str, level: int) -> list[str]:
    lines = [f"{'#' * level} {path}", "", (command.help or "").strip(), ""]
    options = [p for p in command.params if p.name != "help"]
    if options:
        lines += ["| option | default | meaning |", "| --- | --- | --- |"]
        for option in options:
            name = ", ".join(option.opts) if option.opts[0].startswith("-") else str(option.name).upper()
            help_text = getattr(option, "help", None) or ""
            default = "" if option.default in (None, (), []) else f"`{option.default}`"
            lines.append(f"| `{name}` | {default} | {_cell(help_text)} |")
        lines.append("")
    for name, child in sorted(getattr(command, "commands", {}).items()):
        lines += _command(child, f"{path} {name}", min(level + 1, 4))
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    (folder / "cli.md").write_text(cli_page())
    (folder / "config.md").write_text(config_page())
    (folder / "studies.md").write_text(studies_page())
