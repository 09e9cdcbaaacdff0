"""The two untrained composition sources of the paper (app:composition_ladder), sampled exactly.

The measure matters. A *flat* draw gives every action the same probability, and almost all actions have four
elements. A draw *by steps* gives k, elements, T and rho their own turn, and meets known formulas far more
often. Neutral draws are random draws that are kept when neutral, so each neutral one keeps its relative
probability exactly and the set is never listed.

The paper's enumeration (app:elem_vocab_action_space: 4.4e4, 1.1e7 and 1.1e9 for k = 2, 3, 4) lists reduced
formulas of which one formula unit is neutral; by cells, AB would be there ten times, as AB, A2B2, …. How k is
drawn is not said. If all formulas were alike, 99 of 100 would have four elements and hardly any be known;
with k drawn first about as many are known as the paper's tab:internal counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.bounds import (
    MAX_ATOMS,
    MAX_ATOMS_PER_ELEMENT,
    MAX_ELEMENTS,
    K,
    primitive_stoichiometries,
    stoichiometries,
)
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBERS, VOCABULARY, vocabulary_indices
from anchor.errors import InputError, nearest

RandomMeasure = Literal["hierarchical", "flat"]
NeutralMeasure = Literal["formulas", "by-k", "flat"]
MEASURES: dict[str, tuple[str, ...]] = {
    "random": get_args(RandomMeasure),
    "neutral": get_args(NeutralMeasure),
}
"""Measures of the two sources, the default first."""

Table = Callable[[int], NDArray[np.int64]]
"""Stoichiometries of k elements to draw from.  # [n, k]"""

HOPELESS_DRAWS = 200_000
"""Draws without any neutral one after which a restricted set of elements is given up."""


def sample_random(
    n: int,
    rng: np.random.Generator,
    measure: RandomMeasure = "hierarchical",
    *,
    elements: Sequence[str] = VOCABULARY,
) -> Compositions:
    """n random actions, neutral or not.

    Args:
        n: How many.
        rng: Random stream.
        measure: "hierarchical" draws k uniformly from {2, 3, 4}, then k elements without replacement, then T
            uniformly from k..20, then the T - k surplus atoms as the policy does (eq:head-c) with equal
            probabilities, at most 12 atoms per element. "flat" gives every action the same probability.
        elements: Symbols to draw from.
    """
    _check_measure(measure, RandomMeasure)
    pool = _pool(elements)
    if measure == "flat":
        return _flat(rng.choice(K, size=n, p=_share_of_k(len(pool))), pool, rng, stoichiometries)
    k = rng.choice(K, size=n)
    counts = np.zeros((n, MAX_ELEMENTS), dtype=np.int64)
    for size in K:
        rows = k == size
        n_atoms = rng.integers(size, MAX_ATOMS, size=rows.sum(), endpoint=True)
        counts[rows, :size] = _truncated_multinomial(n_atoms, size, rng)
    return Compositions.from_padded(_distinct(k, pool, rng), counts)


def sample_neutral(
    n: int,
    rng: np.random.Generator,
    measure: NeutralMeasure = "formulas",
    *,
    elements: Sequence[str] = VOCABULARY,
) -> Compositions:
    """n random charge-neutral actions.

    Args:
        n: How many.
        rng: Random stream.
        measure: "formulas", the paper's, draws k uniformly from {2, 3, 4} and gives every reduced formula of
            that k of which one formula unit is neutral the same probability; the cell is one formula unit.
            "by-k" does the same with actions: cells of several formula units count, too. "flat" gives every
            neutral action the same probability, whatever its k.
        elements: Symbols to draw from.
    """
    _check_measure(measure, NeutralMeasure)
    pool = _pool(elements)
    if measure == "flat":
        return _neutral(n, _share_of_k(len(pool)), pool, rng)
    table = primitive_stoichiometries if measure == "formulas" else stoichiometries
    k = rng.choice(K, size=n)
    rows = [np.flatnonzero(k == value) for value in K]
    parts = [
        _neutral(len(own), np.equal(K, value).astype(float), pool, rng, table)
        for own, value in zip(rows, K, strict=True)
    ]
    return Compositions.concatenate(parts)[np.argsort(np.concatenate(rows))]


