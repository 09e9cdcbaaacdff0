"""Finds that compete: energies above the hull of all known phases and of what a search itself has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from anchor.hull.alex_mp import AlexMPHull
from anchor.hull.filling import SOURCE as FILLED
from anchor.hull.hull import Hull
from anchor.hull.phases import composition_matrix
from anchor.hull.references import DECIMALS, PotentialHull
from anchor.hull.simplex import SystemHull

Above = Mapping[str, float | None]
"""Energy above each hull by its name, eV/atom; None or absent where not scored."""


def counting_hulls(hull: PotentialHull | AlexMPHull) -> dict[str, Hull]:
    """The hulls whose largest distance counts, by the name of their energies."""
    if isinstance(hull, AlexMPHull):
        return {"alex-mp": hull.hull}
    names = list(hull.databases) if hull.kind == "union" else [hull.kind]
    return {name: hull.hulls[name] for name in names}


def above_with_all(
    hull: PotentialHull | AlexMPHull,
    formulas: Sequence[str],
    above: Sequence[Above],
    others: Sequence[str],
    others_above: Sequence[Above],
) -> list[float | None]:
    """`above_with_others` on the hulls that count, the largest of them, of compounds and others by formula.

    Args:
        hull: Of the known phases.
        formulas: Reduced.  # n
        above: Their energies above each hull by its name, eV/atom.  # n
        others: Formulas of the competitors; may hold the same.  # m
        others_above: Their energies.  # m

    Returns:
        eV/atom, signed; None where not scored.  # n
    """
    mine, theirs = composition_matrix(formulas), composition_matrix(others)

    def energies(found: Sequence[Above], name: str) -> NDArray[np.float64]:
        return np.array([np.nan if (value := one.get(name)) is None else value for one in found])

    found = np.fmax.reduce(
        [
            above_with_others(known, mine, energies(above, name), theirs, energies(others_above, name))
            for name, known in counting_hulls(hull).items()
        ]
    )
    return [None if np.isnan(value) else float(value) for value in found]


def above_with_others(
    hull: Hull,
    amounts: NDArray[np.float64],
    above: NDArray[np.float64],
    others: NDArray[np.float64],
    others_above: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Energy above the hull on which the others lie as well, eV/atom, signed; NaN where not scored.  # [n]

    Nothing competes with itself: others of the same composition are left out. Others at or above the hull
    are not part of any hull and cost nothing.

    Args:
        hull: Of the known phases.
        amounts: Compositions by atomic number.  # [n, 119]
        above: Their energies above `hull`.  # [n]
        others: Compositions of the competitors; may hold those of `amounts`.  # [m, 119]
        others_above: Their energies above `hull`.  # [m]
    """
    below = others_above < 0  # NaN is not
    others = others[below] / others[below].sum(axis=1, keepdims=True)
    energy = others_above[below] + hull.hull_energy(others)
    found = np.array(above, dtype=np.float64)
    for i, row in enumerate(amounts / amounts.sum(axis=1, keepdims=True)):
        system = tuple(np.flatnonzero(row).tolist())
        inside = ~(others[:, row == 0] > 0).any(axis=1) & (np.abs(others - row).max(axis=1, initial=0) > 1e-9)
        if not inside.any() or not np.isfinite(found[i]):
            continue
        fractions, energies, rows = hull.index.gather(system)
        same = np.abs(fractions - row[list(system)][:, None]).max(axis=0) < 1e-9
        kept = ~(same & (hull.index.phases.sources[rows] == FILLED))
        fractions, energies, rows = fractions[:, kept], energies[kept], rows[kept]
        known = SystemHull(fractions, energies, rows)
        joined = SystemHull(
            np.hstack([fractions, others[inside][:, list(system)].T]),
            np.concatenate([energies, energy[inside]]),
            np.concatenate([rows, np.full(inside.sum(), -1)]),
        )
        target = row[None, list(system)]
        lowered = float(known.energy(target)[0] - joined.energy(target)[0])
        found[i] = round(found[i] + max(lowered, 0.0), DECIMALS)
    return found
