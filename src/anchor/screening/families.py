"""Families of formulas: all charge-neutral ones of a stoichiometry within limits, as whole arrays.

A family is a reduced stoichiometry n1 <= n2 <= … and a pool of elements. What can be said about its members
without energies is a tensor with one axis per place of the stoichiometry: neutral or not, within a user's
limits or not. So the eleven million neutral binaries and ternaries are listed in a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.bounds import MAX_ATOMS, MAX_ATOMS_PER_ELEMENT, primitive_stoichiometries
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.counting import neutral_assignments
from anchor.chemistry.elements import NUMBERS, VOCABULARY
from anchor.policy.actions import to_actions
from anchor.policy.constraints import Limits

Stoichiometry = tuple[int, ...]


@cache
def stoichiometries(k: int) -> tuple[Stoichiometry, ...]:
    """Reduced stoichiometries of k elements inside the action space, counts ascending."""
    return tuple(tuple(rho) for rho in primitive_stoichiometries(k).tolist() if rho == sorted(rho))


@cache
def electronegativities() -> NDArray[np.float64]:
    """Pauling's, of the vocabulary.  # [84]"""
    from pymatgen.core import Element

    return np.array([float(Element(symbol).X) for symbol in VOCABULARY])


@dataclass(frozen=True, eq=False)
class Pool:
    """Limits as arrays over the elements that may occur.

    Attributes:
        elements: Vocabulary indices, ascending.  # [e]
        required: Which of them every formula has.  # [e] bool
        lower, upper: Fewest and most atoms of each where it occurs.  # [e]
        min_atoms, max_atoms: Bounds of the cell.
    """

    elements: NDArray[np.int64]
    required: NDArray[np.bool_]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    min_atoms: int
    max_atoms: int

    @classmethod
    def of(cls, limits: Limits) -> Pool:
        elements = np.flatnonzero(limits.allowed.cpu().numpy())
        return cls(
            elements,
            limits.required.cpu().numpy()[elements],
            limits.lower.cpu().numpy()[elements],
            limits.upper.cpu().numpy()[elements],
            limits.min_atoms,
            limits.max_atoms,
        )

    def __len__(self) -> int:
        return len(self.elements)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Atomic numbers.  # [e]"""
        return NUMBERS[self.elements]

    def within(self, ratio: Stoichiometry, places: NDArray[np.int64]) -> tuple[Formulas, NDArray[np.int64]]:
        """Formulas of which some cell is within the limits, and their rows.

        Args:
            ratio: Atoms at each of k places.
            places: Which elements of the pool take them.  # [n, k]
        """
        units = np.zeros(len(places), dtype=np.int64)
        most = min(MAX_ATOMS // sum(ratio), MAX_ATOMS_PER_ELEMENT // max(ratio))
        for number in range(1, most + 1):
            if self.min_atoms <= number * sum(ratio) <= self.max_atoms:
                fits = units == 0
                for place, n in enumerate(ratio):
                    possible = (self.lower <= number * n) & (number * n <= self.upper)
                    if not possible.all():
                        fits &= possible[places[:, place]]
                units[fits] = number
                if units.all():
                    break
        complete = self.required[places].sum(axis=1) == self.required.sum()
        rows = np.flatnonzero((units > 0) & complete)
        return Formulas(ratio, self.elements[places[rows]], units[rows]), rows

    def neutral_formulas(
        self, ratio: Stoichiometry, places: NDArray[np.int64]
    ) -> tuple[Formulas, NDArray[np.int64]]:
        """Of those, the neutral ones of distinct elements, brought into the usual order; and their rows."""
        places = places.copy()
        for n in set(ratio):
            same = np.flatnonzero(np.array(ratio) == n)
            places[:, same] = np.sort(places[:, same], axis=1)
        ordered = np.sort(places, axis=1)
        distinct = np.flatnonzero((ordered[:, 1:] != ordered[:, :-1]).all(axis=1))
        formulas, rows = self.within(ratio, places[distinct])
        neutral = is_neutral(formulas.cells.reduced())
        return formulas[neutral], distinct[rows[neutral]]


@dataclass(frozen=True, eq=False)
class Formulas:
    """n formulas of one stoichiometry.

    Attributes:
        ratio: Counts of one formula unit, ascending.  # k
        elements: Vocabulary indices, place by place; ascending among places of equal count.  # [n, k]
        units: Formula units of the smallest cell within the limits.  # [n]
    """

    ratio: Stoichiometry
    elements: NDArray[np.int64]
    units: NDArray[np.int64]

    @classmethod
    def none(cls, ratio: Stoichiometry) -> Formulas:
        return cls(ratio, np.zeros((0, len(ratio)), dtype=np.int64), np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, rows: NDArray[np.generic] | slice) -> Formulas:
        return Formulas(self.ratio, self.elements[rows], self.units[rows])

    @property
    def cells(self) -> Compositions:
        """The smallest cell of each within the limits, elements as people write them: anions last."""
        n, k = self.elements.shape
        order = np.argsort(electronegativities()[self.elements], axis=1, kind="stable")
        numbers = NUMBERS[np.take_along_axis(self.elements, order, axis=1)]
        counts = self.units[:, None] * np.array(self.ratio)[order]
        return Compositions(np.full(n, k), numbers.ravel(), counts.ravel())


def list_family(ratio: Stoichiometry, pool: Pool) -> Formulas:
    """Formulas of a stoichiometry of which one formula unit is neutral and some cell is within limits."""
    e, k = len(pool), len(ratio)
    neutral = neutral_assignments(ratio, pool.numbers).reshape((e,) * k)
    places = np.stack(np.nonzero(neutral & _once(ratio, e)), axis=1)
    return pool.within(ratio, places)[0]


def by_family(compositions: Compositions) -> Iterator[tuple[NDArray[np.int64], Formulas]]:
    """Rows of each stoichiometry and their formulas; the cells' own numbers of formula units."""
    order = np.lexsort((compositions.counts, compositions.owner))
    elements, counts = to_actions(
        Compositions(compositions.sizes, compositions.numbers[order], compositions.counts[order])
    )
    units = np.gcd.reduce(counts, axis=1)
    ratios, owner = np.unique(counts // units[:, None], axis=0, return_inverse=True)
    for family, ratio in enumerate(ratios):
        rows = np.flatnonzero(owner.ravel() == family)
        k = int(np.count_nonzero(ratio))
        yield rows, Formulas(tuple(ratio[:k].tolist()), elements[rows, :k], units[rows])


def _once(ratio: Stoichiometry, e: int) -> NDArray[np.bool_]:
    """Distinct elements, ascending among places of equal count: each formula once.  # [e, …, e]"""
    k = len(ratio)
    index = np.indices((e,) * k, sparse=True)
    once = np.ones((), dtype=bool)
    for i in range(k):
        for j in range(i + 1, k):
            once = once & (index[i] < index[j] if ratio[i] == ratio[j] else index[i] != index[j])
    return once
