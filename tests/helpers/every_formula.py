"""Charge-neutral formulas of a few elements, listed without any of the package's short cuts."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from anchor.chemistry.bounds import primitive_stoichiometries
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBER

FEW = ("Li", "Fe", "Mn", "O", "S", "Cl")


def by_hand(elements: tuple[str, ...], ks: tuple[int, ...]) -> Compositions:
    """Every neutral formula unit, one set of elements and one stoichiometry after the other."""
    parts = []
    for k in ks:
        counts = primitive_stoichiometries(k)
        for chosen in combinations(elements, k):
            numbers = np.tile([NUMBER[e] for e in chosen], (len(counts), 1))
            parts.append(Compositions.from_padded(numbers, counts))
    every = Compositions.concatenate(parts)
    return every[is_neutral(every)]
