"""Phases (compositions with energies) and their index by chemical system.

A quaternary system competes with the phases of its 15 subsystems. Phases are therefore sorted by system, and
a system is a Python integer with one bit per atomic number, so that gathering a quaternary is 15 dictionary
lookups and as many slices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry import formula as formula_text
from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.errors import InputError

N_NUMBERS = 119
"""Length of a composition vector: entry Z is the amount of the element with atomic number Z."""

_TOKEN = re.compile(r"([A-Z][a-z]?)(\d*\.?\d*)")
_FLAT_FORMULA = re.compile(r"(?:[A-Z][a-z]?\d*\.?\d*)+")


def parse_amounts(formula: str) -> dict[int, float]:
    """Atomic number → amount for a formula such as `LiFePO4`, `Ca3(PO4)2`, `Ta2Te1Zr1` or `Li0.5CoO2`."""
    amounts: dict[int, float] = {}
    if _FLAT_FORMULA.fullmatch(formula):  # hundreds of thousands of these are read at once
        for symbol, amount in _TOKEN.findall(formula):
            if symbol not in NUMBER:
                break
            z = NUMBER[symbol]
            amounts[z] = amounts.get(z, 0.0) + (float(amount) if amount else 1.0)
        else:
            return {z: n for z, n in amounts.items() if n > 0}
    return {NUMBER[symbol]: float(n) for symbol, n in formula_text.parse_amounts(formula).items()}


def composition_matrix(formulas: Iterable[str]) -> NDArray[np.float64]:
    """Amounts by atomic number.  # [n, 119]"""
    parsed = [parse_amounts(formula) for formula in formulas]
    matrix = np.zeros((len(parsed), N_NUMBERS))
    for row, amounts in zip(matrix, parsed, strict=True):
        row[list(amounts)] = list(amounts.values())
    return matrix


def formula_of(numbers: Sequence[int], fractions: Sequence[float]) -> str:
    """Reduced formula, as pymatgen writes it, of atomic fractions that come from small whole numbers."""
    shares = np.asarray(fractions, dtype=float) / np.sum(fractions)
    for total in range(1, 1000):
        counts = shares * total
        if np.abs(counts - np.rint(counts)).max() < 1e-6:
            break
    return formula_text.reduced_formula([SYMBOLS[z] for z in numbers], np.rint(counts).astype(int).tolist())


@dataclass(frozen=True, eq=False)
class Phases:
    """Compositions with energies per atom on one scale, in no particular order.

    Attributes:
        numbers: Atomic numbers, ascending, padded with 0 at the end.  # [m, K], int
        fractions: Atomic fractions in the same places, rows sum to 1.  # [m, K]
        energies: Energy or formation energy, eV/atom.  # [m]
        sources: Where each phase comes from (an id, a database); empty strings are fine.  # [m], str
    """

    numbers: NDArray[np.int64]
    fractions: NDArray[np.float64]
    energies: NDArray[np.float64]
    sources: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.energies)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Phases:
        """Some of them."""
        return Phases(self.numbers[rows], self.fractions[rows], self.energies[rows], self.sources[rows])

    @classmethod
    def from_amounts(
        cls,
        amounts: Sequence[Mapping[int, float]],
        energies: Sequence[float] | NDArray[np.float64],
        sources: Sequence[str] | str = "",
    ) -> Phases:
        """From {atomic number: amount} mappings; amounts need not be normalised."""
        energies = np.asarray(energies, dtype=np.float64)
        if len(amounts) != len(energies):
            raise InputError(f"{len(amounts)=} compositions but {len(energies)=} energies")
        if not np.isfinite(energies).all():
            raise InputError(f"energy of phase {int(np.argmax(~np.isfinite(energies)))} is not finite")
        width = max((len(a) for a in amounts), default=1)
        numbers = np.zeros((len(amounts), width), dtype=np.int64)
        fractions = np.zeros((len(amounts), width))
        for i, mapping in enumerate(amounts):
            ordered = sorted(mapping.items())
            numbers[i, : len(ordered)] = [z for z, _ in ordered]
            fractions[i, : len(ordered)] = [n for _, n in ordered]
        fractions /= fractions.sum(axis=1, keepdims=True)
        names = [sources] * len(amounts) if isinstance(sources, str) else list(sources)
        return cls(numbers, fractions, energies, np.asarray(names, dtype=np.str_))

    @classmethod
    def from_arrays(
        cls,
        numbers: NDArray,
        counts: NDArray,
        energies: NDArray[np.float64],
        sources: Sequence[str] | str = "",
    ) -> Phases:
        """From atomic numbers, ascending and padded with 0 at the end, and atoms of each.  # [m, K] both"""
        amounts = np.asarray(counts, dtype=np.float64)
        names = np.full(len(energies), sources) if isinstance(sources, str) else np.asarray(sources, np.str_)
        fractions = amounts / amounts.sum(axis=1, keepdims=True)
        return cls(np.asarray(numbers, np.int64), fractions, np.asarray(energies, np.float64), names)

    @classmethod
    def from_formulas(
        cls,
        formulas: Sequence[str],
        energies: Sequence[float] | NDArray[np.float64],
        sources: Sequence[str] | str = "",
    ) -> Phases:
        """From formulas and energies in eV/atom."""
        return cls.from_amounts([parse_amounts(f) for f in formulas], energies, sources)

    @classmethod
    def concatenate(cls, parts: Sequence[Phases]) -> Phases:
        """All phases of `parts`, in order."""
        width = max(p.numbers.shape[1] for p in parts)

        def wide(array: NDArray) -> NDArray:
            return np.pad(array, ((0, 0), (0, width - array.shape[1])))

        return cls(
            np.concatenate([wide(p.numbers) for p in parts]),
            np.concatenate([wide(p.fractions) for p in parts]),
            np.concatenate([p.energies for p in parts]),
            np.concatenate([p.sources for p in parts]),
        )

    def formula(self, row: int) -> str:
        """Reduced formula of one phase."""
        n = int(np.count_nonzero(self.numbers[row]))
        return formula_of(self.numbers[row, :n].tolist(), self.fractions[row, :n].tolist())


