"""Bounds of the action space (paper, app:elem_vocab_action_space), and the stoichiometries inside them."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition
from anchor.chemistry.elements import INDEX

K: tuple[int, ...] = (2, 3, 4)
"""Numbers of distinct elements."""

MAX_ELEMENTS = max(K)
"""Most distinct elements."""

MAX_ATOMS = 20
"""N, most atoms in a cell."""

MAX_ATOMS_PER_ELEMENT = 12


@cache
def stoichiometries(k: int) -> NDArray[np.int64]:
    """Every rho of k elements: counts of 1 to 12 with a sum of at most 20, read-only.  # [n, k]"""
    table = np.array(
        [rho for rho in product(range(1, MAX_ATOMS_PER_ELEMENT + 1), repeat=k) if sum(rho) <= MAX_ATOMS]
    )
    table.setflags(write=False)
    return table


@cache
def primitive_stoichiometries(k: int) -> NDArray[np.int64]:
    """Those of one formula unit: counts without a common divisor, read-only.  # [n, k]"""
    table = stoichiometries(k)
    table = table[np.gcd.reduce(table, axis=1) == 1]
    table.setflags(write=False)
    return table


def why_outside(composition: Composition) -> str | None:
    """Why a composition is no action of the policy, or None when it is one."""
    foreign = [symbol for symbol in composition.elements if symbol not in INDEX]
    if foreign:
        return f"{', '.join(foreign)} is not in the vocabulary of 84 elements"
    if composition.k not in K:
        return f"{composition.k} distinct element{'s' if composition.k > 1 else ''}, not 2 to 4"
    if composition.n_atoms > MAX_ATOMS:
        return f"{composition.n_atoms} atoms in the cell, more than {MAX_ATOMS}"
    most = max(composition.counts)
    if most > MAX_ATOMS_PER_ELEMENT:
        symbol = composition.elements[composition.counts.index(most)]
        return f"{most} atoms of {symbol}, more than {MAX_ATOMS_PER_ELEMENT}"
    return None
