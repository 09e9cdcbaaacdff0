"""What whoever learns from outcomes hears of them, and how often a formula came up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anchor.policy.grpo import Scores


def energies_heard(scores: Sequence[Scores]) -> list[float]:
    """eV/atom above the hulls; NaN: nothing valid came, infinite: not the formula's fault."""
    heard: list[float] = []
    for found in scores:
        assert found.above_hull is not None, "a campaign says where its candidates lie"
        fault = np.zeros(len(found.reward), bool) if found.include is None else ~found.include
        heard += np.where(fault, np.inf, found.above_hull).tolist()
    return heard


def visits_before(formulas: Sequence[str], tried: Sequence[str]) -> NDArray[np.int64]:
    """How often each was proposed before, in the same list too: the prior goes on with its next answers."""
    before = Counter(tried)
    visits = np.zeros(len(formulas), dtype=np.int64)
    for i, formula in enumerate(formulas):
        visits[i] = before[formula]
        before[formula] += 1
    return visits
