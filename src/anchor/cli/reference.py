"""Writes docs/cli.md and docs/config.md from the commands and the configuration themselves (`make docs`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from anchor.cli.main import app
from anchor.config import PRESETS, describe_fields


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
