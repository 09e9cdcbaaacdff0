"""Compositions to crystals by a prior, block by block, so that pairs of evaluations differ in nothing else.

The random numbers of a crystal follow from (seed, block, position in the block): the same composition source
under the same seed asks every prior with the same numbers, however far a run got before it was killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition
from anchor.chemistry.elements import NUMBER
from anchor.crystals.crystals import Crystals
from anchor.outcomes.table import Outcomes
from anchor.priors import Prior

BLOCK = 64
"""Compositions per call of the prior."""

Query = Literal["cell", "reduced", "free"]
"""The prior is asked for the cell as proposed, for one formula unit (the paper), or chooses the units."""


def realise_block(
    prior: Prior, compositions: Sequence[Composition | None], *, seed: int, block: int, query: Query
) -> Outcomes:
    """A row for each composition: its crystal, or the reason why there is none.

    Args:
        prior: Frozen.
        compositions: At most `BLOCK`; None has none and keeps its place.
        seed: Of the evaluation.
        block: Number of the block.
        query: What is asked for.
    """
    reasons = ["" if c is None else unanswerable(prior, c, query) for c in compositions]
    asked = {i: c for i, c in enumerate(compositions) if c is not None and not reasons[i]}
    answers = Crystals.empty()
    if asked:
        # Who cannot be asked for keeps its place, taken by another whose crystal is thrown away: otherwise
        # the random numbers of all that follow would depend on which prior is asked.
        someone = next(iter(asked.values()))
        places = [asked.get(i, someone) for i in range(len(compositions))]
        try:
            answers = _sample(prior, places, seed, block, query)[list(asked)]
        except Exception:  # others' code; reported, and everyone else gets a crystal
            single = {i: _alone(prior, c, i, len(places), seed, block, query) for i, c in asked.items()}
            for i, one in single.items():
                reasons[i] = one if isinstance(one, str) else ""
            answers = Crystals.concatenate(one for one in single.values() if isinstance(one, Crystals))
    at = np.array([i for i in asked if not reasons[i]], dtype=np.int64)
    finite = _finite(answers)
    for i in at[~finite].tolist():
        reasons[i] = f"the prior {prior.name} gave coordinates that are not finite"
    found = Outcomes.blank(len(compositions)).with_columns(reason=[why or None for why in reasons])
    return found.with_crystals(answers[np.flatnonzero(finite)], at[finite])


def _finite(crystals: Crystals) -> NDArray[np.bool_]:
    """Which crystals have numbers only.  # [n]"""
    wrong = np.bincount(crystals.owner, ~np.isfinite(crystals.frac).all(axis=1), minlength=len(crystals))
    return (wrong == 0) & np.isfinite(crystals.lattice).all(axis=(1, 2))


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
    prior: Prior, compositions: Sequence[Composition], seed: int, block: int, query: Query
) -> Crystals:
    return prior.sample(
        compositions,
        seed=seed,
        stream=("evaluate", block),
        units=1 if query == "reduced" else None,
        cell="free" if query == "free" else None,
    )


def _alone(
    prior: Prior, composition: Composition, place: int, size: int, seed: int, block: int, query: Query
) -> Crystals | str:
    """One composition with the random numbers of its place, after its block failed; or what went wrong."""
    try:
        return _sample(prior, [composition] * size, seed, block, query)[place]
    except Exception as error:  # the border to a prior of anyone
        return f"the prior {prior.name} failed: {error!r}"
