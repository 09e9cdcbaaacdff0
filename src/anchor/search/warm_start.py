"""Policy warm start: GRPO on rewards that cost nothing, before any crystal is relaxed. Beyond the paper.

The learner is the campaign's own (`anchor.policy.grpo`): the same contexts, so that the policy stays
conditioned on the objective weights w and on sub-groups, and a reward of the same shape (eq:reward):

    r = m·w + λ_c/√n_f + κ·P_find   for a charge-neutral composition, r_inv for any other

with m = (stability, novelty, d_struct, d_comp). Stability comes from the composition surrogate on the DFT
hull of the campaign; novelty from known formulas and earlier proposals; d_comp is real; d_struct, which needs
crystals, is a constant. P_find is the probability that an unknown formula is worth a relaxation.

The surrogate has never seen most of what is proposed, and a learner finds its holes. Therefore its spread is
added to its energy, a formula counts as a find only where known crystals have its stoichiometry, and
`describe_policy` reports what a policy that exploits holes would show: few elements, repeats, known formulas,
large spreads. `anchor policy check` then relaxes what the policy proposes.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import VOCABULARY
from anchor.config import Config, load_config
from anchor.data.reference import Reference
from anchor.hull.hull import Hull
from anchor.hull.phases import N_NUMBERS
from anchor.policy.constraints import Limits
from anchor.policy.distribution import Actions, Conditions, evaluate, sample
from anchor.policy.grpo import Learner, Scores
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context, evaluation_context, h_max
from anchor.priors.units import Stoichiometry, anonymous, of_split, stoichiometry
from anchor.random import torch_generator
from anchor.reward.diversity import comp_kernel, diversity
from anchor.reward.score import count_bonus, reward
from anchor.reward.stability import stability_score
from anchor.search.surrogate import Surrogate

STRUCTURAL_DIVERSITY = 0.5
"""d_struct without crystals: any constant, it drops out of the advantages."""

SETTINGS = (
    "grpo.groups_per_step=8",  # rollouts are free, and eight contexts per update learn more evenly
    "grpo.learning_rate=5e-4",
    # A policy for few relaxations may be narrower than the paper's, whose controller pulls every
    # composition towards four elements and twenty atoms, where the entropy is.
    "entropy.base=2e-3",
    "entropy.minimum=0",
    "entropy.maximum=5e-3",
    "entropy.target=0.5",
)
"""How a warm start differs from a campaign of the default preset."""


def warm_start_config(*, structures: int, seed: int = 0, overrides: Iterable[str] = ()) -> Config:
    """Settings of a warm start over a number of free rollouts."""
    own = (f"run.structures={structures}", f"run.seed={seed}", f"entropy.horizon={structures}")
    return load_config(overrides=[*SETTINGS, *own, *overrides]).config


@dataclass(frozen=True)
class FindSettings:
    """What counts as worth a relaxation.

    Attributes:
        within: Energy above the hull of a find, eV/atom.
        caution: Spreads added to the surrogate's energy.
        weight: κ, weight of P_find in the reward.
    """

    within: float = 0.1
    caution: float = 1.0
    weight: float = 2.0


@dataclass(frozen=True, eq=False)
class Estimate:
    """What can be said about n compositions without crystals.

    Attributes:
        formulas: Reduced formulas.
        neutral: Charge-neutral.  # [n]
        above_hull: Surrogate energy above the hull, eV/atom, signed.  # [n]
        spread: Of the surrogate, eV/atom.  # [n]
        realisable: Known crystals have this stoichiometry, in a cell that fits.  # [n]
        known: The formula is in the reference, the Materials Project or OQMD.  # [n]
        find: P_find.  # [n]
    """

    formulas: list[str]
    neutral: NDArray[np.bool_]
    above_hull: NDArray[np.float64]
    spread: NDArray[np.float64]
    realisable: NDArray[np.bool_]
    known: NDArray[np.bool_]
    find: NDArray[np.float64]


class Estimator:
    """Judges compositions without crystals.

    Args:
        surrogate: Formation energies.
        hull: On the surrogate's scale.
        reference: Known formulas, and the crystals whose stoichiometries can be realised.
        settings: What counts as a find.
    """

    def __init__(
        self, surrogate: Surrogate, hull: Hull, reference: Reference, settings: FindSettings | None = None
    ) -> None:
        self.surrogate, self.hull, self.reference = surrogate, hull, reference
        self.settings = settings or FindSettings()
        self.cells = known_cells(reference)

    def __call__(self, compositions: Compositions) -> Estimate:
        formulas = compositions.formulas
        energy, spread = self.surrogate.predict(compositions)
        amounts = np.zeros((len(compositions), N_NUMBERS))
        np.put_along_axis(amounts, compositions.numbers, compositions.counts, axis=1)
        above = energy - self.hull.hull_energy(amounts)
        neutral = is_neutral(compositions)
        realisable = np.array([self._realisable(row[row > 0]) for row in compositions.counts], dtype=bool)
        known = np.array([bool(self.reference.known(f)) for f in formulas], dtype=bool)
        probability = find_probability(
            above, spread, within=self.settings.within, caution=self.settings.caution
        )
        find = np.where(neutral & realisable & ~known, probability, 0.0)
        return Estimate(formulas, neutral, above, spread, realisable, known, find)

    def _realisable(self, counts: NDArray[np.int64]) -> bool:
        units = int(np.gcd.reduce(counts))
        return any(units % z == 0 for z in self.cells.get(stoichiometry(tuple(counts.tolist())), ()))


def find_probability(
    above_hull: NDArray[np.float64], spread: NDArray[np.float64], *, within: float, caution: float
) -> NDArray[np.float64]:
    """P(E_hull ≤ within) of a normal distribution whose mean is raised by `caution` spreads.  # [n]

    Raised, because where the surrogate knows nothing (a large spread) a plain probability tends to one half.
    """
    return norm.cdf((within - above_hull - caution * spread) / spread)


def known_cells(reference: Reference) -> dict[Stoichiometry, frozenset[int]]:
    """Numbers of formula units in the reference's training crystals, by stoichiometry."""
    cells: dict[Stoichiometry, set[int]] = {}
    for _, ratio, units in anonymous(reference.crystals[of_split(reference, "train")]):
        cells.setdefault(ratio, set()).add(units)
    return {ratio: frozenset(units) for ratio, units in cells.items()}


