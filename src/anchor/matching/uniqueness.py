"""Which structures of a set are the first of their kind: compared within a reduced formula only.

A matcher of structures never accepts two different reduced formulas, so comparing within a formula gives what
comparing all pairs gives, at a cost that grows with the number of structures per formula instead of with the
square of their number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.core import Structure

from anchor.crystals.crystals import Crystals


def first_matches(keys: Sequence[Hashable | None], same: Callable[[int, int], bool]) -> list[int | None]:
    """For each item, the first of its kind: an earlier item, or itself; None where the key is None.

    Items are taken in order. Each is compared with the earlier firsts of its own key, oldest first; as
    matching is not transitive, duplicates of duplicates are not compared (pymatgen's `group_structures` does
    the same).

    Args:
        keys: Items with different keys are never the same: reduced formulas, for instance.
        same: Whether items i and j are the same; called with i < j.
    """
    firsts: dict[Hashable, list[int]] = {}
    found: list[int | None] = []
    for j, key in enumerate(keys):
        if key is None:
            found.append(None)
            continue
        known = firsts.setdefault(key, [])
        match = next((i for i in known if same(i, j)), j)
        if match == j:
            known.append(j)
        found.append(match)
    return found


def first_structures(
    crystals: Sequence[Crystals | None], *, matcher: StructureMatcher | None = None
) -> list[int | None]:
    """`first_matches` of crystals (each a batch of one) under an ordered structure matcher.

    Each crystal is reduced once, and only if another one has its formula.

    Args:
        crystals: In sampling order; None has no structure and gets None.
        matcher: pymatgen's with its default tolerances (0.2, 0.3, 5°) if None.
    """
    matcher = matcher or StructureMatcher()
    keys = [None if crystal is None else crystal.formulas[0] for crystal in crystals]
    reduced: dict[int, Structure] = {}

    def structure(i: int) -> Structure:
        if i not in reduced:
            crystal = crystals[i]
            assert crystal is not None
            niggli = crystal.to_structures()[0].get_reduced_structure(reduction_algo="niggli")
            reduced[i] = niggli.get_primitive_structure()
        return reduced[i]

    def same(i: int, j: int) -> bool:
        return bool(matcher.fit(structure(i), structure(j), skip_structure_reduction=True))

    return first_matches(keys, same)


def is_first(matches: Sequence[int | None]) -> list[bool]:
    """Whether each item is the first of its kind."""
    return [match == i for i, match in enumerate(matches)]
