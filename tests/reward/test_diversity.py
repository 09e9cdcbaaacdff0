"""Diversity kernels against brute force and by hand."""

import numpy as np
import pytest

from anchor.chemistry.composition import Compositions
from anchor.chemistry.families import MEMBERS
from anchor.reward.diversity import comp_kernel, diversity, struct_kernel

FORMULAS = ["NaCl", "KCl", "Na2O", "LiFeO2", "LaFeO3", "Ba2TiO4", "H2O", "PoO2", "KrF2", "LiNaFeCoO4F"]


def test_comp_kernel_is_jaccard_of_family_sets() -> None:
    family = {symbol: name for name, symbols in MEMBERS.items() for symbol in symbols}
    compositions = Compositions.from_list(FORMULAS)
    roles = [{family[e] for e in c.elements} for c in compositions]
    expected = [[len(a & b) / len(a | b) for b in roles] for a in roles]
    assert comp_kernel(compositions) == pytest.approx(np.array(expected))
    assert comp_kernel(compositions)[0, 1] == 1.0  # Na for K changes nothing


def test_struct_kernel_is_rbf() -> None:
    z = np.random.default_rng(0).random((5, 8))
    expected = [[np.exp(-np.sum((a - b) ** 2) / (2 * 0.3**2)) for b in z] for a in z]
    assert struct_kernel(z, 0.3) == pytest.approx(np.array(expected))


def test_crystals_without_pairs_are_alike() -> None:
    assert struct_kernel(np.zeros((2, 80)), 0.1) == pytest.approx(np.ones((2, 2)))


def test_diversity_by_hand() -> None:
    kernel = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 1.0]])
    assert diversity(kernel) == pytest.approx([0.75, 0.625, 0.875])
    assert diversity(np.ones((4, 4))) == pytest.approx(np.zeros(4))
    assert diversity(np.ones((1, 1))) == pytest.approx([1.0])
