"""The three allocations of eq:discovery_decomposition from evaluations, with intervals.

    DNG                   Σ p₀(c) s_DNG(c)     crystals of a generator
    DNG → CSP             Σ p₀(c) s_CSP(c)     its compositions, crystals of a frozen prior
    search → CSP          Σ π(c) s_CSP(c)      compositions of a policy, crystals of the same prior

Their differences are the two controls: with the list of compositions fixed, structures differ (paired);
with the prior fixed, compositions do.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.errors import InputError
from anchor.evaluate.bootstrap import paired_difference
from anchor.evaluate.outputs import FinishedEvaluation
from anchor.random import generator
from anchor.statistics import wilson_interval

DRAWS = 10_000
NAMES = ("p₀ s_DNG", "p₀ s_CSP", "π s_CSP")


def decompose(
    dng: FinishedEvaluation,
    dng_csp: FinishedEvaluation,
    search: FinishedEvaluation,
    *,
    criterion: str = "msun",
    seed: int = 0,
) -> dict[str, Any]:
    """Shares of the three, and differences of neighbours.

    Args:
        criterion: Column of the evaluations: msun, sun, metastable, stable, valid.
        seed: Of the bootstraps.

    Raises:
        InputError: They were judged in different ways, or lack the criterion.
    """
    evaluations = (dng, dng_csp, search)
    if any(one.footer != dng.footer for one in evaluations):
        raise InputError(
            "the evaluations were not judged in the same way", "evaluate all with one protocol and potential"
        )
    rows = [one.rows() for one in evaluations]
    for one, found in zip(evaluations, rows, strict=True):
        if not found or criterion not in found[0]:
            raise InputError(f"{one.folder} has no column '{criterion}'", "choose msun, sun, stable or valid")
    flags = [np.array([bool(row[criterion]) for row in found]) for found in rows]
    shares = []
    for name, one, hits in zip(NAMES, evaluations, flags, strict=True):
        low, high = wilson_interval(np.array([hits.sum()]), np.array([len(hits)]))
        shares.append(
            {
                "allocation": name,
                "label": one.label,
                "successes": int(hits.sum()),
                "n": len(hits),
                "share": float(hits.mean()),
                "low": float(low[0]),
                "high": float(high[0]),
            }
        )
    paired = [row["cell"] for row in rows[0]] == [row["cell"] for row in rows[1]]
    structures = (
        asdict(paired_difference(flags[1].astype(float).tolist(), flags[0].astype(float).tolist(), seed=seed))
        if paired
        else difference_of_shares(flags[1], flags[0], seed=seed)
    )
    return {
        "criterion": criterion,
        "rows": shares,
        "structures": {"of": "p₀ (s_CSP − s_DNG)", "paired": paired, **structures},
        "compositions": {
            "of": "(π − p₀) s_CSP",
            "paired": False,
            **difference_of_shares(flags[2], flags[1], seed=seed),
        },
    }


def difference_of_shares(
    first: NDArray[np.bool_], second: NDArray[np.bool_], *, seed: int = 0
) -> dict[str, float]:
    """First − second of two independent samples with its 95 % bootstrap interval."""
    rng = generator(seed, "decomposition")
    drawn = [rng.binomial(len(hits), hits.mean(), size=DRAWS) / len(hits) for hits in (first, second)]
    low, high = np.quantile(drawn[0] - drawn[1], [0.025, 0.975])
    return {"value": float(first.mean() - second.mean()), "low": float(low), "high": float(high)}
