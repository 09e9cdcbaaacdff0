"""One grammar: an option means the same in every command, has one name, and help fits a terminal."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import anchor
from anchor.cli.main import app

MEANINGS = {
    "-n": "How many",
    "--as-is": "Do not relax",
    "--cell": "",
    "--device": "cpu, cuda or mps",
    "--elements": "Comma-separated symbols: these elements only",
    "--exclude": "Comma-separated symbols: none",
    "--fmax": "Force at which a relaxation ends, eV/Å",
    "--format": "Format of the input",
    "--hours": "Stop after so many hours",
    "--json": "Print one JSON document",
    "--k": "Numbers of elements",
    "--learning-rate": "Largest learning rate",
    "--max-atoms": "Most atoms per cell",
    "--max-steps": "Most steps of a relaxation",
    "--must-contain": "Comma-separated symbols: all",
    "--overwrite": "Replace files that exist",
    "--potential": "Name of a potential, as in `anchor potentials list`",
    "--preset": "Preset of settings",
    "--prior": "Name of a prior, as in `anchor prior list`",
    "--seed": "Seed of every random draw",
    "--set": "Override one setting",
    "--source": "Who proposes",
    "--start-from": "",
    "--steps": "Steps of training",
    "--where": "Condition",
    "--workers": "Processes; default: one for each core",
}
"""How the help of an option begins wherever it occurs."""
GONE = {
    "--structures": "-n",
    "--output": "--out",
    "--kind": "--hull",
    "--lr": "--learning-rate",
    "--time-limit": "--hours",
    "--start": "--start-from",
    "--limit": "-n",
    "--to-format": "--as",
}
"""Names that had a synonym."""
TYPES = {"-n": "int", "--seed": "int", "--json": "bool", "--overwrite": "bool", "--workers": "int"}


def walk(command: Any, path: str = "anchor") -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
    for name, child in (children or {}).items():
        yield from walk(child, f"{path} {name}")


COMMANDS = dict(walk(typer.main.get_command(app)))


def options(command: Any) -> dict[str, Any]:
    """By the name that stands first."""
    return {p.opts[0]: p for p in command.params if p.param_type_name == "option" and p.name != "help"}


@pytest.mark.parametrize("path", COMMANDS)
def test_an_option_means_the_same_everywhere(path: str) -> None:
    for name, option in options(COMMANDS[path]).items():
        assert len(option.opts) == 1, f"{name} has a synonym: {option.opts}"
        assert name not in GONE, f"{name} is called {GONE[name]}"
        assert (option.help or "").startswith(MEANINGS.get(name, "")), f"{name}: {option.help}"
        assert option.help, f"{name} says nothing"


@pytest.mark.parametrize("name", sorted(TYPES))
def test_an_option_takes_the_same_everywhere(name: str) -> None:
    found = [options(command)[name] for command in COMMANDS.values() if name in options(command)]
    assert len(found) > 1
    kinds = {str(option.type_descriptor.annotation).replace(" | None", "") for option in found}
    assert len({kind.replace("<class '", "").replace("'>", "") for kind in kinds}) == 1, kinds


def test_what_writes_writes_to_out() -> None:
    for path, command in COMMANDS.items():
        for name in options(command):
            assert not name.startswith("--out") or name == "--out", f"{path} {name}"


def test_every_command_speaks_json() -> None:
    without = {path for path, command in COMMANDS.items() if "--json" not in options(command)}
    assert without == {
        "anchor serve",  # it serves until it is stopped
        "anchor study table",  # it prints a table in the format that is asked for
    }


@pytest.mark.parametrize("path", ["anchor", *COMMANDS])
def test_help_fits_80_columns(path: str) -> None:
    shown = CliRunner().invoke(app, [*path.split()[1:], "--help"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0
    wide = [line for line in shown.output.splitlines() if len(line) > 80 and not line.startswith("  anchor")]
    assert not wide


def test_the_front_page_fits_a_screen_and_begins_with_what_people_do() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    lines = shown.splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= 80 for line in lines)
    assert sum(line.startswith("  anchor ") for line in lines[:8]) == 5
    assert "maintainers: " in lines[-1]


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"anchor {anchor.__version__}\n"
