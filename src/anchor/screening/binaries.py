"""An upper bound of the hull from binary compounds alone, for millions of formulas.

A formula competes at least with its binary compounds: A2BX4 with the lowest mixtures of A–X and of B–X, the
four X shared between them in the best way. Hull energies of all pairs of elements are one table, so the bound
of a ternary is a few look-ups; compounds of three elements can only lower the hull.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.bounds import MAX_ATOMS_PER_ELEMENT
from anchor.chemistry.elements import NUMBERS
from anchor.hull.hull import Hull
from anchor.hull.simplex import SystemHull
from anchor.screening.families import Formulas


class BinaryHulls:
    """Energies of binary hulls.

    Args:
        hull: Whose phases compete.
        elements: Vocabulary indices.  # [e]
    """

    def __init__(self, hull: Hull, elements: NDArray[np.int64]) -> None:
        most, size = MAX_ATOMS_PER_ELEMENT, int(elements.max()) + 1
        counts = np.indices((most + 1, most + 1)).reshape(2, -1)[:, 1:]  # [2, 168], not 0 of both
        fractions = (counts / counts.sum(axis=0)).T
        self.energies = np.zeros((size, size, most + 1, most + 1), dtype=np.float32)
        """Of n atoms of one element with m of another, eV.  # [element, element, n, m]"""
        for first, second in combinations(elements.tolist(), 2):
            pair = (int(NUMBERS[first]), int(NUMBERS[second]))
            if not hull.elements.issuperset(pair):
                continue
            energy = SystemHull(*hull.index.gather(pair)).energy(fractions) * counts.sum(axis=0)
            self.energies[first, second, counts[0], counts[1]] = energy
            self.energies[second, first, counts[1], counts[0]] = energy

    def bound(self, formulas: Formulas) -> NDArray[np.float32]:
        """Upper bound of the hull's energy, eV/atom; 0 beyond three elements.  # [n]"""
        ratio, elements = formulas.ratio, formulas.elements
        lowest = np.zeros(len(formulas), dtype=np.float32)
        if len(ratio) == 2:
            lowest = self.energies[elements[:, 0], elements[:, 1], ratio[0], ratio[1]]
        elif len(ratio) == 3:
            for shared in range(3):
                a, b = (place for place in range(3) if place != shared)
                for part in range(ratio[shared] + 1):
                    one = self.energies[elements[:, a], elements[:, shared], ratio[a], part]
                    other = self.energies[elements[:, b], elements[:, shared], ratio[b], ratio[shared] - part]
                    np.minimum(lowest, one + other, out=lowest)
        return lowest / np.float32(sum(ratio))
