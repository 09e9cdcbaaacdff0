"""Fingerprints do not see cells, origins and sizes; prototypes agree with pymatgen's structure matcher."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.core import Lattice, Structure
from scipy.spatial.transform import Rotation

from anchor.crystals.crystals import Crystals
from anchor.priors.fitted import load_fitted
from anchor.priors.prototypes import find_prototypes, fingerprint, role_permutations
from anchor.priors.supercells import supercell
from anchor.reference.reference import load_reference


def cubic(a: float, centring: str, sites: dict[str, list[float]]) -> Crystals:
    structure = Structure.from_spacegroup(centring, Lattice.cubic(a), list(sites), list(sites.values()))
    return Crystals.from_structures(structure.get_primitive_structure())


def rock_salt(a: float, cation: str, anion: str) -> Crystals:
    return cubic(a, "Fm-3m", {cation: [0, 0, 0], anion: [0.5, 0.5, 0.5]})


def fluorite(a: float, cation: str, anion: str) -> Crystals:
    return cubic(a, "Fm-3m", {cation: [0, 0, 0], anion: [0.25, 0.25, 0.25]})


def half_heusler(a: float, *elements: str) -> Crystals:
    places = ([0, 0, 0], [0.25, 0.25, 0.25], [0.5, 0.5, 0.5])
    return cubic(a, "F-43m", dict(zip(elements, places, strict=True)))


@pytest.mark.parametrize("index", [0, 1234, 7000, 15000])
def test_fingerprint_is_of_the_crystal_not_of_its_description(index):
    rng = np.random.default_rng(index)
    crystal = load_reference().crystals[index]
    expected = fingerprint(crystal)
    order = rng.permutation(crystal.n_atoms)
    turned = Crystals(
        crystal.counts,
        crystal.numbers[order],
        crystal.frac[order] + rng.random(3) + rng.integers(-2, 3, (crystal.n_atoms, 3)),
        1.7 * crystal.lattice @ Rotation.random(rng=rng).as_matrix(),
    )
    np.testing.assert_allclose(fingerprint(turned), expected, atol=1e-6)
    np.testing.assert_allclose(fingerprint(supercell(crystal, 3, rng)), expected, atol=1e-6)


def test_fingerprint_counts_neighbours_as_brute_force_does():
    crystal = rock_salt(5.6, "Na", "Cl")
    structure = crystal.to_structures()[0]
    scale = (structure.volume / 2) ** (1 / 3)
    shells = fingerprint(crystal)
    sodium = next(site for site in structure if site.specie.Z == 11)
    neighbours = sorted(n.nn_distance for n in structure.get_neighbors(sodium, 12) if n.specie.Z == 17)
    half = shells.shape[1] // 2
    np.testing.assert_allclose(shells[0, half:], np.array(neighbours[:half]) / scale, rtol=1e-9)


def test_groups_and_roles():
    batch = Crystals.concatenate(
        [
            rock_salt(5.6, "Na", "Cl"),
            rock_salt(4.2, "O", "Mg"),
            cubic(4.1, "Pm-3m", {"Cs": [0, 0, 0], "Cl": [0.5, 0.5, 0.5]}),
            half_heusler(6.0, "Zr", "Ni", "Sn"),
            half_heusler(5.9, "Ti", "Sn", "Ni"),
            fluorite(5.4, "Ca", "F"),
            fluorite(4.6, "O", "Li"),
        ]
    )
    found = find_prototypes(batch, np.arange(len(batch), dtype=float))
    assert found.label[0] == found.label[1] != found.label[2]
    assert found.label[3] == found.label[4]
    # The atom at 1/4 1/4 1/4 has both others as neighbours: Ni in the first, Sn in the second.
    place = found.roles[3].tolist().index(28)
    assert found.roles[4, place] == 50
    assert found.label[5] == found.label[6]
    assert found.symmetries[found.label[0]].tolist()[:2] == [True, True], "both roles of rock salt are alike"
    swaps = role_permutations((1, 1, 1))
    alike = found.symmetries[found.label[3]]
    assert alike.sum() == 2, "half-Heusler: the two outer roles are alike, the middle one is not"
    exchange = swaps[np.flatnonzero(alike)[1]]
    assert exchange[place] == place


def test_shipped_prototypes_agree_with_the_structure_matcher():
    """Members match the founder of their prototype once elements are named by role.

    Only in cells of one size: pymatgen tells a slightly distorted supercell from the ideal crystal.
    """
    reference, prototypes = load_reference(), load_fitted().prototypes
    rng = np.random.default_rng(0)
    matcher = StructureMatcher(stol=0.5, angle_tol=10, ltol=0.3)
    agree = []
    while len(agree) < 60:
        member = int(rng.integers(len(prototypes.label)))
        same = np.flatnonzero(prototypes.label == prototypes.label[member])
        founder = int(same[np.argmin(reference.e_above_hull[same])])
        if member != founder and reference.crystals.counts[member] == reference.crystals.counts[founder]:
            one, other = (_by_role(reference.crystals[i], prototypes.roles[i]) for i in (member, founder))
            agree.append(matcher.fit(one, other))
    assert np.mean(agree) > 0.9


def _by_role(crystal: Crystals, roles: np.ndarray) -> Structure:
    """The crystal with each role as one element, the same for all crystals of a prototype."""
    role = {int(z): r + 11 for r, z in enumerate(roles) if z}
    numbers = np.array([role[z] for z in crystal.numbers.tolist()])
    return Crystals(crystal.counts, numbers, crystal.frac, crystal.lattice).to_structures()[0]
