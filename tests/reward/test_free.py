"""Rewards without crystals: the campaign's formula with what a formula alone can say."""

from collections import Counter

import numpy as np
import pytest

from anchor.chemistry.composition import Compositions
from anchor.config import load_config
from anchor.reward.diversity import comp_kernel, diversity
from anchor.reward.free import STRUCTURAL_DIVERSITY, free_reward


def test_it_is_eq_reward_term_by_term() -> None:
    config = load_config(overrides=["reward.count_bonus=0.5", "novelty.bootstrap=0.6"]).config
    batch = Compositions.from_list(["NaCl", "Na2Cl2", "KBr", "MgCl"])
    stability = np.array([0.9, 0.8, 0.7, 0.6])
    valid, known = np.array([True, True, True, False]), np.array([False, False, True, False])
    w = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
    counts = Counter({"KBr": 3})
    rewards, first = free_reward(batch, stability, valid, known, w, counts, config)
    apart = diversity(comp_kernel(batch))
    same = STRUCTURAL_DIVERSITY
    expected = [
        0.4 * 0.9 + 0.3 * 0.6 + 0.2 * same + 0.1 * apart[0] + 0.5 / np.sqrt(2),  # both see the final count
        0.4 * 0.8 + 0.3 * 0.0 + 0.2 * same + 0.1 * apart[1] + 0.5 / np.sqrt(2),
        0.4 * 0.7 + 0.3 * 0.0 + 0.2 * same + 0.1 * apart[2] + 0.5 / np.sqrt(4),
        config.reward.invalid,
    ]
    assert rewards == pytest.approx(expected)
    assert first.tolist() == [True, False, False, False]
    assert counts == {"NaCl": 2, "KBr": 4}
