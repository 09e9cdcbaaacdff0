"""What README and docs tell people to type: Python blocks run, and so do command lines that take seconds.

Variables are shared between the blocks of a page. Where a block needs something that a reader has, an
invisible comment makes it; one that would take minutes, or needs what is not here, is marked with the reason:

    <!-- invisible-code-block: python … -->      <!-- skip: next "the reason" -->

A line of a shell block runs, or `NOT_RUN` says why not; then anchor's own parser has to take it, as it has to
take commands within sentences. Of other programs the files, options, targets and extras must exist.
"""

import importlib.util
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
import typer
from pymatgen.core import Lattice, Structure
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from typer.testing import CliRunner

import anchor
from anchor.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_PYTHON = [page for page in PAGES if "```python" in page.read_text()]
CAMPAIGNS = ("runs/cathodes", "runs/first")
"""Searches of the reader's that Python blocks look at."""
BROKEN = "mp-2,,broken\n"
"""A row that cannot be read; Python blocks show what becomes of it."""
SHELL = ("", "bash", "sh")
"""Kinds of blocks that people type."""
NOT_RUN = {
    "catalogue build": "needs searches with many finds; tests/catalogue does it",
    "compare": "needs evaluations; tests/evaluate does it",
    "dft": "needs GPAW; tests/dft does it",
    "distill": "hours; tests/distill does it small",
    "energies": "minutes to hours; tests/filling does it small",
    "evaluate": "hundreds of relaxations; tests/evaluate does it with few",
    "generator finetune": "hours; tests/generators does it small",
    "generator sample": "minutes; tests/generators does it small",
    "generator test": "minutes; tests/generators does it small",
    "generator train": "hours; tests/generators does it small",
    "hull POSCAR --alex-mp": "a file that may not be passed on; tests/hull does it",
    "import-dft": "needs results of calculations; tests/dft does it",
    "policy": "minutes; tests/screening does it small",
    "potentials": "fetches files; tests/potentials does it",
    "prior finetune": "hours; tests/priors does it small",
    "prior index": "minutes; tests/priors does it",
    "prior save": "needs a prior trained by a search; tests/search does it",
    "prior test": "hundreds of crystals; tests/cli does it with few",
    "prior train": "hours; tests/priors does it small",
    "resume": "minutes; tests/search does it",
    "screen -n 150000": "minutes",
    "search": "minutes; tests/search does it with few structures",
    "serve": "does not end; tests/server does it",
    "study covariance": "minutes; tests/studies does it small",
    "study decomposition": "needs evaluations; tests/studies does it",
    "study run": "hours; tests/studies does all of them small",
    "study table": "needs a study; tests/studies does it",
    "study tilt": "minutes; tests/studies does it small",
    "verify": "minutes; tests/verify does it",
}
"""How commands of anchor begin that are read and not run, and why."""
OTHERS = ("#!/bin/bash", "(umask", "cp", "done", "export", "for", "ray")
"""What a line may begin with that is not looked at: Ray and Slurm have tests of their own (tests/executors,
tests/test_deploy.py), and what follows `for … do` has a line of its own."""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder: two crystals, and a table of them as CDVAE's."""
    salt = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.7), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    for folder in ("candidates", "results", "mp_20"):
        (tmp_path / folder).mkdir()
    for file in ("candidates/salt.cif", "results/salt.cif", "mine.cif"):
        salt.to(filename=str(tmp_path / file))
    salt.get_primitive_structure().to(filename=str(tmp_path / "POSCAR"), fmt="poscar")
    text = salt.to(fmt="cif").replace('"', '""')
    (tmp_path / "mp_20" / "train.csv").write_text(
        f'material_id,formation_energy_per_atom,cif\nmp-1,-2.1,"{text}"\n{BROKEN}'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("campaign") / "run"
    anchor.search("Li Na Cl F S", n=32, out=out, finds=2, settings=["run.workers=1"])
    return out


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, desk: Path, request: pytest.FixtureRequest) -> None:
    code = "".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S))
    for name in CAMPAIGNS:
        if name in code:
            shutil.copytree(request.getfixturevalue("campaign"), desk / name)
    for example in Sybil(parsers=[PythonCodeBlockParser(), SkipParser()]).parse(page).examples():
        with suppress(SkipTest):  # raised by a skip that gives its reason
            example.evaluate()


