"""What overlapping steps cost in learning: a toy with a known optimum, or campaigns that were run.

    python benchmarks/staleness.py [--seeds 3] [--steps 120]
    python benchmarks/staleness.py --campaigns runs/paper runs/stale

The toy is that of tests/policy: binary oxides with eight atoms are best, 1.9. Of campaigns: rewards and valid
candidates of the first and the last quarter, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from pathlib import Path

import numpy as np

from anchor.config import load_config
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Learner, Rollout, Scores
from anchor.statistics import wilson_interval

STALENESS = (0, 1, 4, 16)
SETTINGS = [
    "policy.state_dim=8", "policy.hidden_dim=16", "policy.element_embedding=8", "grpo.group_size=12",
    "action_space.elements=[Li, O, Fe, P, S, Na]", "action_space.max_atoms=8", "grpo.learning_rate=5e-3",
    "reward.subgroup_mask=false",
]  # fmt: skip


def reward(rollout: Rollout) -> np.ndarray:
    """Of the toy.  # [G]"""
    return np.array(
        [1.0 * ("O" in c.elements) + 0.5 * (c.k == 2) + 0.05 * c.n_atoms for c in rollout.compositions]
    )


def toy(staleness: int, seed: int, steps: int) -> np.ndarray:
    """Mean reward of each step, taken as a campaign takes them.  # [steps]"""
    config = load_config(overrides=[*SETTINGS, f"search.staleness={staleness}", f"run.seed={seed}"]).config
    learner = Learner.start(config, Limits.from_config(config.action_space))
    under_way: deque[Rollout] = deque()
    means = []
    for step in range(steps):
        while len(under_way) <= staleness:
            under_way.append(learner.rollout(step + len(under_way)))
        rollout = under_way.popleft()
        means.append(reward(rollout).mean())
        learner.update(rollout, [Scores(reward(rollout))])
    return np.array(means)


def quarters(folder: Path) -> dict[str, object]:
    """First and last quarter of a campaign."""
    from anchor.search.ledger import Ledger

    ledger = Ledger.open(folder)
    rows = list(ledger.rows(["reward", "valid", "charge_ok"]))
    size = len(rows) // 4
    found: dict[str, object] = {"staleness": ledger.config["search"]["staleness"], "candidates": len(rows)}
    for name, part in (("first", rows[:size]), ("last", rows[-size:])):
        rewards = np.array([row["reward"] for row in part if row["reward"] is not None])
        valid = sum(bool(row["valid"]) for row in part)
        low, high = (float(end[0]) for end in wilson_interval(np.array([valid]), np.array([size])))
        error = 1.96 * rewards.std(ddof=1) / np.sqrt(len(rewards))
        found[name] = (
            f"reward {rewards.mean():.3f} ± {error:.3f}, valid {valid}/{size} ({low:.2f} to {high:.2f})"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--campaigns", type=Path, nargs="+")
    options = parser.parse_args()
    if options.campaigns:
        for folder in options.campaigns:
            print(json.dumps(quarters(folder), ensure_ascii=False))
        return
    document = {}
    for staleness in STALENESS:
        runs = np.array([toy(staleness, seed, options.steps) for seed in range(options.seeds)])
        half = [int(np.argmax(np.convolve(run, np.ones(5) / 5, "valid") > 1.6)) for run in runs]
        last = runs[:, -10:].mean(axis=1)
        document[staleness] = {"last_ten_steps": last.round(3).tolist(), "steps_to_1.6": half}
        print(
            f"staleness {staleness:2d}: last ten steps {last.mean():.3f}, 1.6 after {np.mean(half):.0f} steps"
        )
    print(json.dumps({"benchmark": "staleness", **vars(options), "toy": document}))


if __name__ == "__main__":
    main()
