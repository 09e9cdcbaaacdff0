"""The documentation keeps up with the code."""

import json
import re
import runpy
from pathlib import Path

import pytest

from anchor.cli.reference import cli_page, config_page, studies_page
from anchor.paths import BUNDLED, sha256

ROOT = Path(__file__).parents[1]


PAGES = {"cli.md": cli_page, "config.md": config_page, "reproducing.md": studies_page}


@pytest.mark.parametrize(("page", "made"), PAGES.items())
def test_generated_pages_are_current(page: str, made) -> None:  # type: ignore[no-untyped-def]
    assert (ROOT / "docs" / page).read_text() == made(), "run: make docs"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_rooms_are_those_of_the_code() -> None:
    """The table of docs/concepts.md is the one that tests/test_imports.py keeps the code to."""
    page = (ROOT / "docs" / "concepts.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.M)
    scope = runpy.run_path(str(ROOT / "tests" / "test_imports.py"))
    assert {name: "" if uses == "–" else uses for name, uses in rows} == scope["ALLOWED"]


def test_slow_tests_exist() -> None:
    """A test that was renamed must not slip back into the fast tier unnoticed."""
    for line in (ROOT / "tests" / "slow.txt").read_text().split():
        file, _, name = line.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), line


WRITERS_OWN = re.compile(r"\.\./shared|/work/\w+|(?<![\w.])/tmp/(?!ray/)")
"""Folders of whoever wrote a page, trained a model or ran a command."""


def test_no_path_that_only_its_writer_has() -> None:
    """Pages, cards that ship, and source: a reader has neither our folders nor our temporary files."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    shipped = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".md", ".json", ".yaml")]
    for path in [*pages, *shipped, *(ROOT / "examples").iterdir(), *(ROOT / "benchmarks").glob("*.py")]:
        if path.is_file():
            found = WRITERS_OWN.search(path.read_text())
            assert found is None, f"{path.relative_to(ROOT)}: {found}"


@pytest.mark.parametrize("weights", sorted(BUNDLED.rglob("*.safetensors")), ids=lambda path: path.stem)
def test_cards_within_weights(weights: Path) -> None:
    """No such path in the header, and the card beside it is of these very bytes."""
    data = weights.read_bytes()
    header = data[8 : 8 + int.from_bytes(data[:8], "little")].decode()
    assert "__metadata__" in header
    assert WRITERS_OWN.search(header) is None
    card = json.loads(weights.with_suffix(".json").read_text())
    said = card.get("weights", card).get("sha256")
    assert said in (None, sha256(weights)), "its card is of another file"
