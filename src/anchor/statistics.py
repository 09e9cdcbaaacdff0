"""Confidence intervals that several parts report."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm


def wilson_interval(
    successes: NDArray[np.int64], trials: NDArray[np.int64], *, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's score interval of a rate: sensible for few trials and at 0 and 1.

    Args:
        successes, trials: Counts.  # [n]
        level: Confidence level.

    Returns:
        Lower and upper ends; (0, 1) without trials.  # [n], [n]
    """
    z = norm.ppf(0.5 + level / 2)
    n = np.maximum(trials, 1)
    p = successes / n
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    low = np.where(successes == 0, 0.0, centre - half)  # exact ends, free of rounding
    high = np.where(successes == trials, 1.0, centre + half)
    return low, high