def _outside(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def _typed(page: Path) -> list[str]:
    """Lines of shell blocks: continued ones joined, several commands of one line apart, without comments."""
    text = page.read_text().replace("\\\n", " ")
    blocks = [code for kind, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if kind in SHELL]
    blocks += re.findall(r"^    ((?:anchor|python|make|pip) .*)$", _outside(page), re.M)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    parts = [part for line in lines for part in re.split(r" (?:&&|\|\|) ", _without_comment(line))]
    return [part for part in parts if part and not part.startswith("#SBATCH")]


def _without_comment(line: str) -> str:
    return re.split(r"(?:^|\s)# |\s{3,}", line.strip())[0].strip()


def _said(page: Path) -> list[str]:
    """Commands within sentences and tables, and the examples that commands show in their help."""
    outside = _outside(page)
    inline = [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", outside)]
    examples = re.findall(r"^(?:  |Example: )(anchor .*)$", outside, re.M)
    return [_without_comment(line) for line in inline + examples]


@cache
def _command() -> Any:
    return typer.main.get_command(app)


def _misunderstood(line: str) -> str | None:
    """Why the command line of anchor would not take a line."""
    words = shlex.split(re.split(r"\s[|&>;]+\s|\s{3,}", line)[0], comments=True)[1:]
    command = _command()
    context = command.make_context("anchor", [], resilient_parsing=True)
    while hasattr(command, "commands") and words and words[0] != "…":
        if words[0] in ("--help", "-h", "--version"):
            return None
        if words[0] not in command.commands:
            return f"there is no command {words[0]}"
        command = command.commands[words[0]]
        context = command.make_context(words.pop(0), [], parent=context, resilient_parsing=True)
    words = [word for word in words if word != "…"]
    if not hasattr(command, "commands"):
        context.resilient_parsing = False
        try:
            command.make_parser(context).parse_args(args=words)
        except Exception as error:  # click's own kinds, of whichever copy of click typer brings
            if "requires an argument" not in str(error):  # an option named in passing
                return str(error)
    return None


def _script(words: list[str]) -> str | None:
    """Why `python FILE …` or `python -m MODULE …` would not start."""
    if words[0] == "-m":
        found = importlib.util.find_spec(words[1]) if words[1].startswith("anchor") else None
        return None if found or words[1] == "venv" else f"there is no module {words[1]}"
    if words[0] == "-c":
        return None
    path = ROOT / words[0]
    if not path.is_file():
        return f"there is no {words[0]}"
    options = {word.strip("[]").partition("=")[0] for word in words[1:] if word.strip("[").startswith("-")}
    unknown = [option for option in options if f'"{option}"' not in path.read_text()]
    return f"it knows no {unknown}" if unknown else None


def _wrong(line: str) -> str | None:
    """Why nobody could type a line; None for what is not looked at, too."""
    program, *words = line.split()
    if program == "anchor":
        return _misunderstood(line) if words and re.match(r"[a-z-]", words[0]) else None
    if program == "make" and words:
        found = re.search(rf"^{re.escape(words[0])}:", (ROOT / "Makefile").read_text(), re.M)
        return None if found else f"there is no target {words[0]}"
    if program == "python" and words:
        return _script(words)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = [extra for part in re.findall(r"anchor-crystals\[([^]]+)\]", line) for extra in part.split(",")]
    missing = [extra for extra in extras if extra not in known]
    return f"there is no extra {missing}" if missing else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_understood(page: Path) -> None:
    wrong = {line: why for line in (*_typed(page), *_said(page)) if line and (why := _wrong(line))}
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_of_a_shell_block_is_looked_at(page: Path) -> None:
    programs = ("anchor", "make", "python", "pip", "CC=g++", *OTHERS)
    assert [line for line in _typed(page) if line.split()[0] not in programs] == []


def _reason(line: str) -> str | None:
    """Why a line of anchor is not run here."""
    words = line.split(maxsplit=1)[1]
    return next((why for start, why in NOT_RUN.items() if f"{words} ".startswith(f"{start} ")), None)


def _runnable() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for line in dict.fromkeys(_typed(page)):
            if line.startswith("anchor ") and _reason(line) is None:
                yield page.name, line


@pytest.mark.parametrize(("page", "line"), _runnable())
def test_lines_run(page: str, line: str, desk: Path, request: pytest.FixtureRequest) -> None:
    """As typed, in a folder that holds what a reader would have by then."""
    table = desk / "mp_20" / "train.csv"
    table.write_text(table.read_text().replace(BROKEN, ""))
    for name in re.findall(r"runs/[\w-]+", line):
        shutil.copytree(request.getfixturevalue("campaign"), desk / name)
    words = [found for word in shlex.split(line)[1:] for found in _globbed(word, desk)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{page}: {line}\n{result.output}"


def _globbed(word: str, folder: Path) -> list[str]:
    """What a shell makes of a word."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else [word]


def test_reasons_are_needed() -> None:
    """A reason that stands for no line is out of date."""
    lines = [
        line.split(maxsplit=1)[1] for page in PAGES for line in _typed(page) if line.startswith("anchor ")
    ]
    assert [start for start in NOT_RUN if not any(f"{line} ".startswith(f"{start} ") for line in lines)] == []


def test_wrong_lines_are_noticed() -> None:
    for line in (
        "anchor serch -n 5", "anchor search --no-such-option 5", "make serch", "python benchmarks/none.py",
        "python benchmarks/report.py --no-such-option 5", "python -m anchor.none",
        "pip install 'anchor-crystals[none]'",
    ):  # fmt: skip
        assert _wrong(line), line
    assert _wrong("anchor search -n 5   # a comment") is None
    assert _wrong("python benchmarks/report.py -n 10000") is None


def test_shell_after_python_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```\nanchor doctor   # a comment\n```\n\n    make test\n")
    assert _typed(page) == ["anchor doctor", "make test"]


def test_blocks_left_out_have_a_reason() -> None:
    for page in PAGES:
        assert not re.search(r"<!-*\s*skip: next\s*-*>", page.read_text()), page.name
