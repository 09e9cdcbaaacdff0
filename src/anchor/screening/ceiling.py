"""The most that a formula's chance can be before its energies are known: what need not be estimated.

The log-odds are sums of straight lines with kinks, some of energies, the others of known crystals, charges
and chemical system. What energies can add at most is found once, at all combinations of kinks; the rest is
known of a formula for next to nothing. So a ranking leaves out nearly all of ten million formulas and misses
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from anchor.chemistry.composition import Compositions
from anchor.screening import chances, plausibility
from anchor.screening.estimate import FreeEstimate
from anchor.screening.evidence import Evidence
from anchor.screening.nearness import FARTHEST, Nearness
from anchor.screening.surrogate import DATABASES

ABOVE = np.arange(-100, 151) / 100
"""eV/atom above the hulls: kinks of the features are multiples of 0.01, and beyond the ends they are flat."""
GAPS = np.arange(0, 31) / 20
"""eV/atom between the databases: the same with 0.05."""
SPREADS = np.array([0.0, 0.5, 1.0, 3.0])
"""eV/atom: 0.5 is a kink, and no spread is beyond the last."""
NEAREST = np.arange(10 * int(FARTHEST), 1) / 10
"""Log-weights of the nearest template at which the reach is looked for; above 0 nothing changes."""
SLACK = 1e-3
"""Of log-odds: nearest templates and energies are in single precision, and kinks are looked for in steps."""
EDGE = float(logit(1 - 1e-6))
"""Largest log-odds of the plausibility that the features show."""
CROWDED = 10**5
"""Compounds of a chemical system: none has more."""
EXAMPLES = {2: ("NaCl", "CH4"), 3: ("NaClBr", "CHO"), 4: ("NaClBrI", "CHNO")}
"""Of each number of elements a plain formula, and a molecular one."""


@dataclass(frozen=True, eq=False)
class Ceiling:
    """Upper bounds of P(within 0.1 eV/atom), exact but for SLACK.

    Attributes:
        estimate: What is bounded.
        slope: How much the log-odds grow with those of the plausibility.
        direct: The most that energies can add to the log-odds beside the plausibility.
        together: The same with it.
        direct_at, together_at: The same once one member of the surrogate has said at least `ABOVE`.
        crowd: The most that known compounds of the chemical system can add.
    """

    estimate: FreeEstimate
    slope: float
    direct: float
    together: float
    direct_at: NDArray[np.float64]
    together_at: NDArray[np.float64]
    crowd: float

    @classmethod
    def of(cls, estimate: FreeEstimate) -> Ceiling:
        """Looks at all combinations of kinks, a fraction of a second."""
        surrogate = estimate.surrogate
        floor, scale = min(surrogate.floor), min(surrogate.scale)
        slope = _slope(estimate)

        def most(above: NDArray[np.float64], gap: float, spread: NDArray[np.float64]) -> _Added:
            return _added(estimate, slope, above, gap, spread)

        gaps = [most(np.zeros(1), gap, np.array([floor])) for gap in GAPS.tolist()]
        gap_direct, gap_together = (float(max(g[i].max() for g in gaps)) for i in (0, 1))
        anywhere = most(ABOVE[:, None], 0.0, floor + SPREADS)
        # One of m members that is d above their mean leaves them a standard deviation of d / √(m − 1) or more
        others = len(surrogate.members) - 1
        off = np.arange(len(ABOVE) if others else 1) / 100
        known = most(ABOVE[:, None] - off, 0.0, np.hypot(floor, scale * off / np.sqrt(max(others, 1))))
        direct_at, together_at = (
            np.maximum.accumulate(added.max(axis=1)[::-1])[::-1] + gap
            for added, gap in zip(known, (gap_direct, gap_together), strict=True)
        )
        return cls(
            estimate,
            slope,
            float(anywhere[0].max()) + gap_direct,
            float(anywhere[1].max()) + gap_together,
            direct_at,
            together_at,
            _crowd(estimate),
        )

    def __call__(
        self, compositions: Compositions, near: Nearness, above: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """The most that the chance of each formula can be.  # [n]

        Args:
            above: Energy above the hulls that the first member of the surrogate gives at least, for the
                database where it is less, eV/atom.  # [n]
        """
        direct, together = np.full(len(near), self.direct), np.full(len(near), self.together)
        if above is not None:
            place = np.floor((above - ABOVE[0]) * 100).astype(np.int64).clip(0, len(ABOVE) - 1)
            direct, together = self.direct_at[place], self.together_at[place]
        systems = self.estimate.systems.counts(compositions)
        return expit(self._log_odds(compositions, near, systems, direct, together))

    def _log_odds(
        self,
        compositions: Compositions,
        near: Nearness,
        systems: Mapping[str, NDArray[np.int64]],
        direct: NDArray[np.float64],
        together: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        estimate, half = self.estimate, np.full(len(near), 0.5)
        none = _without_energies(estimate, near)
        base = chances.features(compositions, none, half, systems) @ np.array(estimate.chances.metastable)
        # the features show the plausibility between two edges: beyond one of them energies add less or more
        edge = -EDGE if self.slope >= 0 else EDGE
        inside = together + self.slope * _find(estimate, none)
        bound: NDArray[np.float64] = base + np.maximum(inside, direct + self.slope * edge) + SLACK
        return bound

    def reach(self, k: int, templates: int, *, everyday: bool, chance: float) -> float:
        """Log-weight of the nearest template below which no formula of k elements has this chance.

        Args:
            templates: Known crystals of the stoichiometry.
            everyday: Whether everyday charges balance.

        Returns: Infinite where the chance is out of reach altogether.
        """
        if not chance:
            return -np.inf
        n, examples = len(NEAREST), Compositions.from_list(EXAMPLES[k])
        near = Nearness(NEAREST, np.full(n, templates), np.full(n, everyday))
        free = (np.full(n, self.direct), np.full(n, self.together))
        bounds = [self._log_odds(examples[np.full(n, i)], near, _systems(n), *free) for i in (0, 1)]
        most = np.max(bounds, axis=0)
        within = most + self.crowd >= logit(chance)
        if not within.any():
            return np.inf
        first = int(within.argmax())
        return float(NEAREST[first - 1]) if first else -np.inf  # it may lie between two points


_Added = tuple[NDArray[np.float64], NDArray[np.float64]]


def _added(
    estimate: FreeEstimate,
    slope: float,
    above: NDArray[np.float64],
    gap: float,
    spread: NDArray[np.float64],
) -> _Added:
    """What energies add to the log-odds beside the plausibility, and with it; shapes as broadcast."""
    above, spread = np.broadcast_arrays(above, spread)
    n = above.size
    one, near = Compositions.from_list(["NaCl"])[np.zeros(n, dtype=np.int64)], _near(n)
    energies = Evidence(
        np.stack([above.ravel(), above.ravel() - gap], axis=1),
        np.stack([spread.ravel()] * len(DATABASES), axis=1),
        near.nearest,
        near.templates,
        near.everyday,
    )
    none = _without_energies(estimate, near)
    weights, half = np.array(estimate.chances.metastable), np.full(n, 0.5)
    with_them, without = (
        chances.features(one, evidence, half, _systems(n)) @ weights for evidence in (energies, none)
    )
    direct = (with_them - without).reshape(above.shape)
    through = (_find(estimate, energies) - _find(estimate, none)).reshape(above.shape)
    return direct, direct + slope * through


def _slope(estimate: FreeEstimate) -> float:
    """How much the log-odds grow with those of the plausibility."""
    one, none = Compositions.from_list(["NaCl"] * 2), _without_energies(estimate, _near(2))
    columns = chances.features(one, none, expit(np.arange(2.0)), _systems(2))
    return float(np.diff(columns @ np.array(estimate.chances.metastable))[0])


def _crowd(estimate: FreeEstimate) -> float:
    """The most that known compounds of a system can add to the log-odds."""
    one, none = Compositions.from_list(["NaCl"] * 4), _without_energies(estimate, _near(4))
    systems = {"own": np.array([0, 0, CROWDED, CROWDED]), "mp": np.array([0, CROWDED, 0, CROWDED])}
    odds = chances.features(one, none, np.full(4, 0.5), systems) @ np.array(estimate.chances.metastable)
    return float((odds - odds[0]).max())


def _near(n: int) -> Nearness:
    """Anything: what it adds does not depend on energies."""
    return Nearness(np.zeros(n), np.ones(n, dtype=np.int64), np.ones(n, dtype=bool))


def _without_energies(estimate: FreeEstimate, near: Nearness) -> Evidence:
    """Evidence with energies on the hulls and the least spread."""
    zero = np.zeros((len(near), len(DATABASES)))
    floor = zero + min(estimate.surrogate.floor)
    return Evidence(zero, floor, near.nearest, near.templates, near.everyday)


def _find(estimate: FreeEstimate, evidence: Evidence) -> NDArray[np.float64]:
    """Log-odds of the plausibility.  # [n]"""
    found: NDArray[np.float64] = plausibility.features(evidence) @ np.array(
        estimate.plausibility.coefficients
    )
    return found + float(logit(plausibility.SHARE))


def _systems(n: int, own: int = 0, mp: int = 0) -> dict[str, NDArray[np.int64]]:
    return {"own": np.full(n, own), "mp": np.full(n, mp)}
