"""From anybody's structures to energies above the hull."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.hull.energies import single_point_chunks
from anchor.hull.hull import SCORED, Decomposition
from anchor.hull.references import HullScores, crystal_compositions

if TYPE_CHECKING:
    from anchor.potentials.base import Potential

Relax = Literal["no", "positions", "cell"]


class ScoringHull(Protocol):
    """What `PotentialHull` and `AlexMPHull` have in common."""

    def score(
        self, crystals: Crystals, energies: NDArray[np.float64], *, checkpoint_hash: str
    ) -> HullScores: ...

    def decomposition(self, composition: NDArray[np.float64] | str) -> Decomposition | None: ...


@dataclass(frozen=True, eq=False)
class ScoredCrystals:
    """Crystals with everything that is known about their stability.

    Attributes:
        crystals: As scored: relaxed where that was asked for.
        energy: Of the potential, eV; NaN where there is none.  # [n]
        relaxation: "converged", "capped", …; "not relaxed" where it was not asked for.  # [n]
        scores: Energies above the hulls.
        decompositions: Competing phases, None where not scored.  # [n]
    """

    crystals: Crystals
    energy: NDArray[np.float64]
    relaxation: list[str]
    scores: HullScores
    decompositions: list[Decomposition | None]


def score_crystals(
    crystals: Crystals,
    potential: Potential,
    hull: ScoringHull,
    *,
    relax: Relax = "no",
    max_steps: int = 400,
    fmax: float = 0.02,
) -> ScoredCrystals:
    """Energies above the hull of any crystals; one that cannot be scored does not harm the others.

    Args:
        crystals: Candidates.
        potential: Gives the energies; the hull must have been made for it.
        hull: From `load_hull`, or an `AlexMPHull`.
        relax: First relax nothing, positions, or positions and cell.
        max_steps: Of a relaxation.
        fmax: eV/Å, of a relaxation.
    """
    covered = potential.supports(crystals)
    chosen = np.flatnonzero(covered)
    energy = np.full(len(crystals), np.nan)
    relaxation = ["not relaxed"] * len(crystals)
    final = crystals
    if relax == "no":
        for members in single_point_chunks(crystals[chosen]):
            energy[chosen[members]] = potential.evaluate(crystals[chosen[members]]).energy
    elif len(chosen):
        from anchor.relax.engine import relax as relax_crystals

        result = relax_crystals(
            crystals[chosen], potential, cell=relax == "cell", max_steps=max_steps, fmax=fmax
        )
        energy[chosen] = result.energy
        for i, status in zip(chosen, result.status, strict=True):
            relaxation[i] = str(status)
        final = _replaced(crystals, chosen, result.crystals)
    scores = hull.score(final, energy, checkpoint_hash=potential.checkpoint_hash)
    amounts = crystal_compositions(crystals)
    for i in np.flatnonzero(~covered):
        unknown = [SYMBOLS[z] for z in np.flatnonzero(amounts[i]) if z not in potential.elements]
        scores.status[i] = f"not scored: {potential.name} does not cover {', '.join(unknown)}"
    decompositions = [
        hull.decomposition(row) if status.startswith(SCORED) else None
        for row, status in zip(amounts, scores.status, strict=True)
    ]
    return ScoredCrystals(final, energy, relaxation, scores, decompositions)


def _replaced(crystals: Crystals, at: NDArray[np.int64], others: Crystals) -> Crystals:
    """The crystals with those at `at` exchanged for `others`."""
    order = np.arange(len(crystals))
    order[at] = len(crystals) + np.arange(len(at))
    return Crystals.concatenate([crystals, others])[order]
