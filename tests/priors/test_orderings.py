"""Orderings: all of them, each once up to symmetry, best first."""

from math import comb

import numpy as np
import pytest
from ase.build import bulk
from pymatgen.analysis.structure_matcher import StructureMatcher

from anchor.crystals.crystals import Crystals
from anchor.crystals.symmetry import space_group
from anchor.priors.orderings import MOST_ARRANGEMENTS, arrangements, n_arrangements, orderings

MIXED = 200  # a role
NO_CHARGES = np.zeros(119)


def roles(atoms, symbol: str) -> Crystals:
    """A crystal in which one element is a role that others share."""
    crystal = Crystals.from_atoms(atoms)
    shared = crystal.numbers == Crystals.from_atoms(bulk(symbol)).numbers[0]
    return Crystals(crystal.counts, np.where(shared, MIXED, crystal.numbers), crystal.frac, crystal.lattice)


def test_arrangements_are_all_and_different() -> None:
    for counts in ([2, 3], [1, 1, 2], [4], [2, 2, 1]):
        rows = arrangements(counts)
        assert len(rows) == n_arrangements(counts) == len(np.unique(rows, axis=0))
        assert all(np.bincount(row, minlength=len(counts)).tolist() == counts for row in rows)
        assert rows.tolist() == sorted(rows.tolist())


@pytest.mark.parametrize(
    ("atoms", "counts"),
    [
        (bulk("Cu", "sc", a=3.0) * (2, 2, 2), {11: 2, 19: 6}),
        (bulk("Cu", "fcc", a=3.6, cubic=True), {11: 2, 19: 1, 37: 1}),
        (bulk("Cu", "hcp", a=2.6, c=4.1) * (2, 1, 1), {11: 2, 19: 2}),
    ],
)
def test_distinct_orderings_are_those_of_pymatgen(atoms, counts: dict[int, int]) -> None:
    crystal = roles(atoms, "Cu")
    found = [one.crystal for one in orderings(crystal, {MIXED: counts}, NO_CHARGES)]
    every = np.array(list(counts))[arrangements(list(counts.values()))]
    structures = [
        Crystals(crystal.counts, numbers, crystal.frac, crystal.lattice).to_structures()[0]
        for numbers in every
    ]
    same = StructureMatcher(ltol=1e-3, stol=1e-3, angle_tol=0.1, primitive_cell=False, scale=False)
    groups = same.group_structures(structures)
    assert len(found) == len(groups) < len(every)
    for group in groups:
        assert sum(same.fit(group[0], one.to_structures()[0]) for one in found) == 1


def test_charges_decide_and_symmetry_breaks_ties() -> None:
    perovskite = roles(bulk("Cu", "sc", a=4.0) * (2, 2, 2), "Cu")  # B sites alone: opposite charges alternate
    charges = NO_CHARGES.copy()
    charges[[11, 17]] = 1.0, -1.0
    best, *others = orderings(perovskite, {MIXED: {11: 4, 17: 4}}, charges)
    assert space_group(best.crystal)[1] == 225
    assert all(one.energy > best.energy + 0.01 for one in others)
    plain = orderings(perovskite, {MIXED: {11: 4, 17: 4}}, NO_CHARGES)
    assert [one.symmetry for one in plain] == sorted((one.symmetry for one in plain), reverse=True)


def test_too_many_are_not_listed() -> None:
    large = roles(bulk("Cu", "sc", a=3.0) * (4, 2, 2), "Cu")
    assert comb(16, 8) > MOST_ARRANGEMENTS
    assert orderings(large, {MIXED: {11: 8, 19: 8}}, NO_CHARGES) == []
