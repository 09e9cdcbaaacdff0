"""What decides numbers is in the code hash; what does not, is not."""

import shutil
from pathlib import Path

import pytest
from import_graph import GRAPH

import anchor
from anchor.search.identity import DECIDES, code_hash

SRC = Path(anchor.__file__).parent
HARMLESS = {
    "__init__", "clock", "devices", "errors", "formats", "own_code", "paths", "plain_yaml", "reading",
    "statistics", "writing",
}  # fmt: skip
"""Imported by a campaign without deciding a number."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for path in SRC.rglob("*.py"):
        place = tmp_path / path.relative_to(SRC)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    return tmp_path


def test_a_page_or_a_command_changes_nothing(copy: Path) -> None:
    before = code_hash(copy)
    assert before == code_hash()
    (copy / "pages").mkdir()
    (copy / "pages" / "page.py").write_text("page = 1\n")
    with (copy / "cli" / "search.py").open("a") as file:
        file.write("\n# another option\n")
    assert code_hash(copy) == before


@pytest.mark.parametrize("place", ["reward/score.py", "search/realise.py", "random.py", "outcomes/judge.py"])
def test_what_a_candidate_goes_through_counts(copy: Path, place: str) -> None:
    before = code_hash(copy)
    with (copy / place).open("a") as file:
        file.write("\nchanged = True\n")
    assert code_hash(copy) != before


def test_everything_a_campaign_imports_is_covered() -> None:
    """Followed from the modules that make a step; the ledger stores numbers, it does not make them."""
    seen, waiting = set(), ["search.campaign", "search.environment", "search.realise"]
    while waiting:
        module = waiting.pop()
        kept = ("search.ledger", "search.tables", "search.rows", "search.policies")
        if module in seen or module.startswith(kept):
            continue
        seen.add(module)
        waiting += GRAPH.get(module, ())
    places = {module.replace(".", "/") for module in seen}
    missing = {
        place
        for place in places
        if place.split("/")[0] not in HARMLESS
        and place != "search/identity"
        and not any(f"{place}.py" == part or f"{place}/".startswith(f"{part}/") for part in DECIDES)
    }
    assert not missing
    assert all((SRC / part).exists() for part in DECIDES)
