"""Does an unknown composition look like a compound? A probability that needs no crystal.

The surrogate alone is too kind: among its training formulas of uncommon stoichiometry nearly all are
compounds somebody made, so it has never seen one that cannot be made, and a policy finds that out at once.
Therefore real compounds are compared with random charge-neutral compositions, by logistic regression on

- the surrogate's energy above the hulls of both databases (the larger distance, and by how much they differ),
  and its spread,
- how near the nearest known crystal of the stoichiometry is, counted in replaced elements
  (`anchor.priors.similarity`), and how many such crystals there are,
- whether the charges balance with everyday oxidation states (the search's own rule knows rare ones too).

The number of elements is left out on purpose. It would help to tell quaternary compounds from quaternary
random compositions, which are all far from any known crystal; but among what a policy proposes, it would
excuse quaternaries for being far, and of those one in seventeen was a find (of ternaries one in six).

The compounds are held out: neither the surrogate nor the templates have seen their formulas, and the hull
they are compared with lacks them. So the regression also learns how far the surrogate can be trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from anchor.chemistry.bounds import MAX_ELEMENTS
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBER, NUMBERS, VOCABULARY
from anchor.chemistry.spaces import sample_neutral, sample_random
from anchor.errors import InputError, MissingDependencyError
from anchor.hull.hull import Hull
from anchor.paths import BUNDLED
from anchor.priors.templates import TemplatePrior
from anchor.random import generator
from anchor.reading import read_json
from anchor.reference.reference import Reference
from anchor.screening.evidence import (
    Evidence,
    gather_evidence,
    hull_energies,
    hull_energies_of_others,
)
from anchor.screening.nearness import FARTHEST
from anchor.screening.surrogate import Surrogate, surrogate_hash
from anchor.writing import replace_file

SHIPPED = BUNDLED / "screening" / "plausibility.json"
"""The regression that ships."""
SHARE = 0.02
"""Fraction of such compositions that are compounds waiting to be found: sets the level of the probability,
not its order. Of 64 realised random ones, 5 % were on the hull, most of them known."""
PENALTY = 1e-3
"""Of squared coefficients, per example."""


def features(evidence: Evidence) -> NDArray[np.float64]:
    """Columns of the regression; straight lines with kinks where the meaning changes.  # [n, 10]"""
    above = np.clip(evidence.above_hull, -0.6, 1.0)
    near = np.clip(evidence.nearest, FARTHEST, 0)
    return np.stack(
        [
            np.ones(len(above)),
            np.minimum(above + 0.1, 0),  # far below the hull: too good to be true?
            np.maximum(above + 0.1, 0),
            np.minimum(evidence.gap, 1.0),
            evidence.spread,
            near,
            np.maximum(near + 8, 0),
            np.maximum(near + 4, 0),
            np.log1p(evidence.templates),
            evidence.everyday,
        ],
        axis=1,
    )


@dataclass(frozen=True)
class Plausibility:
    """The fitted regression.

    Attributes:
        coefficients: Of `features`.
        card: Where it comes from and how well it tells compounds from random compositions.
    """

    coefficients: tuple[float, ...]
    card: Mapping[str, Any]

    def probability(self, evidence: Evidence) -> NDArray[np.float64]:
        """Probability of being a compound near the hull, given a share SHARE beforehand.  # [n]"""
        return expit(features(evidence) @ np.array(self.coefficients) + logit(SHARE))

    def save(self, path: Path) -> None:
        replace_file(path, json.dumps(asdict(self), indent=1) + "\n")


