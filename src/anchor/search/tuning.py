"""The paper's fine-tuning of a generator on rewards (app:reward-ft, tab:ddpo-hparams) as settings."""

from __future__ import annotations

from typing import Any

REWARDS = {"mean": (1 / 7, 4 / 7, 1 / 7, 1 / 7), "bal": (0.4, 0.4, 0.1, 0.1)}
"""Weights of stability, novelty, d_struct, d_comp (app:reward-ft)."""
EPISODE = 16
"""Structures per episode (tab:ddpo-hparams)."""
EPISODES = 4100
"""After which the paper's rows are sampled: about 66,000 structures."""
LEARNING_RATE = 5e-6
PINNED = 50
"""Episodes between kept snapshots."""


def tuning(
    name: str,
    reward: str = "mean",
    *,
    episodes: int = EPISODES,
    learning_rate: float = LEARNING_RATE,
    kl: float = 0.0,
    scored: float = 1.0,
) -> dict[str, Any]:
    """Values for `load_config`: a campaign whose proposer is the generator, and learns.

    Args:
        name: Of the generator, or its file.
        reward: Of `REWARDS`.
        episodes: Updates, of `EPISODE` structures each.
        kl: Weight of the KL to the pretrained model.
        scored: Share of the scored steps that are replayed.
    """
    return {
        "policy.source": "generator",
        "generator.name": name,
        "generator.train": True,
        "generator.learning_rate": learning_rate,
        "generator.kl": kl,
        "generator.scored": scored,
        "reward.weights": REWARDS[reward],
        "grpo.group_size": EPISODE,
        "grpo.groups_per_step": 1,
        "run.structures": EPISODE * episodes,
        "run.keep_policy_every": PINNED,
    }
