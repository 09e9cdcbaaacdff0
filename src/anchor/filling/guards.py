"""What keeps a potential's own mistakes out of its filling.

A phase joins the hulls when it is near one of them and nothing speaks against it. The order of the guards is
that of `verdicts`: each says in a few words why it refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.hull.energies import Energies
from anchor.hull.hull import Hull
from anchor.hull.merit import NEAR, own_merit, strict_above, strict_hulls
from anchor.hull.phases import N_NUMBERS
from anchor.hull.references import PotentialHull
from anchor.models.volumes import atomic_volumes
from anchor.reference.reference import Reference

DEEP = 0.05
"""eV/atom below a hull from which on a second potential has to agree."""
AGREES_WITHIN = 0.05
"""eV/atom that a phase may lie higher under the second potential, each on its own hull. Lower is no
objection: then the hole is there all the more."""
VOLUME_TAIL = 0.002
"""Share of an element's reference crystals that are smaller, and that are larger, than what is allowed."""
ENDED = ("converged", "capped")
DATABASES = ("oqmd", "mp")

JOINS, ABOVE_HULL = "", "above the hull"

Columns = Mapping[str, NDArray]


def verdicts(made: Columns, *, second: str) -> list[str]:
    """`JOINS`, `ABOVE_HULL`, or why a phase near the hull is refused.  # [n]

    Args:
        made: Columns of `anchor.filling.make`.
        second: Name of the second potential.
    """
    distance = np.stack([made[f"above_{name}"] for name in DATABASES])  # [2, n]
    other = np.stack([made[f"second_{name}"] for name in DATABASES])
    near: NDArray[np.bool_] = np.any(distance <= NEAR, axis=0)
    held = _own_merit(made)
    higher = np.where(distance < -DEEP, other - distance, 0.0).max(axis=0)  # NaN: not scored
    found = []
    for i in range(len(near)):
        if not np.isfinite(made["energy"][i]):
            found.append("no energy")
        elif not near[i]:
            found.append(ABOVE_HULL)
        elif not made["ended"][i]:
            found.append("not relaxed")
        elif made["bond_ratio"][i] < 1:
            found.append("a bond too short")
        elif not made["volume_ok"][i]:
            found.append("a volume that its elements do not take")
        elif not held[i]:
            found.append("low because the potential's elements are")
        elif not higher[i] <= AGREES_WITHIN:
            found.append(f"{second} does not agree")
        else:
            found.append(JOINS)
    return found


def asks_second(made: Columns) -> NDArray[np.bool_]:
    """Phases so far below a hull that a second potential is asked, if nothing else speaks against.  # [n]"""
    deep = np.any([made[f"above_{name}"] < -DEEP for name in DATABASES], axis=0)
    return deep & _own_merit(made) & made["ended"] & made["volume_ok"] & (made["bond_ratio"] >= 1)


def _own_merit(made: Columns) -> NDArray[np.bool_]:
    return own_merit(*({name: made[f"{kind}_{name}"] for name in DATABASES} for kind in ("above", "strict")))


@dataclass(frozen=True, eq=False)
class Guards:
    """Guards that need the reference.

    Attributes:
        reference: Known crystals.
        energies: Theirs under the potential.
        hull: Of the potential, not filled.
    """

    reference: Reference
    energies: Energies
    hull: PotentialHull

    @cached_property
    def strict(self) -> dict[str, Hull]:
        """Both hulls with the elements where the potential has them, if that is lower."""
        return strict_hulls(self.hull.databases, self.reference, self.energies)

    def strict_above(self, crystals: Crystals, energy: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Distance to the strict hull of each database, eV/atom.

        Args:
            energy: Of the potential, eV/atom.  # [n]
        """
        return strict_above(self.hull.databases, self.strict, crystals.compositions.amounts, energy)

    @cached_property
    def _volume_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest volume over the sum of atomic volumes, by element.  # [119] each"""
        crystals = self.reference.crystals
        ratio = volume_ratio(crystals)
        low, high = np.full(N_NUMBERS, np.inf), np.zeros(N_NUMBERS)
        present = crystals.compositions.amounts > 0
        for z in np.flatnonzero(present.any(axis=0)).tolist():
            low[z], high[z] = np.quantile(ratio[present[:, z]], [VOLUME_TAIL, 1 - VOLUME_TAIL])
        return low, high

    def volume_ok(self, crystals: Crystals) -> NDArray[np.bool_]:
        """Whether the volume is one that reference crystals with one of the elements take.  # [n]"""
        low, high = self._volume_bounds
        first = crystals.offsets[:-1]
        ratio = volume_ratio(crystals)
        return (ratio >= np.minimum.reduceat(low[crystals.numbers], first)) & (
            ratio <= np.maximum.reduceat(high[crystals.numbers], first)
        )


def volume_ratio(crystals: Crystals) -> NDArray[np.float64]:
    """Volume over the sum of the atoms' usual volumes.  # [n]"""
    return crystals.volume / np.add.reduceat(atomic_volumes()[crystals.numbers], crystals.offsets[:-1])
