"""What outcomes teach the free estimate: trees over all that is known of a composition without a crystal.

The estimate is wrong in families: what it promises too much for one rare-earth oxyhalide it promises for all.
So every relaxation says something about formulas alike. Extremely randomised trees hear the labels that the
estimate's chances were learned from, and what became of a campaign's own formulas; a leaf's share of outcomes
on the hulls is the chance that a formula in it gets. Told the outcomes before, trees rank the next 512
formulas of a search with an area under the curve of 0.66 to 0.83, a Gaussian process with 0.49 to 0.58.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.chemistry.features import element_features
from anchor.executors.base import cores
from anchor.policy.actions import to_actions
from anchor.screening.chances import METASTABLE_BELOW, N_FEATURES, STABLE_BELOW, load_labels
from anchor.screening.estimate import Estimates, load_estimate
from anchor.screening.families import electronegativities

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor

Array = NDArray[np.float32]

TREES, LEAF, TRIED = 100, 2, 0.3
"""Trees; outcomes in a leaf at least; share of the columns tried for a split. Any of 60 to 200, 1 to 4 and
0.1 to 0.6 does about as well on the outcomes of a search of 4,736 formulas."""
N_EVIDENCE = N_FEATURES + 5
"""Columns of a portrait that the estimate makes, the last ones."""
BLOCK = 128
"""Outcomes between two lessons at the beginning."""
LESSONS = 16
"""Lessons, at least, while the number of outcomes doubles: later ones change little and cost more."""


def portraits(compositions: Compositions, estimates: Estimates | None = None) -> Array:
    """All that trees see: elements from the most electronegative on, their fractions, and the evidence.

    Args:
        estimates: Of these compositions, where they are at hand.

    Returns: # [n, 4 · 38 + 4 + 21]
    """
    found = load_estimate()(compositions) if estimates is None else estimates
    return np.concatenate([descriptors(compositions), evidence(compositions, found)], axis=1)


def evidence(compositions: Compositions, estimates: Estimates) -> Array:
    """What the estimate rests on, and what it says.  # [n, 21]"""
    e = estimates
    columns = load_estimate().columns(compositions, e.evidence, e.find)
    says = np.stack([e.above_hull, e.spread, e.find, e.metastable, e.stable], axis=1)
    return np.concatenate([columns, says], axis=1).astype(np.float32)


def descriptors(compositions: Compositions) -> Array:
    """Elements from the most electronegative on, and their fractions.  # [n, 4 · 38 + 4]"""
    elements, counts = to_actions(compositions)
    affinity = np.where(elements >= 0, electronegativities()[elements], -np.inf)
    order = np.lexsort((elements, -affinity), axis=1)  # equal ones in the order of the vocabulary
    elements = np.take_along_axis(elements, order, axis=1)
    fractions = np.take_along_axis(counts, order, axis=1) / counts.sum(axis=1, keepdims=True)
    of_elements = np.where(elements[..., None] >= 0, _element_table()[elements], 0.0)
    flat = of_elements.reshape(len(elements), np.prod(of_elements.shape[1:]))
    return np.concatenate([flat, fractions], axis=1).astype(np.float32)


@cache
def _element_table() -> NDArray[np.float64]:
    """Standardised features of elements.  # [84, 38]"""
    features = element_features().astype(np.float64)
    return (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-3)


def lesson(n: int) -> int:
    """How many of n outcomes the trees have heard: all at first, later they hear them in larger portions."""
    portion = BLOCK
    while portion * 2 * LESSONS <= n:
        portion *= 2
    return n - n % portion


@dataclass(frozen=True, eq=False)
class Lessons:
    """What outcomes taught. Make it with `learn`.

    Attributes:
        trees: As fitted.
        threads: That ask them; the answer does not depend on how many.
    """

    trees: ExtraTreesRegressor
    threads: int = 1

    def chances(self, seen: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P(within 0.1 eV/atom of both hulls) and P(on them), of portraits.  # [n, p] -> [n], [n]"""
        if not len(seen):
            return np.zeros(0), np.zeros(0)
        # The forest's own way adds up in the order in which threads are done: not the same bits each time.
        with ThreadPoolExecutor(self.threads) as pool:
            found = sum(pool.map(lambda tree: tree.tree_.predict(seen), self.trees.estimators_)) / TREES
        return found[:, 0, 0], found[:, 1, 0]

    def worth(self, seen: Array) -> NDArray[np.float64]:
        """What a formula is expected to bring: half for being near the hulls, half for being on them.  # [n]

        The chance to be on them alone is small and alike for all formulas of well-studied systems.
        """
        return np.mean(self.chances(seen), axis=0)


def learn(seen: Array, above: NDArray[np.float64], *, seed: int = 0, threads: int | None = None) -> Lessons:
    """Hear the labels that ship, and what came of some formulas.

    Args:
        seen: Their portraits.  # [m, p]
        above: eV/atom above the hulls; NaN where nothing valid came, infinite where it was not the formula's
            fault, which teaches nothing.  # [m]
        seed: Of the trees.
        threads: The trees do not depend on how many; None: one for each core.
    """
    from sklearn.ensemble import ExtraTreesRegressor  # slow to import

    threads = threads or cores()
    labelled, known = _labelled()
    heard = ~np.isinf(above)
    energies = np.concatenate([known, above[heard]])
    outcomes = np.stack([energies <= METASTABLE_BELOW, energies <= STABLE_BELOW], axis=1)
    trees = ExtraTreesRegressor(
        TREES, min_samples_leaf=LEAF, max_features=TRIED, random_state=seed, n_jobs=threads
    )
    trees.fit(np.concatenate([labelled, seen[heard]]), outcomes.astype(np.float64))
    return Lessons(trees, threads)


@cache
def _labelled() -> tuple[Array, NDArray[np.float64]]:
    """Portraits of the labels that ship, and their energies above the hulls, eV/atom."""
    labels = load_labels()
    return portraits(labels.compositions), labels.above_hull
