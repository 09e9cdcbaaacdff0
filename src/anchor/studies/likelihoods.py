"""Whether novelty pulls against a prior's likelihood: Cov(log p₀(x|c), ν(x)) with a prior that has one.

The paper argues that a negative covariance is plausible, not that it holds (eq:novelty_covariance). The prior
`wyckoff` chooses space group, positions and coordinates one after the other, each with a probability, and a
cell that follows from them, so log p₀(x|c) of a random crystal is the sum over its choices (of a coordinate:
the probability of its peak).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition
from anchor.crystals.crystals import Crystals
from anchor.crystals.rdf import rdf_embedding
from anchor.errors import InputError
from anchor.models.data import reference_split
from anchor.models.wyckoff.encoding import decode
from anchor.priors import load_prior
from anchor.priors.overlaps import make_room
from anchor.priors.wyckoff import WyckoffPrior
from anchor.random import generator
from anchor.reference.reference import load_reference
from anchor.reward.novelty import reference_novelty

DRAWS = 10_000


@dataclass(frozen=True, eq=False)
class Drawn:
    """Random crystals of some compositions.

    Attributes:
        formulas: Reduced.  # n
        log_p: log p₀(x|c), nats.  # [n, m]
        novelty: ν(x) against the reference.  # [n, m]
    """

    formulas: list[str]
    log_p: NDArray[np.float64]
    novelty: NDArray[np.float64]


def known_compositions(n: int, *, seed: int = 0) -> list[Composition]:
    """Cells of the reference's test split, one of a formula: of unknown formulas novelty is a constant."""
    crystals = reference_split("test")
    formulas = crystals.formulas
    _, first = np.unique(formulas, return_index=True)
    if n > len(first):
        raise InputError(f"the test split has {len(first)} formulas, fewer than {n}")
    chosen = np.sort(generator(seed, "covariance").choice(first, size=n, replace=False))
    return list(crystals[chosen].compositions)


def draw(compositions: Sequence[Composition], each: int, *, seed: int = 0, prior: str = "wyckoff") -> Drawn:
    """So many random crystals of each composition, with their likelihoods and novelties."""
    maker = load_prior(prior)
    if not isinstance(maker, WyckoffPrior):
        raise InputError(f"the prior '{prior}' has no likelihoods", "choose wyckoff, or weights of it")
    log_p, novelty = [], []
    index = load_reference().rdf
    for place, composition in enumerate(compositions):
        numbers, counts = np.unique(composition.numbers, return_counts=True)
        query = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        streams = [generator(seed, "covariance", place, i) for i in range(each)]
        drafts = maker.writer.random([query] * each, streams)
        made = [decode(one) for one in maker.model.described(maker.writer, drafts)]
        crystals = make_room(Crystals.concatenate(made), maker.shortest)
        scores = reference_novelty([composition.formula] * each, rdf_embedding(crystals), index)
        log_p.append([draft.log_p for draft in drafts])
        novelty.append([score.value for score in scores])
    return Drawn([c.formula for c in compositions], np.array(log_p), np.array(novelty))


def covariances(log_p: NDArray[np.float64], reward: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unbiased estimate of Cov_{p₀(·|c)}(log p₀, R) of every composition.  # [n, m], [n, m] -> [n]"""
    centred = log_p - log_p.mean(axis=1, keepdims=True)
    found: NDArray[np.float64] = (centred * (reward - reward.mean(axis=1, keepdims=True))).sum(axis=1)
    return found / (log_p.shape[1] - 1)


def covariance_summary(drawn: Drawn, *, seed: int = 0) -> dict[str, Any]:
    """Mean over compositions with its 95 % bootstrap interval, signs, and mean correlation."""
    found = covariances(drawn.log_p, drawn.novelty)
    n, each = drawn.log_p.shape
    rng = generator(seed, "covariance bootstrap")
    means = found[rng.integers(0, n, size=(DRAWS, n))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    spread = drawn.log_p.std(axis=1, ddof=1) * drawn.novelty.std(axis=1, ddof=1)
    varied = spread > 0
    correlation = found[varied] / spread[varied]
    return {
        "compositions": n,
        "crystals_each": each,
        "covariance": float(found.mean()),
        "low": float(low),
        "high": float(high),
        "negative": int((found < 0).sum()),
        "positive": int((found > 0).sum()),
        "zero": int((found == 0).sum()),
        "correlation": float(correlation.mean()) if varied.any() else None,
        "mean_log_p": float(drawn.log_p.mean()),
        "mean_novelty": float(drawn.novelty.mean()),
    }
