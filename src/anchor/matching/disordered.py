"""MatterGen's structure matcher: two orderings of one alloy are the same structure.

    DisorderedMatcher().fit(first, second)

Rules (MatterGen's `DefaultDisorderedStructureMatcher`): equal reduced formulas; then an ordinary match, asked
only where the space groups agree; else the first structure's interchangeable elements are smeared over their
sites and what comes out is compared with the second, supercells and subsets of sites allowed. Two elements
are interchangeable when their radii differ by at most 30 % of the mean and their electronegativities by at
most 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from pymatgen.analysis.structure_matcher import OrderDisorderElementComparator, StructureMatcher
from pymatgen.core import Composition, Element, Structure
from pymatgen.symmetry.analyzer import SpacegroupAnalyzer, SymmetryUndeterminedError
from scipy.sparse.csgraph import connected_components

LARGEST_RADIUS_DIFFERENCE = 0.3
"""Of the mean of two atomic radii."""
LARGEST_ELECTRONEGATIVITY_DIFFERENCE = 1.0
"""Pauling."""
SYMPREC = 0.1
"""Å, the loose tolerance with which space groups are compared."""
UNKNOWN_GROUP = -1


@dataclass(frozen=True)
class DisorderedMatcher:
    """Compares ordered structures as MatterGen does.

    Attributes:
        ltol: Tolerance of lengths, fraction.
        stol: Tolerance of sites, in units of (V/n)^(1/3).
        angle_tol: Degrees.
        same_space_group: Ask the ordinary matcher only where both space groups agree (MatterGen); False asks
            always.
    """

    ltol: float = 0.2
    stol: float = 0.3
    angle_tol: float = 5.0
    same_space_group: bool = True

    @cached_property
    def _ordered(self) -> StructureMatcher:
        return StructureMatcher(ltol=self.ltol, stol=self.stol, angle_tol=self.angle_tol)

    @cached_property
    def _smeared(self) -> StructureMatcher:
        return StructureMatcher(
            ltol=self.ltol,
            stol=self.stol,
            angle_tol=self.angle_tol,
            attempt_supercell=True,
            allow_subset=True,
            comparator=OrderDisorderElementComparator(),
        )

    def fit(self, first: Structure, second: Structure) -> bool:
        """Whether the structures are the same. Only the first is ever smeared, so the order may matter."""
        if first == second:
            return True
        if first.composition.reduced_formula != second.composition.reduced_formula:
            return False
        comparable = not self.same_space_group or space_group(first) == space_group(second)
        if comparable and self._ordered.fit(first, second):
            return True
        groups = interchangeable_groups([element.symbol for element in first.composition.elements])
        return bool(groups) and bool(self._smeared.fit(smeared(first, groups), second))


def space_group(structure: Structure) -> int:
    """International number at the loose tolerance, −1 where there is none."""
    try:
        return int(SpacegroupAnalyzer(structure, symprec=SYMPREC).get_space_group_number())
    except (SymmetryUndeterminedError, TypeError, ValueError):
        return UNKNOWN_GROUP


def interchangeable(one: str, other: str) -> bool:
    """MatterGen's modified Hume-Rothery rule; False where a radius or electronegativity is unknown."""
    a, b = Element(one), Element(other)
    if a.atomic_radius is None or b.atomic_radius is None:
        return False
    radii = float(a.atomic_radius), float(b.atomic_radius)
    similar = abs(radii[0] - radii[1]) <= LARGEST_RADIUS_DIFFERENCE * sum(radii) / 2
    return similar and abs(a.X - b.X) <= LARGEST_ELECTRONEGATIVITY_DIFFERENCE  # NaN: no


def interchangeable_groups(symbols: list[str]) -> list[list[str]]:
    """Groups of at least two elements linked by interchangeable pairs, sorted."""
    symbols = sorted(symbols)
    linked = np.zeros((len(symbols), len(symbols)), dtype=bool)
    for i, j in combinations(range(len(symbols)), 2):
        linked[i, j] = interchangeable(symbols[i], symbols[j])
    n_groups, group = connected_components(linked, directed=False)
    members = [[s for s, g in zip(symbols, group, strict=True) if g == which] for which in range(n_groups)]
    return [some for some in members if len(some) > 1]


def smeared(structure: Structure, groups: list[list[str]]) -> Structure:
    """The structure with each group's elements spread over all of the group's sites, in their proportions."""
    amounts = structure.composition.get_el_amt_dict()
    mixture = {}
    for group in groups:
        total = sum(amounts[symbol] for symbol in group)
        mixture.update(dict.fromkeys(group, Composition({s: amounts[s] / total for s in group})))
    species = [mixture.get(site.specie.symbol, Composition(site.specie.symbol)) for site in structure]
    return Structure(structure.lattice, species, structure.frac_coords)
