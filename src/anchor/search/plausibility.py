"""Does an unknown composition look like a compound? A probability that needs no crystal.

The surrogate alone is too kind: among its training formulas of uncommon stoichiometry nearly all are
compounds somebody made, so it has never seen one that cannot be made, and a policy finds that out at once.
Therefore real compounds are compared with random charge-neutral compositions, by logistic regression on

- the surrogate's energy above the hull, and its spread,
- how near the nearest known crystal of the stoichiometry is, counted in replaced elements
  (`anchor.priors.similarity`), and how many such crystals there are,
- the number of elements.

The compounds are held out: neither the surrogate nor the templates have seen their formulas, and the hull
they are compared with lacks them. So the regression also learns how far the surrogate can be trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import MAX_ELEMENTS, Composition, Compositions
from anchor.chemistry.elements import INDEX, NUMBER, SYMBOLS, VOCABULARY
from anchor.chemistry.spaces import sample_neutral
from anchor.data.reference import Reference
from anchor.errors import MissingDependencyError
from anchor.hull.hull import Hull
from anchor.hull.phases import N_NUMBERS
from anchor.priors.templates import TemplatePrior
from anchor.random import generator
from anchor.search.surrogate import Surrogate

SHIPPED = Path(__file__).parent / "files" / "plausibility.json"
"""The regression that ships."""
SHARE = 0.02
"""Fraction of random neutral compositions that are compounds waiting to be found: sets the level of the
probability, not its order. Of 64 realised ones, 5 % were on the hull, most of them known."""
FARTHEST = -25.0
"""Log-weight of the nearest template where there is none."""
PENALTY = 1e-3
"""Of squared coefficients, per example."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of n compositions without crystals.

    Attributes:
        above_hull: Surrogate energy above the hull, eV/atom, signed.  # [n]
        spread: Of the surrogate, eV/atom.  # [n]
        nearest: Log-weight of the nearest template, 0 for a crystal of the very composition.  # [n]
        templates: Known crystals of the stoichiometry whose cell, or a supercell of it, fits.  # [n]
        k: Number of elements.  # [n]
    """

    above_hull: NDArray[np.float64]
    spread: NDArray[np.float64]
    nearest: NDArray[np.float64]
    templates: NDArray[np.int64]
    k: NDArray[np.int64]

    def features(self) -> NDArray[np.float64]:
        """Columns of the regression; straight lines with kinks where the meaning changes.  # [n, 10]"""
        above = np.clip(self.above_hull, -0.6, 1.0)
        near = np.clip(self.nearest, FARTHEST, 0)
        return np.stack(
            [
                np.ones(len(above)),
                np.minimum(above + 0.1, 0),  # far below the hull: too good to be true?
                np.clip(above, -0.1, 0.1),
                np.maximum(above - 0.1, 0),
                self.spread,
                near,
                np.maximum(near + 8, 0),
                np.maximum(near + 4, 0),
                np.log1p(self.templates),
                self.k == 4,
            ],
            axis=1,
        )


def gather_evidence(
    compositions: Compositions,
    surrogate: Surrogate,
    hull_energy: NDArray[np.float64],
    prior: TemplatePrior,
) -> Evidence:
    """Evidence on compositions.

    Args:
        hull_energy: Of the hull at each composition, eV/atom.  # [n]
        prior: Whose templates and similarity of elements count.
    """
    energy, spread = surrogate.predict(compositions)
    nearest = np.full(len(compositions), FARTHEST)
    templates = np.zeros(len(compositions), dtype=np.int64)
    rows = zip(compositions.k.tolist(), compositions.numbers, compositions.counts, strict=True)
    for i, (k, numbers, counts) in enumerate(rows):
        nearest[i], templates[i] = nearest_template(numbers[:k], counts[:k], prior)
    return Evidence(energy - hull_energy, spread, nearest, templates, compositions.k)


