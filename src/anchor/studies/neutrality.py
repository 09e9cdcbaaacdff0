"""The learning machinery alone: the paper's settings with charge neutrality as the only goal, no crystals.

A neutral composition earns 1 and the count bonus of its formula, any other the penalty of eq:reward. So the
policy has to learn chemistry enough for neutrality, and to keep proposing formulas that are new:

    python -m anchor.studies.neutrality --structures 100000 --out docs/neutrality

writes docs/neutrality.json (the curve) and docs/neutrality.png.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBERS, VOCABULARY
from anchor.config import Config, load_config
from anchor.policy.constraints import Limits
from anchor.policy.distribution import Actions, Conditions, evaluate, sample
from anchor.policy.grpo import Learner, Scores, each_group
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context, evaluation_context, h_max
from anchor.random import torch_generator

NEUTRAL_REWARD = 1.0
"""Reward of a neutral composition, before the count bonus."""


@dataclass
class NeutralityReward:
    """r(c) = 1 + λ_c / √n_f for a neutral composition, r_inv otherwise (eq:reward with neutrality as m·w).

    As in Algorithm 1, n_f counts neutral proposals of the formula, all siblings of the group included.
    """

    count_bonus: float
    invalid: float
    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, compositions: Compositions, _context: Context) -> Scores:
        neutral, formulas = is_neutral(compositions), compositions.formulas
        self.counts.update(f for f, ok in zip(formulas, neutral, strict=True) if ok)
        n_f = np.array([max(self.counts[f], 1) for f in formulas])
        reward = NEUTRAL_REWARD + self.count_bonus / np.sqrt(n_f)
        return Scores(np.where(neutral, reward, self.invalid))


def run(config: Config, *, structures: int, window: int = 2000, evaluations: int = 1000) -> dict[str, Any]:
    """Learn for a number of structures and return the curve.

    Args:
        structures: Compositions to propose.
        window: Compositions per point of the curve.
        evaluations: Compositions drawn without mask after each window, and ten times as many at both ends.
    """
    limits = Limits.from_config(config.action_space)
    learner = Learner.start(config, limits)
    score = NeutralityReward(config.reward.count_bonus, config.reward.invalid)
    per_step = config.grpo.group_size * config.grpo.groups_per_step
    start = evaluation(learner.policy, limits, config, n=10 * evaluations)
    began = time.process_time()
    curve, steps, proposed = [], [], _Window()
    for step in range(-(-structures // per_step)):
        rollout, metrics = learner.step(step, each_group(score))
        proposed.add(rollout.compositions, rollout.contexts)
        steps.append(metrics)
        if len(proposed.neutral) >= window or (step + 1) * per_step >= structures:
            point: dict[str, Any] = {"structures": (step + 1) * per_step, **proposed.summary()}
            for name in ("entropy_fraction", "beta", "approx_kl", "clip_fraction", "reward_mean"):
                point[name] = float(np.mean([m[name] for m in steps]))
            point["zero_spread_groups"] = int(sum(m["zero_spread_groups"] for m in steps))
            point["evaluation"] = evaluation(learner.policy, limits, config, n=evaluations)
            curve.append(point)
            steps, proposed = [], _Window(proposed.seen)
    return {
        "structures": curve[-1]["structures"],
        "seed": config.run.seed,
        "group_size": config.grpo.group_size,
        "cpu_seconds": round(time.process_time() - began, 1),
        "formulas_neutral": len(score.counts),
        "start": start,
        "end": evaluation(learner.policy, limits, config, n=10 * evaluations),
        "curve": curve,
    }


@torch.no_grad()
def evaluation(policy: CompositionPolicy, limits: Limits, config: Config, *, n: int) -> dict[str, Any]:
    """Neutral and unique among n compositions drawn as evaluations draw: w at its mean, no sub-group mask."""
    context = evaluation_context(limits, alpha=config.reward.alpha)
    conditions = Conditions.from_contexts([context], n, policy)
    drawn = sample(policy, conditions, limits, torch_generator(config.run.seed, "evaluation"))
    entropy = evaluate(policy, Actions.prepare(drawn, conditions, limits)).entropy.mean().item()
    return {
        "n": n,
        "neutral": int(is_neutral(drawn).sum()),
        "unique": len(set(drawn.formulas)),
        "entropy_fraction": entropy / h_max(limits.n_allowed, k=limits.k, max_atoms=limits.max_atoms),
        "mean_k": float(drawn.k.mean()),
        "mean_atoms": float(drawn.n_atoms.mean()),
        "elements": len(np.unique(drawn.numbers)),
    }


@cache
def neutral_pairs() -> NDArray[np.bool_]:
    """Pairs of elements with a neutral binary of up to 20 atoms, at most 12 of each.  # [84, 84]"""
    n = len(VOCABULARY)
    counts = np.array([(a, b) for a in range(1, 13) for b in range(1, 13) if a + b <= 20])
    first, second = np.triu_indices(n, 1)
    numbers = np.repeat(NUMBERS[np.stack([first, second], axis=1)], len(counts), axis=0)
    cells = Compositions.from_padded(numbers, np.tile(counts, (len(first), 1)))
    possible = is_neutral(cells).reshape(len(first), -1).any(axis=1)
    pairs = np.zeros((n, n), dtype=bool)
    pairs[first, second] = pairs[second, first] = possible
    return pairs