def _check_measure(measure: str, allowed: object) -> None:
    if measure not in get_args(allowed):
        raise InputError(f"unknown measure '{measure}'", nearest(measure, get_args(allowed)))


def _pool(elements: Sequence[str]) -> NDArray[np.int64]:
    """Atomic numbers to draw from."""
    pool = NUMBERS[vocabulary_indices(elements)]
    if len(pool) < max(K):
        raise InputError(f"{len(pool)} elements are too few to draw from", f"give at least {max(K)}")
    return pool


def _share_of_k(n_elements: int) -> NDArray[np.float64]:
    """Fraction of all actions with each k.  # [3]"""
    actions = np.array([math.comb(n_elements, k) * len(stoichiometries(k)) for k in K], dtype=float)
    return actions / actions.sum()


def _flat(
    k: NDArray[np.int64], pool: NDArray[np.int64], rng: np.random.Generator, stoichiometries: Table
) -> Compositions:
    """Uniform elements and, independently, uniform stoichiometry: every action of a k equally probable.

    An action has k! orders of its elements, whatever they are, so none is favoured.
    """
    counts = np.zeros((len(k), MAX_ELEMENTS), dtype=np.int64)
    for size in K:
        rows = k == size
        table = stoichiometries(size)
        counts[rows, :size] = table[rng.integers(len(table), size=rows.sum())]
    return Compositions.from_padded(_distinct(k, pool, rng), counts)


def _distinct(k: NDArray[np.int64], pool: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """k distinct elements of the pool per row, uniformly, in the order drawn; 0 after them.  # [n, 4]"""
    chosen = np.zeros((len(k), MAX_ELEMENTS), dtype=np.int64)
    for i in range(MAX_ELEMENTS):
        # The draw is a rank among the elements left: step over those taken, smallest first
        rank = rng.integers(len(pool) - i, size=len(k))
        for taken in np.sort(chosen[:, :i], axis=1).T:
            rank += rank >= taken
        chosen[:, i] = rank
    return np.where(np.arange(MAX_ELEMENTS) < k[:, None], pool[chosen], 0)


def _truncated_multinomial(n_atoms: NDArray[np.int64], k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """rho = 1 + Multinomial(T - k, 1/k) (eq:head-c), given at most 12 atoms of an element.  # [n, k]"""
    counts = np.zeros((len(n_atoms), k), dtype=np.int64)
    rows = np.arange(len(n_atoms))
    while len(rows):
        counts[rows] = 1 + rng.multinomial(n_atoms[rows] - k, np.full(k, 1 / k))
        rows = rows[counts[rows].max(axis=1) > MAX_ATOMS_PER_ELEMENT]
    return counts


def _neutral(
    n: int,
    share_of_k: NDArray[np.float64],
    pool: NDArray[np.int64],
    rng: np.random.Generator,
    table: Table = stoichiometries,
) -> Compositions:
    """The first n neutral ones of a stream of flat draws with k drawn by `share_of_k`."""
    parts: list[Compositions] = []
    missing, drawn = n, 0
    while missing > 0:
        size = min(10 * missing + 1000, 500_000)
        batch = _flat(rng.choice(K, size=size, p=share_of_k), pool, rng, table)
        parts.append(batch[is_neutral(batch)][:missing])
        missing -= len(parts[-1])
        drawn += size
        if missing == n and drawn > HOPELESS_DRAWS:
            raise InputError(
                f"none of {drawn} compositions of these elements is charge-neutral",
                "add elements with states of the other sign",
            )
    return Compositions.concatenate(parts)
