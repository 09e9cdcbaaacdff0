"""The import graph: who may use whom is a table, nothing turns in a circle, and rewards reach no prior."""

from graphlib import CycleError, TopologicalSorter

import pytest
from import_graph import GRAPH, SRC

LEAVES = {
    "arrays",
    "calling",
    "clock",
    "config",
    "devices",
    "errors",
    "own_code",
    "paths",
    "plain_yaml",
    "random",
    "reading",
    "statistics",
    "weights",
    "writing",
}
"""Modules beside the folders: they use only one another, and any folder may use them."""

ALLOWED = {
    "chemistry": "",
    "crystals": "chemistry",
    "formats": "crystals",
    "reference": "chemistry crystals",
    "executors": "",
    "potentials": "crystals",
    "relax": "crystals executors potentials",
    "models": "chemistry crystals formats reference",
    "policy": "chemistry",
    "priors": "chemistry crystals executors models reference",
    "gates": "chemistry crystals executors reference",
    "generators": "chemistry crystals gates models policy reference",
    "matching": "chemistry crystals executors formats reference",
    "hull": "chemistry crystals formats reference relax",
    "outcomes": "chemistry crystals gates hull potentials reference relax",
    "reward": "chemistry matching outcomes",
    "selecting": "chemistry outcomes",
    "screening": "chemistry executors hull policy priors reference reward",
    "search":
        "chemistry crystals executors gates generators hull matching models outcomes policy potentials "
        "priors reference relax reward screening",
    "filling":
        "chemistry crystals executors hull models outcomes potentials priors reference relax screening "
        "search",
    "dft": "chemistry crystals formats hull outcomes potentials priors reference relax",
    "verify":
        "chemistry crystals dft executors filling formats hull matching outcomes potentials priors "
        "reference relax screening search",
    "evaluate":
        "chemistry crystals executors formats gates hull matching models outcomes policy potentials "
        "priors reference relax reward screening search",
    "distill": "crystals evaluate executors formats matching models outcomes priors reference search",
    "catalogue": "chemistry crystals hull outcomes potentials search",
    "exports": "catalogue crystals dft formats hull outcomes reference search selecting",
    "studies":
        "chemistry crystals distill evaluate executors generators hull models outcomes policy priors "
        "reference reward search",
    "report": "chemistry crystals hull outcomes search",
    "server":
        "catalogue chemistry crystals evaluate exports formats hull outcomes report search selecting "
        "studies",
    "cli":
        "catalogue chemistry crystals dft distill evaluate executors exports filling formats generators "
        "hull matching models outcomes policy potentials priors reference relax report screening search "
        "selecting server studies verify",
}  # fmt: skip
"""Folder → folders it may import. A new edge is a decision: make it here."""


def folder(module: str) -> str:
    return module.split(".")[0]


@pytest.mark.parametrize("part", ALLOWED)
def test_a_folder_uses_only_what_it_may(part: str) -> None:
    used = {folder(other) for name in GRAPH if folder(name) == part for other in GRAPH[name]} - {part}
    assert used - LEAVES <= set(ALLOWED[part].split())


@pytest.mark.parametrize("part", ALLOWED)
def test_every_allowed_edge_is_used(part: str) -> None:
    used = {folder(other) for name in GRAPH if folder(name) == part for other in GRAPH[name]}
    assert set(ALLOWED[part].split()) <= used, "an edge nobody uses: take it out"


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_leaves_use_leaves(name: str) -> None:
    assert {folder(other) for other in GRAPH[name]} <= LEAVES


def test_every_folder_is_in_the_table() -> None:
    rooms = {
        p.name for p in SRC.iterdir() if p.is_dir() and not p.name.startswith("__") and p.name != "files"
    }
    assert rooms == set(ALLOWED)


def test_no_module_imports_itself_by_a_detour() -> None:
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_rewards_reach_no_prior_and_no_policy() -> None:
    for part in ("models", "priors", "policy"):
        assert not {"reward", "outcomes", "search"} & set(ALLOWED.get(part, "").split())
