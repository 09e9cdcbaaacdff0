"""Fit a policy by maximum likelihood to a distribution over ranked formulas: a start that is broad.

    q(c) ∝ exp(chance(c) / temperature)      over a list of formulas with chances

The temperature follows from how many formulas the policy is to spread over: two draws from q are the same
formula with probability 1 / effective, so that of n draws about n² / (2 effective) repeat another.

Contexts are drawn as a campaign draws them (w ~ Dirichlet, random sub-groups S), and formulas from q
restricted to S, so that the policy stays conditioned on both. The order of the elements is part of a policy's
action and means nothing in a formula, so every draw shuffles it: the policy learns all orders alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import VOCABULARY
from anchor.errors import InputError
from anchor.policy.actions import from_actions, to_actions
from anchor.policy.constraints import CARDINALITIES, Limits
from anchor.policy.distribution import Actions, Conditions, evaluate
from anchor.policy.network import CompositionPolicy
from anchor.policy.rollout import Context, evaluation_context, sample_context
from anchor.policy.weights import make_optimiser
from anchor.random import generator

BALANCE_ROUNDS = 200
"""Most rounds of raking; shares are within TOLERANCE of their bounds after a few dozen."""
TOLERANCE = 1e-3
"""Relative excess of an element's share over its cap that is let through."""
COLDEST, HOTTEST, TEMPERATURE_ROUNDS = 1e-3, 1e3, 30
"""Temperatures between which the one that gives `effective` is found by bisection."""
CHUNK = 4096
"""Actions whose likelihood is computed at once."""


@dataclass(frozen=True)
class FitSettings:
    """How a policy is fitted.

    Attributes:
        effective: Formulas that q spreads over, 1 / Σ q².
        element_cap: Largest share of formulas with one element under q.
        k_floor: Least share of each number of elements under q, where the list has any.
        steps: Updates.
        contexts: Contexts of an update.
        rows: Formulas drawn in each.
        unmasked: Share of contexts without sub-group mask, as evaluations draw.
        learning_rate: Largest; it rises over the first twentieth and falls to zero as a cosine.
        held_out: Share of the formulas that are never learned from.
        seed: Of every draw.
    """

    effective: float = 15_000
    element_cap: float = 0.2
    k_floor: float = 0.03
    steps: int = 1500
    contexts: int = 16
    rows: int = 16
    unmasked: float = 0.5
    learning_rate: float = 3e-3
    held_out: float = 0.02
    seed: int = 0

    def rate(self, step: int) -> float:
        """Learning rate of a step."""
        progress = step / self.steps
        warm = min(progress / 0.05, 1.0)
        return self.learning_rate * warm * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True, eq=False)