def nearest_template(
    numbers: NDArray[np.int64], counts: NDArray[np.int64], prior: TemplatePrior
) -> tuple[float, int]:
    """Log-weight of the nearest template that fits the cell, and how many fit.

    Args:
        numbers: Atomic numbers.  # [k]
        counts: Atoms in the cell.  # [k]
    """
    order = np.argsort(counts, kind="stable")
    units = int(np.gcd.reduce(counts))
    ratio = tuple((counts[order] // units).tolist())
    shelf = prior.shelves.get(ratio)
    if shelf is None:
        return FARTHEST, 0
    fits = np.flatnonzero(units % shelf.units == 0)
    if not len(fits):
        return FARTHEST, 0
    weights = prior.fitted.similarity.log_weights(numbers[order], shelf.roles[fits], ratio)
    return float((weights + shelf.bonus[fits]).max()), len(fits)


@dataclass(frozen=True)
class Plausibility:
    """The fitted regression.

    Attributes:
        coefficients: Of `Evidence.features`.
        card: Where it comes from and how well it tells compounds from random compositions.
    """

    coefficients: tuple[float, ...]
    card: Mapping[str, Any]

    def probability(self, evidence: Evidence) -> NDArray[np.float64]:
        """Probability of being a compound near the hull, given a share SHARE beforehand.  # [n]"""
        return expit(evidence.features() @ np.array(self.coefficients) + logit(SHARE))

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def fit_plausibility(
    surrogate: Surrogate,
    hull: Hull,
    reference: Reference,
    prior: TemplatePrior,
    *,
    n: int = 8000,
    seed: int = 0,
) -> Plausibility:
    """Compare compounds of the validation split with n random neutral compositions; test on the test split.

    Both classes weigh the same, so a coefficient sum of 0 means "as frequent among compounds as at random".
    """
    compounds = {s: compound_evidence(surrogate, reference, prior, split=s) for s in ("val", "test")}
    elements = [symbol for symbol in VOCABULARY if NUMBER[symbol] in prior.elements]
    random = sample_neutral(n, generator(seed, "plausibility"), elements=elements)
    known = np.array([bool(reference.known(f)) for f in random.formulas])
    random = random[~known]
    evidence = gather_evidence(random, surrogate, hull.hull_energy(amounts_of(random)), prior)
    background = evidence.features()
    half = len(background) // 2
    coefficients = _logistic(compounds["val"].features(), background[:half])
    score = {name: e.features() @ coefficients for name, e in compounds.items()}
    held_out = background[half:] @ coefficients
    card = {
        "what": "log-odds of held-out compounds against random neutral compositions",
        "reference_hash": reference.hash,
        "seed": seed,
        "compounds": {name: len(e.k) for name, e in compounds.items()},
        "random": len(background),
        "auc_test": round(_auc(score["test"], held_out), 4),
        "auc_surrogate_alone": round(_auc(-compounds["test"].above_hull, -evidence.above_hull[half:]), 4),
        "auc_nearest_alone": round(_auc(compounds["test"].nearest, evidence.nearest[half:]), 4),
    }
    return Plausibility(tuple(round(float(c), 5) for c in coefficients), card)


def compound_evidence(
    surrogate: Surrogate, reference: Reference, prior: TemplatePrior, *, split: str, within: float = 0.05
) -> Evidence:
    """Evidence on the reference's crystals of a split within `within` eV/atom of the hull of all others."""
    rows, cells = [], []
    for i in np.flatnonzero((reference.split == split) & (reference.stability <= within)).tolist():
        cell = _cell(reference, i)
        if 2 <= cell.k <= MAX_ELEMENTS and INDEX.keys() >= set(cell.elements):
            rows.append(i)
            cells.append(cell)
    batch = Compositions.from_list(cells)
    neutral = is_neutral(batch)  # what a search proposes
    batch, chosen = batch[neutral], np.array(rows)[neutral]
    # OQMD's own distance to the hull of all other compositions tells that hull's energy
    without_itself = reference.formation_energy[chosen] - reference.stability[chosen]
    return gather_evidence(batch, surrogate, without_itself, prior)


def amounts_of(compositions: Compositions) -> NDArray[np.float64]:
    """Atoms by atomic number.  # [n, 119]"""
    amounts = np.zeros((len(compositions), N_NUMBERS))
    np.put_along_axis(amounts, compositions.numbers, compositions.counts, axis=1)
    return amounts


@cache
def load_plausibility(path: Path = SHIPPED) -> Plausibility:
    """The regression of a file; by default the one that ships."""
    if not path.is_file():
        raise MissingDependencyError(
            f"there is no file '{path}'", "make it: anchor policy plausibility --out FILE"
        )
    values = json.loads(path.read_text())
    return Plausibility(tuple(values["coefficients"]), values["card"])


def _logistic(compounds: NDArray[np.float64], random: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficients of the ridge logistic regression that gives both classes the same weight.  # [p]"""
    scale = np.maximum(np.concatenate([compounds, random]).std(axis=0), 1e-6)
    scale[0] = 1.0  # the constant
    a, b = compounds / scale, random / scale

    def loss(c: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        p, q = a @ c, b @ c
        value = np.logaddexp(0, -p).mean() + np.logaddexp(0, q).mean() + PENALTY * (c @ c)
        slope = -(expit(-p) @ a) / len(a) + (expit(q) @ b) / len(b) + 2 * PENALTY * c
        return float(value), slope

    return minimize(loss, np.zeros(a.shape[1]), jac=True, method="L-BFGS-B").x / scale


def _auc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Probability that a random positive scores above a random negative; ties count half."""
    order = np.sort(negative)
    below, upto = (np.searchsorted(order, positive, side=side) for side in ("left", "right"))
    return float((below + upto).mean() / 2 / len(negative))


def _cell(reference: Reference, i: int) -> Composition:
    """Atoms of a reference crystal."""
    numbers, counts = np.unique(reference.crystals[i].numbers, return_counts=True)
    return Composition(tuple(SYMBOLS[z] for z in numbers), tuple(counts.tolist()))
