"""What a crystal can be: limits beyond which a relaxation of one structure ends, and says why.

They look at one crystal at a time and never at the clock, so that one bad crystal costs the others nothing
and reruns agree.
"""

from __future__ import annotations

import numpy as np
from ase.data import chemical_symbols
from numpy.typing import NDArray
from torch_sim.models.interface import ModelInterface

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import minimum_image_distances
from anchor.crystals.lattices import LONGEST_EDGE

SMALLEST_VOLUME_PER_ATOM = 2.0
"""Å³; diamond has 5.7, hydrogen at 150 GPa about 2.5."""
LARGEST_EXPANSION = 8.0
"""Of the volume since the start: every edge doubled."""
LARGEST_FORCE = 1e4
"""eV/Å."""
SHORTEST_DISTANCE = 0.5
"""Å between two atoms at the end; H2 has 0.74. At the start, where a relaxation may still push atoms apart,
only a tenth of it is refused."""
ISOLATED_DISTANCE = 6.5
"""Å to the nearest atom, beyond which nothing holds an atom: no potential here sees further than 6 Å, so that
forces are zero and would pass for converged. Of all elements caesium's neighbours are furthest, at 5.3 Å."""
MOST_ATOMS = 4000
"""Per crystal: all pairs of sites are looked at, and potentials hold all edges of a cell at once."""
UNUSABLE_EVALUATIONS = 5
"""Evaluations in a row without finite energy and forces, each with a shorter step, until a crystal fails."""


def refuse(crystals: Crystals, potential: ModelInterface) -> list[str]:
    """Why each crystal cannot be started with, "" where it can.  # [n]"""
    reasons = [""] * len(crystals)
    bad_atoms = ~np.isfinite(crystals.frac).all(axis=1)
    bad = np.bincount(crystals.owner, weights=bad_atoms, minlength=len(crystals)) > 0
    usable = np.isfinite(crystals.lattice).all(axis=(1, 2)) & ~bad
    volume = np.where(usable, crystals.volume, 0.0) / crystals.counts
    longest = np.abs(np.nan_to_num(crystals.lattice)).max(axis=(1, 2), initial=0.0)
    sized = (longest <= LONGEST_EDGE) & (crystals.counts <= MOST_ATOMS)
    shortest, loneliest = np.zeros(len(crystals)), np.zeros(len(crystals))
    shortest[sized], loneliest[sized] = _extreme_distances(crystals[np.flatnonzero(sized)])
    covered = potential.supports(crystals) if hasattr(potential, "supports") else np.ones(len(crystals), bool)
    for i in range(len(crystals)):
        if not usable[i]:
            reasons[i] = "coordinates or cell are not finite"
        elif not covered[i]:
            unknown = sorted(set(crystals[i].numbers.tolist()) - potential.elements)
            symbols = ", ".join(chemical_symbols[z] if z < len(chemical_symbols) else str(z) for z in unknown)
            reasons[i] = f"{potential.name} does not cover {symbols}"
        elif longest[i] > LONGEST_EDGE:
            reasons[i] = f"endless cell: {longest[i]:.3g} Å long, over {LONGEST_EDGE:g} Å"
        elif not sized[i]:
            reasons[i] = f"{crystals.counts[i]} atoms: more than {MOST_ATOMS} do not fit into memory"
        elif volume[i] < SMALLEST_VOLUME_PER_ATOM:
            reasons[i] = f"collapsed cell: {volume[i]:.3g} Å³ per atom"
        elif shortest[i] < SHORTEST_DISTANCE / 10:
            reasons[i] = f"two atoms at one place: {shortest[i]:.3g} Å apart"
        elif loneliest[i] > ISOLATED_DISTANCE:
            reasons[i] = f"isolated atom: nearest neighbour at {loneliest[i]:.1f} Å"
    return reasons


def disown(crystals: Crystals) -> list[str]:
    """Why each relaxed crystal is none, "" where all is well.  # [n]"""
    reasons = [""] * len(crystals)
    for i, (shortest, loneliest) in enumerate(zip(*_extreme_distances(crystals), strict=True)):
        if shortest < SHORTEST_DISTANCE:
            reasons[i] = f"collapsed: two atoms {shortest:.2f} Å apart"
        elif loneliest > ISOLATED_DISTANCE:
            reasons[i] = f"isolated atom: nearest neighbour at {loneliest:.1f} Å"
    return reasons


def escaped(*, volume: float, first_volume: float, count: int, max_force: float) -> str:
    """Why a crystal on its way cannot go on, "" while it can.

    Args:
        volume: Of the cell now, Å³.
        first_volume: At the start, Å³.
        count: Atoms.
        max_force: Largest generalised force, eV/Å.
    """
    if volume / count < SMALLEST_VOLUME_PER_ATOM:
        return f"collapsing cell: {volume / count:.2f} Å³ per atom"
    if volume > LARGEST_EXPANSION * first_volume:
        return f"exploding cell: {volume / first_volume:.1f} times its first volume"
    if max_force > LARGEST_FORCE:
        return f"forces too large: {max_force:.3g} eV/Å"
    return ""


def _extreme_distances(crystals: Crystals) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shortest distance of each crystal, and the longest from an atom to its nearest, Å.  # [n], [n]"""
    contacts = minimum_image_distances(crystals, self_images=True)
    nearest = np.full(crystals.n_atoms, np.inf)
    np.minimum.at(nearest, contacts.first, contacts.distance)
    np.minimum.at(nearest, contacts.second, contacts.distance)
    shortest, loneliest = np.full(len(crystals), np.inf), np.zeros(len(crystals))
    np.minimum.at(shortest, crystals.owner, nearest)
    np.maximum.at(loneliest, crystals.owner, nearest)
    return shortest, loneliest
