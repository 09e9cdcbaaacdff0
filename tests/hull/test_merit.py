"""What elements that stand too high lend a compound is told from what it has by itself."""

import numpy as np
import pytest

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
    return strict_hulls(hull, reference, load_energies("mattersim-1m", reference.crystals))


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
    assert of_own_merit(hull, strict, amounts, np.array([min(energies) - 0.02])).tolist() == [own]


def test_strict_hulls_are_never_higher(hull: PotentialHull, strict: dict[str, Hull]) -> None:
    amounts = composition_matrix(["S", "Cl", "MnS19", "NaInS2", "Fe2O3"])
    for name, own in strict.items():
        assert (own.hull_energy(amounts) <= hull.hulls[name].hull_energy(amounts) + 1e-12).all()
    assert strict["oqmd"].hull_energy(amounts)[0] == pytest.approx(-0.187, abs=0.001)
