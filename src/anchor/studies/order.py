"""The paper's order of evaluation against the faster one: what changes in rewards, and what it saves.

The paper realises, relaxes and embeds every sibling of a group, also those that charge neutrality has already
made invalid. They cannot change a reward except through K_struct, where they are among the siblings that a
valid one is compared with. The faster order leaves them out there and never makes them.

Both orders see the same compositions, weights and crystals, so what differs is the order's doing alone; the
faster one is then run by itself for its cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.config import Config
from anchor.policy.grpo import Learner, group_advantages
from anchor.reward.score import GroupScores, Memory
from anchor.search.environment import Environment
from anchor.search.policies import policy_file, read_policy
from anchor.search.realise import Realised


def compare_orders(
    config: Config,
    *,
    groups: int,
    environment: Environment | None = None,
    on_group: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Score `groups` groups of an untrained policy (or of `policy.start_from`) in both orders.

    Args:
        config: Its `reward.order` is ignored.
        environment: Loaded from the config when not given.
        on_group: Told after each group.

    Returns:
        Differences of rewards, terms and advantages, and costs, as plain values.
    """
    environment = environment or Environment.load(config)
    orders = {
        name: replace(
            environment.realiser,
            config=config.model_copy(update={"reward": config.reward.model_copy(update={"order": name})}),
        )
        for name in ("paper", "fast")
    }
    start = config.policy.start_from
    policy = read_policy(policy_file(start)) if start is not None else None
    learner = Learner.start(config, environment.limits, policy=policy)
    memory = {name: Memory() for name in orders}
    cost = {name: dict.fromkeys(("relaxations", "evaluations", "cpu_seconds"), 0.0) for name in orders}
    paper, fast = list[GroupScores](), list[GroupScores]()
    for step in range(groups):
        ((compositions, context),) = learner.rollout(step).groups()
        found: dict[str, Realised] = {}
        for name, realiser in orders.items():
            clock = time.process_time()
            (found[name],) = realiser([compositions], step=step)
            cost[name]["cpu_seconds"] += time.process_time() - clock
            outcomes = found[name].outcomes
            cost[name]["relaxations"] += len(outcomes.crystals)
            cost[name]["evaluations"] += int(np.nansum(outcomes.numbers("evaluations")))
        for group, name, scores in (
            (found["paper"], "paper", paper),
            (only_neutral(found["paper"]), "fast", fast),
        ):
            outcomes, z = group.outcomes, group.embeddings
            scores.append(environment.scorer.score(compositions, outcomes, z, context.weights, memory[name]))
        if on_group is not None:
            on_group(step)
    floor = config.grpo.advantage_std_floor
    return {
        "groups": groups,
        "group_size": config.grpo.group_size,
        "policy": start or "untrained",
        "valid": int(sum(scores.valid.sum() for scores in paper)),
        "differences": differences(paper, fast, std_floor=floor),
        "cost": {name: {k: round(v, 1) for k, v in c.items()} for name, c in cost.items()},
        "saved": {
            name: round(cost["paper"][name] / max(cost["fast"][name], 1e-9), 2) for name in cost["paper"]
        },
    }


def only_neutral(group: Realised) -> Realised:
    """The same group as the faster order leaves it: crystals of charge-neutral compositions only."""
    return group.keep_crystals(group.outcomes.flags("charge_ok"))


def differences(
    paper: list[GroupScores], fast: list[GroupScores], *, std_floor: float
) -> dict[str, dict[str, float | int | None]]:
    """How rewards (of valid candidates), d_struct and advantages (of all included) differ between orders."""
    valid = np.concatenate([s.valid for s in paper])
    include = np.concatenate([s.include for s in paper])
    reward, other_reward = (np.concatenate([s.reward for s in scores]) for scores in (paper, fast))
    d_struct, other_d_struct = (
        np.concatenate([s.objectives[:, 2] for s in scores]) for scores in (paper, fast)
    )
    advantage, other_advantage = (
        np.concatenate([_advantages(s, std_floor) for s in scores]) for scores in (paper, fast)
    )
    return {
        "d_struct": _compare(d_struct[valid], other_d_struct[valid]),
        "reward": _compare(reward[valid], other_reward[valid]),
        "advantage": _compare(advantage[include], other_advantage[include])
        | {"sign_flips": int((np.sign(advantage) != np.sign(other_advantage))[include].sum())},
    }


def _advantages(scores: GroupScores, std_floor: float) -> NDArray[np.float64]:
    reward, include = np.nan_to_num(scores.reward)[None], scores.include[None]
    return group_advantages(reward, include, std_floor=std_floor)[0]


def _compare(a: NDArray[np.float64], b: NDArray[np.float64]) -> dict[str, float | int | None]:
    """Of b against a: count, mean change, mean and largest size of a change, correlation."""
    change = b - a
    varied = len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0
    return {
        "n": len(a),
        "mean_change": round(float(change.mean()), 5) if len(a) else None,
        "mean_abs": round(float(np.abs(change).mean()), 5) if len(a) else None,
        "max_abs": round(float(np.abs(change).max()), 5) if len(a) else None,
        "correlation": round(float(np.corrcoef(a, b)[0, 1]), 5) if varied else None,
    }
