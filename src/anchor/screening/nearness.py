"""How near known crystals are, and everyday charges, for whole families of formulas at once.

The nearest template of a formula is a maximum over templates of sums over roles,

    nearest(e1 … ek) = max_t [bonus_t − Σ_r w_r d(e_r, role_tr)],

and templates that share their first roles share the rest of the work: the last role is maximised first, for
every prefix of roles once. For all ternaries of a stoichiometry that is at most 84 additions of a tensor
instead of one for each of up to two thousand templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBERS, VOCABULARY
from anchor.priors.prototypes import role_permutations
from anchor.priors.similarity import Similarity
from anchor.priors.templates import Shelf, TemplatePrior
from anchor.screening.families import Formulas, Pool, Stoichiometry, by_family, electronegativities

FARTHEST = -25.0
"""Log-weight of the nearest template where there is none."""
AT_ONCE = 2_000_000
"""Pairs of formula and template compared in one go, which bounds memory."""


@dataclass(frozen=True, eq=False)
class Nearness:
    """What is known of n formulas before any energy.

    Attributes:
        nearest: Log-weight of the nearest template, 0 for a crystal of the very composition.  # [n]
        templates: Known crystals of the stoichiometry that count.  # [n]
        everyday: Neutral with one common oxidation state per element.  # [n]
    """

    nearest: NDArray[np.float64]
    templates: NDArray[np.int64]
    everyday: NDArray[np.bool_]

    @classmethod
    def none(cls) -> Nearness:
        return cls(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))

    def __len__(self) -> int:
        return len(self.nearest)

    def __getitem__(self, rows: NDArray[np.generic] | slice) -> Nearness:
        return Nearness(self.nearest[rows], self.templates[rows], self.everyday[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Nearness]) -> Nearness:
        return cls(
            np.concatenate([p.nearest for p in parts]),
            np.concatenate([p.templates for p in parts]),
            np.concatenate([p.everyday for p in parts]),
        )


def nearness_of(compositions: Compositions, prior: TemplatePrior, *, any_units: bool = False) -> Nearness:
    """Of cells of at most four elements of the vocabulary.

    Args:
        any_units: Templates of any number of formula units count, not only those that divide the cell's.
    """
    found = Nearness(
        np.full(len(compositions), FARTHEST),
        np.zeros(len(compositions), dtype=np.int64),
        np.zeros(len(compositions), dtype=bool),
    )
    for rows, formulas in by_family(compositions):
        found.everyday[rows] = everyday_charges(formulas)
        shelf = prior.shelves.get(formulas.ratio)
        if shelf is None:
            continue
        for units in np.unique(formulas.units).tolist():
            fits = np.flatnonzero(any_units | (units % shelf.units == 0))
            own = np.flatnonzero(formulas.units == units)
            if len(fits):
                found.nearest[rows[own]] = _nearest(formulas[own], shelf, fits, prior.fitted.similarity)
                found.templates[rows[own]] = len(fits)
    return found


def nearness_of_family(formulas: Formulas, pool: Pool, prior: TemplatePrior) -> Nearness:
    """Of many formulas over a pool of elements; templates of any number of formula units count."""
    nearest, templates = np.full(len(formulas), FARTHEST), np.zeros(len(formulas), dtype=np.int64)
    shelf = prior.shelves.get(formulas.ratio)
    if shelf is not None and len(formulas):
        tensor = nearest_over(formulas.ratio, pool.numbers, shelf, prior.fitted.similarity)
        nearest[:] = tensor[tuple(np.searchsorted(pool.elements, formulas.elements).T)]
        templates[:] = len(shelf.units)
    return Nearness(nearest, templates, everyday_charges(formulas))


# The nearest template


def nearest_over(
    ratio: Stoichiometry, numbers: NDArray[np.int64], shelf: Shelf, similarity: Similarity
) -> NDArray[np.float32]:
    """Log-weight of the nearest template for all choices of an element for each place.

    Args:
        ratio: Stoichiometry of the shelf, k counts ascending.
        numbers: Atomic numbers to choose from.  # [e]

    Returns: # [e, …, e], k axes
    """
    k = len(ratio)
    roles, bonus = _distinct_roles(shelf)
    weights = similarity.role_weights(ratio)
    costs = [w * similarity.distance[numbers][:, roles[:, r]] for r, w in enumerate(weights)]  # k × [e, m]
    best: list[NDArray[np.float32]] = list(bonus)  # of each prefix of roles, over the places after it
    for r in reversed(range(k)):
        new_prefix = (roles[1:, :r] != roles[:-1, :r]).any(axis=1)
        starts = [0, *(np.flatnonzero(new_prefix) + 1).tolist()]
        merged = []
        for a, b in pairwise([*starts, len(roles)]):
            total = np.full((len(numbers), *best[a].shape), -np.inf, dtype=np.float32)
            for i in range(a, b):
                np.maximum(total, best[i] - costs[r][:, i].reshape(-1, *[1] * best[i].ndim), out=total)
            merged.append(total)
        best, roles, costs = merged, roles[starts], [cost[:, starts] for cost in costs]
    found: NDArray[np.float32] = np.max([best[0].transpose(p) for p in role_permutations(ratio)], axis=0)
    return found


def _distinct_roles(shelf: Shelf) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Elements of the templates, each choice once and sorted, and the best bonus of each.  # [m, k], [m]"""
    roles, owner = np.unique(shelf.roles, axis=0, return_inverse=True)
    bonus = np.full(len(roles), -np.inf, dtype=np.float32)
    np.maximum.at(bonus, owner.ravel(), shelf.bonus)
    return roles, bonus