class Target:
    """q over formulas, each an action of one formula unit (or of as many as were given).

    Attributes:
        elements, counts: As `to_actions` gives them.  # two [n, 4]
        weights: q, but for a factor.  # [n]
        temperature: In units of the chance.
    """

    elements: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: NDArray[np.float64]
    temperature: float

    @classmethod
    def from_ranking(
        cls, compositions: Compositions, chances: NDArray[np.float64], settings: FitSettings
    ) -> Target:
        """q of a list of compositions with chances, raked so that no element and no k takes all of it.

        Raises:
            InputError: The list is empty, names a composition twice, or has chances that are no numbers.
        """
        if not len(compositions):
            raise InputError("the ranking is empty", "rank some formulas first: anchor screen")
        if len(compositions) != len(chances) or not np.isfinite(chances).all():
            raise InputError("every formula of the ranking needs a chance that is a number")
        if len(set(compositions.formulas)) < len(compositions):
            raise InputError("the ranking names a formula twice", "keep one row for each formula")
        elements, counts = to_actions(compositions)
        if settings.effective > 0.9 * len(compositions):
            raise InputError(
                f"{len(compositions)} formulas cannot be spread over {settings.effective:,.0f} of them",
                f"give a longer ranking, or ask for at most {0.9 * len(compositions):,.0f}",
            )
        low, high = np.log(COLDEST), np.log(HOTTEST)
        for _ in range(TEMPERATURE_ROUNDS):
            middle = (low + high) / 2
            q = _raked(np.exp((chances - chances.max()) / np.exp(middle)), elements, settings)
            low, high = (middle, high) if 1 / (q**2).sum() < settings.effective else (low, middle)
        return cls(elements, counts, q, float(np.exp(middle)))

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows: NDArray[np.int64]) -> Target:
        """q of some of the formulas, with their weights as they are."""
        return Target(self.elements[rows], self.counts[rows], self.weights[rows], self.temperature)

    @property
    def compositions(self) -> Compositions:
        """The formulas."""
        return from_actions(self.elements, self.counts)

    @property
    def q(self) -> NDArray[np.float64]:
        """Probabilities, of sum one.  # [n]"""
        return self.weights / self.weights.sum()

    @cached_property
    def _bits(self) -> NDArray[np.uint64]:
        """The elements of each formula as bits.  # [n, 2]"""
        return _as_bits(_membership(self.elements))

    def within(self, limits: Limits) -> Target:
        """The formulas that the limits allow."""
        index = torch.as_tensor(self.elements)
        lower, upper = (bound.numpy() for bound in limits.count_bounds(index))
        members = _membership(self.elements)
        size = self.counts.sum(axis=1)
        fits = (lower <= self.counts).all(axis=1) & (self.counts <= upper).all(axis=1)
        fits &= ~members[:, ~limits.allowed.cpu().numpy()].any(axis=1)
        fits &= members[:, limits.required.cpu().numpy()].all(axis=1)
        fits &= np.isin((self.elements >= 0).sum(axis=1), limits.k)
        fits &= (limits.min_atoms <= size) & (size <= limits.max_atoms)
        if not fits.any():
            raise InputError("the limits allow none of the ranking's formulas", "rank formulas within them")
        return self[np.flatnonzero(fits)]

    def split(self, held_out: float, *, seed: int) -> tuple[Target, Target]:
        """Formulas to learn from and formulas held out, at random."""
        order = generator(seed, "fit", "split").permutation(len(self))
        n = min(math.ceil(held_out * len(self)), len(self) - 1)
        return self[np.sort(order[n:])], self[np.sort(order[:n])]

    def draw(
        self, contexts: Sequence[Context], rows: int, rng: np.random.Generator
    ) -> tuple[Compositions, list[Context]]:
        """`rows` formulas for each context from q restricted to its sub-group, elements in random order.

        Returns:
            Compositions, rows of one context together, and the contexts that hold some formula at all.
        """
        chosen: list[NDArray[np.int64]] = []
        kept: list[Context] = []
        for context in contexts:
            outside = self._bits & _as_bits(~context.subgroup[None])
            possible = np.flatnonzero((outside[:, 0] | outside[:, 1]) == 0)
            if not len(possible):
                continue
            levels = self.weights[possible].cumsum()
            places = np.searchsorted(levels, rng.random(rows) * levels[-1], side="right")
            chosen.append(possible[np.minimum(places, len(possible) - 1)])
            kept.append(context)
        index = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
        return from_actions(*_shuffled(self.elements[index], self.counts[index], rng)), kept


