"""All charge-neutral formulas within limits, ranked by the free estimate: the exact best n of millions.

    ranking = rank(load_estimate(), limits, 1000)
    ranking.compositions.formulas[:3], ranking.metastable[:3]

Formulas are listed family by family (`families`). The promising ones are estimated first; then only those
whose chance could exceed the n-th best so far (`ceiling`). Of four elements there are a thousand million:
unless few elements are allowed, those within reach of a known quaternary crystal are listed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.composition import Compositions
from anchor.executors import Executor, Inline, State
from anchor.policy.actions import to_actions
from anchor.policy.constraints import Limits
from anchor.priors.templates import TemplatePrior
from anchor.screening.binaries import BinaryHulls
from anchor.screening.ceiling import Ceiling
from anchor.screening.estimate import Estimates, FreeEstimate, load_estimate
from anchor.screening.families import Formulas, Pool, Stoichiometry, list_family, stoichiometries
from anchor.screening.nearness import Nearness, nearness_of_family, within_reach
from anchor.screening.surrogate import member_energies

PROMISING = -3.0
"""Log-weight of the nearest template from which on a formula with everyday charges is estimated at once."""
FARTHEST_REACH = -5.0
"""The same below which quaternaries are not looked for: there are millions."""
FEW_ELEMENTS = 24
"""Allowed elements up to which all quaternaries are listed, too."""
BLOCK = 100_000
"""Formulas estimated together: systems occur in it several times, which saves hulls."""
DIGITS = 4
"""Of chances: formulas that differ by less are in a fixed order, whatever the machine's rounding."""
ROUNDING = 0.5 * 10**-DIGITS
CHUNK = 16_384
"""Rows of amounts by atomic number at a time, which bounds memory."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best n formulas, best first.

    Attributes:
        compositions: The smallest cell of each within the limits, one formula unit if that is.
        metastable, stable: P(within 0.1 eV/atom of both hulls), P(on both).  # [n] each
        above_hull, spread: Estimated energy above the hulls and its spread, eV/atom.  # [n] each
        hull_energy: Of every hull at each formula, eV/atom, where somebody kept it: most of the time that an
            estimate takes.  # [n, databases]
        listed: Neutral formulas within the limits that were considered, by number of elements.
        estimated: How many of them were estimated; the chance of the others is smaller than the last one's.
        known: How many of the best were left out because a list has them.
        complete: Whether nothing was left out that could have been among them, quaternaries out of reach
            included.
        exhausted: Whether there is no further formula within the limits.
    """

    compositions: Compositions
    metastable: NDArray[np.float64]
    stable: NDArray[np.float64]
    above_hull: NDArray[np.float64]
    spread: NDArray[np.float64]
    hull_energy: NDArray[np.float64] | None = None
    listed: dict[int, int] = field(default_factory=dict)
    estimated: int = 0
    known: int = 0
    complete: bool = True
    exhausted: bool = False

    def __len__(self) -> int:
        return len(self.metastable)

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> Ranking:
        return replace(
            self,
            compositions=self.compositions[rows],
            metastable=self.metastable[rows],
            stable=self.stable[rows],
            above_hull=self.above_hull[rows],
            spread=self.spread[rows],
            hull_energy=None if self.hull_energy is None else self.hull_energy[rows],
        )


def rank(
    estimate: FreeEstimate,
    limits: Limits,
    n: int,
    *,
    include_known: bool = False,
    executor: Executor | None = None,
    on_family: Callable[[int, int], object] | None = None,
) -> Ranking:
    """The n formulas within limits whose chance of lying within 0.1 eV/atom of the hulls is largest.

    Args:
        include_known: Keep formulas that OQMD, the Materials Project, ICSD, COD or the reference list.
        executor: Who estimates formulas, with the estimate that ships; None: this process.
        on_family: Told how many families are done, and of how many.
    """
    pool = Pool.of(limits)
    best = _Best(estimate, pool, n, include_known, executor or Inline())
    ratios = [ratio for k in limits.k for ratio in stoichiometries(k)]
    listed = dict.fromkeys(limits.k, 0)
    complete = True
    for turn, promising in enumerate((True, False)):
        for done, ratio in enumerate(ratios, start=turn * len(ratios) + 1):
            reach = PROMISING if promising else best.reach(ratio)
            formulas, near = _family(ratio, pool, estimate.prior, reach)
            first = near.everyday & (near.nearest >= PROMISING)
            if promising:
                best.add(formulas, near, first)
            else:
                best.add(formulas, near, ~first & best.possible(ratio, near))
                listed[len(ratio)] += len(formulas)
                complete &= _lists_all(ratio, pool) or reach >= FARTHEST_REACH
            if on_family is not None:
                on_family(done, 2 * len(ratios))
        best.estimate_rest()
    return replace(
        best.found,
        listed=listed,
        estimated=best.estimated,
        known=best.known,
        complete=complete,
        exhausted=complete and len(best.found) < n,
    )


def _lists_all(ratio: Stoichiometry, pool: Pool) -> bool:
    return len(ratio) < MAX_ELEMENTS or len(pool) <= FEW_ELEMENTS


