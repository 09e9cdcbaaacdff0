"""Holes: compositions stable in one database and absent in the other; and systems that both know badly.

A search lives in holes: where a competing phase is missing, its neighbours look stable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from anchor.arrays import unpack_strings
from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.hull.databases import LABELS, Database, dft_hull
from anchor.hull.hull import Hull
from anchor.hull.phases import system_key
from anchor.hull.simplex import SystemHull
from anchor.reference.reference import load_reference

FEWEST_BINARY = 2
"""A binary edge with fewer phases, counted in both databases together, makes a system thin."""


@dataclass(frozen=True)
class Hole:
    """A composition on the hull of one database that the other does not list.

    Attributes:
        formula: Reduced.
        elements: Symbols, by atomic number.
        stable_in: The database that has it; the other one has not.
        depth: How far it lies below that database's hull without it, eV/atom.
    """

    formula: str
    elements: tuple[str, ...]
    stable_in: Database
    depth: float

    @property
    def system(self) -> str:
        """Chemical system, as 'K-Y-Se'."""
        return "-".join(self.elements)


def find_holes(elements: Collection[str] | None = None) -> list[Hole]:
    """Holes of both databases, deepest first.

    Args:
        elements: Only of systems made of these symbols; None: of all (half a minute).
    """
    reference = load_reference()
    formulas = {"oqmd": reference.hull_formulas, "mp": unpack_strings(reference.mp_hull["formulas"])}
    found: list[Hole] = []
    pairs: tuple[tuple[Database, Database], ...] = (("oqmd", "mp"), ("mp", "oqmd"))
    for database, other in pairs:
        listed = set(formulas[other])
        absent = [i for i, formula in enumerate(formulas[database]) if formula not in listed]
        hull = dft_hull(database)
        for row, depth in depths_below_others(hull, absent, elements):
            numbers = [z for z in hull.index.phases.numbers[row].tolist() if z]
            symbols = tuple(SYMBOLS[z] for z in numbers)
            found.append(Hole(formulas[database][row], symbols, database, depth))
    return sorted(found, key=lambda hole: (-hole.depth, hole.formula))


def depths_below_others(
    hull: Hull, rows: Iterable[int], elements: Collection[str] | None = None
) -> list[tuple[int, float]]:
    """The compounds among `rows` that lie on the hull, and how far below the hull of all others, eV/atom."""
    phases = hull.index.phases
    inside = None if elements is None else {NUMBER[s] for s in elements}
    systems: dict[tuple[int, ...], list[int]] = {}
    for row in rows:
        system = tuple(z for z in phases.numbers[row].tolist() if z)
        if phases.energies[row] < 0 and (inside is None or inside.issuperset(system)):
            systems.setdefault(system, []).append(row)
    found = []
    for system, members in systems.items():
        fractions, energies, at = hull.index.gather(system)
        k = len(system)
        for row in members:
            others = at != row
            rest = SystemHull(fractions[:, others], energies[others], at[others])
            depth = float(rest.energy(phases.fractions[row : row + 1, :k])[0] - phases.energies[row])
            if depth > 0:
                found.append((row, depth))
    return found


@dataclass(frozen=True)
class SystemKnowledge:
    """How well the databases know a chemical system.

    Attributes:
        elements: Symbols, by atomic number.
        phases: Database → compounds in the system and its subsystems.
        entries: Compounds with all of the elements, in both databases together.
        poorest_edge: The pair of elements with the fewest compounds, and how many in both databases together.
    """

    elements: tuple[str, ...]
    phases: dict[str, int]
    entries: int
    poorest_edge: tuple[str, int]

    @property
    def thin(self) -> bool:
        """Neither database knows the system well: a find in it says little."""
        return self.entries == 0 or self.poorest_edge[1] < FEWEST_BINARY

    def __str__(self) -> str:
        known = ", ".join(f"{LABELS[name]} {n}" for name, n in self.phases.items())
        edge, n = self.poorest_edge
        thin = f"; thin: {self.entries} with all elements, {n} in {edge}" if self.thin else ""
        return f"{'-'.join(self.elements)}: compounds {known}{thin}"


class Knowledge:
    """Counts of compounds by chemical system in both databases."""

    def __init__(self) -> None:
        reference = load_reference()
        self._counts: dict[str, dict[int, int]] = {"oqmd": {}, "mp": {}}
        for name, table in (("oqmd", reference.hull_numbers), ("mp", reference.mp_hull["numbers"])):
            rows, counts = np.unique(table, axis=0, return_counts=True)
            for row, n in zip(rows.tolist(), counts.tolist(), strict=True):
                self._counts[name][system_key(z for z in row if z)] = n

    def of(self, elements: Iterable[str]) -> SystemKnowledge:
        """What is known about the system of two or more elements."""
        numbers = sorted({NUMBER[s] for s in elements})
        subsystems = [c for size in range(2, len(numbers) + 1) for c in combinations(numbers, size)]

        def together(system: tuple[int, ...]) -> int:
            return sum(counts.get(system_key(system), 0) for counts in self._counts.values())

        edge = min(combinations(numbers, 2), key=together)
        return SystemKnowledge(
            tuple(SYMBOLS[z] for z in numbers),
            {
                name: sum(counts.get(system_key(s), 0) for s in subsystems)
                for name, counts in self._counts.items()
            },
            together(tuple(numbers)),
            ("-".join(SYMBOLS[z] for z in edge), together(edge)),
        )
