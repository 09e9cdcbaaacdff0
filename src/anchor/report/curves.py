"""Curves of a campaign: rates over the run with confidence intervals. Pure functions of the ledger's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from anchor.search.tally import Tally


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


@dataclass(frozen=True)
class Curve:
    """A rate in consecutive windows of a campaign.

    Attributes:
        structures: Middle of each window, in structures proposed.  # [n]
        count: Candidates with the property.  # [n]
        trials: Candidates in the window.  # [n]
        low, high: 95 % interval of the rate.  # [n]
    """

    structures: NDArray[np.float64]
    count: NDArray[np.int64]
    trials: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def rate(self) -> NDArray[np.float64]:
        return self.count / np.maximum(self.trials, 1)


def rate_curves(rows: Sequence[Mapping[str, Any]], tally: Tally, *, windows: int = 20) -> dict[str, Curve]:
    """Every rate of the tally in at most `windows` equal windows.

    Args:
        rows: Candidates in sampling order (columns TALLY_COLUMNS).
        tally: A fresh tally with the thresholds to use; it is filled.
        windows: Most windows; a short campaign has fewer, of at least 16 candidates.
    """
    flags = [tally.add(row) for row in rows]
    if not flags:
        return {}
    n_windows = max(1, min(windows, len(flags) // 16))
    edges = np.linspace(0, len(flags), n_windows + 1).astype(int)
    trials = np.diff(edges)
    middle = (edges[:-1] + edges[1:]) / 2
    curves = {}
    for name in flags[0]:
        values = np.array([flag[name] for flag in flags], dtype=np.int64)
        count = np.add.reduceat(values, edges[:-1])
        curves[name] = Curve(middle, count, trials, *wilson_interval(count, trials))
    return curves
