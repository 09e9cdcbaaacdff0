"""Rewards of compositions without crystals: what is believed of one in the place of what came of it.

The campaign's own reward (eq:reward) with what can be said of a formula alone: stability is given, a formula
is new until it was found, structural diversity is a constant and drops out of the advantages.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.config import Config
from anchor.reward.diversity import comp_kernel, diversity
from anchor.reward.score import BUILT_IN, count_bonus, reward

STRUCTURAL_DIVERSITY = 0.5


def free_reward(
    compositions: Compositions,
    stability: NDArray[np.float64],
    valid: NDArray[np.bool_],
    known: NDArray[np.bool_],
    weights: NDArray[np.float64],
    counts: Counter[str],
    config: Config,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """r(c) of a group, and which members are the first of their formula; `counts` grows as a campaign's.

    Args:
        stability: s_stab, or what is expected of it.  # [G]
        valid: What would pass the gate.  # [G]
        known: Formulas of a list: nothing new.  # [G]
        weights: w; own objectives have no value without a crystal.  # [n_objectives]
        counts: Valid formulas so far.

    Returns: # two [G]
    """
    formulas = compositions.formulas
    first = np.zeros(len(formulas), dtype=bool)
    for i in np.flatnonzero(valid).tolist():
        first[i] = not counts[formulas[i]]
        counts[formulas[i]] += 1
    n_f = np.array([counts[formula] for formula in formulas])
    objectives = np.stack(
        [
            stability,
            np.where(first & ~known, config.novelty.bootstrap, 0.0),
            np.full(len(formulas), STRUCTURAL_DIVERSITY),
            diversity(comp_kernel(compositions)),
        ],
        axis=1,
    )
    bonus = count_bonus(n_f, config.reward.count_bonus)
    return reward(objectives, weights[: len(BUILT_IN)], valid, bonus, config.reward.invalid), first
