"""Which compounds could break a find: those whose energy might well be low enough.

A find x is on the hull as long as there are chemical potentials μ of the elements at which nothing beats it:
μ·x = E(x) and μ·p ≤ E(p) for every phase p. These μ fill a polytope, whose corners are the facets of the hull
that meet in x. A new compound c takes all of it away, and x off the hull, exactly if its energy is below

    E*(c) = min over the corners of μ·c,

one number per composition, without any linear programme. The free estimate of the energy of c says how likely
that is. So competitors are asked for by their chances of breaking this find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull
from scipy.stats import norm

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import SYMBOLS, VOCABULARY
from anchor.filling.wanted import LIKELY, MAX_ATOMS, Stoichiometry, chances, compositions_of
from anchor.hull.hull import Hull
from anchor.reference.reference import load_reference
from anchor.screening.surrogate import DATABASES, load_surrogate

SHARES = {2: 0.97, 3: 0.9, 4: 0.6}
"""Share of the stable reference crystals of so many elements whose stoichiometries are tried. Systems of more
elements are looked at in their subsystems only."""
UNLIKELY = 0.02
"""Chance of breaking the find below which a compound is not made."""
LISTED = 1e-6
"""Compositions that differ by less are one."""


@dataclass(frozen=True)
class Wanted:
    """A compound that may break a find.

    Attributes:
        formula: Reduced.
        chance: That its energy is low enough, by the free estimate.
    """

    formula: str
    chance: float


@cache
def known_stoichiometries(k: int, share: float) -> dict[Stoichiometry, float]:
    """Reduced stoichiometries of k elements, ascending, that this share of the stable crystals has, and how
    large the share of each is.

    Counted on the reference crystals at or below OQMD's hull, formulas once, the most frequent first.
    """
    reference = load_reference()
    compositions = reference.crystals.compositions.reduced()
    rows = np.flatnonzero(
        (reference.stability <= 0) & (compositions.k == k) & (compositions.n_atoms <= MAX_ATOMS)
    )
    _, first = np.unique(reference.formulas[rows], return_index=True)
    counts = np.sort(compositions[rows[first]].counts.reshape(-1, k), axis=1)
    counter: Counter[Stoichiometry] = Counter(map(tuple, counts.tolist()))
    chosen: dict[Stoichiometry, float] = {}
    for stoichiometry, n in sorted(counter.items(), key=lambda item: (-item[1], item[0])):
        if sum(chosen.values()) >= share:
            break
        chosen[stoichiometry] = n / counter.total()
    return chosen


def corners(
    hull: Hull, system: Sequence[int], target: NDArray[np.float64], energy: float
) -> NDArray[np.float64]:
    """Chemical potentials of the elements at the corners of the region where a compound is stable.

    Args:
        hull: Without the compound.
        system: Its elements, ascending.  # k
        target: Its atomic fractions.  # [k]
        energy: Its own, eV/atom, below the hull.

    Returns:
        One row per corner, eV/atom; none where the compound is not below the hull.  # [m, k]
    """
    fractions, energies, _ = hull.index.gather(tuple(system))
    own = np.abs(fractions - target[:, None]).max(axis=0) < LISTED
    points = np.vstack([np.hstack([fractions[:, ~own], target[:, None]])[1:], [*energies[~own], energy]]).T
    # A point far above closes the body, so that facets below are all that matter.
    facets = ConvexHull(np.vstack([points, [*np.full(len(system) - 1, 1 / len(system)), 10.0]]))
    mine = (facets.simplices == len(points) - 1).any(axis=1) & (facets.equations[:, -2] < -1e-9)
    *normal, upward, offset = facets.equations[mine].T
    at_first = -offset / upward  # the plane's energy at the first element, and from there to the others
    return np.stack([at_first, *(at_first - n / upward for n in normal)], axis=1)


def wanted(
    fractions: NDArray[np.float64], energies: dict[str, float], hulls: dict[str, Hull], most: int
) -> list[Wanted]:
    """Compounds that no database lists and that may break a find, the likeliest first.

    In order of the chance that their energy is low enough times the share of known compounds with their
    stoichiometry: estimates of compositions that nobody makes are interpolations, and too kind.

    Args:
        fractions: Of the find, by atomic number.  # [119]
        energies: What the hull of each database has to stay above at the find's composition, eV/atom.
        hulls: By database.
        most: At most so many.
    """
    system = np.flatnonzero(fractions).tolist()
    if len(system) < 2:
        return []  # an element has no decomposition
    target = fractions[system]
    asked = _compositions(system)
    amounts = asked.amounts[:, system]
    shares = amounts / amounts.sum(axis=1, keepdims=True)
    estimate, spread = load_surrogate().predict(asked)
    chance = np.zeros(len(asked))
    there = np.abs(shares - target).max(axis=1) < LISTED
    for name, hull in hulls.items():
        region = corners(hull, system, target, energies[name])
        if len(region):
            needed = (shares @ region.T).min(axis=1)
            column = DATABASES.index(name)
            chance = np.maximum(chance, norm.cdf((needed - estimate[:, column]) / spread[:, column]))
        listed = hull.index.gather(tuple(system))[0].T
        there |= (np.abs(shares[:, None] - listed).max(axis=2) < LISTED).any(axis=1)
    neutral, common = is_neutral(asked), np.array([_commonness(one.counts) for one in asked])
    found: list[Wanted] = []
    for i in np.argsort(-chance * common, kind="stable").tolist():
        if len(found) == most:
            break
        if chance[i] >= UNLIKELY and not there[i] and (neutral[i] or chances(asked[[i]])[0] >= LIKELY):
            found.append(Wanted(asked[[i]].formulas[0], float(chance[i])))
    return found


def estimated(numbers: Sequence[int]) -> bool:
    """Whether there is a free estimate for compounds of these elements."""
    return {SYMBOLS[z] for z in numbers} <= set(VOCABULARY)


def _commonness(counts: Sequence[int]) -> float:
    return known_stoichiometries(len(counts), SHARES[len(counts)])[tuple(sorted(counts))]


def _compositions(system: Sequence[int]) -> Compositions:
    """Every subsystem with its common stoichiometries."""
    parts = [
        compositions_of([[SYMBOLS[z] for z in part]], list(known_stoichiometries(k, share)))
        for k, share in SHARES.items()
        for part in combinations(system, k)
    ]
    return Compositions.concatenate(parts)
