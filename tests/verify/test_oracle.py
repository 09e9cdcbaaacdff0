"""Level 1 refuses each kind of claim for its own reason, and nothing else."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule

from anchor.chemistry.composition import Compositions
from anchor.crystals.crystals import Crystals
from anchor.hull.energies import load_energies
from anchor.hull.ytterbium import misplaced_ytterbium
from anchor.verify.claims import Claim, Competition, Context
from anchor.verify.molecules import hydrides
from anchor.verify.oracle import Oracle, oracle

Make = Callable[..., Claim]


def test_a_new_compound_a_little_below_the_hull_passes(mattersim: Context, claim_at: Make) -> None:
    (verdict,) = oracle([claim_at("KYSe2", -0.05)], mattersim)
    assert verdict.passed, verdict.reason
    assert "0.050 eV/atom below the hull" in verdict.reason
    evidence = json.loads(json.dumps(verdict.evidence, allow_nan=False))
    assert evidence["above_ev_per_atom"]["union"] == pytest.approx(-0.05)
    assert set(evidence["decomposition"]) == {"oqmd", "mp"}


@pytest.mark.parametrize(
    ("formula", "above", "other", "why"),
    [
        ("KYSe2", 0.02, {}, "above the hull of known phases"),
        ("KYSe2", 0.12, {"limit": 0.1}, "above the hull of known phases"),
        ("KYSe2", -0.6, {}, "% of known compounds of its kind (3 elements, chalcogenide)"),
        ("KYSe2", np.nan, {}, "no energy"),
        ("KYSe2", -0.05, {"known_in": frozenset({"icsd", "mp"})}, "known to ICSD, the Materials Project"),
        ("CsICl6", -0.2, {}, "low because the potential's elements are"),  # Cl2 lends it most of that
    ],
)
def test_objections(
    mattersim: Context, claim_at: Make, formula: str, above: float, other: dict[str, object], why: str
) -> None:
    (verdict,) = oracle([claim_at(formula, above, **other)], mattersim)
    assert verdict.passed is False
    assert why in verdict.reason
    json.dumps(verdict.evidence, allow_nan=False)


def test_a_metastable_claim_may_be_above(mattersim: Context, claim_at: Make) -> None:
    (verdict,) = oracle([claim_at("KYSe2", 0.05, limit=0.1)], mattersim)
    assert verdict.passed, verdict.reason


def test_squeezed_atoms_are_refused(mattersim: Context, claim_at: Make) -> None:
    crystal = claim_at("KYSe2", -0.05).crystal
    squeezed = crystal.replace(lattice=crystal.lattice * 0.6)
    (verdict,) = oracle([claim_at("KYSe2", -0.05, crystal=squeezed)], mattersim)
    assert verdict.reason == "a bond shorter than any known one of its kind"


def test_finds_of_the_campaign_compete(mattersim: Context, claim_at: Make) -> None:
    claim, neighbour = claim_at("KYSe2", -0.05), "K9Y10Se20"
    deep = Competition((neighbour,), ({"oqmd": -0.2, "mp": -0.2},))
    (verdict,) = oracle([claim], replace(mattersim, competition=deep))
    assert verdict.passed is False
    assert "other finds" in verdict.reason
    same = Competition(("KYSe2",), ({"oqmd": -0.2, "mp": -0.2},))  # nothing competes with itself
    assert oracle([claim], replace(mattersim, competition=same))[0].passed
    settings = [Oracle().settings(replace(mattersim, competition=one)) for one in (deep, same)]
    assert settings[0] != settings[1]  # a verdict is made again when others come


def test_hydrides() -> None:
    box = {"CH4": ["C"], "NH3": [], "C2H6": [], "SiH4": ["Si"], "PH3": []}
    for name, found in box.items():
        atoms = molecule(name, cell=[8.0] * 3, pbc=True)
        assert hydrides(Crystals.from_atoms(atoms)) == found, name


def test_ytterbium_is_refused_because_its_known_compounds_are_misplaced(
    mattersim: Context, claim_at: Make
) -> None:
    """YbP, Yb2S3 and Yb2Se3 exist; the potential and both hulls put them far above."""
    reference, hull = mattersim.reference, mattersim.hull
    lowest = load_energies("mattersim-1m", reference.crystals).lowest
    for formula in ("YbP", "Yb2S3", "Yb2Se3"):
        (row,) = np.flatnonzero(reference.formulas == formula)
        crystal = reference.crystals[np.array([row])]
        energy = np.array([lowest[row] * crystal.n_atoms])
        place = hull.score(crystal, energy, checkpoint_hash=mattersim.potential.checkpoint_hash)
        assert place.energy_above_hull[0] > 0.3
    trivalent, divalent, metal = oracle(
        [claim_at(formula, -0.05) for formula in ("KYbSe2", "K2YbSe2", "Yb2MgAg")], mattersim
    )
    assert not trivalent.passed
    assert "trivalent ytterbium" in trivalent.reason
    assert "ytterbium" not in divalent.reason + metal.reason
    assert not oracle([claim_at("YbSO4", -0.05)], mattersim)[0].passed


def test_where_ytterbium_is_trivalent_the_hulls_lack_what_competes(mattersim: Context) -> None:
    """Experiment has Yb2O3 at −3.76 eV/atom; both hulls are far above, and know yttrium's well."""
    for database in mattersim.hull.databases.values():
        ytterbium, yttrium = database.union.hull_energy(Compositions.from_list(["Yb2O3", "Y2O3"]).amounts)
        assert ytterbium > -3.0
        assert yttrium < -3.7
    reasons = {f: misplaced_ytterbium(f) for f in ("YbSO4", "YbCN2", "KYbF3", "YbSe", "YbCl2", "Y2SO6")}
    assert [f for f, reason in reasons.items() if reason] == ["YbSO4", "YbCN2", "KYbF3"]
    assert "with N" in reasons["YbCN2"]


def test_methane_where_an_ion_belongs_is_refused(mattersim: Context, claim_at: Make) -> None:
    atoms = molecule("CH4", cell=[7.0] * 3, pbc=True) + Atoms("Br", [[3.5] * 3])
    crystal = Crystals.from_atoms(atoms)
    (verdict,) = oracle([claim_at("CH4Br", -0.02, crystal=crystal)], mattersim)
    assert verdict.passed is False
    assert verdict.reason == "holds methane (CH4) where an ion belongs"
