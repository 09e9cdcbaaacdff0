"""What README and docs tell people to type: Python blocks run, command lines are understood.

Variables are shared between the blocks of a page. Where a block needs something that a reader has, an
invisible comment makes it; one that would take minutes, or needs what is not here, is marked with the reason:

    <!-- invisible-code-block: python … -->      <!-- skip: next "the reason" -->
"""

import re
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from unittest import SkipTest

import pytest
import typer
from pymatgen.core import Lattice, Structure
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

import anchor
from anchor.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_PYTHON = [page for page in PAGES if "```python" in page.read_text()]
WITH_CAMPAIGN = {"quickstart.md": "runs/cathodes", "report.md": "runs/first"}
"""Pages that look at a search of the reader's."""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder: two crystals, and a table of them as CDVAE's."""
    salt = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.7), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    (tmp_path / "candidates").mkdir()
    salt.to(filename=str(tmp_path / "candidates" / "salt.cif"))
    (tmp_path / "mp_20").mkdir()
    text = salt.to(fmt="cif").replace('"', '""')
    (tmp_path / "mp_20" / "train.csv").write_text(
        f'material_id,formation_energy_per_atom,cif\nmp-1,-2.1,"{text}"\nmp-2,,broken\n'
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
    if page.name in WITH_CAMPAIGN:
        shutil.copytree(request.getfixturevalue("campaign"), desk / WITH_CAMPAIGN[page.name])
    for example in Sybil(parsers=[PythonCodeBlockParser(), SkipParser()]).parse(page).examples():
        with suppress(SkipTest):  # raised by a skip that gives its reason
            example.evaluate()


def _lines(page: Path) -> list[str]:
    """Commands as typed: lines of code blocks, continued ones joined, and code within sentences."""
    text = page.read_text().replace("\\\n", " ")
    blocks = re.findall(r"^```(?:bash|sh|)\n(.*?)^```", text, re.M | re.S) + re.findall(
        r"^    (.*)$", text, re.M
    )
    typed = [line for block in blocks for line in block.splitlines()]
    rest = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    typed += [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", rest)]
    return [line.strip() for line in typed if re.match(r"\s*anchor +[a-z-]", line)]


def _misunderstood(line: str) -> str | None:
    """Why the command line of anchor would not take a line."""
    words = shlex.split(re.split(r"\s[|&>;]+\s|\s{3,}", line)[0], comments=True)[1:]
    command = typer.main.get_command(app)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_are_understood(page: Path) -> None:
    wrong = {line: why for line in _lines(page) if (why := _misunderstood(line))}
    assert not wrong


def test_wrong_lines_are_noticed() -> None:
    assert _misunderstood("anchor serch -n 5")
    assert _misunderstood("anchor search --no-such-option 5")
    assert _misunderstood("anchor search -n 5   # a comment") is None


def test_blocks_left_out_have_a_reason() -> None:
    for page in PAGES:
        assert not re.search(r"<!-*\s*skip: next\s*-*>", page.read_text()), page.name
