"""Writes docs/cli.md, config.md and reproducing.md from commands, configuration and studies (`make docs`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from anchor.cli.main import app
from anchor.config import PRESETS, describe_fields
from anchor.studies.budget import plan_study
from anchor.studies.cells import Results, waves
from anchor.studies.declaration import Row, Study, paper_tables
from anchor.studies.declared import STUDIES
from anchor.studies.kinds import Distilled, Generated, Given
from anchor.studies.scales import SCALES

NOWHERE = Path("no results yet")
"""A folder without any."""


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
        "# Reproducing the paper",
        "",
        "Made by `make docs` from the declarations (`anchor.studies.declared`): every table of the paper, "
        "how each row is made, and what it is judged by. How to run them: [studies](studies.md).",
        "",
        "| scale | budget | what is trained beside policies |",
        "| --- | --- | --- |",
        *(f"| {s.name} | {s.budget} | {s.training_budget} |" for s in SCALES.values()),
        "",
        "| study | paper | rows | cells to make | structures of its campaigns, laptop | paper |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_study_line(study) for study in STUDIES.values()),
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


def _study_line(study: Study) -> str:
    laptop, paper = (Results(NOWHERE, SCALES[name]) for name in ("laptop", "paper"))
    plans = [plan_study(study, results) for results in (laptop, paper)]
    making = [unit for wave in waves(study) for unit in wave if unit.judging is None]
    cells = len({unit.cell for unit in making if not unit.finished(laptop)})
    proposed = " | ".join(f"{plan['structures_left']:,}" for plan in plans)
    return (
        f"| [{study.name}](#{study.name}) | {study.paper or '–'} | {len(study.rows)} | {cells} | {proposed} |"
    )


def _made_by(row: Row) -> str:
    cell = row.cell
    if cell is None:
        return row.needs
    if isinstance(cell, Given):
        return f"the source `{cell.source}`"
    if isinstance(cell, Generated):
        made = f"`{cell.name}`" if cell.start.ships else f"`{cell.name}`, trained first"
        return made if cell.reward is None else f"{made}, fine-tuned by DDPO (`--reward {cell.reward}`)"
    if isinstance(cell, Distilled):
        arms = ",".join(cell.arms)
        return f"`anchor distill` of the paper's search, `--prior {cell.prior} --arms {arms}`: {cell.arm}"
    return " ".join(f"`--set {setting}`" for setting in cell.settings) or "the paper's search"


def _judged_by(row: Row) -> str:
    options = "".join(f", {name} {value}" for name, value in row.judging.options)
    if row.judging.prior is not None:
        return f"{row.judging.protocol}{options}, prior {row.judging.prior}"
    own = ", its own crystals" if isinstance(row.cell, Generated) else ", the prior it trained"
    return f"{row.judging.protocol}{options}{own}"


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
    (folder / "reproducing.md").write_text(studies_page())
