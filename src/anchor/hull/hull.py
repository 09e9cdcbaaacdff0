"""Energy above the convex hull of any number of candidates, signed, cached per chemical system."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.errors import AnchorError, InputError
from anchor.hull.phases import N_NUMBERS, PhaseIndex, Phases, composition_matrix
from anchor.hull.simplex import SystemHull

SCORED = "scored"
SAME_FRACTIONS = 1e-6
"""Compositions that differ by less are one."""


@dataclass(frozen=True)
class HullIdentity:
    """What a hull is: values from hulls of different identity must not be mixed.

    Attributes:
        reference_hash: Of the reference phases.
        checkpoint_hash: Of the potential whose energies may be compared with it; empty for plain DFT numbers.
        correction: How energies got on one scale ("oqmd-calibration", "mp2020", "none").
        version: Of the code that makes hulls: it goes up whenever numbers may change.
    """

    reference_hash: str
    checkpoint_hash: str = ""
    correction: str = "none"
    version: int = 1

    @property
    def hash(self) -> str:
        """SHA-256 of the four."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def require(self, checkpoint_hash: str) -> None:
        """Raise unless energies of the potential with these weights belong on this hull."""
        if checkpoint_hash != self.checkpoint_hash:
            raise AnchorError(
                f"this hull was built for weights {self.checkpoint_hash[:12] or '(none)'}…, "
                f"the energies come from {checkpoint_hash[:12] or '(none)'}…",
                "potentials are on different scales: load the hull of the potential in use",
            )


@dataclass(frozen=True)
class Decomposition:
    """What a composition falls apart into on the hull.

    Attributes:
        formulas: Reduced formulas of the competing phases.
        amounts: Atomic fractions of each, summing to 1.
        energies: Of each phase, eV/atom.
        sources: Where each phase comes from.
        energy: Of the hull at this composition, eV/atom.
    """

    formulas: tuple[str, ...]
    amounts: tuple[float, ...]
    energies: tuple[float, ...]
    sources: tuple[str, ...]
    energy: float

    def __str__(self) -> str:
        return " + ".join(f"{amount:.3g} {f}" for f, amount in zip(self.formulas, self.amounts, strict=True))


