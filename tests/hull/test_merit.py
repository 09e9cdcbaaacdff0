"""What elements that stand too high lend a compound is told from what it has by itself."""

import numpy as np
import pytest
from ase import Atoms

from anchor.crystals.crystals import Crystals
from anchor.hull.energies import load_energies
from anchor.hull.hull import Hull
from anchor.hull.merit import of_own_merit, strict_hulls
from anchor.hull.phases import composition_matrix
from anchor.hull.references import PotentialHull, load_hull
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def hull() -> PotentialHull:
    return load_hull("mattersim-1m")


@pytest.fixture(scope="module")
def strict(hull: PotentialHull) -> dict[str, Hull]:
    reference = load_reference()
    return strict_hulls(hull.databases, reference, load_energies("mattersim-1m", reference.crystals))


@pytest.mark.parametrize(
    ("formula", "own"),
    [
        ("MnS19", False),  # sulphur, and a little manganese
        ("LiCl4", False),  # LiCl and chlorine side by side
        ("NaInS2", True),
        ("NaCl", True),
    ],
)
def test_lent_and_own(hull: PotentialHull, strict: dict[str, Hull], formula: str, own: bool) -> None:
    """Each a little below both hulls."""
    amounts = composition_matrix([formula])
    energies = [
        hull.hulls[name].hull_energy(amounts)[0]
        - database.calibration.formation_energy(amounts, np.zeros(1))[0]
        for name, database in hull.databases.items()
    ]
    assert of_own_merit(hull.databases, strict, amounts, np.array([min(energies) - 0.02])).tolist() == [own]


def test_strict_hulls_are_never_higher(hull: PotentialHull, strict: dict[str, Hull]) -> None:
    amounts = composition_matrix(["S", "Cl", "MnS19", "NaInS2", "Fe2O3"])
    for name, own in strict.items():
        assert (own.hull_energy(amounts) <= hull.hulls[name].hull_energy(amounts) + 1e-12).all()
    assert strict["oqmd"].hull_energy(amounts)[0] == pytest.approx(-0.187, abs=0.001)


def test_a_hull_of_that_kind_asks_for_it(hull: PotentialHull, strict: dict[str, Hull]) -> None:
    """`kind="strict"` counts the larger distance to the strict hulls and is another hull than "union"."""
    own = load_hull("mattersim-1m", "strict")
    crystals = Crystals.from_atoms(
        [Atoms(formula, cell=[9, 9, 9], pbc=True) for formula in ("MnS19", "LiCl4", "NaInS2", "NaCl")]
    )
    energies = -4.0 * crystals.counts
    amounts = crystals.compositions.amounts
    distances = [
        strict[name].energy_above_hull(
            amounts, database.calibration.formation_energy(amounts, energies / crystals.counts)
        )
        for name, database in hull.databases.items()
    ]
    ours, usual = (
        h.score(crystals, energies, checkpoint_hash=h.identity.checkpoint_hash).energy_above_hull
        for h in (own, hull)
    )
    assert ours == pytest.approx(np.max(distances, axis=0), abs=1e-8)
    assert (ours[:2] > usual[:2] + 0.1).all()
    assert own.identity.hash != hull.identity.hash
