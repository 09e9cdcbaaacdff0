"""Which structures are the same: within a set and in a reference, with matchers that may hang.

As `anchor.matching.uniqueness`, in processes that can be killed. A pair on which the matcher hangs or fails
counts as different, and what happened is reported; all other pairs are compared as if nothing had been.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pymatgen.core import Structure

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.executors import Executor
from anchor.formats import load
from anchor.matching.uniqueness import first_matches
from anchor.reference.reference import load_reference


class Matcher(Protocol):
    """pymatgen's `StructureMatcher`, `DisorderedMatcher`, or anything alike that can be pickled."""

    def fit(self, struct1: Structure, struct2: Structure, /) -> bool: ...


def first_of_kind(
    crystals: Crystals, matcher: Matcher, pool: Executor
) -> tuple[NDArray[np.int64], dict[int, str]]:
    """For each crystal the first of its kind, and by crystal what went wrong.  # [n]

    The later one of two crystals is the matcher's first argument, as in MatterGen.
    """
    groups: dict[str, list[int]] = {}
    for i, formula in enumerate(crystals.formulas):
        groups.setdefault(formula, []).append(i)
    first = np.arange(len(crystals))
    faults: dict[int, str] = {}
    several = [members for members in groups.values() if len(members) > 1]
    outcomes = pool.map(_first_in_group, [(matcher, crystals[members]) for members in several])
    for members, outcome in zip(several, outcomes, strict=True):
        found = outcome.value
        if found is None:  # somewhere the matcher hangs or fails: ask for single pairs
            found = _first_pair_by_pair(crystals[members], members, matcher, pool, faults)
        first[members] = np.array(members)[found]
    return first, faults


@dataclass
class KnownStructures:
    """Reference structures by reduced formula.

    Attributes:
        crystals: All of them.
        ids: One each.
        formulas: Reduced, one each.
        label: What the reference is, for people.
    """

    crystals: Crystals
    ids: Sequence[str]
    formulas: Sequence[str]
    label: str
    _rows: dict[str, list[int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._rows = {}
        for i, formula in enumerate(self.formulas):
            self._rows.setdefault(str(formula), []).append(i)

    @classmethod
    def bundled(cls) -> KnownStructures:
        """The crystals that come with the package."""
        reference = load_reference()
        label = f"{len(reference.crystals)} OQMD crystals ({reference.hash[:12]})"
        return cls(reference.crystals, reference.ids.tolist(), reference.formulas.tolist(), label)

    @classmethod
    def from_file(cls, path: Path, name: str) -> KnownStructures:
        """All ordered structures of a file, such as MatterGen's Alex-MP reference."""
        found = load(path, on_error="skip")
        label = f"{len(found.crystals)} structures of {name}"
        return cls(found.crystals, found.ids, found.crystals.formulas, label)

    def __len__(self) -> int:
        return len(self.crystals)

    def rows(self, formula: str) -> list[int]:
        """Which structures have this reduced formula."""
        return self._rows.get(formula, [])

    @cached_property
    def systems(self) -> frozenset[str]:
        """Chemical systems with at least one structure."""
        return frozenset(chemical_systems(self.crystals[[rows[0] for rows in self._rows.values()]]))


def matches_in(
    crystals: Crystals, known: KnownStructures, matcher: Matcher, pool: Executor
) -> tuple[list[list[str]], dict[int, str]]:
    """Ids of the reference structures that each crystal matches, and by crystal what went wrong.  # n"""
    found: list[list[str]] = [[] for _ in range(len(crystals))]
    faults: dict[int, str] = {}
    asked = [(i, rows) for i, formula in enumerate(crystals.formulas) if (rows := known.rows(formula))]
    tasks = [(matcher, crystals[i], known.crystals[rows]) for i, rows in asked]
    for (i, rows), outcome in zip(asked, pool.map(_matching, tasks), strict=True):
        positions = outcome.value
        if positions is None and len(rows) == 1:
            positions, faults[i] = [], outcome.fault
        elif positions is None:
            single = pool.map(_matching, [(matcher, crystals[i], known.crystals[row]) for row in rows])
            positions = [position for position, one in enumerate(single) if one.value]
            faults[i] = next((one.fault for one in single if one.fault), outcome.fault)
        found[i] = [str(known.ids[rows[position]]) for position in positions]
    return found, faults


def chemical_systems(crystals: Crystals) -> list[str]:
    """Chemical system of each crystal, as 'Fe-Li-O'.  # [n]"""
    spans = pairwise(crystals.offsets.tolist())
    return ["-".join(sorted({SYMBOLS[z] for z in crystals.numbers[a:b]})) for a, b in spans]


def _first_in_group(task: tuple[Matcher, Crystals]) -> list[int]:
    """First of its kind, of each structure of one formula."""
    matcher, crystals = task
    structures = crystals.to_structures()
    return first_matches([0] * len(crystals), lambda i, j: matcher.fit(structures[j], structures[i]))


def _first_pair_by_pair(
    group: Crystals, members: Sequence[int], matcher: Matcher, pool: Executor, faults: dict[int, str]
) -> list[int]:
    """As `_first_in_group`, one pair at a time; why a pair had no answer is noted under its later member."""

    def same(i: int, j: int) -> bool:
        (outcome,) = pool.map(_matching, [(matcher, group[j], group[i])])
        if outcome.fault:
            faults[members[j]] = outcome.fault
        return bool(outcome.value)

    return first_matches([0] * len(group), same)


def _matching(task: tuple[Matcher, Crystals, Crystals]) -> list[int]:
    """Positions of the known structures that the candidate matches."""
    matcher, candidate, known = task
    (structure,) = candidate.to_structures()
    return [j for j, other in enumerate(known.to_structures()) if matcher.fit(structure, other)]