def _nearest(
    formulas: Formulas, shelf: Shelf, fits: NDArray[np.int64], similarity: Similarity
) -> NDArray[np.float32]:
    """The largest log-weight of some templates of a shelf.  # [n]"""
    ratio, roles, bonus = formulas.ratio, shelf.roles[fits], shelf.bonus[fits]
    weights, numbers = similarity.role_weights(ratio), NUMBERS[formulas.elements]
    best = np.full(len(formulas), -np.inf, dtype=np.float32)
    chunk = max(1, AT_ONCE // len(fits))
    for a in range(0, len(formulas), chunk):
        query = numbers[a : a + chunk]
        for p in role_permutations(ratio):
            near = bonus - sum(
                weights[r] * similarity.distance[query[:, p[r], None], roles[:, r]] for r in range(len(ratio))
            )
            best[a : a + chunk] = np.maximum(best[a : a + chunk], near.max(axis=1))
    return best


# Four elements: too many to look at each


def within_reach(
    ratio: Stoichiometry, pool: Pool, prior: TemplatePrior, cutoff: float
) -> tuple[Formulas, Nearness]:
    """All neutral formulas of four places within limits whose nearest template is at least `cutoff`.

    Every template is taken with all elements that are near enough in total: two places at a time, so that
    the cheapest partners of each pair are a run of a sorted list.
    """
    shelf, e = prior.shelves.get(ratio), len(pool)
    if shelf is None:
        return Formulas.none(ratio), Nearness(
            np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
        )
    weights = prior.fitted.similarity.role_weights(ratio)
    codes, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for roles, bonus in zip(*_distinct_roles(shelf), strict=True):
        cost = weights[:, None] * prior.fitted.similarity.distance[roles][:, pool.numbers]  # [4, e]
        front, back = ((cost[i][:, None] + cost[i + 1]).ravel() for i in (0, 2))  # [e²]
        order = np.argsort(back, kind="stable")
        partners = np.searchsorted(back[order], bonus - cutoff - front, side="right")  # [e²]
        left = np.repeat(np.arange(e * e), partners)
        right = order[np.arange(len(left)) - np.repeat(np.cumsum(partners) - partners, partners)]
        codes.append(left * e * e + right)
        values.append(bonus - front[left] - back[right])
    places = np.stack(np.unravel_index(np.concatenate(codes), (e,) * 4), axis=1)
    formulas, rows = pool.neutral_formulas(ratio, places)
    nearest = np.concatenate(values)[rows]
    # one of several templates, and of several orders of places with equal counts
    order = np.lexsort((-nearest, *formulas.elements.T[::-1]))
    ordered = formulas.elements[order]
    first = order[np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)][: len(order)]]
    formulas = formulas[first]
    templates = np.full(len(first), len(shelf.units))
    return formulas, Nearness(nearest[first].astype(np.float64), templates, everyday_charges(formulas))


# Everyday charges


def everyday_charges(formulas: Formulas) -> NDArray[np.bool_]:
    """Whether one common oxidation state per element gives zero, anions being more electronegative.  # [n]"""
    has, affinity = _common_states(), electronegativities()
    *front, last = formulas.ratio
    states = [[q for q, own in has.items() if own[places].any()] for places in formulas.elements.T]
    found = np.zeros(len(formulas), dtype=bool)
    for charges in product(*states[:-1]):
        balance, rest = divmod(-sum(q * n for q, n in zip(charges, front, strict=True)), last)
        if rest or balance not in states[-1]:
            continue
        fits = ~found
        for place, q in enumerate((*charges, balance)):
            fits &= has[q][formulas.elements[:, place]]
        rows = np.flatnonzero(fits)
        values, positive = affinity[formulas.elements[rows]], np.array((*charges, balance)) > 0
        found[rows] = values[:, positive].max(axis=1) <= values[:, ~positive].min(axis=1)
    return found


@cache
def _common_states() -> dict[int, NDArray[np.bool_]]:
    """Which elements of the vocabulary have each common oxidation state other than 0.  # [84] each"""
    from pymatgen.core import Element

    # pymatgen calls every state of carbon common, which would let it balance anything
    states = [(-4, 4) if s == "C" else Element(s).common_oxidation_states for s in VOCABULARY]
    occurring = sorted({q for own in states for q in own if q})
    return {q: np.array([q in own for own in states]) for q in occurring}
