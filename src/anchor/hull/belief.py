"""How far below the hull is believable: as far as the stable compounds of the databases lie.

The depth of a stable compound is its distance to the hull without itself. Of the Materials Project's stable
ternaries one in a hundred lies deeper than 0.30 eV/atom, so that a find at −0.4 is rather a hole in the hull
or an error of the potential than a discovery. Percentiles by kind (number of elements, family of anions) ship
in a small file; `python -m anchor.hull.belief` measures them again (two minutes).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.hull.calibration import family_names
from anchor.hull.databases import Database, dft_hull
from anchor.hull.holes import DEEP, FILE, count_holes, depths_below_others, find_holes, load_facts
from anchor.hull.phases import N_NUMBERS, Phases, composition_matrix
from anchor.paths import BUNDLED

SUSPICIOUS = 99.0
"""Percentile of its kind's depths beyond which a find is not believed."""
PERCENTS = (0, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 97, 98, 99, 99.5, 100)
FEWEST = 300
"""A kind with fewer stable compounds is judged by all of the same number of elements: its 99th percentile
would hang on one or two compounds."""
MOST_ELEMENTS = 5
"""Compounds of more elements count with those of five."""
ANY = "any"


@dataclass(frozen=True)
class Belief:
    """Whether a distance below the hull is believable.

    Attributes:
        kind: What it is compared with: "3 elements, oxide".
        percentile: Share of the stable compounds of this kind that lie less deep, in percent.
        limit: Depth of the 99th percentile, eV/atom.
    """

    kind: str
    percentile: float
    limit: float

    @property
    def suspicious(self) -> bool:
        return self.percentile > SUSPICIOUS


class Depths:
    """Percentiles of the depths of stable compounds by kind.

    Args:
        values: Kind ("3/oxide", "3/any") → depths at `PERCENTS`, eV/atom.
    """

    def __init__(self, values: Mapping[str, list[float]]) -> None:
        self._values = values

    def of(self, formula: str, above_hull: float) -> Belief:
        """Belief in a compound at this signed distance to the hull, eV/atom; above it the percentile is 0."""
        amounts = composition_matrix([formula])
        k = min(int(np.count_nonzero(amounts)), MOST_ELEMENTS)
        family = str(family_names(amounts)[0])
        if f"{k}/{family}" not in self._values:
            family = ANY
        depths = np.array(self._values[f"{k}/{family}"])
        beyond = above_hull < 0 and -above_hull > depths[-1]
        percentile = 100.0 if beyond else float(np.interp(-above_hull, depths, PERCENTS))
        kind = f"{k}{'+' if k == MOST_ELEMENTS else ''} elements, {family}"
        return Belief(
            kind, round(percentile, 2) if above_hull < 0 else 0.0, float(depths[PERCENTS.index(SUSPICIOUS)])
        )


@cache
def load_depths(database: Database = "mp") -> Depths:
    """Depths in one database as they ship.

    The Materials Project's by default: it has more stable compounds, and fewer holes that make others deep.
    """
    return Depths({kind: one["depth"] for kind, one in load_facts()["depths"][database].items()})


# Measuring


def stable_depths(database: Database) -> tuple[Phases, NDArray[np.int64], NDArray[np.float64]]:
    """Phases of a database, which of them are stable compounds, and their depths, eV/atom.  # [n], [n]"""
    hull = dft_hull(database)
    phases = hull.index.phases
    compounds = np.flatnonzero(np.count_nonzero(phases.numbers, axis=1) > 1)
    above = hull.energy_above_hull(amounts_of(phases, compounds), phases.energies[compounds])
    found = depths_below_others(hull, compounds[above < 1e-9].tolist())
    return phases, np.array([row for row, _ in found]), np.array([depth for _, depth in found])


def amounts_of(phases: Phases, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Atomic fractions by atomic number.  # [n, 119]"""
    amounts = np.zeros((len(rows), N_NUMBERS))
    np.put_along_axis(amounts, phases.numbers[rows], phases.fractions[rows], axis=1)
    amounts[:, 0] = 0.0  # padding
    return amounts


def depth_percentiles(amounts: NDArray[np.float64], depths: NDArray[np.float64]) -> dict[str, Any]:
    """Number of compounds and depths at `PERCENTS` by kind.  # [n, 119], [n]"""
    k = np.minimum(np.count_nonzero(amounts, axis=1), MOST_ELEMENTS)
    families = family_names(amounts)
    found = {}
    for n in np.unique(k).tolist():
        for family in [*np.unique(families[k == n]).tolist(), ANY]:
            chosen = depths[(k == n) & ((families == family) | (family == ANY))]
            if len(chosen) >= FEWEST or family == ANY:
                values = np.percentile(chosen, PERCENTS).round(4).tolist()
                found[f"{n}/{family}"] = {"n": len(chosen), "depth": values}
    return found


def measure() -> dict[str, Any]:
    """Depths and holes of the bundled lists."""
    facts: dict[str, Any] = {"lists": {}, "percents": PERCENTS, "depths": {}}
    databases: tuple[Database, ...] = ("oqmd", "mp")
    for database in databases:
        phases, rows, depths = stable_depths(database)
        facts["lists"][database] = dft_hull(database).identity.reference_hash
        facts["depths"][database] = depth_percentiles(amounts_of(phases, rows), depths)
    holes = find_holes()
    deep = [[hole.formula, hole.stable_in, round(hole.depth, 4)] for hole in holes if hole.depth > DEEP]
    return {**facts, "holes": count_holes(holes), "deep_holes": deep}


if __name__ == "__main__":
    (BUNDLED / FILE).write_text(json.dumps(measure(), indent=None, separators=(",", ":")) + "\n")
