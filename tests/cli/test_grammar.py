"""One grammar: an option means the same in every command, has one name, and help fits a terminal."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import anchor
from anchor.cli.help import SYNONYMS
from anchor.cli.main import app

MEANINGS = {
    "-n": "How many",
    "--as-is": "Do not relax",
    "--alex-mp": "MatterGen's Alex-MP reference file",
    "--batch-size": "Crystals per step",
    "--bundle": "Write into the package",
    "--cell": "Relax the cell too",
    "--epochs": "Passes over",
    "--device": "cpu, cuda or mps",
    "--elements": "Comma-separated symbols: these elements only",
    "--exclude": "Comma-separated symbols: none",
    "--fmax": "Force at which a relaxation ends, eV/Å",
    "--format": "Format of the input",
    "--hull": "Hull that counts",
    "--hours": "Stop after so many hours",
    "--json": "Print one JSON document",
    "--k": "Numbers of elements",
    "--learning-rate": "Largest learning rate",
    "--max-atoms": "Most atoms per cell",
    "--max-steps": "Most steps of a relaxation",
    "--most": "At most so far above the hull",
    "--must-contain": "Comma-separated symbols: all",
    "--optimizer": "Optimiser of the relaxation",
    "--overwrite": "Replace files that exist",
    "--potential": "Name of a potential, as in `anchor potentials list`",
    "--precision": "Of training: bf16 or fp32",
    "--preset": "Preset of settings",
    "--prior": "Name of a prior, as in `anchor prior list`",
    "--seed": "Seed of every random draw: same seed, same result",
    "--seeds": "Sampling seeds",
    "--set": "Override one setting",
    "--source": "Who proposes",
    "--size": "small (for a CPU) or published (for a GPU)",
    "--start-from": "Start from these weights",
    "--steps": "Steps of training",
    "--surrogate": "Surrogate weights",
    "--threads": "CPU threads",
    "--top": "Only so many",
    "--where": "Condition",
    "--which": "Of a campaign: finds",
    "--workers": "Processes; default: one for each core",
}
"""How the help of an option begins wherever it occurs."""
GONE = {**SYNONYMS, "--kind": "--hull", "--to-format": "--as", "--below": "--most"}
"""Names that had a synonym, or would be one."""
del GONE["--format"]  # of the input, where there is one
SEVERAL_TYPES = {
    "--as": "each command has its own formats, some of them checked by hand",
    "--hull": "evaluate has hulls of others, whose names the protocol checks",
    "--which": "verify takes sun and msun, export groups of refined candidates",
}
"""Options whose type differs, and why."""
NO_SEED = {
    "anchor resume": "the campaign's own",
    "anchor screen": "a ranking",
    "anchor report": "bands are resampled with one fixed stream: same ledger, same bytes",
    "anchor study run": "a study declares its seeds",
    "anchor study plan": "a budget",
    "anchor study table": "a study declares its seeds",
    **dict.fromkeys(
        (
            "anchor serve", "anchor export", "anchor hull", "anchor relax", "anchor import-dft",
            "anchor doctor", "anchor catalogue list", "anchor catalogue show", "anchor catalogue build",
            "anchor prior save", "anchor prior list", "anchor generator list", "anchor potentials list",
            "anchor potentials fetch", "anchor dft energy", "anchor dft hull", "anchor dft inputs",
            "anchor compositions check", "anchor compositions count", "anchor policy labels",
            "anchor policy chances", "anchor policy save", "anchor energies build",
            "anchor energies calibrate", "anchor energies list", "anchor data convert", "anchor data build",
            "anchor data info", "anchor data holes", "anchor study list",
        ),
        "nothing is drawn",
    ),
}  # fmt: skip
"""Commands without --seed, and why."""


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


SHARED = sorted(
    name for name, n in Counter(o for c in COMMANDS.values() for o in options(c)).items() if n > 1
)
"""Options of more than one command."""


@pytest.mark.parametrize("name", SHARED)
def test_an_option_takes_the_same_everywhere(name: str) -> None:
    found = [options(command)[name] for command in COMMANDS.values() if name in options(command)]
    kinds = {str(option.type_descriptor.annotation) for option in found}
    assert len(kinds) == 1 or name in SEVERAL_TYPES, kinds


def numbers(kind: str) -> list[tuple[str, str]]:
    """Commands, and their options that are a float or an int."""
    return [
        (path, name)
        for path, command in COMMANDS.items()
        for name, option in options(command).items()
        if re.search(rf"\b{kind}\b", str(option.type_descriptor.annotation))
    ]


def refused(path: str, name: str, value: str) -> None:
    needed = [p for p in COMMANDS[path].params if p.required]
    words = [w for p in needed for w in ([p.opts[0], "x"] if p.param_type_name == "option" else ["x"])]
    with pytest.raises(typer.BadParameter, match=r"not a finite number|Input should be"):
        COMMANDS[path].make_context("anchor", [*words, f"{name}={value}"])


@pytest.mark.parametrize(("path", "name"), numbers("float"))
def test_a_number_is_finite(path: str, name: str) -> None:
    refused(path, name, "nan")
    refused(path, name, "inf")


@pytest.mark.parametrize(("path", "name"), numbers("int"))
def test_a_count_is_not_negative(path: str, name: str) -> None:
    refused(path, name, "-1")


def test_exceptions_exist() -> None:
    """A name that no command has any more is taken off the lists above."""
    assert set(SEVERAL_TYPES) <= set(SHARED)
    assert set(NO_SEED) <= set(COMMANDS)
    used = {name for command in COMMANDS.values() for name in options(command)}
    assert set(MEANINGS) <= used


def test_what_draws_has_a_seed() -> None:
    assert {path for path, command in COMMANDS.items() if "--seed" not in options(command)} == set(NO_SEED)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_an_example(path: str) -> None:
    text = COMMANDS[path].help or ""
    assert "Example" in text
    assert re.search(rf"(?<!`){re.escape(path)}(?![\w-])", text.partition("Example")[2]), text


@pytest.mark.parametrize("path", COMMANDS)
def test_options_in_the_examples_exist(path: str) -> None:
    lines = (COMMANDS[path].help or "").partition("Example")[2].splitlines()
    own = [line for line in lines if re.search(rf"{re.escape(path)}(?![\w-])", line)]
    known = {name for o in COMMANDS[path].params for name in (*o.opts, *o.secondary_opts)}
    for line in own:
        assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", line)) <= known | {"--help"}, line


def test_figures_in_json_are_numbers() -> None:
    """Of every command that answers within seconds; a figure in quotes is no use to a program."""
    for line in QUICK:
        done = CliRunner().invoke(app, [*line.split(), "--json"])
        assert done.exit_code == 0, (line, done.output)
        quoted = list(_quoted_figures(json.loads(done.stdout)))
        assert not quoted, (line, quoted[:3])


QUICK = (
    "doctor", "catalogue list -n 3", "catalogue show 1", "prior list", "generator list", "potentials list",
    "energies list", "data info", "data holes --elements Li,O -n 3", "compositions sample -n 3",
    "compositions check NaCl", "compositions count", "study list", "study table exploration",
    "search --print-config", "sample -n 3", "policy surrogate", "policy plausibility", "policy chances",
)  # fmt: skip
NAMED = {"python", "anchor", "sha256", "hash", "version", "packages", "ase", "lattice_id", "label"}
"""Keys whose value may look like a figure and is a name."""


def _quoted_figures(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _quoted_figures(part, key if key in NAMED else name)
    elif isinstance(value, list):
        for part in value:
            yield from _quoted_figures(part, key)
    elif (
        isinstance(value, str)
        and key not in NAMED
        and re.fullmatch(r"[-+−]?[\d.,]+(e[-+]?\d+)?( ?%)?", value)
    ):
        yield key, value


def test_what_writes_writes_to_out() -> None:
    for path, command in COMMANDS.items():
        for name in options(command):
            assert not name.startswith("--out") or name == "--out", f"{path} {name}"


def test_every_command_speaks_json() -> None:
    without = {path for path, command in COMMANDS.items() if "--json" not in options(command)}
    assert without == {
        "anchor serve",  # it serves until it is stopped
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


@pytest.mark.parametrize(
    ("typed", "ours"),
    [(["study", "table", "theory", "--format", "md"], "--as"), (["search", "-j", "2"], "--workers")],
)
def test_names_of_other_programs_lead_to_ours(typed: list[str], ours: str) -> None:
    answer = CliRunner().invoke(app, typed)
    assert answer.exit_code == 2
    assert ours in answer.stderr.splitlines()[-1]
