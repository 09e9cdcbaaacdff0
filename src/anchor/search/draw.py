"""Compositions from a trained policy, drawn as evaluations draw them (app:eval_protocol)."""

from __future__ import annotations

from pathlib import Path

import torch

from anchor.chemistry.composition import Compositions
from anchor.config import ActionSpace, Config, Reward
from anchor.errors import InputError
from anchor.hull.references import load_hull
from anchor.paths import BUNDLED
from anchor.policy.constraints import Limits
from anchor.policy.distribution import Conditions, sample
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import evaluation_context
from anchor.policy.weights import load_policy
from anchor.random import torch_generator
from anchor.search.ledger import Ledger

DEFAULT_POLICY = BUNDLED / "policies" / "default.safetensors"
"""The policy that ships."""


def policy_file(name: str) -> Path:
    """The file of a policy: a path, or 'default' for the one that ships."""
    path = DEFAULT_POLICY if name == "default" else Path(name)
    if not path.is_file():
        raise InputError(
            f"there is no policy file '{path}'", "give a .safetensors file or a campaign's folder"
        )
    return path


def load_any_policy(source: str) -> CompositionPolicy:
    """The policy of a campaign (folder, ledger file or database URL), of a file, or 'default'."""
    if "://" in source or Path(source).is_dir() or source.endswith(".db"):
        state = Ledger.open(source).state()
        if not state:
            raise InputError(
                f"the campaign '{source}' has no policy",
                "it has not finished a step, or it drew from an untrained source",
            )
        return load_policy(state)
    return load_policy(policy_file(source).read_bytes())


def searched_space(config: Config) -> ActionSpace:
    """What a campaign could propose: its own limits, within elements of well-determined reference."""
    if config.action_space.allow_loose_references:
        return config.action_space
    searchable = load_hull(config.relax.potential).searchable_elements
    wanted = config.action_space.elements or searchable
    return config.action_space.model_copy(update={"elements": tuple(e for e in wanted if e in searchable)})


@torch.no_grad()
def draw_compositions(
    policy: CompositionPolicy, n: int, *, seed: int = 0, space: ActionSpace | None = None
) -> Compositions:
    """n compositions, sampled stochastically with w at the Dirichlet mean and without sub-group mask.

    Args:
        policy: Trained or not.
        n: How many.
        seed: Same seed, same compositions.
        space: Users' limits; None: the paper's action space.
    """
    limits = Limits.from_config(space or ActionSpace())
    alpha = (*Reward().alpha, *([1.0] * policy.n_objectives))[: policy.n_objectives]
    conditions = Conditions.from_contexts([evaluation_context(limits, alpha=alpha)], n, policy)
    device = policy.embedding.device
    return sample(policy, conditions, limits.to(device), torch_generator(seed, "draw", device=device))
