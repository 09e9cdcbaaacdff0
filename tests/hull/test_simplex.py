"""Facets of small hulls against SciPy's linear programming."""

import numpy as np
import pytest
from scipy.optimize import linprog

from anchor.hull.simplex import SystemHull, find_facet


def random_system(
    rng: np.random.Generator, k: int, n: int, *, degenerate: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Elements and n compounds of whole-number composition; degenerate: doubled, and many on one plane."""
    counts = rng.integers(0, 4, size=(n, k)) if degenerate else rng.integers(0, 30, size=(n, k))
    counts = counts[counts.sum(axis=1) > 0]
    fractions = np.concatenate([np.eye(k), counts / counts.sum(axis=1, keepdims=True)])
    curvature = np.round(-((fractions * (1 - fractions)).sum(axis=1)), 1 if degenerate else 12)
    noise = 0 if degenerate else rng.normal(0, 0.05, len(fractions)) * (fractions.max(axis=1) < 1)
    return fractions.T.copy(), curvature + noise


def linear_programme(fractions: np.ndarray, energies: np.ndarray, target: np.ndarray) -> float:
    return linprog(energies, A_eq=fractions, b_eq=target, method="highs").fun


@pytest.mark.parametrize("degenerate", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7])
def test_hull_energy_equals_linear_programming(k: int, degenerate: bool) -> None:
    rng = np.random.default_rng(100 * k + degenerate)
    for n in (0, 3, 30, 200):
        fractions, energies = random_system(rng, k, n, degenerate=degenerate)
        hull = SystemHull(fractions, energies, np.arange(len(energies)))
        targets = [rng.dirichlet(np.ones(k)) for _ in range(5)]
        targets += [fractions[:, i] for i in rng.integers(0, len(energies), 5)]  # on a vertex or above it
        pair = rng.integers(0, len(energies), 2)
        targets.append(fractions[:, pair].mean(axis=1))  # on a line between two phases
        found = hull.energy(np.array(targets))
        expected = [linear_programme(fractions, energies, t) for t in targets]
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_no_phase_lies_below_a_facet() -> None:
    rng = np.random.default_rng(0)
    fractions, energies = random_system(rng, 4, 300, degenerate=False)
    for _ in range(50):
        facet = find_facet(fractions, energies, rng.dirichlet(np.ones(4)).tolist())
        plane = np.linalg.solve(fractions[:, facet].T, energies[facet])
        assert (energies - plane @ fractions).min() > -1e-10


def test_mixture_has_the_composition_and_the_energy() -> None:
    rng = np.random.default_rng(1)
    fractions, energies = random_system(rng, 3, 60, degenerate=False)
    hull = SystemHull(fractions, energies, np.arange(len(energies)))
    for _ in range(20):
        target = rng.dirichlet(np.ones(3))
        mixture = hull.mixture(target)
        np.testing.assert_allclose(sum(a * fractions[:, i] for i, a in mixture), target, atol=1e-12)
        np.testing.assert_allclose(sum(a * energies[i] for i, a in mixture), hull.energy(target[None])[0])
        assert all(amount > 0 for _, amount in mixture)


@pytest.mark.parametrize("degenerate", [False, True])
def test_answers_do_not_depend_on_earlier_questions(degenerate: bool) -> None:
    """Bit for bit: a campaign that is resumed has asked other questions before."""
    rng = np.random.default_rng(2)
    fractions, energies = random_system(rng, 4, 80, degenerate=False)
    if degenerate:
        targets = fractions.T[rng.integers(0, len(energies), 60)]  # known compositions: edges and corners
    else:
        targets = rng.dirichlet(np.ones(4), size=60)

    def fresh() -> SystemHull:
        return SystemHull(fractions, energies, np.arange(len(energies)))

    forward = fresh().energy(targets)
    hull = fresh()
    backward = np.array([hull.energy(t[None])[0] for t in targets[::-1]])[::-1]
    alone = np.array([fresh().energy(t[None])[0] for t in targets])
    assert np.array_equal(forward, backward)
    assert np.array_equal(forward, alone)


def test_facets_are_kept() -> None:
    rng = np.random.default_rng(3)
    fractions, energies = random_system(rng, 4, 50, degenerate=False)
    hull = SystemHull(fractions, energies, np.arange(len(energies)))
    targets = rng.dirichlet(np.ones(4), size=3000)
    hull.energy(targets)
    known = hull.n_facets
    hull.energy(targets)
    assert hull.n_facets == known < 500