@dataclass
class FreeReward:
    """r(c) of the module's docstring. As in Algorithm 1, n_f counts all siblings of the group.

    Attributes:
        estimator: Judges compositions.
        config: Weights of the reward.
        counts: Neutral proposals by formula.
    """

    estimator: Estimator
    config: Config
    counts: Counter[str] = field(default_factory=Counter)
    last: Estimate | None = None

    def __call__(self, compositions: Compositions, context: Context) -> Scores:
        estimate = self.last = self.estimator(compositions)
        new = np.zeros(len(compositions), dtype=bool)  # the first proposal of an unknown formula
        for i in np.flatnonzero(estimate.neutral).tolist():
            formula = estimate.formulas[i]
            new[i] = not self.counts[formula] and not estimate.known[i]
            self.counts[formula] += 1
        n_f = np.array([self.counts[formula] for formula in estimate.formulas])
        cautious = estimate.above_hull + self.estimator.settings.caution * estimate.spread
        objectives = np.stack(
            [
                stability_score(cautious),
                np.where(new, self.config.novelty.bootstrap, 0.0),
                np.full(len(compositions), STRUCTURAL_DIVERSITY),
                diversity(comp_kernel(compositions)),
            ],
            axis=1,
        )
        bonus = count_bonus(n_f, self.config.reward.count_bonus)
        bonus = bonus + self.estimator.settings.weight * np.where(new, estimate.find, 0.0)
        settings = self.config.reward
        return Scores(reward(objectives, context.weights[:4], estimate.neutral, bonus, settings.invalid))


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
    start = describe_policy(learner.policy, limits, estimator, config)
    began = time.process_time()
    curve: list[dict[str, Any]] = []
    sums: Counter[str] = Counter()
    for step in range(-(-config.run.structures // per_step)):
        rollout = learner.rollout(step)
        scores = []
        for index in range(len(rollout.contexts)):
            scores.append(score(*rollout.group(index)))
            sums.update(_sums(score.last))
        metrics = learner.update(rollout, scores)
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
        "end": describe_policy(learner.policy, limits, estimator, config),
        "curve": curve,
    }


@torch.no_grad()
def describe_policy(
    policy: CompositionPolicy, limits: Limits, estimator: Estimator, config: Config, *, n: int = 2000
) -> dict[str, Any]:
    """What a policy proposes when drawn as evaluations draw it: w at its mean, no sub-group mask."""
    context = evaluation_context(limits, alpha=config.reward.alpha)
    conditions = Conditions.from_contexts([context], n, policy)
    drawn = sample(policy, conditions, limits, torch_generator(config.run.seed, "evaluation"))
    entropy = evaluate(policy, Actions.prepare(drawn, conditions, limits)).entropy.mean().item()
    bound = h_max(limits.n_allowed, k=limits.k, max_atoms=limits.max_atoms)
    return describe(drawn, estimator(drawn)) | {"entropy_fraction": round(entropy / bound, 4)}


def describe(compositions: Compositions, estimate: Estimate) -> dict[str, Any]:
    """Counts and medians that show whether compositions are good, and whether the surrogate is exploited."""
    used = np.bincount(compositions.elements[compositions.elements >= 0], minlength=len(VOCABULARY))
    share = used[used > 0] / used.sum()
    most = np.argsort(-used)[:8]
    return {
        "n": len(compositions),
        "neutral": int(estimate.neutral.sum()),
        "unique": len(set(estimate.formulas)),
        "known": int(estimate.known.sum()),
        "realisable": int(estimate.realisable.sum()),
        "expected_finds": round(float(estimate.find.sum()), 1),
        "median_estimated_above_hull_ev_per_atom": round(float(np.median(estimate.above_hull)), 4),
        "median_spread_ev_per_atom": round(float(np.median(estimate.spread)), 4),
        "k": np.bincount(compositions.k, minlength=5)[2:].tolist(),
        "mean_atoms": round(float(compositions.n_atoms.mean()), 2),
        # exp(entropy): 84 if all elements were equally frequent
        "effective_elements": round(float(np.exp(-(share * np.log(share)).sum())), 1),
        "most_frequent_elements": {VOCABULARY[e]: int(used[e]) for e in most.tolist()},
    }


def card_of(data: bytes, config: Config, settings: FindSettings, elements: Sequence[str]) -> dict[str, Any]:
    """What belongs on the card of a policy file beside its run."""
    return {
        "what": "composition policy after a warm start on free rewards",
        "sha256": hashlib.sha256(data).hexdigest(),
        "config": {
            name: getattr(config, name).model_dump(mode="json") for name in ("grpo", "entropy", "reward")
        },
        "find": asdict(settings),
        "elements": list(elements),
        "threads": torch.get_num_threads(),
    }


def write_card(path: Path, card: Mapping[str, Any]) -> None:
    """The card as JSON, a point of a curve per line."""
    text = json.dumps(card, indent=1)
    text = re.sub(r"\{[^{}]*\}|\[[^\[\]{}]*\]", lambda match: " ".join(match[0].split()), text)
    path.write_text(text + "\n")


def _sums(estimate: Estimate | None) -> dict[str, float]:
    assert estimate is not None, "the reward has scored a group"
    return {
        "n": len(estimate.formulas),
        "neutral": int(estimate.neutral.sum()),
        "known": int(estimate.known.sum()),
        "unique": len(set(estimate.formulas)),  # within the group
        "realisable": int(estimate.realisable.sum()),
        "expected_finds": float(estimate.find.sum()),
    }


def _point(rollouts: int, sums: Counter[str]) -> dict[str, Any]:
    """One point of the curve: sums over its compositions, means over its steps."""
    point: dict[str, Any] = {"rollouts": rollouts}
    for name in ("n", "neutral", "known", "unique", "realisable"):
        point[name] = int(sums[name])
    point["expected_finds"] = round(sums["expected_finds"], 2)
    for name in ("reward_mean", "entropy_fraction", "beta"):
        point[name] = round(sums[name] / sums["steps"], 5)
    return point
