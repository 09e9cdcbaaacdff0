"""Stability score (paper: app:reward/stability)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm


def stability_score(energy_above_hull: ArrayLike, width: float = 1.0) -> NDArray[np.float64]:
    """s_stab = 1 − clip(E_hull, 0, 1) (eq:stab-score), with E_hull in units of `width`.

    Args:
        energy_above_hull: Signed, eV/atom; NaN (not scored) stays NaN.  # [n]
        width: Where the score reaches 0, eV/atom; 1 in the paper.

    Returns:
        1 on or below the hull, falling to 0 at `width`.  # [n]
    """
    return 1.0 - np.clip(np.asarray(energy_above_hull, dtype=np.float64) / width, 0.0, 1.0)


def expected_stability(
    mean: NDArray[np.float64], deviation: NDArray[np.float64], width: float = 1.0
) -> NDArray[np.float64]:
    """E[s_stab] where E_hull is normal: what a belief says of the score before there is a crystal.

    With E_hull ~ N(μ, σ²): E[clip(E_hull, 0, w)] = e(0) − e(w), e(a) = E[max(E_hull − a, 0)]
    = (μ − a) Φ((μ − a)/σ) + σ φ((μ − a)/σ).

    Args:
        mean, deviation: μ and σ > 0, eV/atom.  # [n] each
        width: As in `stability_score`, eV/atom.

    Returns: # [n]
    """

    def excess(a: float) -> NDArray[np.float64]:
        z = (mean - a) / deviation
        return np.asarray((mean - a) * norm.cdf(z) + deviation * norm.pdf(z), dtype=np.float64)

    return 1.0 - (excess(0.0) - excess(width)) / width
