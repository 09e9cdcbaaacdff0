"""Element similarity: weights against brute force, and a fit that learns which elements are alike."""

from __future__ import annotations

import numpy as np

from anchor.chemistry.elements import NUMBER
from anchor.priors.fitted import load_fitted
from anchor.priors.prototypes import Prototypes, role_permutations
from anchor.priors.similarity import Similarity, element_properties, fit_similarity
from anchor.priors.units import anonymous, of_split
from anchor.reference.reference import load_reference


def test_log_weights_against_brute_force():
    rng = np.random.default_rng(0)
    distance = rng.random((119, 119)).astype(np.float32)
    similarity = Similarity(distance + distance.T, share_exponent=0.3, instability=1.0)
    ratio = (1, 1, 2)
    query, roles = np.array([3, 26, 8]), rng.integers(1, 90, (5, 3))
    found = similarity.log_weights(query, roles, ratio)
    assert found.shape == (2, 5)
    for p, swap in enumerate(role_permutations(ratio)):
        for m in range(5):
            expected = sum(
                (ratio[r] * 3 / 4) ** 0.3 * similarity.distance[query[swap[r]], roles[m, r]] for r in range(3)
            )
            np.testing.assert_allclose(-found[p, m], expected, rtol=1e-5)


def test_shipped_distances_are_chemical():
    distance = load_fitted().similarity.distance
    assert np.array_equal(distance, distance.T)
    assert not np.diag(distance).any()
    triangle = distance[1:95, None, 1:95] <= distance[1:95, 1:95, None] + distance[None, 1:95, 1:95] + 1e-2
    assert triangle.all()

    def nearest(symbol: str, among: str) -> str:
        return min(among.split(), key=lambda other: distance[NUMBER[symbol], NUMBER[other]])

    assert nearest("Nd", "Pr O Fe Cl Si") == "Pr"
    assert nearest("Cl", "Br Na Fe C Nd") == "Br"
    assert nearest("Zr", "Hf O K S Cl") == "Hf"
    assert nearest("K", "Rb F Ni P Mo") == "Rb"


def test_fit_finds_the_right_prototype_more_often():
    """On real binaries, a fit must beat its own starting point, leaving each formula out."""
    reference, shipped = load_reference(), load_fitted().prototypes
    train = of_split(reference, "train")
    described = list(anonymous(reference.crystals[train]))
    chosen = [i for i, (_, ratio, units) in enumerate(described) if ratio == (1, 2) and units <= 2][:400]
    rows = train[chosen]
    prototypes = Prototypes(shipped.label[rows], shipped.roles[rows], shipped.symmetries)
    similarity, losses = fit_similarity(
        prototypes,
        [described[i][1] for i in chosen],
        np.array([described[i][2] for i in chosen]),
        reference.formulas[rows],
        reference.e_above_hull[rows],
        epochs=6,
    )
    assert losses[-1] < losses[0] - 0.1
    again = fit_similarity(
        prototypes,
        [described[i][1] for i in chosen],
        np.array([described[i][2] for i in chosen]),
        reference.formulas[rows],
        reference.e_above_hull[rows],
        epochs=1,
    )[1]
    assert again[0] == losses[0] or abs(again[0] - losses[0]) < 1e-5, "one seed, one result"
    assert np.isfinite(similarity.distance).all()


def test_element_properties_are_standardised():
    table = element_properties()
    assert table.shape == (119, 7)
    np.testing.assert_allclose(table[1:95].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(table[1:95].std(axis=0), 1)
