"""Binary novelty and Chemeleon2's creativity (paper: app:explore_ablation), by structure matching."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import amd
import numpy as np
from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.core import Structure

AMD_NEIGHBOURS = 100
"""k of the average minimum distance, as Chemeleon2 uses it."""


def amd_distance(first: Structure, second: Structure) -> float:
    """Chebyshev distance of average-minimum-distance vectors, Å: 0 for equal crystals, whatever the cell."""
    one, other = (
        amd.AMD(amd.periodicset_from_pymatgen_structure(s), AMD_NEIGHBOURS) for s in (first, second)
    )
    return float(np.abs(one - other).max())


class StructureFlags:
    """Novel and unique flags of a structure against references and earlier siblings of the same formula.

    Args:
        references: Known structures of a reduced formula, [] for an unknown one.
    """

    def __init__(self, references: Callable[[str], Sequence[Structure]]) -> None:
        self._references = references
        self._matcher = StructureMatcher(ltol=0.2, stol=0.3, angle_tol=5)

    def novel(self, formula: str, structure: Structure) -> bool:
        """No reference of the same reduced formula matches."""
        return not any(self._matcher.fit(structure, known) for known in self._references(formula))

    def unique(self, structure: Structure, earlier: Sequence[Structure]) -> bool:
        """First of its kind in the group: no earlier sibling of the same formula matches."""
        return not any(self._matcher.fit(structure, sibling) for sibling in earlier)

    def binary(self, formula: str, structure: Structure, earlier: Sequence[Structure]) -> float:
        """The flag v of the ablation: 1 when novel and unique, else 0."""
        return float(self.novel(formula, structure) and self.unique(structure, earlier))

    def creativity(self, formula: str, structure: Structure, earlier: Sequence[Structure]) -> float:
        """Chemeleon2's reward: 1 if novel and unique, 0 if neither, else the smallest positive AMD distance.

        The distance is to structures of the same formula in reference and group. Chemeleon2 does not bound
        it; here it is clipped to 1 so that it stays an objective in [0, 1].
        """
        novel, unique = self.novel(formula, structure), self.unique(structure, earlier)
        if novel and unique:
            return 1.0
        if not novel and not unique:
            return 0.0
        distances = [amd_distance(structure, other) for other in [*self._references(formula), *earlier]]
        return float(np.clip(min((d for d in distances if d > 0), default=0.0), 0.0, 1.0))
