"""RDF embedding against a plain histogram of ASE's distances, and its edge cases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ase.geometry.geometry import general_find_mic
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.crystals.crystals import Crystals
from anchor.crystals.rdf import rdf_counts, rdf_embedding
from anchor.errors import InputError


def pair_at(distance: float, *, box: float = 30.0) -> Crystals:
    frac = np.array([[0, 0, 0], [distance / box, 0, 0]])
    return Crystals(np.array([2]), np.array([3, 9]), frac, (np.eye(3) * box)[None])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([0, 3]))
def test_agrees_with_histogram_of_ase_distances(
    random_crystal: Callable[..., Crystals], seed: int, atoms: int, skew: int
) -> None:
    crystals = random_crystal(seed, atoms=atoms, skew=skew)
    first, second = np.triu_indices(atoms, 1)
    distances = [
        general_find_mic(v[None], crystals.lattice[0], pbc=[True] * 3)[1][0]
        for v in crystals.cart[second] - crystals.cart[first]
    ]
    expected = np.histogram(distances, bins=80, range=(0, 7))[0].astype(float)
    if expected.sum():
        expected /= expected.sum()
    np.testing.assert_allclose(rdf_embedding(crystals)[0], expected)


def test_bins_are_closed_on_the_right() -> None:
    width = 7.0 / 80
    edges = np.array([1, 2, 40, 80])
    crystals = Crystals.concatenate(pair_at(k * 0.0875, box=28.0) for k in edges)
    assert width == 0.0875
    np.testing.assert_array_equal(np.argmax(rdf_counts(crystals), axis=1), edges - 1)
    assert rdf_counts(pair_at(np.nextafter(3.5, 4), box=28.0))[0].argmax() == 40


def test_rows_are_normalised_or_empty() -> None:
    single = Crystals(np.array([1]), np.array([11]), np.zeros((1, 3)), np.diag([3.0, 3, 3])[None])
    crystals = Crystals.concatenate([pair_at(2.0), single, pair_at(7.5), pair_at(0.0), pair_at(6.99)])
    np.testing.assert_allclose(rdf_embedding(crystals).sum(axis=1), [1, 0, 0, 0, 1])


def test_batch_equals_singles_and_ignores_order_and_translation(
    random_crystal: Callable[..., Crystals],
) -> None:
    batch = [random_crystal(seed, atoms=2 + seed % 7, skew=1) for seed in range(20)]
    together = rdf_embedding(Crystals.concatenate(batch))
    for row, single in zip(together, batch, strict=True):
        shuffled = np.random.default_rng(0).permutation(single.n_atoms)
        moved = Crystals(
            single.counts, single.numbers[shuffled], single.frac[shuffled] + [0.3, -1.7, 9.1], single.lattice
        )
        np.testing.assert_allclose(row, rdf_embedding(single)[0])
        np.testing.assert_allclose(row, rdf_embedding(moved)[0])


def test_supercell_differs(random_crystal: Callable[..., Crystals]) -> None:
    """A property of the paper's embedding that users should know: it depends on the cell."""
    single = random_crystal(5, atoms=3, skew=0)
    doubled = Crystals.from_structures([s * (2, 1, 1) for s in single.to_structures()])
    assert np.abs(rdf_embedding(single) - rdf_embedding(doubled)).max() > 0.01


def test_other_grids_and_bad_grids() -> None:
    assert rdf_embedding(pair_at(9.0), r_max=10.0, n_bins=5)[0].tolist() == [0, 0, 0, 0, 1]
    with pytest.raises(InputError, match="n_bins=0"):
        rdf_embedding(pair_at(2.0), n_bins=0)
