"""The identities of the paper's argument as a table: both sides computed, and how far they differ."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from anchor.random import generator
from anchor.studies import theory
from anchor.studies.cells import Results
from anchor.studies.declaration import Study, Table

SPACES = 20
COMPOSITIONS, STRUCTURES = 6, 5


def theory_table(_study: Study, _results: Results) -> Table:
    """Largest difference of the two sides of each identity over random spaces."""
    worst: dict[tuple[str, str], float] = {}
    for space in range(SPACES):
        for name, difference in _differences(space).items():
            worst[name] = max(worst.get(name, 0.0), difference)
    rows = [[label, what, f"{difference:.1e}"] for (label, what), difference in worst.items()]
    note = f"{SPACES} random spaces of {COMPOSITIONS} compositions × {STRUCTURES} structures."
    return Table(["equation", "two sides", "largest difference"], rows, [note])


def _differences(space: int) -> dict[tuple[str, str], float]:
    rng = generator(0, "theory", space)
    p0 = rng.dirichlet(np.full(COMPOSITIONS * STRUCTURES, 0.7)).reshape(COMPOSITIONS, STRUCTURES)
    reward = rng.uniform(-0.2, 2.0, p0.shape)  # [r_inv, 1 + λ_c], the range of eq:reward
    beta = float(rng.uniform(0.2, 2.0))
    q = theory.tilted(p0, reward, beta)
    success = rng.random(p0.shape) < 0.3
    s0 = (theory.conditional(p0) * success).sum(axis=1)
    low, high = theory.tilt_bounds(reward, beta)
    ratio = theory.marginal(q) / theory.marginal(p0)
    p = theory.conditional(p0)[0]
    alpha = float(rng.uniform(0, 1.5)) * beta
    step = 1e-5

    def expected(epsilon: float) -> float:
        return float((theory.tilted(p, epsilon * reward[0], 1.0) * np.log(p)).sum())

    composition, structure = theory.divergence_of_factors(q, p0)
    frozen = theory.joint(rng.dirichlet(np.ones(COMPOSITIONS)), theory.conditional(p0))
    return {
        ("eq:reward_tilt", "q* and a numerical optimum: value lost, nats·β"): abs(
            theory.objective(q, p0, reward, beta)
            - theory.objective(best_tilt(p0, reward, beta), p0, reward, beta)
        ),
        ("eq:optimal_composition_marginal", "q*(c) and p₀(c) Z(c)"): _largest(
            theory.marginal(q), theory.tilted_marginal(p0, reward, beta)
        ),
        ("app:novelty_tension", "Z(c) and 1 + (e^{1/β} − 1) s₀(c), relative"): _largest(
            theory.partition(p0, success.astype(float), beta) / theory.binary_partition(s0, beta), 1.0
        ),
        ("eq:bounded_tilt", "how far q*(c)/p₀(c) leaves its bounds"): float(
            max(0.0, (low - ratio).max(), (ratio - high).max())
        ),
        ("eq:novelty_power", "q* for −α log p₀ and p₀^{1−α/β}"): _largest(
            theory.tilted(p, -alpha * np.log(p), beta), theory.power_law(p, alpha, beta)
        ),
        ("eq:novelty_covariance", "covariance and numerical derivative"): abs(
            theory.drift(p, reward[0]) - (expected(step) - expected(-step)) / (2 * step)
        ),
        ("eq:kl_factorization_app", "joint divergence and sum of its factors, nats"): abs(
            theory.divergence(q, p0) - composition - structure
        ),
        ("eq:zero_structural_kl", "structural divergence of a frozen conditional, nats"): abs(
            theory.divergence_of_factors(frozen, p0)[1]
        ),
        ("eq:factor_specific_kl", "β_c = β_x and the joint tilt"): _largest(
            theory.tilted_with_factors(p0, reward, beta, beta), q
        ),
    }


def best_tilt(p0: theory.Table, reward: theory.Table, beta: float) -> theory.Table:
    """The distribution with the largest objective that a general optimiser finds."""

    def distribution(logits: theory.Table) -> theory.Table:
        weight = np.exp(logits - logits.max())
        return (weight / weight.sum()).reshape(p0.shape)

    def lost(logits: theory.Table) -> float:
        return -theory.objective(distribution(logits), p0, reward, beta)

    found = minimize(lost, np.zeros(p0.size), method="L-BFGS-B", options={"maxiter": 500, "maxfun": 10**6})
    return distribution(found.x)


def _largest(a: theory.Table, b: theory.Table | float) -> float:
    return float(np.abs(a - b).max())
