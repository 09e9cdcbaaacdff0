"""Imports point along the flow of the paper's Figure 1 only: rewards never reach a prior or the policy."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "anchor"
FLOW = [
    "chemistry", "data", "policy", "priors", "generators", "potentials", "relax", "hull",
    "reward", "search", "evaluate", "studies", "report", "cli",
]  # fmt: skip
ROOT = {"errors", "random", "paths", "config", "statistics"}  # leaves that any part may use


def imported_parts(path: Path) -> set[str]:
    """Names of the anchor parts that a file imports, at any depth of nesting."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        parts |= {name.split(".")[1] for name in names if name.startswith("anchor.")}
    return parts & {*FLOW, *ROOT}


@pytest.mark.parametrize("part", FLOW)
def test_imports_point_left(part: str) -> None:
    allowed = {*FLOW[: FLOW.index(part) + 1], *ROOT}
    for path in sorted((SRC / part).rglob("*.py")):
        assert imported_parts(path) <= allowed, f"{path.relative_to(SRC)} imports a later part"


@pytest.mark.parametrize("name", sorted(ROOT))
def test_root_modules_are_leaves(name: str) -> None:
    assert imported_parts(SRC / f"{name}.py") <= ROOT


def test_every_folder_is_in_the_flow() -> None:
    assert {p.name for p in SRC.iterdir() if p.is_dir() and not p.name.startswith("__")} == set(FLOW)