def fit_plausibility(
    surrogate: Surrogate,
    hulls: Sequence[Hull],
    reference: Reference,
    prior: TemplatePrior,
    *,
    n: int = 4000,
    seed: int = 0,
) -> Plausibility:
    """Compare compounds of the validation split with random ones; test on those of the test split.

    Args:
        n: Random neutral compositions of each measure, half of them for the test.
        seed: Of those.

    All compounds together weigh as much as all others, and both measures of the latter weigh the same.
    """
    compounds = {s: compound_evidence(surrogate, hulls, reference, prior, split=s) for s in ("val", "test")}
    trained: list[Evidence] = []
    tested: list[Evidence] = []
    for part in random_parts(n, prior, seed=seed):
        unknown = part[np.array([not reference.known(f) for f in part.formulas])]
        for half, batch in ((trained, unknown[::2]), (tested, unknown[1::2])):
            half.append(gather_evidence(batch, surrogate, hull_energies(batch, hulls), prior))
    coefficients = logistic(features(compounds["val"]), [features(e) for e in trained])
    fit = Plausibility(tuple(round(float(c), 5) for c in coefficients), {})
    test = compounds["test"]
    card = {
        "what": "log-odds of held-out compounds against random neutral compositions",
        "reference_hash": reference.hash,
        "surrogate": surrogate_hash(surrogate),
        "hulls": [hull.identity.hash for hull in hulls],
        "seed": seed,
        "compounds": {name: len(e) for name, e in compounds.items()},
        "others": [len(a) + len(b) for a, b in zip(trained, tested, strict=True)],
        # of test compounds against the unused half of each measure: uniform by k, and drawn by steps
        "auc": [auc(fit.probability(test), fit.probability(e)) for e in tested],
        "auc_surrogate_alone": [auc(-test.above_hull, -e.above_hull) for e in tested],
        "auc_nearest_alone": [auc(test.nearest, e.nearest) for e in tested],
        "median_probability": [_median(fit, e) for e in (test, *tested)],
    }
    return replace(fit, card=card)


def random_parts(n: int, prior: TemplatePrior, *, seed: int) -> list[Compositions]:
    """n random neutral compositions of each measure: uniform for each k, and drawn by steps.

    The first has mostly large cells, the second as many small ones.
    """
    elements = [symbol for symbol in VOCABULARY if NUMBER[symbol] in prior.elements]
    stream = generator(seed, "plausibility")
    steps = sample_random(12 * n, stream, elements=elements)
    return [sample_neutral(n, stream, "by-k", elements=elements), steps[is_neutral(steps)][:n]]


def compound_evidence(
    surrogate: Surrogate,
    hulls: Sequence[Hull],
    reference: Reference,
    prior: TemplatePrior,
    *,
    split: str,
    within: float = 0.05,
) -> Evidence:
    """Evidence on the reference's crystals of a split within `within` eV/atom of OQMD's hull of all others.

    They are compared with both hulls as if nobody knew them.
    """
    rows = np.flatnonzero((reference.split == split) & (reference.stability <= within))
    batch = reference.crystals[rows].compositions
    proposed = (batch.k >= 2) & (batch.k <= MAX_ELEMENTS) & is_neutral(batch)  # by a search
    proposed[batch.owner[~np.isin(batch.numbers, NUMBERS)]] = False
    batch = batch[proposed]
    return gather_evidence(batch, surrogate, hull_energies_of_others(batch, hulls), prior)


@cache
def load_plausibility(path: Path = SHIPPED) -> Plausibility:
    """The regression of a file; by default the one that ships."""
    if not path.is_file():
        raise MissingDependencyError(
            f"there is no file '{path}'", "make it: anchor policy plausibility --out FILE"
        )
    values = read_json(path, hint="make it: anchor policy plausibility --out FILE")
    if not {"coefficients", "card"} <= values.keys():
        raise InputError(
            f"{path} is no fit of plausibility", "make one: anchor policy plausibility --out FILE"
        )
    return Plausibility(tuple(values["coefficients"]), values["card"])


def logistic(compounds: NDArray[np.float64], others: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Ridge logistic regression of compounds [n, p] against parts [m, p] of others: coefficients.  # [p]"""
    a, b = compounds, np.concatenate(others)
    weight = np.concatenate([np.full(len(part), 1 / (len(others) * len(part))) for part in others])
    scale = np.maximum(np.concatenate([a, b]).std(axis=0), 1e-6)
    scale[0] = 1.0  # the constant
    a, b = a / scale, b / scale

    def loss(c: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        p, q = a @ c, b @ c
        value = np.logaddexp(0, -p).mean() + weight @ np.logaddexp(0, q) + PENALTY * (c @ c)
        slope = -(expit(-p) @ a) / len(a) + (weight * expit(q)) @ b + 2 * PENALTY * c
        return float(value), slope

    return minimize(loss, np.zeros(a.shape[1]), jac=True, method="L-BFGS-B").x / scale


def auc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Probability that a random positive scores above a random negative; ties count half."""
    order = np.sort(negative)
    below, upto = (np.searchsorted(order, positive, side=side) for side in ("left", "right"))
    return round(float((below + upto).mean() / 2 / len(negative)), 4)


def _median(fit: Plausibility, evidence: Evidence) -> float:
    return float(f"{np.median(fit.probability(evidence)):.3g}")
