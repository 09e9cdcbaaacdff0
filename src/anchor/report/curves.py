"""Curves of a campaign with confidence intervals. Pure functions of the ledger's rows.

A window is a stretch of consecutive steps. Rates have Wilson intervals; means are bootstrapped over whole
steps, because the candidates of a step share their weights and sub-group and are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.outcomes.tally import NAMES, TALLY_COLUMNS, Tally
from anchor.random import generator
from anchor.statistics import wilson_interval

RESAMPLES = 1000
TERMS = ("stability", "novelty", "d_struct", "d_comp", "count_bonus")
"""Reward terms, means over valid candidates."""

OF_VALID = ("known", "known_anywhere", "history")
"""Rates that are fractions of the valid candidates; the others are fractions of all proposed."""

CONTROL = ("entropy_fraction", "beta", "beta_scheduled")
"""Learning metrics of a step that are drawn as curves."""

CURVE_COLUMNS = (*TALLY_COLUMNS, "step", "charge_ok", "novelty_branch", "reward", "included", *TERMS)
"""Ledger columns that `campaign_curves` reads."""


def bootstrap_interval(
    totals: NDArray[np.float64], counts: NDArray[np.int64], rng: np.random.Generator, *, level: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of a mean over clusters, resampling whole clusters.

    Args:
        totals: Sum of the values of each cluster.  # [clusters]
        counts: Values in each cluster.  # [clusters]

    Returns:
        Lower and upper end; NaN with fewer than two clusters that hold a value.
    """
    if (counts > 0).sum() < 2:
        return float("nan"), float("nan")
    drawn = rng.integers(len(totals), size=(RESAMPLES, len(totals)))
    n = counts[drawn].sum(axis=1)
    means = totals[drawn].sum(axis=1)[n > 0] / n[n > 0]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class Curve:
    """A rate or a mean in consecutive windows of a campaign; NaN where a window has nothing to say.

    Attributes:
        structures: Middle of each window, in structures proposed.  # [n]
        value: Rate or mean.  # [n]
        low, high: 95 % interval.  # [n]
        trials: Candidates (or steps) behind each value.  # [n]
    """

    structures: NDArray[np.float64]
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    trials: NDArray[np.int64]


def window_edges(n_steps: int, windows: int = 20) -> NDArray[np.int64]:
    """First step of each window and the end: at most `windows`, of at least four steps where possible."""
    return np.linspace(0, n_steps, max(1, min(windows, n_steps // 4)) + 1).astype(np.int64)


def campaign_curves(
    rows: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]], tally: Tally, *, windows: int = 20
) -> dict[str, Curve]:
    """Every curve of a campaign: rates of the tally, neutrality, history hits, reward and its terms, control.

    "history" is the rate of valid candidates whose formula the campaign had found before.

    Args:
        rows: Candidates in sampling order (columns CURVE_COLUMNS).
        steps: Steps in order.
        tally: A fresh tally with the thresholds to use; it is filled.
        windows: Most windows.
    """
    if not steps:
        return {}
    flags = [tally.add(row) for row in rows]
    step = np.array([row["step"] for row in rows])
    valid = np.array([bool(row["valid"]) for row in rows])
    edges = window_edges(len(steps), windows)
    ends = np.concatenate([[0], [row["structures"] for row in steps]])[edges]
    middle = (ends[:-1] + ends[1:]) / 2

    def rate(flag: NDArray[np.bool_], among: NDArray[np.bool_]) -> Curve:
        count, trials = (
            np.array([chosen[(step >= a) & (step < b)].sum() for a, b in _pairs(edges)])
            for chosen in (flag & among, among)
        )
        value = np.where(trials > 0, count / np.maximum(trials, 1), np.nan)
        low, high = wilson_interval(count, trials)
        return Curve(middle, value, low, high, trials)

    def mean(name: str, values: NDArray[np.float64], of: NDArray[np.int64]) -> Curve:
        use = np.isfinite(values)
        totals = np.bincount(of[use], weights=values[use], minlength=len(steps)).astype(np.float64)
        counts = np.bincount(of[use], minlength=len(steps))
        rng = generator(0, "bootstrap", name)
        found = []
        for a, b in _pairs(edges):
            n = counts[a:b].sum()
            value = totals[a:b].sum() / n if n else float("nan")
            found.append((value, *bootstrap_interval(totals[a:b], counts[a:b], rng), n))
        value, low, high, trials = (np.array(column) for column in zip(*found, strict=True))
        return Curve(middle, value, low, high, trials)

    everyone = np.ones(len(rows), dtype=bool)
    history = np.array([row["novelty_branch"] in ("history", "both") for row in rows])
    curves = {"neutral": rate(np.array([bool(row["charge_ok"]) for row in rows]), everyone)}
    for name in NAMES:
        flag = np.array([f[name] for f in flags])
        curves[name] = rate(flag, valid if name in OF_VALID else everyone)
    curves["history"] = rate(history, valid)
    curves["reward"] = mean("reward", _column(rows, "reward", lambda row: row["included"]), step)
    for name in TERMS:
        curves[name] = mean(name, _column(rows, name, lambda row: row["valid"]), step)
    for name in CONTROL:
        values = np.array([row["metrics"].get(name, np.nan) for row in steps], dtype=np.float64)
        if np.isfinite(values).any():  # an untrained source has no entropy
            curves[name] = mean(name, values, np.arange(len(steps)))
    return curves


def _pairs(edges: NDArray[np.int64]) -> list[tuple[int, int]]:
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _column(
    rows: Sequence[Mapping[str, Any]], name: str, use: Callable[[Mapping[str, Any]], bool]
) -> NDArray[np.float64]:
    """Values of a column, NaN where there is none or it is not to be used.  # [n]"""
    return np.array(
        [row[name] if use(row) and row[name] is not None else np.nan for row in rows], dtype=np.float64
    )
