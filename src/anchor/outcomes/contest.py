"""Several crystals of a composition, of which one is worth relaxing: the lowest, after rounds of a few steps.

In each round the crystals that are left are relaxed for a few steps from where they are, and the lowest stay.
What has become the same crystal goes on once. Whoever wins is relaxed to the end from where the rounds left
it, so that steps are not made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchor.crystals.crystals import Crystals
from anchor.relax.result import Relaxation

SINGLE_POINTS: tuple[tuple[int, int], ...] = ((0, 1),)
"""The crystal of lowest energy as it is."""
SAME_ENERGY, SAME_VOLUME = 1e-4, 1e-3
"""eV/atom, and share of the volume per atom: crystals of a composition that agree in both are the same."""


@dataclass(frozen=True, eq=False)
class Contest:
    """Who won, one crystal for each of m owners.

    Attributes:
        index: Which of the candidates, owners ascending.  # [m], int64
        crystals: The winners where the rounds left them.  # m
        evaluations: Of the potential, for all candidates of each owner.  # [m], int64
    """

    index: NDArray[np.int64]
    crystals: Crystals
    evaluations: NDArray[np.int64]


def hold(
    crystals: Crystals,
    owner: NDArray[np.int64],
    rounds: Sequence[tuple[int, int]],
    usable: NDArray[np.bool_],
    relax: Callable[[Crystals, int], Relaxation],
) -> Contest:
    """Choose one crystal per owner; where no candidate gets an energy, the first.

    Args:
        crystals: n candidates.
        owner: Whom each belongs to.  # [n]
        rounds: Steps of each round, and how many stay after it; the last one leaves one.
        usable: Which can be evaluated.  # [n], bool
        relax: Relaxes crystals for at most so many steps.
    """
    parts = list(crystals)
    energy = np.full(len(parts), np.inf)
    spent = np.zeros(len(parts), dtype=np.int64)
    reached = np.zeros(len(parts), dtype=np.int64)  # rounds, the last for whoever is left alone
    left = np.flatnonzero(usable)
    left = left[_first_copies(crystals, owner, left)]
    for number, (steps, keep) in enumerate(rounds, start=1):
        alone = ~_has_rival(owner[left])
        reached[left[alone]] = len(rounds)
        left = left[~alone]
        if not len(left):
            break
        found = relax(Crystals.concatenate(parts[i] for i in left), steps)
        spent[left] += found.evaluations
        good = found.ended & np.isfinite(found.energy)
        energy[left] = np.where(good, found.energy_per_atom, np.inf)
        if steps:  # without any, crystals stay as they were made to the last digit
            for i, crystal, ok in zip(left.tolist(), found.crystals, good, strict=True):
                parts[i] = crystal if ok else parts[i]
        volume = found.crystals.volume / found.crystals.counts
        left = left[_lowest(energy[left], volume, owner[left], keep)]
        reached[left] = number
    order = np.lexsort((np.arange(len(parts)), energy, -reached, owner))
    owners, first = np.unique(owner[order], return_index=True)
    index = order[first]
    total = np.bincount(np.searchsorted(owners, owner), weights=spent, minlength=len(owners))
    return Contest(index, Crystals.concatenate(parts[i] for i in index), total.astype(np.int64))


def _first_copies(crystals: Crystals, owner: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the rows are not an earlier one of their owner to the last digit.  # [len(rows)]"""
    seen: set[tuple[int, bytes, bytes, bytes]] = set()
    fresh = np.zeros(len(rows), dtype=bool)
    for place, i in enumerate(rows.tolist()):
        one = crystals[i]
        key = (int(owner[i]), one.numbers.tobytes(), one.frac.tobytes(), one.lattice.tobytes())
        fresh[place] = key not in seen
        seen.add(key)
    return fresh


def _has_rival(owner: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whose owner has more than one: the others have won already.  # [n]"""
    _, inverse, counts = np.unique(owner, return_inverse=True, return_counts=True)
    return counts[inverse] > 1


def _lowest(
    energy: NDArray[np.float64], volume: NDArray[np.float64], owner: NDArray[np.int64], keep: int
) -> NDArray[np.int64]:
    """Rows of the `keep` lowest different crystals of each owner, ascending; of equal ones the first."""
    held: dict[int, list[int]] = {}
    for i in np.argsort(energy, kind="stable").tolist():
        mine = held.setdefault(int(owner[i]), [])
        same = [
            j
            for j in mine
            if energy[i] - energy[j] < SAME_ENERGY and abs(volume[i] / volume[j] - 1) < SAME_VOLUME
        ]
        if same:
            mine[mine.index(same[0])] = min(i, same[0])
        elif len(mine) < keep and np.isfinite(energy[i]):
            mine.append(i)
    return np.array(sorted(i for mine in held.values() for i in mine), dtype=np.int64)
