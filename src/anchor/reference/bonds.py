"""The shortest-bond table of the validity gate (eq:bond-thresh), and a floor from radii for unseen pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ase.data import chemical_symbols, covalent_radii
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.crystals.distances import Contacts, minimum_image_distances

MAX_Z = 118
RADIUS_RATIO = 0.6  # of the sum of covalent radii; the shortest contacts of the reference start at 0.65
LEAST_FLOOR = 0.7  # Å, below every bond there is


@dataclass(frozen=True)
class BondTable:
    """Shortest separation of every pair of elements in a set of crystals, periodic images included.

    Attributes:
        minimum: d_min of eq:bond-thresh, Å, symmetric, NaN where the pair was never seen.  # [119, 119]
        crystals: In how many crystals the pair occurs.  # [119, 119]
        shortest_in: Index of the crystal that holds the shortest, -1 where never seen.  # [119, 119]
    """

    minimum: NDArray[np.float64]
    crystals: NDArray[np.int64]
    shortest_in: NDArray[np.int64]

    @classmethod
    def from_crystals(cls, crystals: Crystals) -> BondTable:
        """Every pair of sites and every site with its own nearest image counts."""
        contacts = minimum_image_distances(crystals, self_images=True)
        ends = np.stack([crystals.numbers[contacts.first], crystals.numbers[contacts.second]])
        low, high = ends.min(axis=0), ends.max(axis=0)
        key = low * (MAX_Z + 1) + high
        order = np.lexsort((contacts.crystal, contacts.distance, key))
        keys, start = np.unique(key[order], return_index=True)
        best = order[start]
        held = np.unique(np.stack([key, contacts.crystal]), axis=1)[0]
        size = (MAX_Z + 1, MAX_Z + 1)
        minimum, shortest_in = np.full(size, np.nan), np.full(size, -1, dtype=np.int64)
        number = np.zeros(size, dtype=np.int64)
        a, b = np.divmod(keys, MAX_Z + 1)
        for i, j in ((a, b), (b, a)):
            minimum[i, j] = contacts.distance[best]
            shortest_in[i, j] = contacts.crystal[best]
            number[i, j] = np.unique(held, return_counts=True)[1]
        return cls(minimum, number, shortest_in)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which pairs the table holds.  # [119, 119]"""
        return ~np.isnan(self.minimum)

    def __len__(self) -> int:
        """Number of distinct pairs, a-b and b-a being one."""
        return int(np.triu(self.seen).sum())

    def most_suspicious(self, n: int = 10) -> list[tuple[str, str, float, float, int]]:
        """Pairs that are shortest against their covalent radii: symbols, Å, ratio, index of the crystal."""
        ratio = np.where(np.triu(self.seen), self.minimum / _radius_sums(), np.inf)
        order = np.argsort(ratio, axis=None, kind="stable")[:n]
        return [
            (
                chemical_symbols[a],
                chemical_symbols[b],
                float(self.minimum[a, b]),
                float(ratio[a, b]),
                int(self.shortest_in[a, b]),
            )
            for a, b in zip(*np.unravel_index(order, ratio.shape), strict=True)
        ]


def radius_floor(ratio: float = RADIUS_RATIO) -> NDArray[np.float64]:
    """A floor for pairs never seen that knows the size of atoms: ratio × (r_a + r_b), Å, at least 0.7.

    The paper's constant 1.2 Å admits two caesium atoms at a quarter of their distance. Covalent radii are
    those of Cordero et al. (2008), from ASE, which gives 2 Å to elements beyond curium.  # [119, 119]
    """
    return np.maximum(ratio * _radius_sums(), LEAST_FLOOR)


def passes_by_floor_only(
    crystals: Crystals,
    table: BondTable,
    *,
    floor: float = 1.2,
    ratio: float = RADIUS_RATIO,
    contacts: Contacts | None = None,
) -> NDArray[np.bool_]:
    """Crystals that hold a contact which only the constant floor admits.

    That is a pair never seen in the table, at least `floor` apart (so eq:bond-thresh lets it pass), but
    closer than the floor from radii.  # [n]
    """
    contacts = minimum_image_distances(crystals, self_images=True) if contacts is None else contacts
    a, b = crystals.numbers[contacts.first], crystals.numbers[contacts.second]
    doubtful = (
        ~table.seen[a, b] & (contacts.distance >= floor) & (contacts.distance < radius_floor(ratio)[a, b])
    )
    return np.bincount(contacts.crystal[doubtful], minlength=len(crystals)) > 0


def _radius_sums() -> NDArray[np.float64]:
    return covalent_radii[:, None] + covalent_radii[None, :]
