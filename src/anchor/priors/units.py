"""Anonymous formulas, and how many formula units a cell gets when only a formula was asked for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.priors.request import Request
from anchor.reference.reference import Reference, load_reference

Stoichiometry = tuple[int, ...]


def stoichiometry(counts: tuple[int, ...]) -> Stoichiometry:
    """Counts without their common divisor, ascending: the anonymous formula. (4, 2, 8) -> (1, 2, 4)"""
    divisor = math.gcd(*counts)
    return tuple(sorted(c // divisor for c in counts))


def anonymous(crystals: Crystals) -> Iterator[tuple[NDArray[np.int64], Stoichiometry, int]]:
    """Elements by ascending count (ties: atomic number), stoichiometry and formula units of each crystal."""
    for start, end in pairwise(crystals.offsets.tolist()):
        elements, counts = np.unique(crystals.numbers[start:end], return_counts=True)
        order = np.argsort(counts, kind="stable")
        units = int(np.gcd.reduce(counts))
        yield elements[order], tuple((counts[order] // units).tolist()), units


def of_split(reference: Reference, split: str) -> NDArray[np.int64]:
    """Indices of the reference crystals of one split, or of "all"."""
    if split == "all":
        return np.arange(len(reference.crystals))
    indices = np.flatnonzero(reference.split == split)
    if not len(indices):
        raise InputError(f"the reference has no split '{split}'", "choose one of: train, val, test, all")
    return indices


def choose_units(request: Request, max_atoms: int) -> int:
    """Formula units for a request that leaves them free.

    The distribution is that of the reference's training crystals with the same stoichiometry; for a
    stoichiometry none of them has, of those with as many atoms per formula unit (else of all). The first draw
    takes the most frequent number, further draws are random.
    """
    atoms = request.composition.n_atoms
    by_stoichiometry, by_atoms, overall = _histograms()
    for counts in (
        by_stoichiometry.get(stoichiometry(request.composition.counts)),
        by_atoms.get(atoms),
        overall,
    ):
        possible = sorted((z, c) for z, c in (counts or {}).items() if z * atoms <= max_atoms)
        if possible:
            break
    else:
        raise InputError(f"{request.composition} does not fit in {max_atoms} atoms")
    units, weights = np.array(possible).T
    if request.draw == 0:
        return int(units[np.argmax(weights)])
    return int(request.rng("units", request.draw).choice(units, p=weights / weights.sum()))


def with_units(request: Request, max_atoms: int) -> Request:
    """A request that leaves the formula units free, with a number of them (`choose_units`)."""
    units = choose_units(request, max_atoms)
    counts = tuple(c * units for c in request.composition.counts)
    return replace(request, composition=Composition(request.composition.elements, counts), units=units)


@cache
def _histograms() -> tuple[dict[Stoichiometry, Counter[int]], dict[int, Counter[int]], Counter[int]]:
    """Numbers of formula units in the reference, by stoichiometry, by atoms per formula unit, and of all."""
    reference = load_reference()
    by_stoichiometry: dict[Stoichiometry, Counter[int]] = {}
    by_atoms: dict[int, Counter[int]] = {}
    overall: Counter[int] = Counter({1: 1})
    for _, ratio, units in anonymous(reference.crystals[of_split(reference, "train")]):
        by_stoichiometry.setdefault(ratio, Counter())[units] += 1
        by_atoms.setdefault(sum(ratio), Counter())[units] += 1
        overall[units] += 1
    return by_stoichiometry, by_atoms, overall
