"""The documentation site: every page is in it, every link leads somewhere, nothing comes from other hosts."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r'<(?:script|img|iframe)[^>]+src="?https?:|<link[^>]+rel="?stylesheet[^>]+https?:')


def _pages(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav if isinstance(nav, list) else nav.values()) for page in _pages(part)]  # type: ignore[attr-defined]


def test_every_page_is_in_the_menu_once() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(_pages(nav)) == sorted(
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    )


def test_site_builds_without_warning_and_needs_no_network(tmp_path: Path) -> None:
    """`--strict` fails for links to pages and headings that do not exist."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        assert not LOADED.search(text), page.name
        assert 'class="mermaid"' not in text, "the theme would fetch mermaid: draw it as SVG"
    assert "energy_above_hull" in (tmp_path / "site" / "python.html").read_text()


def test_the_lock_of_the_viewer_holds_what_it_asks_for() -> None:
    """`npm ci` refuses a lock made on one machine that leaves out the parts for others."""
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    asked = {name for found in packages.values() for name in found.get("optionalDependencies", {})}
    locked = {place.rpartition("node_modules/")[2] for place in packages}
    assert asked - locked == set()
