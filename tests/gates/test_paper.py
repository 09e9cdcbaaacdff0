"""The bond check against pymatgen's neighbour search, and eq:bond-thresh by hand."""

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.gates.paper import bond_thresholds, check_bonds

TABLE = np.full((119, 119), np.nan)
TABLE[11, 17] = TABLE[17, 11] = 2.5
TABLE[11, 11] = TABLE[17, 17] = 3.0


def rock_salt(a: float) -> Structure:
    return Structure.from_spacegroup("Fm-3m", Lattice.cubic(a), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])


def test_thresholds_by_hand() -> None:
    theta = bond_thresholds(TABLE, tolerance=0.2, fallback=1.2)
    assert theta[11, 17] == pytest.approx(2.0)
    assert theta[11, 8] == 1.2  # never seen: the floor, without tolerance


@pytest.mark.parametrize(("a", "ok"), [(5.6, True), (4.02, True), (3.98, False)])
def test_na_cl_distance_decides(a: float, ok: bool) -> None:
    """d(Na–Cl) = a/2 against 2.0 Å; d(Na–Na) = a/√2 stays above 2.4 Å."""
    check = check_bonds(Crystals.from_structures(rock_salt(a)), bond_thresholds(TABLE))
    assert bool(check.ok[0]) is ok
    assert check.tightest[0] == pytest.approx(a / 2 / 2.0)
    assert sorted(check.pair[0]) == [11, 17]


def test_a_sites_own_images_count() -> None:
    thin = Structure(Lattice.orthorhombic(2.0, 8, 8), ["Na"], [[0, 0, 0]])  # Na–Na across the cell: 2.0 < 2.4
    check = check_bonds(Crystals.from_structures([thin, rock_salt(5.6)]), bond_thresholds(TABLE))
    assert check.ok.tolist() == [False, True]


def test_agrees_with_pymatgen_on_random_cells() -> None:
    rng, theta = np.random.default_rng(1), bond_thresholds(TABLE)
    structures = []
    for _ in range(40):
        cell = Lattice.from_parameters(*rng.uniform(3, 6, 3), *rng.uniform(50, 130, 3))
        if not cell.volume > 5:
            continue
        structures.append(Structure(cell, rng.choice(["Na", "Cl", "O"], 4), rng.random((4, 3))))
    check = check_bonds(Crystals.from_structures(structures), theta)
    for structure, ok in zip(structures, check.ok, strict=True):
        first, second, _, distance = structure.get_neighbor_list(3.0)
        z = np.array(structure.atomic_numbers)
        assert bool((distance >= theta[z[first], z[second]]).all()) == bool(ok)
    assert 0 < check.ok.sum() < len(structures)
