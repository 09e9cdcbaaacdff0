"""Every equation of app:novelty_tension against a numerical optimum, brute force or sampling."""

import doctest

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from anchor.studies import theory

RNG = np.random.default_rng(7)
C, X = 5, 6
P0 = RNG.dirichlet(np.full(C * X, 0.7)).reshape(C, X)
REWARD = RNG.uniform(-0.2, 1.1, (C, X))
BETA = 0.35


def maximise(value, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The distribution with the largest value, found by a general optimiser over logits."""

    def distribution(logits):
        weight = np.exp(logits - logits.max())
        return (weight / weight.sum()).reshape(shape)

    start = np.zeros(int(np.prod(shape)))
    found = minimize(lambda z: -value(distribution(z)), start, method="BFGS", options={"gtol": 1e-9})
    return distribution(found.x)


def test_doctest() -> None:
    assert doctest.testmod(theory).failed == 0


def test_tilt_is_the_optimum_a_general_optimiser_finds() -> None:
    best = maximise(lambda q: theory.objective(q, P0, REWARD, BETA), P0.shape)
    q = theory.tilted(P0, REWARD, BETA)
    assert np.abs(best - q).max() < 1e-4
    assert theory.objective(q, P0, REWARD, BETA) >= theory.objective(best, P0, REWARD, BETA)
    # its value is β log of the normaliser, and any other distribution loses β D_KL to the optimum
    value = BETA * np.log((P0 * np.exp(REWARD / BETA)).sum())
    assert theory.objective(q, P0, REWARD, BETA) == pytest.approx(value, abs=1e-12)
    other = RNG.dirichlet(np.ones(C * X)).reshape(C, X)
    lost = value - theory.objective(other, P0, REWARD, BETA)
    assert lost == pytest.approx(BETA * theory.divergence(other, q), abs=1e-12)


def test_marginal_is_the_pretrained_one_times_the_partition_function() -> None:
    q = theory.tilted(P0, REWARD, BETA)
    assert np.allclose(theory.marginal(q), theory.tilted_marginal(P0, REWARD, BETA), atol=1e-14)
    for c in range(C):  # and the conditional is tilted in parallel
        alone = theory.tilted(theory.conditional(P0)[c], REWARD[c], BETA)
        assert np.allclose(theory.conditional(q)[c], alone, atol=1e-14)


def test_partition_by_sampling() -> None:
    x = RNG.choice(X, size=200_000, p=theory.conditional(P0)[2])
    values = np.exp(REWARD[2, x] / BETA)
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - theory.partition(P0, REWARD, BETA)[2]) < 5 * error


def test_binary_reward_orders_compositions_by_success() -> None:
    success = RNG.random((C, X)) < 0.4
    s0 = (theory.conditional(P0) * success).sum(axis=1)
    z = theory.partition(P0, success.astype(float), BETA)
    assert np.allclose(z, theory.binary_partition(s0, BETA), rtol=1e-12)
    assert (np.argsort(z) == np.argsort(s0)).all()


@pytest.mark.parametrize("beta", [0.05, 0.35, 3.0])
def test_the_tilt_is_bounded_and_keeps_the_support(beta: float) -> None:
    low, high = theory.tilt_bounds(REWARD, beta)
    hidden = P0.copy()
    hidden[3] = 0  # chemistry that the pretrained model never proposes
    hidden /= hidden.sum()
    for p0 in (P0, hidden):
        q, p = theory.tilted_marginal(p0, REWARD, beta), theory.marginal(p0)
        ratio = q[p > 0] / p[p > 0]
        assert (low <= ratio).all()
        assert (ratio <= high).all()
        assert (q[p == 0] == 0).all()
    # the bound is reached in the limit: one composition of vanishing mass has all the reward
    rare = np.array([[1e-12], [1 - 1e-12]])
    extreme = np.array([[REWARD.max()], [REWARD.min()]])
    assert theory.tilted_marginal(rare, extreme, 3.0)[0] / 1e-12 == pytest.approx(
        theory.tilt_bounds(extreme, 3.0)[1], rel=1e-9
    )


@pytest.mark.parametrize("alpha", [0.1, 0.35, 0.9])
def test_novelty_against_likelihood_is_a_power_law(alpha: float) -> None:
    p = theory.conditional(P0)[0]
    q = theory.tilted(p, -alpha * np.log(p), BETA)
    assert np.allclose(q, theory.power_law(p, alpha, BETA), atol=1e-13)
    order = np.argsort(p)
    if alpha < BETA:
        assert (np.argsort(q) == order).all()
    elif alpha > BETA:
        assert (np.argsort(q) == order[::-1]).all()
    else:
        assert np.allclose(q, 1 / X)


def test_drift_is_the_derivative() -> None:
    p, step = theory.conditional(P0)[1], 1e-5

    def expected(epsilon: float) -> float:
        return float((theory.tilted(p, epsilon * REWARD[1], 1.0) * np.log(p)).sum())

    numerical = (expected(step) - expected(-step)) / (2 * step)
    assert theory.drift(p, REWARD[1]) == pytest.approx(numerical, abs=1e-8)
    log = np.log(p)
    variance = float((p * log**2).sum() - (p * log).sum() ** 2)
    assert theory.drift(p, -0.7 * log) == pytest.approx(-0.7 * variance, abs=1e-12)


def test_divergence_splits_into_composition_and_structure() -> None:
    q = theory.tilted(P0, REWARD, BETA)
    composition, structure = theory.divergence_of_factors(q, P0)
    assert composition + structure == pytest.approx(theory.divergence(q, P0), abs=1e-13)
    assert structure > 0
    frozen = theory.joint(RNG.dirichlet(np.ones(C)), theory.conditional(P0))
    assert theory.divergence_of_factors(frozen, P0)[1] == pytest.approx(0, abs=1e-14)


def test_factor_specific_penalties() -> None:
    beta_c, beta_x = 0.2, 0.9

    def value(q: NDArray[np.float64]) -> float:
        composition, structure = theory.divergence_of_factors(q, P0)
        return float((q * REWARD).sum()) - beta_c * composition - beta_x * structure

    q = theory.tilted_with_factors(P0, REWARD, beta_c, beta_x)
    assert np.abs(maximise(value, P0.shape) - q).max() < 1e-4
    same = theory.tilted_with_factors(P0, REWARD, BETA, BETA)
    assert np.allclose(same, theory.tilted(P0, REWARD, BETA), atol=1e-14)
    frozen = theory.tilted_with_factors(P0, REWARD, beta_c, 1e9)
    assert np.allclose(theory.conditional(frozen), theory.conditional(P0), atol=1e-8)
    mean = (theory.conditional(P0) * REWARD).sum(axis=1)
    weight = theory.marginal(P0) * np.exp(mean / beta_c)
    assert np.allclose(theory.marginal(frozen), weight / weight.sum(), atol=1e-7)


def test_history_moves_the_target_although_the_crystals_do_not_change() -> None:
    p = theory.conditional(P0)[4]
    points = RNG.random((X, 3))
    similar = np.exp(-((points[:, None] - points[None]) ** 2).sum(-1) / 0.1)
    novelty = np.full(X, 0.75)
    found = [int(np.argmax(p)), 0, 3]
    targets = theory.drifting_targets(p, novelty, similar, found, BETA)
    assert np.allclose(targets[0], p)  # equal novelty everywhere changes nothing
    for t, x in enumerate(found[:1], start=1):
        assert targets[t][x] < targets[t - 1][x]
    assert all(np.isclose(q.sum(), 1) for q in targets)
    # the log-odds of what was found fall by exactly ΔR/β against a structure that kept its reward
    untouched = int(np.argmin(similar[:, found[0]]))
    assert similar[untouched, found[0]] < 0.25
    odds = [np.log(q[found[0]] / q[untouched]) for q in targets[:2]]
    assert odds[0] - odds[1] == pytest.approx(0.75 / BETA, abs=1e-12)


def test_a_free_policy_reaches_what_a_tilt_cannot() -> None:
    """The three rows of eq:discovery_decomposition where success lives on rare compositions."""
    p = np.array([0.6, 0.3989, 0.001, 0.0001])
    success = np.array([0.05, 0.05, 0.9, 0.9])
    p0 = np.stack([p * (1 - success), p * success], axis=1)
    reward = np.array([[0.0, 1.0]] * 4)
    strong = theory.tilted_marginal(p0, reward, beta=0.5)
    free = np.array([0, 0, 0.5, 0.5])
    assert theory.allocation(p, success) < theory.allocation(strong, success) < 0.06
    assert theory.allocation(free, success) == pytest.approx(0.9)
