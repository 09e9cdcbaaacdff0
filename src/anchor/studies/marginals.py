"""What fine-tuning made of a composition marginal, told from samples before and after.

Compositions are too many to count one by one, so each is first seen through a coarse view: one of its
elements, one of its pairs of elements, how many elements, how many atoms in its formula. A view can only lose
divergence (data processing), so every D_KL below is a lower bound of the one between the marginals. Samples
alone make two equal marginals look different by `chance`, the mean divergence between random halves of the
pooled sample of the same sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from anchor.chemistry.composition import Composition
from anchor.random import generator

View = Callable[[Composition], Mapping[Hashable, float]]
"""Chances of a composition's classes, which sum to 1."""
MASS = 0.999
"""Of the pretrained model: what is outside is chemistry that it hardly proposes."""
DRAWS = 200
"""Of bootstrap and permutation."""
SMOOTHING = 0.5
"""Added to every class of either sample: a class that was not drawn is not impossible."""


def _evenly(classes: Sequence[Hashable]) -> dict[Hashable, float]:
    return {one: 1 / len(classes) for one in classes}


VIEWS: dict[str, View] = {
    "elements": lambda c: _evenly(c.elements),
    "pairs": lambda c: _evenly(list(combinations(sorted(c.elements), 2)) or [c.elements]),
    "number of elements": lambda c: {len(c.elements): 1.0},
    "atoms per formula": lambda c: {c.n_atoms // gcd(*c.counts): 1.0},
    "formulas": lambda c: {c.formula: 1.0},
}


def divergence_of_samples(
    before: Sequence[Composition], after: Sequence[Composition], view: View, *, seed: int = 0
) -> dict[str, float]:
    """D_KL(after ‖ before) through a view, in nats, with its 95 % bootstrap interval and that of chance."""
    p, q = _table([*before, *after], view, len(before))
    rng = generator(seed, "marginals")
    value = _divergence(q.sum(axis=0), p.sum(axis=0))
    drawn = [_divergence(_resampled(q, rng), _resampled(p, rng)) for _ in range(DRAWS)]
    both = np.concatenate([p, q])
    chance = []
    for _ in range(DRAWS):
        mixed = both[rng.permutation(len(both))]
        chance.append(_divergence(mixed[len(p) :].sum(axis=0), mixed[: len(p)].sum(axis=0)))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {
        "nats": value,
        "low": float(low),
        "high": float(high),
        "chance": float(np.mean(chance)),
        "chance_high": float(np.quantile(chance, 0.95)),
    }


def _table(
    compositions: Sequence[Composition], view: View, first: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Chances of the classes of every composition, of both samples over the same classes."""
    seen = [view(c) for c in compositions]
    place = {one: i for i, one in enumerate(dict.fromkeys(k for chances in seen for k in chances))}
    table = np.zeros((len(seen), len(place)))
    for row, chances in zip(table, seen, strict=True):
        for one, chance in chances.items():
            row[place[one]] = chance
    return table[:first], table[first:]


def _resampled(rows: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows))) @ rows


def _divergence(q: NDArray[np.float64], p: NDArray[np.float64]) -> float:
    q, p = (counts + SMOOTHING for counts in (q, p))
    return float(rel_entr(q / q.sum(), p / p.sum()).sum())


def usual_classes(sample: Sequence[Composition], view: View, mass: float = MASS) -> set[Hashable]:
    """The fewest classes that hold this share of a sample."""
    total: Counter[Hashable] = Counter()
    for composition in sample:
        total.update(view(composition))  # shares, not counts
    kept: set[Hashable] = set()
    held, needed = 0.0, mass * sum(total.values())
    for one, weight in sorted(total.items(), key=lambda pair: (-pair[1], str(pair[0]))):
        if held >= needed:
            break
        kept.add(one)
        held += weight
    return kept


def share_outside(sample: Sequence[Composition], usual: set[Hashable], view: View) -> float:
    """Mass of a sample outside of given classes."""
    return float(np.mean([sum(p for one, p in view(c).items() if one not in usual) for c in sample]))


def tilt(
    before: Sequence[Composition],
    again: Sequence[Composition],
    after: Sequence[Composition],
    *,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """What a fine-tune made of the composition marginal, view by view.

    Args:
        before: Of the pretrained generator.
        again: More of it, that had no part in what is usual: how much of it is outside by chance.
        after: Of the fine-tuned one.
    """
    found = []
    for name, view in VIEWS.items():
        usual = usual_classes(before, view)
        found.append(
            {
                "view": name,
                "classes": len(usual),
                **divergence_of_samples(before, after, view, seed=seed),
                "outside": share_outside(after, usual, view),
                "outside_before": share_outside(again, usual, view),
            }
        )
    return found
