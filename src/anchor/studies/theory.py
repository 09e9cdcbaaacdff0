"""The paper's argument (app:novelty_tension) on spaces small enough to enumerate, every equation a function.

A joint distribution over compositions and structures is a table whose rows are compositions c and whose
columns are structures x, p[c, x] ≥ 0 and Σ p = 1; a reward is a table of the same shape. All logarithms are
natural, so divergences are in nats.

>>> p0, reward = np.array([[0.4, 0.1], [0.3, 0.2]]), np.array([[0.0, 1.0], [0.0, 0.0]])
>>> bool(np.allclose(marginal(tilted(p0, reward, beta=0.5)), tilted_marginal(p0, reward, beta=0.5)))
True
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, rel_entr, softmax, xlogy

Table = NDArray[np.float64]


def marginal(p: Table) -> Table:
    """p(c) = Σ_x p(c, x).  # [C, X] -> [C]"""
    return p.sum(axis=1)


def conditional(p: Table) -> Table:
    """p(x | c), uniform where p(c) = 0, so that every row is a distribution.  # [C, X]"""
    total = marginal(p)[:, None]
    return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])


def joint(c: Table, x_given_c: Table) -> Table:
    """p(c, x) = p(c) p(x | c) (eq:joint_factorization_app).  # [C], [C, X] -> [C, X]"""
    return c[:, None] * x_given_c


def divergence(q: Table, p: Table) -> float:
    """D_KL(q ‖ p) in nats; infinite where q has mass that p has not."""
    return float(rel_entr(q, p).sum())


def objective(q: Table, p0: Table, reward: Table, beta: float) -> float:
    """E_q[R] − β D_KL(q ‖ p₀): what a KL-regularised fine-tune maximises."""
    return float((q * reward).sum()) - beta * divergence(q, p0)


def tilted(p0: Table, reward: Table, beta: float) -> Table:
    """q* ∝ p₀ exp(R/β), the maximum of `objective` (eq:reward_tilt), over all entries of the table."""
    with np.errstate(divide="ignore"):
        return softmax(np.log(p0) + reward / beta)


def partition(p0: Table, reward: Table, beta: float) -> Table:
    """Z(c) = E_{x ~ p₀(·|c)} exp(R(x, c)/β) of every composition.  # [C]"""
    return np.exp(logsumexp(reward / beta, b=conditional(p0), axis=1))


def tilted_marginal(p0: Table, reward: Table, beta: float) -> Table:
    """q*(c) ∝ p₀(c) Z(c) (eq:optimal_composition_marginal).  # [C]"""
    weight = marginal(p0) * partition(p0, reward, beta)
    return weight / weight.sum()


def binary_partition(success: Table, beta: float) -> Table:
    """Z(c) = 1 + (e^{1/β} − 1) s₀(c) for the binary reward 1[success]; s₀ is eq:csp_success_app.  # [C]"""
    return 1 + np.expm1(1 / beta) * success


def tilt_bounds(reward: Table, beta: float) -> tuple[float, float]:
    """e^{−ΔR/β} and e^{ΔR/β}, between which q*(c)/p₀(c) lies (eq:bounded_tilt)."""
    spread = float(reward.max() - reward.min()) / beta
    return float(np.exp(-spread)), float(np.exp(spread))


def power_law(p: Table, alpha: float, beta: float) -> Table:
    """p₀^{1 − α/β}, normalised: q* for the reward −α log p₀ (eq:novelty_power).  # [X]"""
    weight = p ** (1 - alpha / beta)
    return weight / weight.sum()


def drift(p: Table, reward: Table) -> float:
    """d/dε E_{q_ε}[log p₀] at ε = 0 for q_ε ∝ p₀ exp(εR): Cov_{p₀}(log p₀, R) (eq:novelty_covariance).

    Args:
        p: One conditional distribution; entries without mass do not count.  # [X]
        reward: Of each structure.  # [X]
    """
    mean = float((p * reward).sum())
    return float((xlogy(p, p) * (reward - mean)).sum())


def divergence_of_factors(q: Table, p: Table) -> tuple[float, float]:
    """D_KL of the marginals, and E_{c ~ q} D_KL of the conditionals (eq:kl_factorization_app)."""
    structural = rel_entr(conditional(q), conditional(p)).sum(axis=1)
    return divergence(marginal(q), marginal(p)), float((marginal(q) * structural).sum())


def tilted_with_factors(p0: Table, reward: Table, beta_c: float, beta_x: float) -> Table:
    """Maximum of E_q[R] minus β_c and β_x times the two divergences (eq:factor_specific_kl).

    The conditional is tilted with β_x; the composition then earns β_x log Z_x(c), its own best value, and is
    tilted with β_c. β_x → ∞ freezes the conditional, and q(c) ∝ p₀(c) exp(E_{p₀(·|c)}[R]/β_c).  # [C, X]
    """
    with np.errstate(divide="ignore"):
        log_x, log_c = np.log(conditional(p0)), np.log(marginal(p0))
    value = beta_x * logsumexp(log_x + reward / beta_x, axis=1)
    return joint(softmax(log_c + value / beta_c), softmax(log_x + reward / beta_x, axis=1))


def drifting_targets(
    p: Table, novelty: Table, similar: Table, found: Sequence[int], beta: float
) -> list[Table]:
    """q*_t of eq:adaptive_target as the history grows by one structure at a time.

    Args:
        p: One conditional p₀(x | c).  # [X]
        novelty: Against the fixed reference.  # [X]
        similar: RBF similarity of structures, 1 on the diagonal.  # [X, X]
        found: Structures in the order in which the search finds them.
        beta: Of the KL penalty.

    Returns:
        Targets before the first and after each discovery, R_t = min(novelty, 1 − the largest similarity).
    """
    targets = [tilted(p, novelty, beta)]
    for t in range(1, len(found) + 1):
        history = 1 - similar[:, list(found[:t])].max(axis=1)
        targets.append(tilted(p, np.minimum(novelty, history), beta))
    return targets


def allocation(c: Table, success: Table) -> float:
    """Σ_c r(c) s(c): the share of proposals that succeed (eq:discovery_decomposition).  # [C], [C]"""
    return float((c * success).sum())
