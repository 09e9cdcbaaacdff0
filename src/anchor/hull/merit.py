"""Merit of its own: what a potential's wrong elements lend a compound does not count.

Elements are at zero by definition, and databases fit some of them to compounds: MatterSim's own Cl2 lies 0.3
eV/atom below zero. LiCl4, which is LiCl and Cl2 side by side, would look like a compound. On the strict hulls
elements are where the potential has them, if that is lower; Cl2, N2, O2, F2 and H2 are where it matters.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from anchor.hull.databases import DatabaseHulls
from anchor.hull.energies import Energies
from anchor.hull.hull import Hull
from anchor.hull.phases import Phases
from anchor.reference.reference import Reference

NEAR = 0.05
"""eV/atom above a hull up to which a compound is near it, and that its elements may lend it."""

Distances = Mapping[str, NDArray[np.float64]]


def strict_hulls(
    databases: Mapping[str, DatabaseHulls], reference: Reference, energies: Energies
) -> dict[str, Hull]:
    """The hull of each database with the elements where the potential has them, if that is lower.

    Args:
        databases: The potential's hulls on the scale of each.
        reference: Whose crystals of single elements are taken.
        energies: Of the reference crystals under the potential.
    """
    amounts = reference.crystals.compositions.amounts
    rows = np.flatnonzero((amounts > 0).sum(axis=1) == 1)
    hulls = {}
    for name, database in databases.items():
        formation = database.calibration.formation_energy(amounts[rows], energies.lowest[rows])
        kept = np.isfinite(formation)
        elements = [{int(z): 1.0} for z in amounts[rows[kept]].argmax(axis=1)]
        own = Phases.from_amounts(elements, formation[kept], "element")
        hulls[name] = database.union.with_phases(own)
    return hulls


def strict_above(
    databases: Mapping[str, DatabaseHulls],
    strict: Mapping[str, Hull],
    amounts: NDArray[np.float64],
    energy: NDArray[np.float64],
) -> dict[str, NDArray[np.float64]]:
    """Distance to the strict hull of each database, eV/atom.  # [n] each

    Args:
        databases: The potential's hulls on the scale of each.
        strict: `strict_hulls` of them.
        amounts: Compositions by atomic number.  # [n, 119]
        energy: Of the potential, eV/atom.  # [n]
    """
    return {
        name: strict[name].energy_above_hull(amounts, database.calibration.formation_energy(amounts, energy))
        for name, database in databases.items()
    }


def own_merit(above: Distances, strict: Distances) -> NDArray[np.bool_]:
    """Whether a compound is low even if its elements are where the potential has them.  # [n]

    What the elements contribute to its place on a hull is at most NEAR, or half of its depth. A hull that it
    is not near asks nothing.

    Args:
        above: Distance to the hull of each database, eV/atom.  # [n] each
        strict: The same with `strict_hulls`.  # [n] each
    """
    fine = []
    for name, distance in above.items():
        credit = strict[name] - distance
        fine.append((credit <= np.maximum(NEAR, -distance / 2)) | (distance > NEAR))
    return np.all(fine, axis=0)


def of_own_merit(
    databases: Mapping[str, DatabaseHulls],
    strict: Mapping[str, Hull],
    amounts: NDArray[np.float64],
    energy: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """`own_merit` of compositions with these energies, eV/atom; arguments as of `strict_above`.  # [n]"""
    above = strict_above(
        databases, {name: database.union for name, database in databases.items()}, amounts, energy
    )
    return own_merit(above, strict_above(databases, strict, amounts, energy))
