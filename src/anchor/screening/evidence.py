"""What is known of compositions without crystals: energies above both hulls, known crystals, charges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.hull.databases import dft_hull
from anchor.hull.hull import SAME_FRACTIONS, Hull
from anchor.hull.simplex import SystemHull
from anchor.priors.templates import TemplatePrior
from anchor.screening.nearness import nearness_of
from anchor.screening.surrogate import Surrogate


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of n compositions without crystals.

    Attributes:
        above: Surrogate energy above the DFT hull of each database, eV/atom, signed.  # [n, databases]
        spreads: Of the surrogate, eV/atom.  # [n, databases]
        nearest: Log-weight of the nearest template, 0 for a crystal of the very composition.  # [n]
        templates: Known crystals of the stoichiometry whose cell, or a supercell of it, fits.  # [n]
        everyday: Neutral with one common oxidation state per element.  # [n]
    """

    above: NDArray[np.float64]
    spreads: NDArray[np.float64]
    nearest: NDArray[np.float64]
    templates: NDArray[np.int64]
    everyday: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.above)

    @property
    def above_hull(self) -> NDArray[np.float64]:
        """The larger distance, which counts, eV/atom.  # [n]"""
        return self.above.max(axis=1)

    @property
    def spread(self) -> NDArray[np.float64]:
        """Of the database with the larger distance, eV/atom.  # [n]"""
        return np.take_along_axis(self.spreads, self.above.argmax(axis=1)[:, None], axis=1)[:, 0]

    @property
    def gap(self) -> NDArray[np.float64]:
        """By how much the databases differ, eV/atom.  # [n]"""
        return np.ptp(self.above, axis=1)


def dft_hulls() -> tuple[Hull, ...]:
    """DFT hulls in the order of the surrogate's outputs."""
    return dft_hull("oqmd"), dft_hull("mp")


def hull_energies(compositions: Compositions, hulls: Sequence[Hull]) -> NDArray[np.float64]:
    """Energy of every hull at each composition, eV/atom.  # [n, hulls]"""
    amounts = compositions.amounts
    return np.stack([hull.hull_energy(amounts) for hull in hulls], axis=1)


def hull_energies_of_others(compositions: Compositions, hulls: Sequence[Hull]) -> NDArray[np.float64]:
    """The same of the hulls without phases of the very composition, as if it were unknown.  # [n, hulls]"""
    found = np.zeros((len(compositions), len(hulls)))
    for i, row in enumerate(compositions.amounts):
        system = tuple(np.flatnonzero(row).tolist())
        target = row[list(system)] / row.sum()
        for j, hull in enumerate(hulls):
            fractions, energies, at = hull.index.gather(system)
            others = np.abs(fractions - target[:, None]).max(axis=0) > SAME_FRACTIONS
            rest = SystemHull(fractions[:, others], energies[others], at[others])
            found[i, j] = rest.energy(target[None])[0]
    return found


def gather_evidence(
    compositions: Compositions,
    surrogate: Surrogate,
    hull_energy: NDArray[np.float64],
    prior: TemplatePrior,
    *,
    any_units: bool = False,
) -> Evidence:
    """Evidence on compositions.

    Args:
        hull_energy: Of each database's hull at each composition, eV/atom.  # [n, databases]
        prior: Whose templates and similarity of elements count.
        any_units: Whether templates of any number of formula units count, or only those that fit the cell.
    """
    energy, spread = surrogate.predict(compositions)
    near = nearness_of(compositions, prior, any_units=any_units)
    return Evidence(energy - hull_energy, spread, near.nearest, near.templates, near.everyday)