def fit_policy(
    policy: CompositionPolicy,
    target: Target,
    limits: Limits,
    settings: FitSettings,
    *,
    alpha: Sequence[float],
    every: int = 500,
    on_point: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Raise the likelihood of the target's formulas; the policy is changed in place.

    Args:
        alpha: Dirichlet of w.
        every: Steps between points of the curve.
        on_point: Called with each point.

    Returns:
        The curve: mean log-likelihood (nats) of formulas, orders summed, drawn from the learned and from the
        held-out part of q without sub-group mask.
    """
    learned, unseen = target.within(limits).split(settings.held_out, seed=settings.seed)
    parts = {"log_likelihood": learned, "held_out": unseen}
    watched = {name: part[_watched(part, settings.seed)] for name, part in parts.items() if len(part)}
    optimiser = make_optimiser(policy, settings.learning_rate)
    curve: list[dict[str, Any]] = []
    for step in range(settings.steps + 1):
        if step % every == 0 or step == settings.steps:
            point: dict[str, Any] = {"step": step}
            for name, part in watched.items():
                found = formula_log_likelihood(policy, part, limits, alpha=alpha)
                point[name] = round(float(found.mean()), 4)
            curve.append(point)
            if on_point is not None:
                on_point(curve[-1])
        if step == settings.steps:
            break
        rng = generator(settings.seed, "fit", step)
        contexts = [
            sample_context(limits, rng, alpha=alpha, subgroup_mask=bool(rng.random() >= settings.unmasked))
            for _ in range(settings.contexts)
        ]
        drawn, kept = learned.draw(contexts, settings.rows, rng)
        if not kept:
            continue
        conditions = Conditions.from_contexts(kept, settings.rows, policy)
        loss = -evaluate(policy, Actions.prepare(drawn, conditions, limits)).log_prob.mean()
        optimiser.param_groups[0]["lr"] = settings.rate(step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return curve


@torch.no_grad()
def formula_log_likelihood(
    policy: CompositionPolicy, target: Target, limits: Limits, *, alpha: Sequence[float]
) -> NDArray[np.float64]:
    """log Σ over orders of π(c | w at its mean, no mask) of every formula, nats.  # [n]"""
    context = evaluation_context(limits, alpha=alpha)
    k = (target.elements >= 0).sum(axis=1)
    found = np.full(len(target), -np.inf)
    for size in CARDINALITIES:
        rows = np.flatnonzero(k == size)
        for order in permutations(range(size)):
            columns = [*order, *range(size, MAX_ELEMENTS)]
            for part in np.array_split(rows, -(-len(rows) // CHUNK) or 1):
                actions = from_actions(target.elements[part][:, columns], target.counts[part][:, columns])
                conditions = Conditions.from_contexts([context], len(part), policy)
                values = evaluate(policy, Actions.prepare(actions, conditions, limits)).log_prob
                found[part] = np.logaddexp(found[part], values.double().cpu().numpy())
    return found


def _watched(target: Target, seed: int, n: int = 1000) -> NDArray[np.int64]:
    """Rows drawn from q whose likelihood makes the curve."""
    return generator(seed, "fit", "watched").choice(len(target), size=n, p=target.q)


def _membership(elements: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which elements each row has.  # [n, 4] -> [n, 84]"""
    members = np.zeros((len(elements), len(VOCABULARY) + 1), dtype=bool)
    np.put_along_axis(members, elements, True, axis=1)  # -1, no element, is the last column
    return members[:, :-1]


def _as_bits(members: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Sets of elements as bits.  # [n, 84] -> [n, 2]"""
    packed = np.zeros((len(members), 16), dtype=np.uint8)
    packed[:, :11] = np.packbits(members, axis=1)  # 84 bits
    return packed.view(np.uint64)


def _raked(
    weights: NDArray[np.float64], elements: NDArray[np.int64], settings: FitSettings
) -> NDArray[np.float64]:
    """Weights of sum one with every element at most at its cap and every k at least at its floor.

    Elements above the cap and numbers of elements below the floor are scaled in turn; the order of formulas
    that share all of these stays. A list of one chemical system cannot obey the cap and keeps what it has.
    """
    k = (elements >= 0).sum(axis=1)
    weights = weights / weights.sum()
    for _ in range(BALANCE_ROUNDS):
        filled = np.repeat(weights[:, None], MAX_ELEMENTS, axis=1).ravel()
        share = np.bincount(elements.ravel() + 1, filled, minlength=len(VOCABULARY) + 1)
        factors = np.minimum(settings.element_cap / np.maximum(share, 1e-12), 1.0)
        factors[0] = 1.0  # no element
        crowded = factors < 1 - TOLERANCE
        weights = weights * factors[elements + 1].prod(axis=1)
        weights /= weights.sum()
        rare = False
        for size in CARDINALITIES:
            rows = k == size
            part = weights[rows].sum()
            if rows.any() and part < settings.k_floor * (1 - TOLERANCE):
                rare = True
                weights[rows] *= settings.k_floor / max(part, 1e-12)
        weights /= weights.sum()
        if not crowded.any() and not rare:
            break
    return weights


def _shuffled(
    elements: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every row's elements in random order, empty slots last."""
    keys = np.where(elements >= 0, rng.random(elements.shape), 2.0)
    order = np.argsort(keys, axis=1)
    return np.take_along_axis(elements, order, axis=1), np.take_along_axis(counts, order, axis=1)