class Hull:
    """The lower convex hull of a set of phases. Candidates are never part of it.

    Args:
        phases: Phases with energies on one scale, in eV/atom. Several of one composition are fine: the lowest
            counts. An element is covered when at least one elemental phase of it is there.
        identity: What the phases are.
        hypothetical: Rows of compounds that nobody knows (`anchor.hull.filling`). They compete with every
            composition but their own: a candidate of that composition may be the very same, and is never part
            of the hull.
    """

    def __init__(self, phases: Phases, identity: HullIdentity, hypothetical: Iterable[int] = ()) -> None:
        self.identity = identity
        self.index = PhaseIndex(phases)
        self.elements = frozenset(self.index.elements)
        self._systems: dict[tuple[int, ...], SystemHull] = {}
        self._hypothetical: dict[tuple[int, ...], list[int]] = {}
        self._others: dict[tuple[int, ...], SystemHull] = {}
        for row in hypothetical:
            system = tuple(z for z in phases.numbers[row].tolist() if z)
            self._hypothetical.setdefault(system, []).append(int(row))

    def with_phases(self, phases: Phases) -> Hull:
        """The hull with more phases on it; what is hypothetical stays so."""
        hypothetical = [row for rows in self._hypothetical.values() for row in rows]
        return Hull(Phases.concatenate([self.index.phases, phases]), self.identity, hypothetical)

    def within(self, system: Sequence[int]) -> Hull:
        """The hull of some elements alone (ascending atomic numbers); what is hypothetical stays so."""
        return self._only(self.index.gather(tuple(system))[2])

    def without(self, compositions: NDArray[np.float64] | Sequence[str]) -> Hull:
        """The hull without the phases of these compositions; what is hypothetical stays so."""
        amounts = _as_matrix(compositions)
        phases, kept = self.index.phases, np.ones(len(self.index.phases), dtype=bool)
        for fractions in amounts / amounts.sum(axis=1, keepdims=True):
            theirs = np.where(phases.numbers > 0, fractions[phases.numbers], 0.0)
            same = np.abs(theirs - phases.fractions).max(axis=1) < SAME_FRACTIONS
            kept &= ~(same & (np.abs(theirs.sum(axis=1) - 1) < SAME_FRACTIONS))
        return self._only(np.flatnonzero(kept))

    def _only(self, rows: NDArray[np.int64]) -> Hull:
        hypothetical = {row for found in self._hypothetical.values() for row in found}
        there = [i for i, row in enumerate(rows.tolist()) if row in hypothetical]
        return Hull(self.index.phases[rows], self.identity, there)

    def hull_energy(
        self, compositions: NDArray[np.float64] | Sequence[str], *, remember: bool = True
    ) -> NDArray[np.float64]:
        """Energy of the hull at each composition, eV/atom; NaN where an element has no reference.

        Args:
            compositions: Amounts by atomic number, need not be normalised [n, 119], or formulas.
            remember: Whether chemical systems are kept for later questions; a million would fill the memory.
        """
        amounts = _as_matrix(compositions)
        found = np.full(len(amounts), np.nan)
        fractions = amounts / amounts.sum(axis=1, keepdims=True)
        rows, numbers = np.nonzero(amounts)
        values = fractions[rows, numbers]
        ends = np.cumsum(np.bincount(rows, minlength=len(amounts))).tolist()
        flat = numbers.tolist()
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, (a, b) in enumerate(pairwise([0, *ends])):
            groups.setdefault(tuple(flat[a:b]), []).append(i)
        for system, members in groups.items():
            if self.elements.issuperset(system):
                k = len(system)
                first = ends[members[0]]
                targets = (
                    values[first - k : first][None] if len(members) == 1 else fractions[members][:, system]
                )
                if system in self._hypothetical:
                    found[members] = [self._competing(system, t).energy(t[None])[0] for t in targets]
                else:
                    found[members] = self._system(system, remember=remember).energy(targets)
        return found

    def energy_above_hull(
        self, compositions: NDArray[np.float64] | Sequence[str], energies: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Signed distance to the hull, eV/atom: negative below it, NaN where an element has no reference.

        Args:
            compositions: Amounts by atomic number [n, 119], or formulas.
            energies: On the scale of the phases, eV/atom.  # [n]
        """
        energies = np.asarray(energies, dtype=np.float64)
        above = self.hull_energy(compositions)
        if energies.shape != above.shape:
            raise InputError(f"{len(above)} compositions but energies of shape {energies.shape}")
        return energies - above

    def decomposition(self, composition: NDArray[np.float64] | str) -> Decomposition | None:
        """Competing phases at one composition; None where an element has no reference."""
        row = _as_matrix([composition] if isinstance(composition, str) else composition[None])[0]
        system = tuple(np.flatnonzero(row).tolist())
        if not self.elements.issuperset(system):
            return None
        target = row[list(system)] / row.sum()
        mixture = sorted(self._competing(system, target).mixture(target), key=lambda pair: -pair[1])
        phases = self.index.phases
        return Decomposition(
            formulas=tuple(phases.formula(i) for i, _ in mixture),
            amounts=tuple(amount for _, amount in mixture),
            energies=tuple(float(phases.energies[i]) for i, _ in mixture),
            sources=tuple(str(phases.sources[i]) for i, _ in mixture),
            energy=float(sum(phases.energies[i] * amount for i, amount in mixture)),
        )

    def status(self, compositions: NDArray[np.float64] | Sequence[str]) -> list[str]:
        """ "scored", or why not, for each composition."""
        covered = np.zeros(N_NUMBERS, dtype=bool)
        covered[sorted(self.elements)] = True
        missing = (_as_matrix(compositions) > 0) & ~covered
        return [
            f"not scored: no reference for {', '.join(SYMBOLS[z] for z in np.flatnonzero(row))}"
            if row.any()
            else SCORED
            for row in missing
        ]

    def _competing(self, system: tuple[int, ...], target: NDArray[np.float64]) -> SystemHull:
        """The hull of a system without the hypothetical phases of this very composition.  # target [k]"""
        fractions = self.index.phases.fractions
        same = tuple(
            row
            for row in self._hypothetical.get(system, ())
            if np.abs(fractions[row, : len(target)] - target).max() < SAME_FRACTIONS
        )
        if not same:
            return self._system(system)
        if same not in self._others:
            columns, energies, rows = self.index.gather(system)
            others = ~np.isin(rows, same)
            self._others[same] = SystemHull(columns[:, others], energies[others], rows[others])
        return self._others[same]

    def _system(self, system: tuple[int, ...], *, remember: bool = True) -> SystemHull:
        found = self._systems.get(system)
        if found is None:
            found = SystemHull(*self.index.gather(system))
            if remember:
                self._systems[system] = found
        return found


def _as_matrix(compositions: NDArray[np.float64] | Sequence[str]) -> NDArray[np.float64]:
    if not isinstance(compositions, np.ndarray):
        return composition_matrix(compositions)
    amounts = np.asarray(compositions, dtype=np.float64)
    if amounts.ndim != 2 or amounts.shape[1] != N_NUMBERS:
        raise InputError(f"compositions must have shape [n, {N_NUMBERS}], not {amounts.shape}")
    if not (np.isfinite(amounts).all() and (amounts >= 0).all() and (amounts.sum(axis=1) > 0).all()):
        raise InputError("compositions must be finite, not negative, and hold at least one atom")
    return amounts
