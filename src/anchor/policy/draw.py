"""Compositions as evaluations draw them: one w for all, no sub-group mask, sampled stochastically."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from anchor.chemistry.composition import Compositions
from anchor.policy.constraints import Limits
from anchor.policy.distribution import Conditions, sample
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context
from anchor.random import torch_generator


@torch.no_grad()
def draw_compositions(
    policy: CompositionPolicy, n: int, limits: Limits, weights: Sequence[float], *, seed: int = 0
) -> tuple[Compositions, Conditions]:
    """n compositions and what they were conditioned on (app:eval_protocol).

    Args:
        policy: Trained or not.
        n: How many.
        limits: What may be drawn.
        weights: w, as a rule the mean of the Dirichlet of the training.  # [n_objectives]
        seed: Same seed, same compositions.
    """
    context = Context(np.asarray(weights, dtype=np.float64), limits.allowed.cpu().numpy())
    conditions = Conditions.from_contexts([context], n, policy)
    device = policy.embedding.device
    drawn = sample(policy, conditions, limits.to(device), torch_generator(seed, "draw", device=device))
    return drawn, conditions