def system_key(numbers: Iterable[int]) -> int:
    """One integer for a set of elements: bit Z is set for atomic number Z."""
    key = 0
    for z in numbers:
        key |= 1 << z
    return key


@cache
def _subsets(k: int) -> tuple[tuple[int, ...], ...]:
    """All subsets of two or more of k positions."""
    return tuple(c for size in range(2, k + 1) for c in combinations(range(k), size))


class PhaseIndex:
    """Phases that can lie on a hull, sorted by chemical system.

    The lowest phase of each element is its reference; compounds that are not below the mixture of their
    elements can never be on a hull and are left out.
    """

    def __init__(self, phases: Phases) -> None:
        self.phases = phases
        sizes = np.count_nonzero(phases.numbers, axis=1)
        self.elements: dict[int, int] = {}
        """Atomic number → row of the lowest elemental phase."""
        for row in np.flatnonzero(sizes == 1).tolist():
            z = int(phases.numbers[row, 0])
            best = self.elements.get(z)
            if best is None or phases.energies[row] < phases.energies[best]:
                self.elements[z] = row
        level = np.full(N_NUMBERS, np.nan)
        level[0] = 0.0  # padding
        for z, row in self.elements.items():
            level[z] = phases.energies[row]
        formation = phases.energies - (phases.fractions * level[phases.numbers]).sum(axis=1)
        compounds = np.flatnonzero((sizes > 1) & (formation < 0))  # NaN (an element without reference) is not
        compounds = compounds[np.lexsort(phases.numbers[compounds].T[::-1])]
        # Elements first, then compounds by system; one run of memory per phase, because looking up a system
        # that was never asked for is mostly waiting for memory.
        self._rows = np.concatenate([[*self.elements.values()], compounds]).astype(np.int64)
        self._at_element = {z: i for i, z in enumerate(self.elements)}
        self._width = phases.numbers.shape[1]
        self._records = np.concatenate(
            [
                phases.fractions[self._rows],
                phases.numbers[self._rows],
                phases.energies[self._rows, None],
            ],
            axis=1,
        )  # [m, 2 K + 1]
        numbers = phases.numbers[compounds]
        changes = np.flatnonzero((numbers[1:] != numbers[:-1]).any(axis=1)) + 1
        bounds = [0, *changes.tolist(), len(compounds)] if len(compounds) else []
        shift = len(self.elements)
        self._spans = {
            system_key(z for z in numbers[a].tolist() if z): range(a + shift, b + shift)
            for a, b in pairwise(bounds)
        }

    def gather(
        self, system: tuple[int, ...]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Phases of a system (ascending atomic numbers) and of all its subsystems; the k elements come first.

        Returns:
            Atomic fractions [k, n], energies in eV/atom [n], and rows of `self.phases` [n].
        """
        k = len(system)
        spans = self._spans
        found = [self._at_element[z] for z in system]
        if 2**k <= 4 * len(spans):
            bits = [1 << z for z in system]
            for columns in _subsets(k):
                key = 0
                for c in columns:
                    key |= bits[c]
                if key in spans:
                    found += spans[key]
        else:  # more subsets than systems in the index: look through the index instead
            outside = ~system_key(system)
            for key, span in spans.items():
                if not key & outside:
                    found += span
        records = self._records.take(found, axis=0)
        line = np.full(N_NUMBERS, k)  # of an element; padding goes into one that is cut off
        for i, z in enumerate(system):
            line[z] = i
        lines = line[records[:, self._width : -1].astype(np.int64)]
        fractions = np.zeros((k + 1, len(found)))
        fractions[lines, np.arange(len(found))[:, None]] = records[:, : self._width]
        return fractions[:k], records[:, -1].copy(), self._rows.take(found)