class _Window:
    """What was proposed in a stretch of the run."""

    def __init__(self, seen: set[str] | None = None) -> None:
        self.seen = set() if seen is None else seen  # formulas of the whole run
        self.neutral: list[bool] = []
        self.possible: list[bool] = []
        self.formulas: list[str] = []
        self.new = 0

    def add(self, compositions: Compositions, contexts: list[Context]) -> None:
        self.neutral += is_neutral(compositions).tolist()
        for context in contexts:
            # A sub-group of metals alone holds no neutral composition; the policy cannot be blamed.
            possible = bool(neutral_pairs()[np.ix_(context.subgroup, context.subgroup)].any())
            self.possible += [possible] * (len(compositions) // len(contexts))
        for formula in compositions.formulas:
            self.new += formula not in self.seen
            self.seen.add(formula)
            self.formulas.append(formula)

    def summary(self) -> dict[str, int]:
        return {
            "n": len(self.neutral),
            "neutral": sum(self.neutral),
            "neutral_possible": sum(self.possible),
            "unique": len(set(self.formulas)),
            "new_formulas": self.new,
        }


def interval(successes: int, n: int) -> tuple[float, float]:
    """Wilson 95 % confidence interval of a fraction."""
    low, high = binomtest(successes, n).proportion_ci(method="wilson")
    return float(low), float(high)


def draw_curve(result: dict[str, Any], path: Path) -> None:
    """Fractions, entropy and coefficient over the run as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    curve = result["curve"]
    x = [point["structures"] for point in curve]
    figure, (rates, control) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, layout="constrained")
    for label, style, values in [
        ("neutral, no mask", "-", [(p["evaluation"]["neutral"], p["evaluation"]["n"]) for p in curve]),
        ("unique, no mask", "-", [(p["evaluation"]["unique"], p["evaluation"]["n"]) for p in curve]),
        ("neutral, training", "--", [(p["neutral"], p["n"]) for p in curve]),
        ("unique, training", "--", [(p["unique"], p["n"]) for p in curve]),
        ("neutral exists in the sub-group", ":", [(p["neutral_possible"], p["n"]) for p in curve]),
    ]:
        (line,) = rates.plot(x, [s / n for s, n in values], style, label=label)
        low, high = zip(*(interval(s, n) for s, n in values), strict=True)
        rates.fill_between(x, low, high, alpha=0.15, color=line.get_color(), linewidth=0)
    rates.set(ylabel="fraction (95 % interval)", ylim=(0, 1.02))
    rates.legend(fontsize="small", loc="lower right")
    control.plot(x, [p["entropy_fraction"] for p in curve], label="H / H_max, training")
    control.axhline(0.85, color="grey", linewidth=0.8, linestyle=":", label="target")
    control.set(xlabel="structures", ylabel="H / H_max", ylim=(0, 1))
    beta = control.twinx()
    beta.plot(x, [p["beta"] for p in curve], color="tab:red", label="β_H (right)")
    beta.set(ylabel="β_H", ylim=(0, None))
    handles = [*control.get_legend_handles_labels()[0], *beta.get_legend_handles_labels()[0]]
    control.legend(handles=handles, fontsize="small", loc="lower right")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--structures", type=int, default=100_000, help="compositions to propose")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="files to write, without extension")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="override the config")
    arguments = parser.parse_args()
    overrides = [*arguments.set, f"run.seed={arguments.seed}"]
    config = load_config(preset="paper", overrides=overrides).config
    result = run(config, structures=arguments.structures)
    arguments.out.with_suffix(".json").write_text(json.dumps(_rounded(result), indent=1) + "\n")
    draw_curve(result, arguments.out.with_suffix(".png"))
    summary = {name: result[name] for name in ("structures", "cpu_seconds", "start", "end")}
    json.dump(_rounded(summary), sys.stdout, indent=1)
    sys.stdout.write("\n")


def _rounded(value: Any) -> Any:
    """The same document with floats of five digits."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
