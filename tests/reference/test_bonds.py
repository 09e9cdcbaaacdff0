"""The bond table against a plain loop over pymatgen neighbours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ase.data import covalent_radii
from pymatgen.core import Lattice, Structure

from anchor.crystals.crystals import Crystals
from anchor.reference.bonds import BondTable, passes_by_floor_only, radius_floor


def test_table_agrees_with_neighbour_lists(random_crystal: Callable[..., Crystals]) -> None:
    batch = Crystals.concatenate(random_crystal(seed, atoms=1 + seed % 6, skew=1) for seed in range(25))
    batch = Crystals(batch.counts, 3 + batch.numbers % 4, batch.frac, batch.lattice)
    table = BondTable.from_crystals(batch)
    expected = np.full((119, 119), np.inf)
    holds: dict[tuple[int, int], set[int]] = {}
    for i, structure in enumerate(batch.to_structures()):
        for site, neighbours in zip(structure, structure.get_all_neighbors(12.0), strict=True):
            for neighbour in neighbours:
                a, b = site.specie.Z, neighbour.specie.Z
                expected[a, b] = min(expected[a, b], neighbour.nn_distance)
                holds.setdefault((a, b), set()).add(i)
    np.testing.assert_array_equal(table.seen, np.isfinite(expected))
    np.testing.assert_allclose(table.minimum[table.seen], expected[table.seen], atol=1e-8)
    np.testing.assert_array_equal(table.minimum, table.minimum.T)
    for (a, b), crystals in holds.items():
        assert table.crystals[a, b] == len(crystals)
        assert BondTable.from_crystals(batch[table.shortest_in[a, b]]).minimum[a, b] == table.minimum[a, b]
    assert len(table) == 10  # four elements: 4 * 5 / 2 pairs


def test_own_images_count() -> None:
    copper = Crystals.from_structures(Structure(Lattice.cubic(2.5), ["Cu"], [[0, 0, 0]]))
    assert BondTable.from_crystals(copper).minimum[29, 29] == pytest.approx(2.5)


def test_most_suspicious_pair_comes_first() -> None:
    far = Structure(Lattice.cubic(6.0), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    near = Structure(Lattice.cubic(6.0), ["Cs", "O"], [[0, 0, 0], [0.2, 0, 0]])
    table = BondTable.from_crystals(Crystals.from_structures([far, near]))
    a, b, distance, ratio, crystal = table.most_suspicious(1)[0]
    assert ({a, b}, crystal) == ({"Cs", "O"}, 1)
    assert distance == pytest.approx(1.2)
    assert ratio == pytest.approx(1.2 / (covalent_radii[55] + covalent_radii[8]))


def test_radius_floor() -> None:
    floor = radius_floor(0.6)
    assert floor[55, 55] == pytest.approx(0.6 * 2 * covalent_radii[55])
    assert floor[1, 1] == 0.7  # never below any real bond
    assert floor.shape == (119, 119)
    np.testing.assert_array_equal(floor, floor.T)


def test_only_the_constant_floor_admits_two_close_caesium_atoms() -> None:
    def caesium(distance: float) -> Crystals:
        return Crystals.from_structures(
            Structure(Lattice.cubic(9.0), ["Cs", "Cs"], [[0, 0, 0], [distance / 9, 0, 0]])
        )

    batch = Crystals.concatenate([caesium(1.1), caesium(1.5), caesium(4.0)])
    empty = BondTable.from_crystals(Crystals.empty())
    np.testing.assert_array_equal(passes_by_floor_only(batch, empty), [False, True, False])
    seen = BondTable.from_crystals(caesium(4.0))
    np.testing.assert_array_equal(passes_by_floor_only(batch, seen), [False, False, False])
