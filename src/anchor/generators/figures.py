"""What can be said of generated crystals without relaxing them: usual figures of de novo generation."""

from __future__ import annotations

from typing import Any

import numpy as np
from ase.data import atomic_masses
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon
from scipy.stats import wasserstein_distance

from anchor.chemistry.composition import Compositions
from anchor.crystals.crystals import Crystals
from anchor.gates.paper import check_charges
from anchor.models.data import MAX_NUMBER, reference_split
from anchor.models.finished import usable_cells
from anchor.reference.reference import load_reference

GRAMS = 1.66053907
"""g/cm³ of one atomic mass unit per Å³."""


def figures(crystals: Crystals) -> dict[str, Any]:
    """Counts, and distances to the reference's test split.

    n                  crystals
    usable             with a cell
    charge_neutral     among all, by ICSD oxidation states
    unique             distinct reduced formulas
    known              of a formula that the bundled reference has
    elements_of_one    crystals of one element
    density, elements, atoms   Wasserstein-1 distances: g/cm³, distinct elements, atoms per cell
    composition        Jensen–Shannon distance (base 2, 0 to 1) of shares of elements among atoms
    """
    usable = usable_cells(crystals)
    compositions = Compositions.of_atoms(crystals.owner, crystals.numbers)
    known = set(load_reference().formulas.tolist())
    formulas = compositions.formulas
    return {
        "n": len(crystals),
        "usable": int(usable.sum()),
        "charge_neutral": int(check_charges(compositions).sum()),
        "unique": len(set(formulas)),
        "known": sum(formula in known for formula in formulas),
        "elements_of_one": int((compositions.sizes == 1).sum()),
        **distances(crystals[np.flatnonzero(usable)], reference_split("test")),
    }


def distances(crystals: Crystals, others: Crystals) -> dict[str, float | None]:
    """See `figures`; None where there is nothing to compare."""
    if not len(crystals):
        return dict.fromkeys(("density", "elements", "atoms", "composition"))
    return {
        "density": float(wasserstein_distance(densities(crystals), densities(others))),
        "elements": float(wasserstein_distance(_elements(crystals), _elements(others))),
        "atoms": float(wasserstein_distance(crystals.counts, others.counts)),
        "composition": float(jensenshannon(_shares(crystals), _shares(others), base=2)),
    }


def densities(crystals: Crystals) -> NDArray[np.float64]:
    """g/cm³  # [n]"""
    mass = np.zeros(len(crystals))
    np.add.at(mass, crystals.owner, atomic_masses[crystals.numbers])
    found: NDArray[np.float64] = GRAMS * mass / np.abs(np.linalg.det(crystals.lattice))
    return found


def _elements(crystals: Crystals) -> NDArray[np.int64]:
    """Distinct elements of each crystal.  # [n]"""
    return Compositions.of_atoms(crystals.owner, crystals.numbers).sizes


def _shares(crystals: Crystals) -> NDArray[np.int64]:
    return np.bincount(crystals.numbers, minlength=MAX_NUMBER + 1)
