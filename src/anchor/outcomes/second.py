"""A second opinion in the reward: another potential is asked where the first one likes a crystal.

A search finds the mistakes of its potential. Two potentials are seldom wrong in the same way, so what counts
is their mean distance to their own hulls and a multiple of how far they are apart. The second is asked only
where the first says metastable: elsewhere its answer would change no find.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.hull.hull import HullIdentity
from anchor.hull.references import HullScores
from anchor.outcomes.columns import ABOVE, METASTABLE_BELOW, above
from anchor.outcomes.table import Outcomes
from anchor.relax.parallel import Relaxer


class OwnHull(Protocol):
    """The hull of the second potential: `PotentialHull`, `AlexMPHull`."""

    identity: HullIdentity

    def score(
        self, crystals: Crystals, energies: NDArray[np.float64], *, checkpoint_hash: str
    ) -> HullScores: ...


def cautious(first: NDArray[np.float64], second: NDArray[np.float64], caution: float) -> NDArray[np.float64]:
    """Mean of two distances to a hull and `caution` times their difference, eV/atom.

    With a caution of 1/2 it is the larger of the two, with 0 their mean.
    """
    return (first + second) / 2 + caution * np.abs(first - second)


@dataclass(frozen=True, eq=False)
class SecondOpinion:
    """Another potential with its own hulls.

    Attributes:
        relaxer: With the other potential.
        hull: Made for it.
        caution: Multiple of the difference of both that is added to their mean.
    """

    relaxer: Relaxer
    hull: OwnHull
    caution: float

    def __call__(self, table: Outcomes, settings: dict[str, Any]) -> Outcomes:
        """The table with what both potentials say together where the first says metastable.

        Its own distance stands in the column of its name. Where it has no answer the first one's stays: the
        column is empty then.

        Args:
            table: Placed on the hulls of the first potential.
            settings: How the crystals, relaxed by the first one, are relaxed on.
        """
        distance = table.numbers(ABOVE)
        asked = np.flatnonzero(distance[table.at] <= METASTABLE_BELOW)
        asked = asked[self.relaxer.potential.supports(table.crystals[asked])]
        own = np.full(len(table.at), np.nan)
        if len(asked):
            found = self.relaxer(table.crystals[asked], **settings).relaxation
            energy = np.where(found.ended, found.energy, np.nan)
            scores = self.hull.score(
                found.crystals, energy, checkpoint_hash=self.relaxer.potential.checkpoint_hash
            )
            own[asked] = scores.energy_above_hull
        first = distance[table.at]
        both = np.where(np.isfinite(own), cautious(first, own, self.caution), first)
        return table.with_crystal_columns(**{ABOVE: both, above(self.relaxer.potential.name): own})
