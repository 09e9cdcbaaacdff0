"""Which structures of a set are the first of their kind: compared within a reduced formula only.

A matcher of structures never accepts two different reduced formulas, so comparing within a formula gives what
comparing all pairs gives, at a cost that grows with the number of structures per formula instead of with the
square of their number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.core import Structure

from anchor.crystals.crystals import Crystals


def first_matches(keys: Sequence[Hashable], same: Callable[[int, int], bool]) -> list[int]:
    """For each item, the first of its kind: an earlier item, or itself.

    Items are taken in order. Each is compared with the earlier firsts of its own key, oldest first; as
    matching is not transitive, duplicates of duplicates are not compared (pymatgen's `group_structures` does
    the same).

    Args:
        keys: Items with different keys are never the same: reduced formulas, for instance.
        same: Whether items i and j are the same; called with i < j.
    """
    firsts: dict[Hashable, list[int]] = {}
    found: list[int] = []
    for j, key in enumerate(keys):
        known = firsts.setdefault(key, [])
        match = next((i for i in known if same(i, j)), j)
        if match == j:
            known.append(j)
        found.append(match)
    return found


def first_structures(crystals: Crystals, *, matcher: StructureMatcher | None = None) -> NDArray[np.int64]:
    """`first_matches` of crystals under an ordered structure matcher.  # [n]

    Each crystal is reduced once, and only if another one has its formula.

    Args:
        crystals: In sampling order.
        matcher: pymatgen's with its default tolerances (0.2, 0.3, 5°) if None.
    """
    matcher = matcher or StructureMatcher()
    reduced: dict[int, Structure] = {}

    def structure(i: int) -> Structure:
        if i not in reduced:
            niggli = crystals[i].to_structures()[0].get_reduced_structure(reduction_algo="niggli")
            reduced[i] = niggli.get_primitive_structure()
        return reduced[i]

    def same(i: int, j: int) -> bool:
        return bool(matcher.fit(structure(i), structure(j), skip_structure_reduction=True))

    return np.array(first_matches(crystals.formulas, same), dtype=np.int64)
