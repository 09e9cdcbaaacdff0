"""Learning chances from labels, and how far they can be trusted: predicted against observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.screening.chances import Chances, Labels, fit_chances
from anchor.screening.estimate import FreeEstimate
from anchor.screening.plausibility import auc
from anchor.screening.surrogate import surrogate_hash
from anchor.statistics import wilson_interval

EDGES = {
    "metastable": (0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1),
    "stable": (0, 0.01, 0.03, 0.1, 0.2, 0.3, 1),
}
"""Bins of the reliability tables."""
STUDIED = 20
"""Compounds of the Materials Project in a system and its subsystems that make it well studied."""


def learn_chances(free: FreeEstimate, labels: Labels, *, command: str = "") -> Chances:
    """Fit on the labels that are not held out; the card tells how reliable the others are."""
    columns, find, studied = columns_of(free, labels)
    fitted = fit_chances(columns, labels)
    card = {
        "what": "P(within 0.1 eV/atom of both hulls) and P(on them | within) of unknown neutral formulas",
        "command": command,
        "labels": {
            "n": len(labels),
            "hash": labels.hash,
            "held_out": int(labels.held_out.sum()),
            "failed": int(np.isnan(labels.above_hull).sum()),
            "sources": dict(Counter(labels.source)),
        },
        "surrogate": surrogate_hash(free.surrogate),
        "plausibility": list(free.plausibility.coefficients),
        "prior": {"name": free.prior.name, "hash": free.prior.hash},
        "reference_hash": free.reference.hash,
        "held_out": held_out(fitted, columns, find, labels, studied),
    }
    return replace(fitted, card=card)


def columns_of(
    free: FreeEstimate, labels: Labels
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Features of the chances, plausibility, and whether the system is well studied.  # [n, p], [n], [n]"""
    batch = labels.compositions
    evidence = free.evidence(batch)
    find = free.plausibility.probability(evidence)
    studied = free.systems.counts(batch)["mp"] >= STUDIED
    return free.columns(batch, evidence, find), find, studied


def held_out(
    chances: Chances,
    columns: NDArray[np.float64],
    find: NDArray[np.float64],
    labels: Labels,
    studied: NDArray[np.bool_],
) -> dict[str, Any]:
    """Reliability on the labels that the fit has not seen: of all, and of those in well-studied systems."""
    near, on = chances.probabilities(columns)
    out = labels.held_out
    return {
        "metastable": measure(near[out], find[out], labels.metastable[out], EDGES["metastable"]),
        "stable": measure(on[out], find[out], labels.stable[out], EDGES["stable"]),
        "metastable, well studied": measure(
            near[out & studied], find[out & studied], labels.metastable[out & studied], EDGES["metastable"]
        ),
        "metastable, other": measure(
            near[out & ~studied], find[out & ~studied], labels.metastable[out & ~studied], EDGES["metastable"]
        ),
    }


def measure(
    probability: NDArray[np.float64],
    find: NDArray[np.float64],
    happened: NDArray[np.bool_],
    edges: Sequence[float],
) -> dict[str, Any]:
    """How good probabilities are: their sum, order (AUC), squared error (Brier), and by bin."""
    rate = float(happened.mean())
    return {
        "n": len(happened),
        "observed": int(happened.sum()),
        "expected": round(float(probability.sum()), 1),
        "auc": auc(probability[happened], probability[~happened]),
        "auc_find": auc(find[happened], find[~happened]),
        "brier": round(brier(probability, happened), 4),
        "brier_rate": round(rate * (1 - rate), 4),
        "reliability": reliability(probability, happened, edges),
    }


def reliability(
    probability: NDArray[np.float64], happened: NDArray[np.bool_], edges: Sequence[float]
) -> list[dict[str, Any]]:
    """Predicted against observed by bin of probability, with 95 % Wilson intervals.

    Args:
        edges: Ends of the bins, ascending, from 0 to 1.
    """
    place = np.clip(np.searchsorted(edges, probability, side="right") - 1, 0, len(edges) - 2)
    n = np.bincount(place, minlength=len(edges) - 1)
    count = np.bincount(place, weights=happened, minlength=len(edges) - 1).astype(np.int64)
    total = np.bincount(place, weights=probability, minlength=len(edges) - 1)
    low, high = wilson_interval(count, n)
    return [
        {
            "from": edges[i],
            "to": edges[i + 1],
            "n": int(n[i]),
            "expected": round(float(total[i]), 1),
            "observed": int(count[i]),
            "rate": round(float(count[i] / n[i]), 3),
            "interval": [round(float(low[i]), 3), round(float(high[i]), 3)],
        }
        for i in range(len(edges) - 1)
        if n[i]
    ]


def brier(probability: NDArray[np.float64], happened: NDArray[np.bool_]) -> float:
    """Mean squared error of probabilities."""
    return float(np.mean((probability - happened) ** 2))
