"""Policy warm start: GRPO on rewards that cost nothing, before any crystal is relaxed. Beyond the paper.

The learner is the campaign's own (`anchor.policy.grpo`): the same contexts, so that the policy stays
conditioned on the objective weights w and on sub-groups, and a reward of the same shape (eq:reward):

    r = m·w + λ_c/√n_f + κ·u(P_find) − c·T   for a charge-neutral composition, r_inv for any other

with m = (stability, novelty, d_struct, d_comp). Stability comes from the composition surrogate on the DFT
hulls of both databases; novelty from known formulas and earlier proposals; d_comp is real; d_struct, which
needs crystals, is a constant. P_find is the probability that an unknown formula is a compound, u its utility.

The surrogate has never seen most of what is proposed, and a learner finds its holes: with P_find from the
surrogate's energy alone, 48 % expected finds were one among 47 relaxed. Therefore its spread is added to its
energy, P_find weighs it against the nearest known crystals (`anchor.screening.plausibility`), and
`describe_policy` reports what a policy that exploits holes would show: few elements, repeats, known formulas,
large spreads, energies far below the hull. `anchor policy check` then relaxes what the policy proposes.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBERS, SYMBOLS, VOCABULARY
from anchor.config import Config, load_config
from anchor.hull.hull import Hull
from anchor.policy.constraints import Limits
from anchor.policy.distribution import Actions, evaluate
from anchor.policy.draw import draw_compositions
from anchor.policy.grpo import Learner, Proposal, Scores
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context, evaluation_context, h_max
from anchor.priors.templates import TemplatePrior
from anchor.reference.reference import Reference
from anchor.reward.diversity import comp_kernel, diversity
from anchor.reward.score import count_bonus, reward
from anchor.reward.stability import stability_score
from anchor.screening.evidence import Evidence, gather_evidence, hull_energies
from anchor.screening.plausibility import Plausibility
from anchor.screening.surrogate import Surrogate

MEMORY = 5000
"""Proposals after which a formula may be proposed again as if it were new."""
HALF = 0.02
"""Of relaxed ternaries with P from 0.003 to 0.02, 0.02 to 0.1, 0.1 to 0.3 and above, 1 of 24, 6 of 24, 4 of
24 and 11 of 32 were finds; of random neutral compositions, 5 of 128."""
LOG_RANGE = 10.0
"""Probabilities below exp(−LOG_RANGE) are all the same to the learner."""
STRUCTURAL_DIVERSITY = 0.5
"""d_struct without crystals: any constant, it drops out of the advantages."""

SETTINGS: dict[str, dict[str, Any]] = {
    # Rollouts are free, and several contexts per update learn more evenly.
    "grpo": {"groups_per_step": 4, "learning_rate": 1e-3, "epochs": 3},
    # A policy for few relaxations may be narrower than the paper's, whose controller pulls every
    # composition towards four elements and twenty atoms, where the entropy is.
    "entropy": {"base": 4e-3, "minimum": 0, "maximum": 1e-2, "target": 0.4},
}
"""How a warm start differs from a campaign of the default preset."""


def warm_start_config(
    *, structures: int, seed: int = 0, potential: str | None = None, overrides: Iterable[str] = ()
) -> Config:
    """Settings of a warm start over a number of free rollouts.

    Args:
        structures: Rollouts.
        seed: Of every random draw.
        potential: Of the campaigns to come: its calibration says which elements can be searched.
        overrides: `a.b=value`; they win.
    """
    base: dict[str, dict[str, Any]] = {**SETTINGS, "run": {"structures": structures, "seed": seed}}
    base["entropy"] = {**SETTINGS["entropy"], "horizon": structures}
    if potential is not None:
        base["relax"] = {"potential": potential}
    return load_config(base=base, overrides=list(overrides)).config


@dataclass(frozen=True)
class FindSettings:
    """What the surrogate's stability and a find are worth.

    Attributes:
        caution: Spreads added to the surrogate's energy in the stability score.
        weight: κ, weight of a find in the reward.
        known_share: Share of it that a known formula is worth: the best unknown ones are next to known ones,
            and a learner that is paid nothing there stays away from the whole region.
        atom_cost: c, price of every atom of the cell: the time of a relaxation.
    """

    caution: float = 1.0
    weight: float = 2.0
    known_share: float = 0.4
    atom_cost: float = 0.06


@dataclass(frozen=True, eq=False)
class Estimate:
    """What can be said about n compositions without crystals.

    Attributes:
        formulas: Reduced formulas.
        neutral: Charge-neutral.  # [n]
        known: The formula is in the reference, the Materials Project or OQMD.  # [n]
        evidence: Energy above the hull, its spread, templates.
        find: P_find, probability of a compound, known or not; 0 where it is not neutral.  # [n]
    """

    formulas: list[str]
    neutral: NDArray[np.bool_]
    known: NDArray[np.bool_]
    evidence: Evidence
    find: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimator:
    """Judges compositions without crystals.

    Attributes:
        surrogate: Formation energies.
        hulls: Of each database, on the surrogate's scales.
        reference: Known formulas.
        prior: Whose templates count as known crystals of a stoichiometry.
        plausibility: Turns evidence into probabilities.
        settings: What they are worth.
    """

    surrogate: Surrogate
    hulls: Sequence[Hull]
    reference: Reference
    prior: TemplatePrior
    plausibility: Plausibility
    settings: FindSettings = FindSettings()

    def __call__(self, compositions: Compositions) -> Estimate:
        formulas, neutral = compositions.formulas, is_neutral(compositions)
        hull_energy = hull_energies(compositions, self.hulls)
        evidence = gather_evidence(compositions, self.surrogate, hull_energy, self.prior)
        known = np.array([bool(self.reference.known(f)) for f in formulas], dtype=bool)
        find = np.where(neutral, self.plausibility.probability(evidence), 0.0)
        return Estimate(formulas, neutral, known, evidence, find)


def find_utility(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """u(P) = P / (P + HALF) + max(1 + ln P / LOG_RANGE, 0), between 0 and about 2.  # [n]

    P tells compounds that were made from random compositions. Within 0.1 eV/atom of the hull is less than
    that, and real relaxations say that it begins at P of about HALF: hence the first term. The second leads
    the way there: an untrained policy proposes nothing near.
    """
    with np.errstate(divide="ignore"):
        lead = np.maximum(1 + np.log(probability) / LOG_RANGE, 0.0)
    return probability / (probability + HALF) + lead


@dataclass
class FreeReward:
    """r(c) of the module's docstring. As in Algorithm 1, n_f counts all siblings of the group.

    Only the last MEMORY proposals are remembered. A campaign that starts from the policy has an empty memory;
    were nothing forgotten here, the policy would be driven out of the best regions before it is handed over.

    Attributes:
        estimator: Judges compositions.
        config: Weights of the reward.
        recent: Formulas of the last neutral proposals, in order.
        counts: How often each is among them.
        last: What was said about the groups of the last step.
    """

    estimator: Estimator
    config: Config
    recent: deque[str] = field(default_factory=deque)
    counts: Counter[str] = field(default_factory=Counter)
    last: list[Estimate] = field(default_factory=list)

    def __call__(self, proposal: Proposal) -> list[Scores]:
        self.last = []
        return [self._group(compositions, context) for compositions, context in proposal.groups()]

    def _group(self, compositions: Compositions, context: Context) -> Scores:
        estimate = self.estimator(compositions)
        self.last.append(estimate)
        first = np.zeros(len(compositions), dtype=bool)  # proposal of the formula
        for i in np.flatnonzero(estimate.neutral).tolist():
            formula = estimate.formulas[i]
            first[i] = not self.counts[formula]
            self.counts[formula] += 1
            self.recent.append(formula)
        n_f = np.array([self.counts[formula] for formula in estimate.formulas])
        while len(self.recent) > MEMORY:
            self.counts[self.recent.popleft()] -= 1
        evidence, settings = estimate.evidence, self.estimator.settings
        cautious = evidence.above_hull + settings.caution * evidence.spread
        objectives = np.stack(
            [
                stability_score(cautious),
                np.where(first & ~estimate.known, self.config.novelty.bootstrap, 0.0),
                np.full(len(compositions), STRUCTURAL_DIVERSITY),
                diversity(comp_kernel(compositions)),
            ],
            axis=1,
        )
        bonus = count_bonus(n_f, self.config.reward.count_bonus)
        share = np.where(estimate.known, settings.known_share, 1.0) * first
        bonus = bonus + settings.weight * share * find_utility(estimate.find)
        bonus = bonus - settings.atom_cost * compositions.n_atoms
        invalid = self.config.reward.invalid
        return Scores(reward(objectives, context.weights[:4], estimate.neutral, bonus, invalid))


def warm_start(
    config: Config,
    limits: Limits,
    estimator: Estimator,
    *,
    policy: CompositionPolicy | None = None,
    window: int = 5000,
    on_window: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[CompositionPolicy, dict[str, Any]]:
    """Learn for `config.run.structures` free rollouts.

    Args:
        config: From `warm_start_config`.
        limits: What may be proposed; elements with loose energy references should be left out.
        estimator: Judges compositions.
        policy: Where to start; None: untrained.
        window: Rollouts per point of the curve.
        on_window: Called with each point.

    Returns:
        The policy, and the run: its curve, and descriptions of the policy before and after.
    """
    learner = Learner.start(config, limits, policy=policy)
    score = FreeReward(estimator, config)
    per_step = config.grpo.group_size * config.grpo.groups_per_step
    weights = evaluation_context(limits, alpha=config.reward.alpha).weights.tolist()
    tell = partial(describe_policy, learner.policy, limits, estimator, weights, seed=config.run.seed)
    start = tell()
    began = time.process_time()
    curve: list[dict[str, Any]] = []
    sums: Counter[str] = Counter()
    for step in range(-(-config.run.structures // per_step)):
        _, metrics = learner.step(step, score)
        for estimate in score.last:
            sums.update(_sums(estimate))
        sums.update({"steps": 1, **{n: metrics[n] for n in ("reward_mean", "entropy_fraction", "beta")}})
        done = (step + 1) * per_step
        if sums["n"] >= window or done >= config.run.structures:
            curve.append(_point(done, sums))
            sums.clear()
            if on_window is not None:
                on_window(curve[-1])
    return learner.policy, {
        "rollouts": curve[-1]["rollouts"],
        "cpu_seconds": round(time.process_time() - began, 1),
        "start": start,
        "end": tell(),
        "curve": curve,
    }


@torch.no_grad()
def describe_policy(
    policy: CompositionPolicy,
    limits: Limits,
    estimator: Estimator,
    weights: Sequence[float],
    *,
    seed: int = 0,
    n: int = 2000,
) -> dict[str, Any]:
    """What a policy proposes when drawn as evaluations draw it: w at its mean, no sub-group mask."""
    drawn, conditions = draw_compositions(policy, n, limits, weights, seed=seed)
    entropy = evaluate(policy, Actions.prepare(drawn, conditions, limits)).entropy.mean().item()
    bound = h_max(limits.n_allowed, k=limits.k, max_atoms=limits.max_atoms)
    return describe(drawn, estimator(drawn)) | {"entropy_fraction": round(entropy / bound, 4)}


def describe(compositions: Compositions, estimate: Estimate) -> dict[str, Any]:
    """Counts and medians that show whether compositions are good, and whether the surrogate is exploited."""
    used = np.bincount(compositions.numbers, minlength=len(SYMBOLS))[NUMBERS]
    share = used[used > 0] / used.sum()
    most = np.argsort(-used)[:8]
    return {
        "n": len(compositions),
        "neutral": int(estimate.neutral.sum()),
        "unique": len(set(estimate.formulas)),
        "known": int(estimate.known.sum()),
        "with_templates": int((estimate.evidence.templates > 0).sum()),
        "plausible": int(((estimate.find >= HALF) & ~estimate.known).sum()),
        "median_estimated_above_hull_ev_per_atom": round(float(np.median(estimate.evidence.above_hull)), 4),
        "median_spread_ev_per_atom": round(float(np.median(estimate.evidence.spread)), 4),
        "median_nearest_template": round(float(np.median(estimate.evidence.nearest)), 2),
        "k": np.bincount(compositions.k, minlength=5)[2:].tolist(),
        "mean_atoms": round(float(compositions.n_atoms.mean()), 2),
        # exp(entropy): 84 if all elements were equally frequent
        "effective_elements": round(float(np.exp(-(share * np.log(share)).sum())), 1),
        "most_frequent_elements": {VOCABULARY[e]: int(used[e]) for e in most.tolist()},
    }


def card_of(settings: FindSettings) -> dict[str, Any]:
    """What belongs on the card of a policy file beside its run and the settings of its training."""
    return {
        "what": "composition policy after a warm start on free rewards",
        "find": asdict(settings),
        "threads": torch.get_num_threads(),
    }


def _sums(estimate: Estimate) -> dict[str, float]:
    return {
        "n": len(estimate.formulas),
        "neutral": int(estimate.neutral.sum()),
        "known": int(estimate.known.sum()),
        "unique": len(set(estimate.formulas)),  # within the group
        "with_templates": int((estimate.evidence.templates > 0).sum()),
        "plausible": int(((estimate.find >= HALF) & ~estimate.known).sum()),
    }


def _point(rollouts: int, sums: Counter[str]) -> dict[str, Any]:
    """One point of the curve: sums over its compositions, means over its steps."""
    point: dict[str, Any] = {"rollouts": rollouts}
    for name in ("n", "neutral", "known", "unique", "with_templates", "plausible"):
        point[name] = int(sums[name])
    for name in ("reward_mean", "entropy_fraction", "beta"):
        point[name] = round(sums[name] / sums["steps"], 5)
    return point
