"""What is known of compositions without crystals: energies above both hulls, known crystals, charges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray
from pymatgen.core import Element

from anchor.chemistry.composition import Composition, Compositions
from anchor.hull.databases import dft_hull
from anchor.hull.hull import SAME_FRACTIONS, Hull
from anchor.hull.simplex import SystemHull
from anchor.priors.templates import TemplatePrior
from anchor.screening.surrogate import Surrogate

FARTHEST = -25.0
"""Log-weight of the nearest template where there is none."""
ANY_UNITS = 2520
"""Formula units of a cell that holds any template: divisible by 1 to 10."""


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
    """Evidence on compositions, one by one where templates and charges are concerned (3,000 per second).

    Args:
        hull_energy: Of each database's hull at each composition, eV/atom.  # [n, databases]
        prior: Whose templates and similarity of elements count.
        any_units: Whether templates of any number of formula units count, or only those that fit the cell.
    """
    energy, spread = surrogate.predict(compositions)
    nearest, templates = nearest_templates(compositions, prior, any_units=any_units)
    return Evidence(energy - hull_energy, spread, nearest, templates, everyday_charges(compositions))


def nearest_templates(
    compositions: Compositions, prior: TemplatePrior, *, any_units: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """`nearest_template` of each.  # [n], [n]"""
    nearest = np.full(len(compositions), FARTHEST)
    templates = np.zeros(len(compositions), dtype=np.int64)
    times = ANY_UNITS if any_units else 1
    for i, (a, b) in enumerate(pairwise(compositions.offsets.tolist())):
        nearest[i], templates[i] = nearest_template(
            compositions.numbers[a:b], compositions.counts[a:b] * times, prior
        )
    return nearest, templates


def everyday_charges(compositions: Compositions) -> NDArray[np.bool_]:
    """`has_everyday_charges` of each.  # [n]"""
    return np.array([has_everyday_charges(c) for c in compositions], dtype=bool)


def has_everyday_charges(composition: Composition) -> bool:
    """Whether one common oxidation state per element gives zero, anions being more electronegative."""
    states, affinity = zip(*(_common_states(symbol) for symbol in composition.elements), strict=True)
    for charges in product(*states):
        if sum(q * n for q, n in zip(charges, composition.counts, strict=True)) == 0:
            cations = [x for x, q in zip(affinity, charges, strict=True) if q > 0]
            anions = [x for x, q in zip(affinity, charges, strict=True) if q < 0]
            if max(cations) <= min(anions):
                return True
    return False


@cache
def _common_states(symbol: str) -> tuple[tuple[int, ...], float]:
    """Common oxidation states other than 0, and Pauling's electronegativity."""
    element = Element(symbol)
    # pymatgen calls every state of carbon common, which would let it balance anything
    states = (-4, 4) if symbol == "C" else element.common_oxidation_states
    return tuple(q for q in states if q), float(element.X)


def nearest_template(
    numbers: NDArray[np.int64], counts: NDArray[np.int64], prior: TemplatePrior
) -> tuple[float, int]:
    """Log-weight of the nearest template that fits the cell, and how many fit.

    Args:
        numbers: Atomic numbers.  # [k]
        counts: Atoms in the cell.  # [k]
    """
    order = np.argsort(counts, kind="stable")
    units = int(np.gcd.reduce(counts))
    ratio = tuple((counts[order] // units).tolist())
    shelf = prior.shelves.get(ratio)
    if shelf is None:
        return FARTHEST, 0
    fits = np.flatnonzero(units % shelf.units == 0)
    if not len(fits):
        return FARTHEST, 0
    weights = prior.fitted.similarity.log_weights(numbers[order], shelf.roles[fits], ratio)
    return float((weights + shelf.bonus[fits]).max()), len(fits)
