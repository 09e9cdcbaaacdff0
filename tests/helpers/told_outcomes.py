"""What a campaign would say of proposals, without relaxing anything: for whoever learns from outcomes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anchor.chemistry.formula import parse_amounts
from anchor.policy.grpo import Proposal, Scores


def outcomes(bad: str) -> Callable[[Proposal], list[Scores]]:
    """What has this element lies far above the hulls, all else on them."""

    def score(proposal: Proposal) -> list[Scores]:
        found = []
        for compositions, _ in proposal.groups():
            above = np.array([0.3 if bad in parse_amounts(f) else -0.05 for f in compositions.formulas])
            found.append(Scores(np.zeros(len(above)), None, above))
        return found

    return score


def broken(proposal: Proposal) -> list[Scores]:
    """Nothing was the compositions' fault."""
    n = proposal.group_size
    return [Scores(np.zeros(n), np.zeros(n, dtype=bool), np.full(n, np.nan)) for _ in proposal.contexts]
