"""Uniqueness within formulas against all pairs of pymatgen's matcher."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pymatgen.analysis.structure_matcher import StructureMatcher

from anchor.crystals.crystals import Crystals
from anchor.matching.uniqueness import first_matches, first_structures
from anchor.random import generator
from anchor.reference.reference import load_reference


def all_pairs(crystals: Crystals) -> list[bool]:
    """First of its kind by comparing every structure with every earlier first, formulas unseen."""
    matcher, firsts, unique = StructureMatcher(), [], []
    for structure in crystals.to_structures():
        unique.append(not any(matcher.fit(first, structure) for first in firsts))
        if unique[-1]:
            firsts.append(structure)
    return unique


def disguised(crystals: Crystals, seed: int) -> Crystals:
    """Copies of crystals: doubled, rotated, shifted, slightly rattled or slightly swollen."""
    rng = generator(seed, "disguise")
    copies = []
    for structure in crystals.to_structures():
        copy = structure.copy()
        kind = rng.integers(4)
        if kind == 0:
            copy.make_supercell([1, 2, 1])
        elif kind == 1:
            copy.translate_sites(list(range(len(copy))), rng.random(3))
        elif kind == 2:
            for site in range(len(copy)):
                copy.translate_sites([site], 0.02 * rng.normal(size=3), frac_coords=False)
        else:
            copy.scale_lattice(1.1 * copy.volume)
        copies.append(copy)
    return Crystals.from_structures(copies)


def test_equal_to_all_pairs() -> None:
    reference = load_reference()
    small = np.flatnonzero(reference.crystals.counts <= 6)
    formulas, n = np.unique(reference.formulas[small], return_counts=True)
    several = small[np.isin(reference.formulas[small], formulas[n >= 3][:8])]  # polymorphs
    originals = reference.crystals[several[:24]]
    crystals = Crystals.concatenate([originals, disguised(originals, 1)])
    crystals = crystals[generator(0, "order").permutation(len(crystals))]
    unique = first_structures(crystals) == np.arange(len(crystals))
    assert unique.tolist() == all_pairs(crystals)
    assert len(originals) // 3 < sum(unique) < 1.3 * len(originals)  # neither all nor none


@given(st.lists(st.integers(0, 5), max_size=20))
def test_first_matches_of_an_equivalence(values: list[int]) -> None:
    found = first_matches([v % 2 for v in values], lambda i, j: values[i] == values[j])
    assert found == [values.index(v) for v in values]


def test_only_firsts_of_the_same_key_are_compared() -> None:
    compared = []

    def same(i: int, j: int) -> bool:
        compared.append((i, j))
        return True

    assert first_matches(["a", "b", "a", "a"], same) == [0, 1, 0, 0]
    assert compared == [(0, 2), (0, 3)]
