"""Formation energies that cannot be right, kept out of the hull.

One wrong low energy bends the hull of every chemical system that contains its elements, so a search would
avoid whole regions for nothing. Too high energies do no harm: a hull ignores them. An entry is quarantined
when it is lower than `LOWEST_FORMATION_ENERGY` (the lowest real compound, EuF2, has -4.57 eV/atom), or when
all three hold:

1. it is hypothetical: its energy is not that of a crystal in OQMD-ICSD;
2. it lies more than `MAX_DEPTH` below the hull of all other entries of its system and subsystems;
3. nothing supports it. The Materials Project does when its formation energy of the same formula is as low,
   within `AGREEMENT`; an analogue does when exchanging one element for a chemical neighbour gives an entry
   within `AGREEMENT`. (AcP lies 1.2 eV/atom below its hull because nothing else was calculated for Ac-P; LaP
   agrees with it. Taking AcP out would open a hole that an optimiser finds.)

Every depth is exact but few need a linear programme. The hull of the others is at most the energy of any way
to decompose: into elements (0), or into as much as possible of one other entry and elements. An entry that is
not deeper than `MAX_DEPTH` below such a bound is settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from pymatgen.core import Element
from scipy.optimize import linprog

from anchor.errors import AnchorError
from anchor.reference.raw import RawEnergies

LOWEST_FORMATION_ENERGY = -5.0  # eV/atom
MAX_DEPTH = 0.2  # eV/atom
AGREEMENT = 0.25  # eV/atom

_RARE_EARTHS = (21, 39, *range(57, 72), 89)
_ACTINOIDS = tuple(range(89, 104))


@dataclass(frozen=True)
class Suspect:
    """An entry far below the hull of all others.

    Attributes:
        entry: Its index.
        depth: How far below, eV/atom (infinite when the formation energy alone is impossible).
        quarantined: False when the Materials Project or an analogue supports it.
    """

    entry: int
    depth: float
    quarantined: bool


def find_suspects(
    energies: RawEnergies, hypothetical: NDArray[np.bool_], elsewhere: NDArray[np.float64]
) -> list[Suspect]:
    """Entries to quarantine, and deep ones that something supports, deepest first.

    A wrong entry can hide another one in the same system: systems are looked at again until nothing changes.

    Args:
        energies: m compositions and formation energies.
        hypothetical: Which energies do not belong to a crystal that was made.  # [m]
        elsewhere: Formation energy of the same formula in another database, NaN where unknown.  # [m]
    """
    impossible = energies.formation_energy < LOWEST_FORMATION_ENERGY
    suspects = [Suspect(int(i), np.inf, True) for i in np.flatnonzero(impossible)]
    systems = _Systems(energies, excluded=impossible)
    pending = np.flatnonzero(hypothetical & ~impossible & (energies.formation_energy < -MAX_DEPTH))
    found: dict[int, Suspect] = {}
    while len(pending):
        fresh = []
        for i in pending.tolist():
            depth = systems.depth_below_others(i)
            if depth > MAX_DEPTH:
                agrees = elsewhere[i] <= energies.formation_energy[i] + AGREEMENT
                found[i] = Suspect(i, depth, not (agrees or systems.has_analogue(i)))
                if found[i].quarantined:
                    fresh.append(i)
        systems.exclude(fresh)
        touched = [systems.elements[i] for i in fresh]
        pending = np.array(
            [
                i
                for i in pending.tolist()
                if i not in fresh
                and any(t < systems.elements[i] or t == systems.elements[i] for t in touched)
            ],
            dtype=np.int64,
        )
    suspects += found.values()
    return sorted(suspects, key=lambda s: (-s.depth, s.entry))


class _Systems:
    """Entries by chemical system, for hulls that leave one entry out."""

    def __init__(self, energies: RawEnergies, *, excluded: NDArray[np.bool_]) -> None:
        self.energy = energies.formation_energy
        totals = energies.counts.sum(axis=1)
        self.fractions: list[dict[int, float]] = [
            {z: n / total for z, n in zip(numbers, counts, strict=True) if n}
            for numbers, counts, total in zip(
                energies.numbers.tolist(), energies.counts.tolist(), totals.tolist(), strict=True
            )
        ]
        self.elements = [frozenset(f) for f in self.fractions]
        self.members: dict[frozenset[int], list[int]] = {}
        self.by_amounts: dict[tuple[tuple[int, int], ...], int] = {}
        self.amounts = [
            tuple((z, n) for z, n in zip(numbers, counts, strict=True) if n)
            for numbers, counts in zip(energies.numbers.tolist(), energies.counts.tolist(), strict=True)
        ]
        for i, elements in enumerate(self.elements):
            if not excluded[i]:
                self.by_amounts[self.amounts[i]] = i
                if self.energy[i] < 0:  # above the elements' plane nothing can be part of a hull
                    self.members.setdefault(elements, []).append(i)

    def exclude(self, entries: Sequence[int]) -> None:
        for i in entries:
            self.members[self.elements[i]].remove(i)
            del self.by_amounts[self.amounts[i]]

    def others(self, i: int) -> list[int]:
        """Entries other than i in its system and all subsystems."""
        elements = sorted(self.elements[i])
        return [
            j
            for size in range(2, len(elements) + 1)
            for system in combinations(elements, size)
            for j in self.members.get(frozenset(system), ())
            if j != i
        ]

    def depth_below_others(self, i: int) -> float:
        """How far entry i lies below the hull of the others, eV/atom; a bound if <= MAX_DEPTH."""
        x, others = self.fractions[i], self.others(i)
        depth = -self.energy[i]
        for j in others:
            share = min(x[z] / fraction for z, fraction in self.fractions[j].items())
            depth = min(depth, share * self.energy[j] - self.energy[i])
            if depth <= MAX_DEPTH:
                return float(depth)
        if not others:
            return float(depth)
        elements = sorted(x)
        matrix = [
            [self.fractions[j].get(z, 0.0) for j in others] + [float(z == e) for e in elements]
            for z in elements
        ]
        cost = [*self.energy[others], *np.zeros(len(elements))]
        result = linprog(cost, A_eq=matrix, b_eq=[x[z] for z in elements], method="highs")
        if not result.success:
            raise AnchorError(f"the hull of {sorted(elements)} was not found: {result.message}")
        return float(result.fun - self.energy[i])

    def has_analogue(self, i: int) -> bool:
        """Whether exchanging one element for a chemical neighbour gives an entry of similar energy."""
        for position, (z, n) in enumerate(self.amounts[i]):
            rest = self.amounts[i][:position] + self.amounts[i][position + 1 :]
            for neighbour in chemical_neighbours(z):
                j = self.by_amounts.get(tuple(sorted([*rest, (neighbour, n)])))
                if j is not None and abs(self.energy[j] - self.energy[i]) <= AGREEMENT:
                    return True
        return False


def chemical_neighbours(z: int) -> list[int]:
    """Elements next above and below in the group; all other rare earths or actinoids for one of them."""
    if z in _RARE_EARTHS or z in _ACTINOIDS:
        families = [family for family in (_RARE_EARTHS, _ACTINOIDS) if z in family]
        return sorted({other for family in families for other in family if other != z})
    element = Element.from_Z(z)
    return [
        other.Z
        for other in Element
        if other.group == element.group
        and abs(other.row - element.row) == 1
        and other.Z not in (*_RARE_EARTHS, *_ACTINOIDS)
        and other.Z <= 103
    ]