def _family(
    ratio: Stoichiometry, pool: Pool, prior: TemplatePrior, reach: float
) -> tuple[Formulas, Nearness]:
    """A family, or of too many quaternaries those whose nearest template is at least `reach`."""
    if _lists_all(ratio, pool):
        formulas = list_family(ratio, pool)
        return formulas, nearness_of_family(formulas, pool, prior)
    return within_reach(ratio, pool, prior, max(reach, FARTHEST_REACH))


class _Best:
    """The best n formulas so far, and those that are still to be estimated."""

    def __init__(
        self, estimate: FreeEstimate, pool: Pool, n: int, include_known: bool, executor: Executor
    ) -> None:
        self._executor, self._state = executor, State(load_estimate, here=estimate)
        self.n, self.estimated, self.known = n, 0, 0
        self.found = Ranking(Compositions.from_list([]), *np.zeros((4, 0)))
        self._free, self._ceiling, self._include_known = estimate, Ceiling.of(estimate), include_known
        self._binaries = [BinaryHulls(hull, pool.elements) for hull in estimate.hulls]
        self._waiting: list[tuple[Compositions, Nearness, NDArray[np.float32]]] = []

    @property
    def threshold(self) -> float:
        """Chance of the n-th best; 0 while there are fewer."""
        return float(self.found.metastable[-1]) if len(self.found) == self.n else 0.0

    def reach(self, ratio: Stoichiometry, *, everyday: bool = True) -> float:
        """Log-weight of the nearest template that a formula needs to be among the best."""
        shelf = self._free.prior.shelves.get(ratio)
        templates = 0 if shelf is None else len(shelf.units)
        chance = max(self.threshold - ROUNDING, 0.0)
        return self._ceiling.reach(len(ratio), templates, everyday=everyday, chance=chance)

    def possible(self, ratio: Stoichiometry, near: Nearness) -> NDArray[np.bool_]:
        """Which formulas of a family could be among the best.  # [n]"""
        usual, unusual = self.reach(ratio), self.reach(ratio, everyday=False)
        return near.nearest >= np.where(near.everyday, usual, unusual)

    def add(self, formulas: Formulas, near: Nearness, rows: NDArray[np.bool_]) -> None:
        """Formulas to be estimated, at once if there are many."""
        formulas = formulas[rows]
        hull = np.stack([binaries.bound(formulas) for binaries in self._binaries], axis=1)
        self._waiting.append((formulas.cells, near[rows], hull))
        if sum(len(near) for _, near, _ in self._waiting) >= BLOCK:
            self.estimate_rest()

    def estimate_rest(self) -> None:
        """Estimate whoever waits, as far as it can be among the best."""
        if not self._waiting:
            return
        cells = Compositions.concatenate([cells for cells, _, _ in self._waiting])
        near = Nearness.concatenate([near for _, near, _ in self._waiting])
        hull = np.concatenate([hull for _, _, hull in self._waiting])
        self._waiting = []
        least = self.threshold - ROUNDING
        if least > 0:
            rows = np.flatnonzero(self._ceiling(cells, near) >= least)
            cells, near, hull = cells[rows], near[rows], hull[rows]
            elements, counts = to_actions(cells)
            member, fractions = self._free.surrogate.members[:1], counts / counts.sum(axis=1, keepdims=True)
            above = (member_energies(member, elements, fractions)[0] - hull).min(axis=1)
            rows = np.flatnonzero(self._ceiling(cells, near, above) >= least)
            cells, near = cells[rows], near[rows]
        by_system = np.lexsort(np.sort(cells.padded(MAX_ELEMENTS)[0], axis=1).T)
        parts = [by_system[start : start + CHUNK] for start in range(0, len(by_system), CHUNK)]
        tasks = [(cells[part], near[part]) for part in parts]
        for (some, _), found in zip(
            tasks, self._executor.results(estimate_some, tasks, state=self._state), strict=True
        ):
            self._keep(some, found)

    def _keep(self, cells: Compositions, found: Estimates) -> None:
        """The best of those so far and of some more."""
        self.estimated += len(cells)
        chance, on_hull = found.metastable.round(DIGITS), found.stable.round(DIGITS)
        rows = np.flatnonzero(chance >= self.threshold)  # not NaN: no reference for an element
        if not self._include_known:
            known = self._free.reference.known
            new = np.array([not known(formula) for formula in cells[rows].formulas], dtype=bool)
            self.known += int((~new).sum())
            rows = rows[new]
        old = self.found
        joined = Ranking(
            Compositions.concatenate([old.compositions, cells[rows]]),
            np.concatenate([old.metastable, chance[rows]]),
            np.concatenate([old.stable, on_hull[rows]]),
            np.concatenate([old.above_hull, found.above_hull[rows]]),
            np.concatenate([old.spread, found.spread[rows]]),
        )
        numbers, counts = joined.compositions.padded(MAX_ELEMENTS)
        order = np.lexsort((*counts.T, *numbers.T, -joined.metastable))  # equal chances in a fixed order
        self.found = joined[order[: self.n]]


def estimate_some(estimate: FreeEstimate, task: tuple[Compositions, Nearness]) -> Estimates:
    """Estimates of compositions of a few chemical systems; whether a list has them is not asked."""
    cells, near = task
    amounts = cells.amounts
    hull_energy = np.stack([hull.hull_energy(amounts, remember=False) for hull in estimate.hulls], axis=1)
    not_asked = np.zeros(len(cells), dtype=bool)
    return estimate(cells, near=near, hull_energy=hull_energy, known=not_asked)
