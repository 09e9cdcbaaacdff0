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
SLACK = 1e-4
"""Of log-odds: nearest templates are in single precision and may be added up in another order."""
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
        crowd: The most that known compounds of the chemical system can add.
    """

    estimate: FreeEstimate
    slope: float
    direct: float
    together: float
    crowd: float

    @classmethod
    def of(cls, estimate: FreeEstimate) -> Ceiling:
        """Looks at all combinations of kinks, a tenth of a second."""
        grid = np.meshgrid(ABOVE, GAPS, min(estimate.surrogate.floor) + SPREADS, indexing="ij")
        above, gap, spread = (axis.ravel() for axis in grid)
        n = len(above)
        rows = np.zeros(n, dtype=np.int64)
        one = Compositions.from_list(["NaCl"])[rows]
        near = Nearness(np.zeros(1), np.ones(1, dtype=np.int64), np.ones(1, dtype=bool))[rows]
        energies = Evidence(
            np.stack([above, above - gap], axis=1),
            np.stack([spread] * len(DATABASES), axis=1),
            near.nearest,
            near.templates,
            near.everyday,
        )
        none = _without_energies(estimate, near)

        def odds(evidence: Evidence, find: float, own: int = 0, mp: int = 0) -> NDArray[np.float64]:
            columns = chances.features(one, evidence, np.full(n, find), _systems(n, own, mp))
            found: NDArray[np.float64] = columns @ np.array(estimate.chances.metastable)
            return found

        base = odds(none, 0.5)
        slope = float(odds(none, float(expit(1.0)))[0] - base[0])
        direct = odds(energies, 0.5) - base
        through = _find(estimate, energies) - _find(estimate, none)
        crowds = [odds(none, 0.5, own, mp)[0] - base[0] for own in (0, CROWDED) for mp in (0, CROWDED)]
        return cls(
            estimate, slope, float(direct.max()), float((direct + slope * through).max()), float(max(crowds))
        )

    def __call__(self, compositions: Compositions, near: Nearness) -> NDArray[np.float64]:
        """The most that the chance of each formula can be.  # [n]"""
        return expit(self._log_odds(compositions, near, self.estimate.systems.counts(compositions)))

    def _log_odds(
        self, compositions: Compositions, near: Nearness, systems: Mapping[str, NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        estimate, half = self.estimate, np.full(len(near), 0.5)
        none = _without_energies(estimate, near)
        base = chances.features(compositions, none, half, systems) @ np.array(estimate.chances.metastable)
        # the features show the plausibility between two edges: beyond one of them energies add less or more
        edge = -EDGE if self.slope >= 0 else EDGE
        inside = self.together + self.slope * _find(estimate, none)
        bound: NDArray[np.float64] = base + np.maximum(inside, self.direct + self.slope * edge) + SLACK
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
        most = np.max([self._log_odds(examples[np.full(n, i)], near, _systems(n)) for i in (0, 1)], axis=0)
        within = most + self.crowd >= logit(chance)
        if not within.any():
            return np.inf
        first = int(within.argmax())
        return float(NEAREST[first - 1]) if first else -np.inf  # it may lie between two points


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
