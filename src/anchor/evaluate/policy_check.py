"""A policy judged by real relaxations, beside sources that have learned nothing.

Every source proposes n compositions, which are realised, relaxed, placed on the hull and judged by the gate
exactly as a campaign with the same settings does it. A *find* is valid, within 0.1 eV/atom of the hull, of a
formula that no bundled source lists, and the first of its formula.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from anchor.chemistry.composition import Compositions
from anchor.chemistry.spaces import sample_neutral, sample_random
from anchor.config import Config
from anchor.outcomes.columns import ABOVE, METASTABLE_BELOW, STABLE_BELOW
from anchor.policy.network import CompositionPolicy
from anchor.random import generator
from anchor.screening.warm_start import HALF, Estimator
from anchor.search.environment import Environment
from anchor.search.policies import TrainedPolicy
from anchor.statistics import wilson_interval

GROUP = 32
"""Compositions realised at once."""


def untrained_sources(n: int, elements: tuple[str, ...], *, seed: int) -> dict[str, Compositions]:
    """The two untrained sources of the paper and an untrained policy, over the same elements."""
    untrained = TrainedPolicy("untrained", CompositionPolicy(seed=seed), Config(), elements)
    return {
        "random": sample_random(n, generator(seed, "check", "random"), elements=elements),
        "neutral": sample_neutral(n, generator(seed, "check", "neutral"), elements=elements),
        "untrained policy": untrained.draw(n, seed=seed),
    }


@dataclass(frozen=True, eq=False)
class Checked:
    """What became of one source's compositions.

    Attributes:
        cells: Compositions as proposed, e.g. "Li4Fe2Si2O8".  # n
        formulas: Reduced formulas.  # n
        relaxed: Was given to the potential.  # [n]
        valid: Passed the gate after relaxation.  # [n]
        above_hull: Energy above the hull that counts, eV/atom, NaN without one.  # [n]
        known: Listed by a bundled source.  # [n]
        estimated: Surrogate's energy above the DFT hull, eV/atom.  # [n]
        find: Probability of a compound, estimated.  # [n]
        evaluations: Calls of the potential.  # [n]
    """

    cells: list[str]
    formulas: list[str]
    relaxed: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    above_hull: NDArray[np.float64]
    known: NDArray[np.bool_]
    estimated: NDArray[np.float64]
    find: NDArray[np.float64]
    evaluations: NDArray[np.int64]

    @property
    def unique(self) -> NDArray[np.bool_]:
        """First of its formula.  # [n]"""
        _, first = np.unique(self.formulas, return_index=True)
        return np.isin(np.arange(len(self.formulas)), first)

    def rows(self) -> list[dict[str, Any]]:
        """Every relaxed composition and what came of it, most stable first, eV/atom."""
        finds = self._within(METASTABLE_BELOW) & ~self.known
        order = np.argsort(self.above_hull)  # NaN last
        return [
            {
                "cell": self.cells[i],
                "formula": self.formulas[i],
                "energy_above_hull_ev_per_atom": _rounded(self.above_hull[i]),
                "estimated_ev_per_atom": _rounded(self.estimated[i]),
                "valid": bool(self.valid[i]),
                "known": bool(self.known[i]),
                "find": bool(finds[i]),
            }
            for i in order[self.relaxed[order]].tolist()
        ]

    def _within(self, limit: float) -> NDArray[np.bool_]:
        return self.valid & (self.above_hull <= limit)

    def summary(self) -> dict[str, Any]:
        """Counts, and rates per relaxation with 95 % intervals (Wilson)."""
        unique, metastable, stable = self.unique, self._within(METASTABLE_BELOW), self._within(STABLE_BELOW)
        relaxed = int(self.relaxed.sum())
        counts = {
            "metastable": int(metastable.sum()),
            "stable": int(stable.sum()),
            "finds": int((metastable & unique & ~self.known).sum()),
            "stable_finds": int((stable & unique & ~self.known).sum()),
        }
        both = self.valid & np.isfinite(self.above_hull)
        real, estimated = self.above_hull[both], self.estimated[both]
        varied = both.sum() > 2 and np.ptp(real) > 0 and np.ptp(estimated) > 0
        return {
            "n": len(self.formulas),
            "relaxed": relaxed,
            "valid": int(self.valid.sum()),
            "unique": int(unique.sum()),
            "known": int(self.known.sum()),
            **counts,
            "plausible": int(((self.find >= HALF) & ~self.known).sum()),
            "per_relaxation": {name: rate(value, relaxed) for name, value in counts.items()},
            "evaluations": int(self.evaluations.sum()),
            "median_above_hull_ev_per_atom": _median(real),
            "median_real_minus_estimated_ev_per_atom": _median(real - estimated),
            "rank_correlation_with_estimate": (
                round(float(spearmanr(real, estimated).statistic), 3) if varied else None
            ),
        }


def rate(count: int, n: int) -> tuple[float, float, float] | None:
    """Fraction with its 95 % Wilson interval; None of nothing."""
    if n == 0:
        return None
    low, high = wilson_interval(np.array([count]), np.array([n]))
    return round(count / n, 4), round(float(low[0]), 4), round(float(high[0]), 4)


def check_source(
    compositions: Compositions, environment: Environment, estimator: Estimator, *, stream: int
) -> Checked:
    """Realise, relax and score one source's compositions.

    Args:
        stream: Number of the source, so that sources do not share random structures.
    """
    n = len(compositions)
    relaxed, valid = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    above, evaluations = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    for start in range(0, n, GROUP):
        part = compositions[start : start + GROUP]
        (group,) = environment.realiser([part], step=start // GROUP, first=stream)
        table = group.outcomes
        rows = slice(start, start + table.n)
        relaxed[rows], valid[rows] = table.has, table.flags("valid")
        above[rows] = table.numbers(ABOVE)
        evaluations[rows] = np.nan_to_num(table.numbers("evaluations"))
    estimate = estimator(compositions)
    return Checked(
        [str(c) for c in compositions],
        estimate.formulas,
        relaxed,
        valid,
        above,
        estimate.known,
        estimate.evidence.above_hull,
        estimate.find,
        evaluations,
    )


def check_sources(
    sources: Mapping[str, Compositions],
    environment: Environment,
    estimator: Estimator,
    *,
    on_source: Callable[[str, Checked], None] | None = None,
) -> dict[str, Checked]:
    """`check_source` of each, in order."""
    found = {}
    for stream, (name, compositions) in enumerate(sources.items()):
        found[name] = check_source(compositions, environment, estimator, stream=stream)
        if on_source is not None:
            on_source(name, found[name])
    return found


def _rounded(value: float) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None


def _median(values: NDArray[np.float64]) -> float | None:
    return round(float(np.median(values)), 4) if len(values) else None
