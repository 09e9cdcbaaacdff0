"""Holes: compositions stable in one database and absent in the other; and systems that both know badly.

A search lives in holes: where a competing phase is missing, its neighbours look stable.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import unpack_strings
from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.hull.databases import LABELS, Database, dft_hull
from anchor.hull.hull import Hull
from anchor.hull.phases import parse_amounts, system_key
from anchor.hull.simplex import SystemHull
from anchor.paths import BUNDLED
from anchor.reference.reference import load_reference

FILE = "hull-belief.json"
FEWEST_BINARY = 3
"""A binary edge with fewer distinct compounds in both databases together makes a system thin: OQMD computes
three (A3B, AB, AB3) for every pair of elements, so that with fewer nobody has looked."""
DEEP = 0.05
"""eV/atom: a hole deeper than this can make a candidate stable."""


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

    def __str__(self) -> str:
        return f"{self.formula} ({LABELS[self.stable_in]} only, {self.depth:.2f})"


def find_holes(elements: Collection[str] | None = None) -> list[Hole]:
    """Holes of both databases, deepest first.

    Args:
        elements: Only of systems made of these symbols; None: of all (half a minute).
    """
    found: list[Hole] = []
    pairs: tuple[tuple[Database, Database], ...] = (("oqmd", "mp"), ("mp", "oqmd"))
    for database, other in pairs:
        formulas, listed = _formulas(database), _listed(other)
        absent = [i for i, formula in enumerate(formulas) if formula not in listed]
        hull = dft_hull(database)
        for row, depth in depths_below_others(hull, absent, elements):
            numbers = [z for z in hull.index.phases.numbers[row].tolist() if z]
            symbols = tuple(SYMBOLS[z] for z in numbers)
            found.append(Hole(formulas[row], symbols, database, depth))
    return sorted(found, key=lambda hole: (-hole.depth, hole.formula))


@lru_cache(maxsize=2)
def _formulas(database: Database) -> list[str]:
    """Reduced formulas of a database: the first rows of its hull's phases."""
    reference = load_reference()
    return reference.hull_formulas if database == "oqmd" else unpack_strings(reference.mp_hull["formulas"])


@lru_cache(maxsize=2)
def _listed(database: Database) -> frozenset[str]:
    return frozenset(_formulas(database))


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


def count_holes(holes: Collection[Hole]) -> dict[str, dict[str, int]]:
    """Holes by the database that has the phase: all, those deeper than `DEEP`, and binaries of these."""

    def counts(found: list[Hole]) -> dict[str, int]:
        deep = [hole for hole in found if hole.depth > DEEP]
        binaries = [hole for hole in deep if len(hole.elements) == 2]
        return {
            "holes": len(found),
            f"deeper_than_{DEEP}": len(deep),
            f"binaries_deeper_than_{DEEP}": len(binaries),
        }

    return {name: counts([hole for hole in holes if hole.stable_in == name]) for name in LABELS}


@dataclass(frozen=True)
class SystemKnowledge:
    """How well the databases know a chemical system.

    Attributes:
        elements: Symbols, by atomic number.
        phases: Database → compounds in the system and its subsystems.
        entries: Distinct compounds with all of the elements in both databases together.
        poorest_edge: The pair of elements with the fewest distinct compounds, and how many.
    """

    elements: tuple[str, ...]
    phases: dict[str, int]
    entries: int
    poorest_edge: tuple[str, int]

    @property
    def thin(self) -> str:
        """Why neither database knows the system well, so that a find in it says little; '' where one does."""
        edge, n = self.poorest_edge
        if self.entries == 0 and len(self.elements) > 1:
            return f"no compound of {'-'.join(self.elements)} in either database"
        return f"{n} compounds of {edge} in both databases" if n < FEWEST_BINARY else ""

    @property
    def known(self) -> str:
        """Compounds in each database, for people."""
        return ", ".join(f"{LABELS[name]} {n}" for name, n in self.phases.items())

    def __str__(self) -> str:
        thin = f"; thin: {self.thin}" if self.thin else ""
        return f"{'-'.join(self.elements)}: compounds {self.known}{thin}"


class Knowledge:
    """Counts of compounds by chemical system in both databases, and deep holes as they ship."""

    def __init__(self) -> None:
        reference = load_reference()
        only_mp = np.array([formula not in _listed("oqmd") for formula in _formulas("mp")])
        numbers = reference.mp_hull["numbers"]
        self._counts = {"oqmd": _by_system(reference.hull_numbers), "mp": _by_system(numbers)}
        self._only_mp = _by_system(numbers[only_mp])
        self._deep: dict[int, list[Hole]] = {}
        for formula, database, depth in load_facts()["deep_holes"]:
            elements = sorted(parse_amounts(formula))
            hole = Hole(formula, tuple(SYMBOLS[z] for z in elements), database, depth)
            self._deep.setdefault(system_key(elements), []).append(hole)

    def of(self, elements: Iterable[str]) -> SystemKnowledge:
        """What is known about the system of these elements."""
        numbers = sorted({NUMBER[s] for s in elements})
        keys = [system_key(c) for size in range(2, len(numbers) + 1) for c in combinations(numbers, size)]

        def together(system: tuple[int, ...]) -> int:
            key = system_key(system)
            return self._counts["oqmd"].get(key, 0) + self._only_mp.get(key, 0)

        edges = {f"{SYMBOLS[a]}-{SYMBOLS[b]}": together((a, b)) for a, b in combinations(numbers, 2)} or {
            "": FEWEST_BINARY
        }
        return SystemKnowledge(
            tuple(SYMBOLS[z] for z in numbers),
            {name: sum(counts.get(key, 0) for key in keys) for name, counts in self._counts.items()},
            together(tuple(numbers)),
            min(edges.items(), key=lambda edge: edge[1]),
        )

    def deep_holes(self, elements: Iterable[str]) -> list[Hole]:
        """Holes of the system and its subsystems that are deeper than `DEEP`, deepest first."""
        numbers = sorted({NUMBER[s] for s in elements})
        keys = [system_key(c) for size in range(2, len(numbers) + 1) for c in combinations(numbers, size)]
        return sorted((hole for key in keys for hole in self._deep.get(key, ())), key=lambda h: -h.depth)


def in_words(holes: Iterable[Hole]) -> str:
    """Holes for people, comma-separated."""
    return ", ".join(str(hole) for hole in holes)


@cache
def load_facts() -> dict[str, Any]:
    """What `anchor.hull.belief.measure` found in the bundled lists: depths by kind, and holes."""
    return json.loads((BUNDLED / FILE).read_text())


def _by_system(numbers: NDArray[np.uint8]) -> dict[int, int]:
    """Key of a chemical system → rows of it.  # [m, K]"""
    texts = np.ascontiguousarray(numbers).view(f"S{numbers.shape[1]}")[:, 0]  # ends at the padding
    systems, counts = np.unique(texts, return_counts=True)
    return {system_key(row): n for row, n in zip(systems.tolist(), counts.tolist(), strict=True)}


@lru_cache(maxsize=1)
def load_knowledge() -> Knowledge:
    """One object per process."""
    return Knowledge()
