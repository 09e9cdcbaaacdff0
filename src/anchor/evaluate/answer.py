"""Compositions to crystals by a prior, block by block, so that pairs of evaluations differ in nothing else.

The random numbers of a crystal follow from (seed, block, position in the block): the same composition source
under the same seed asks every prior with the same numbers, however far a run got before it was killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition
from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.outcomes.contest import SINGLE_POINTS
from anchor.outcomes.judge import Judge, Relaxing
from anchor.outcomes.table import Outcomes
from anchor.potentials.base import Potential
from anchor.priors import Prior
from anchor.priors.base import Rounds, Sampled
from anchor.relax.parallel import Relaxer

BLOCK = 64
"""Compositions per call of the prior."""

TRIAL = Relaxing(cell=True, max_steps=0, fmax=0.02)
"""How candidates are relaxed for the few steps of a round."""

Query = Literal["cell", "reduced", "free"]
"""The prior is asked for the cell as proposed, for one formula unit (the paper), or chooses the units."""


@dataclass(frozen=True)
class Lowest:
    """Of several crystals of a composition one, like a campaign chooses; given as it was made.

    Attributes:
        potential: Whose energy counts: that of the campaign, so that protocols judge the same crystals.
        candidates: How many there are.
        rounds: How one is chosen: after so many steps with a free cell so many stay.
        relaxer: With this potential, of others' workers; None: in this process.
    """

    potential: Potential
    candidates: int
    rounds: Rounds = SINGLE_POINTS
    relaxer: Relaxer | None = None

    def __call__(self, crystals: Crystals, owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """`Judge.contest`."""
        relaxer = self.relaxer or Relaxer(self.potential)
        return Judge(relaxer, None, TRIAL).contest(crystals, owner, self.rounds).index


def realise_block(
    prior: Prior,
    compositions: Sequence[Composition | None],
    *,
    seed: int,
    block: int,
    query: Query,
    lowest: Lowest | None = None,
) -> Outcomes:
    """A row for each composition: its crystal and who made it, or the reason why there is none.

    Args:
        prior: Frozen.
        compositions: At most `BLOCK`; None has none and keeps its place.
        seed: Of the evaluation.
        block: Number of the block.
        query: What is asked for.
        lowest: Chooses among several crystals of each composition; None: the first.
    """
    reasons = ["" if c is None else unanswerable(prior, c, query) for c in compositions]
    asked = {i: c for i, c in enumerate(compositions) if c is not None and not reasons[i]}
    table = Outcomes.blank(len(compositions))
    if not asked:
        return table.with_columns(reason=[why or None for why in reasons])
    # Who cannot be asked for keeps its place, taken by another whose crystal is thrown away: otherwise the
    # random numbers of all that follow would depend on which prior is asked.
    someone = next(iter(asked.values()))
    places = [asked.get(i, someone) for i in range(len(compositions))]
    n = 1 if lowest is None else lowest.candidates
    try:
        parts = [_sample(prior, places, n, seed, block, query).of(list(asked), n)]
    except Exception:  # others' code; reported, and everyone else gets a crystal
        parts = []
        for i, composition in asked.items():
            try:
                parts.append(_sample(prior, [composition] * len(places), n, seed, block, query).of([i], n))
            except Exception as error:  # the border to a prior of anyone
                reasons[i] = f"the prior {prior.name} failed: {error!r}"
    crystals = Crystals.concatenate(part.crystals for part in parts)
    owner = np.concatenate([np.zeros(0, np.int64), *(part.request // n for part in parts)])
    made_by = np.array([name for part in parts for name in part.made_by], dtype=object)
    missing = {request // n: why for part in parts for request, why in part.missing.items()}
    chosen = np.arange(len(crystals)) if lowest is None else lowest(crystals, owner)
    crystals, owner, made_by = crystals[chosen], owner[chosen], made_by[chosen]
    finite = crystals.finite
    for i in asked.keys() - set(owner.tolist()):
        reasons[i] = reasons[i] or missing.get(i, "")
    for i in owner[~finite].tolist():
        reasons[i] = f"the prior {prior.name} gave coordinates that are not finite"
    table = table.with_columns(reason=[why or None for why in reasons])
    table = table.with_crystals(crystals[np.flatnonzero(finite)], owner[finite])
    return table.with_crystal_columns(made_by=made_by[finite])


def unanswerable(prior: Prior, composition: Composition, query: Query) -> str:
    """Why the prior cannot be asked for a composition, '' if it can."""
    unknown = [symbol for symbol in composition.elements if NUMBER[symbol] not in prior.elements]
    if unknown:
        return f"the prior {prior.name} does not know {', '.join(unknown)}"
    atoms = composition.n_atoms if query == "cell" else _atoms_of_one_unit(composition)
    if atoms > prior.max_atoms:
        return f"{atoms} atoms, the prior {prior.name} places at most {prior.max_atoms}"
    return ""


def _atoms_of_one_unit(composition: Composition) -> int:
    """Atoms of one formula unit."""
    return composition.n_atoms // gcd(*composition.counts)


def _sample(
    prior: Prior, compositions: Sequence[Composition], n: int, seed: int, block: int, query: Query
) -> Sampled:
    return prior.realise(
        compositions,
        n,
        seed=seed,
        stream=("evaluate", block),
        units=1 if query == "reduced" else None,
        cell="free" if query == "free" else None,
    )
