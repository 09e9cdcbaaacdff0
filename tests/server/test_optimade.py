"""OPTIMADE: its own validator passes, pymatgen reads it, and it follows the folder."""

import warnings

import httpx
import numpy as np
import pytest
from page_folder import Page, add_candidates, find_of, some_entries

from anchor.catalogue.catalogue import load_catalogue
from anchor.outcomes.columns import ABOVE
from anchor.search.ledger import Ledger


def structures(served: Page, **query: object) -> dict:
    return httpx.get(f"{served.base}/optimade/v1/structures", params=query, timeout=120).json()


def test_its_validator_passes(served: Page, capsys: pytest.CaptureFixture[str]) -> None:
    from optimade.validator import ImplementationValidator

    structures(served, page_limit=1)  # filled
    validator = ImplementationValidator(base_url=f"{served.base}/optimade/v1", verbosity=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        validator.validate_implementation()
    assert validator.valid, capsys.readouterr().out
    assert validator.results.failure_count == 0
    assert validator.results.success_count >= 40


def test_pymatgen_reads_it(served: Page) -> None:
    from pymatgen.ext.optimade import OptimadeRester

    entry = load_catalogue()[0]
    elements = ", ".join(
        f'"{symbol}"' for symbol in sorted({str(e) for e in entry.crystal.to_structures()[0].elements})
    )
    rester = OptimadeRester(f"{served.base}/optimade/", timeout=60)
    count = len(set(entry.crystal.numbers.tolist()))
    found = rester.get_structures_with_filter(f"elements HAS ALL {elements} AND nelements={count}")
    (mine,) = (s for by_id in found.values() for name, s in by_id.items() if name == "catalogue-1")
    assert mine.composition.reduced_formula == entry.crystal.to_structures()[0].composition.reduced_formula
    assert np.allclose(mine.lattice.abc, entry.crystal.to_structures()[0].lattice.abc)


def test_our_fields_can_be_asked_for(served: Page) -> None:
    found = structures(
        served, filter='_anchor_energy_above_hull<=0 AND _anchor_origin="catalogue"', page_limit=1
    )
    assert found["meta"]["data_returned"] == some_entries().counts()["stable"]
    (entry,) = found["data"]
    fields = {name for name in entry["attributes"] if name.startswith("_anchor_")}
    assert {
        "_anchor_energy_above_oqmd_hull",
        "_anchor_energy_above_mp_hull",
        "_anchor_novelty",
        "_anchor_level",
    } <= fields
    assert found["links"]["next"].startswith(f"{served.base}/optimade/v1/structures")
    info = httpx.get(f"{served.base}/optimade/v1/info/structures", timeout=60).json()["data"]["properties"]
    assert info["_anchor_energy_above_hull"]["unit"] == "eV/atom"


def test_new_finds_are_served(served: Page) -> None:
    ask = {"filter": '_anchor_origin="runs~second"', "page_limit": 1}
    assert structures(served, **ask)["meta"]["data_returned"] == 0
    ledger = Ledger.open(served.app.state.shop.folder.root / "runs" / "second")
    add_candidates(ledger, 8)
    row = next(row for row in ledger.rows() if row["valid"])
    ledger.store_finds([find_of(row)])
    found = structures(served, **ask)
    assert found["meta"]["data_returned"] == 1
    assert found["data"][0]["id"] == f"runs~second-{row['id']}"
    assert found["data"][0]["attributes"]["_anchor_energy_above_hull"] == pytest.approx(find_of(row)[ABOVE])
