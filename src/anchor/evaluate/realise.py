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

from anchor.chemistry.composition import Composition
from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.potentials.base import Potential
from anchor.priors import Prior
from anchor.relax.parallel import Relaxer

BLOCK = 64
"""Compositions per call of the prior."""

Query = Literal["cell", "reduced", "free"]
"""The prior is asked for the cell as proposed, for one formula unit (the paper), or chooses the units."""


def realise_block(
    prior: Prior,
    compositions: Sequence[Composition | None],
    *,
    seed: int,
    block: int,
    query: Query,
    lowest: Lowest | None = None,
) -> list[tuple[Crystals | None, str]]:
    """A crystal (a batch of one) for each composition, or None and why.

    Args:
        prior: Frozen.
        compositions: At most `BLOCK`; None has none and keeps its place.
        seed: Of the evaluation.
        block: Number of the block.
        query: What is asked for.
        lowest: Chooses among several crystals of each composition; None: the first.
    """
    reasons = ["" if c is None else unanswerable(prior, c, query) for c in compositions]
    asked = [c if c is not None and not why else None for c, why in zip(compositions, reasons, strict=True)]
    someone = next((c for c in asked if c is not None), None)
    if someone is None:
        return [(None, why) for why in reasons]
    # Who cannot be asked for keeps its place, taken by another whose crystal is thrown away: otherwise the
    # random numbers of all that follow would depend on which prior is asked.
    places = [c if c is not None else someone for c in asked]
    try:
        sampled = _sample(prior, places, seed, block, query, lowest)
    except Exception as first:  # others' code; reported, and everyone else gets a crystal
        if len(places) == 1:
            return [(None, f"the prior {prior.name} failed: {first!r}")]
        return [
            _alone(prior, c, i, len(places), seed, block, query, lowest) if c is not None else (None, why)
            for i, (c, why) in enumerate(zip(asked, reasons, strict=True))
        ]
    made = list(sampled if lowest is None else lowest(sampled))
    return [_sound(prior, made[i]) if c is not None else (None, reasons[i]) for i, c in enumerate(asked)]


def _sound(prior: Prior, crystal: Crystals) -> tuple[Crystals | None, str]:
    """A crystal, unless its numbers are none."""
    if _finite(crystal):
        return crystal, ""
    return None, f"the prior {prior.name} gave coordinates that are not finite"


def _finite(crystal: Crystals) -> bool:
    return bool(np.isfinite(crystal.frac).all() and np.isfinite(crystal.lattice).all())


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


@dataclass(frozen=True)
class Lowest:
    """Of several crystals of a composition, the one of lowest energy as it is, like a campaign chooses.

    Attributes:
        potential: Whose energy counts: that of the campaign, so that protocols judge the same crystals.
        candidates: How many there are.
    """

    potential: Potential
    candidates: int

    def __call__(self, crystals: Crystals) -> Crystals:
        """One of every `candidates` consecutive crystals; those without energy come last."""
        asked = np.flatnonzero([_finite(c) and bool(self.potential.supports(c).all()) for c in crystals])
        energy = np.full(len(crystals), np.inf)
        if len(asked):
            found = Relaxer(self.potential)(crystals[asked], cell=False, max_steps=0, fmax=1.0).relaxation
            energy[asked] = np.where(np.isfinite(found.energy), found.energy_per_atom, np.inf)
        choices = energy.reshape(-1, self.candidates)
        return crystals[np.arange(len(choices)) * self.candidates + choices.argmin(axis=1)]


def _sample(
    prior: Prior,
    compositions: Sequence[Composition],
    seed: int,
    block: int,
    query: Query,
    lowest: Lowest | None,
) -> Crystals:
    return prior.sample(
        compositions,
        1 if lowest is None else lowest.candidates,
        seed=seed,
        stream=("evaluate", block),
        units=1 if query == "reduced" else None,
        cell="free" if query == "free" else None,
    )


def _alone(
    prior: Prior,
    composition: Composition,
    place: int,
    size: int,
    seed: int,
    block: int,
    query: Query,
    lowest: Lowest | None,
) -> tuple[Crystals | None, str]:
    """One composition with the random numbers of its place, after its block failed."""
    try:
        made = _sample(prior, [composition] * size, seed, block, query, lowest)
    except Exception as error:  # the border to a prior of anyone
        return None, f"the prior {prior.name} failed: {error!r}"
    return _sound(prior, made[place] if lowest is None else lowest(made)[place])
