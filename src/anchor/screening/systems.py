"""How many compounds the databases know in a chemical system and its subsystems, for any number of systems.

In a well-studied system whatever is stable has been found, and what is left is worse than it looks.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import unpack_strings
from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.composition import Compositions
from anchor.reference.reference import Reference, load_reference

BASE = 128
"""Atomic numbers are digits of a system's key to this base, ascending."""


class KnownSystems:
    """Counts of known compounds by chemical system.

    Args:
        reference: Whose lists, OQMD's and the Materials Project's, are counted.
    """

    def __init__(self, reference: Reference) -> None:
        oqmd = frozenset(reference.hull_formulas)
        listed = unpack_strings(reference.mp_hull["formulas"])
        self._lists = {
            "oqmd": _count(reference.hull_numbers),
            "mp": _count(reference.mp_hull["numbers"]),
            "only_mp": _count(
                reference.mp_hull["numbers"][np.array([formula not in oqmd for formula in listed])]
            ),
        }

    def counts(self, compositions: Compositions) -> dict[str, NDArray[np.int64]]:
        """Known compounds around each composition.  # [n] each

        "own": with all of its elements, in either database; "mp": in the Materials Project, with all of them
        or some.
        """
        numbers = compositions.padded(MAX_ELEMENTS)[0]
        numbers = np.sort(np.where(numbers > 0, numbers, BASE), axis=1)
        numbers = np.where(numbers == BASE, 0, numbers)  # ascending, 0 after the last
        own = _keys(numbers)
        mp = np.zeros(len(numbers), dtype=np.int64)
        for size in range(2, MAX_ELEMENTS + 1):
            for places in combinations(range(MAX_ELEMENTS), size):
                part = numbers[:, places]
                rows = np.flatnonzero((part > 0).all(axis=1))
                mp[rows] += _look_up(self._lists["mp"], _keys(part[rows]))
        both = _look_up(self._lists["oqmd"], own) + _look_up(self._lists["only_mp"], own)
        return {"own": both, "mp": mp}


@cache
def load_systems() -> KnownSystems:
    """Of the bundled reference; one object per process."""
    return KnownSystems(load_reference())


Table = tuple[NDArray[np.int64], NDArray[np.int64]]


def _count(numbers: NDArray[np.uint8]) -> Table:
    """Keys of the systems of at most four elements, ascending, and rows of each.  # [m, K]"""
    few = numbers[np.count_nonzero(numbers, axis=1) <= MAX_ELEMENTS][:, :MAX_ELEMENTS]
    keys, counts = np.unique(_keys(few.astype(np.int64)), return_counts=True)
    return keys, counts


def _keys(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Key of each system.  # [n, k] ascending, 0 = padding at the end -> [n]"""
    keys = np.zeros(len(numbers), dtype=np.int64)
    for column in numbers.T:
        keys = np.where(column > 0, keys * BASE + column, keys)
    return keys


def _look_up(table: Table, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    places = np.minimum(np.searchsorted(table[0], keys), len(table[0]) - 1)
    return np.where(table[0][places] == keys, table[1][places], 0)
