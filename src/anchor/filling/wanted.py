"""What is worth making: common stoichiometries that no database lists, the likeliest to be stable first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from anchor.arrays import unpack_strings
from anchor.chemistry.composition import Compositions
from anchor.chemistry.elements import NUMBER
from anchor.chemistry.formula import parse_amounts
from anchor.hull.databases import dft_hull
from anchor.hull.holes import DEEP, find_holes
from anchor.hull.hull import Hull
from anchor.priors.registry import load_prior
from anchor.priors.templates import TemplatePrior
from anchor.reference.reference import load_reference
from anchor.screening.evidence import dft_hulls, gather_evidence, hull_energies
from anchor.screening.plausibility import load_plausibility
from anchor.screening.surrogate import load_surrogate

Stoichiometry = tuple[int, ...]
MAX_ATOMS = 20
BINARY_SHARE = 0.9
"""Share of both databases' stable binaries (of at most MAX_ATOMS atoms) that the stoichiometries cover."""
TERNARY_SHARE = 0.7
LIKELY = 0.05
"""Chances from which on a formula is made first. Ternaries below are not made at all; binaries come last."""
ON_HULL = 1e-6


def common_stoichiometries(k: int, share: float) -> list[Stoichiometry]:
    """Reduced stoichiometries of k elements, ascending, that cover this share of the stable compounds.

    Counted on the DFT hulls of both databases, the most frequent first.
    """
    counter: Counter[Stoichiometry] = Counter()
    for hull, numbers, counts in _listed():
        rows = np.flatnonzero((np.count_nonzero(numbers, axis=1) == k) & (counts.sum(axis=1) <= MAX_ATOMS))
        compounds = Compositions.from_padded(numbers[rows], counts[rows])
        above = hull.energy_above_hull(compounds.amounts, hull.index.phases.energies[rows])
        stable = np.sort(compounds.counts.reshape(-1, k), axis=1)[above < ON_HULL]
        counter.update(map(tuple, stable.tolist()))
    total, covered, chosen = counter.total(), 0, []
    for stoichiometry, n in sorted(counter.items(), key=lambda item: (-item[1], item[0])):
        if covered >= share * total:
            break
        chosen.append(stoichiometry)
        covered += n
    return chosen


def _listed() -> Iterable[tuple[Hull, NDArray[np.int64], NDArray[np.int64]]]:
    """DFT hull, atomic numbers and counts of the compounds of each database, whose rows the hull shares."""
    reference = load_reference()
    for hull, numbers, counts in (
        (dft_hull("oqmd"), reference.hull_numbers, reference.hull_counts),
        (dft_hull("mp"), reference.mp_hull["numbers"], reference.mp_hull["counts"]),
    ):
        yield hull, numbers.astype(np.int64), counts.astype(np.int64)


def oriented(stoichiometries: Iterable[Stoichiometry]) -> list[Stoichiometry]:
    """Every distinct order of each: AB3 and A3B."""
    return [order for one in stoichiometries for order in sorted(set(permutations(one)))]


def compositions_of(
    systems: Iterable[Sequence[str]], stoichiometries: Sequence[Stoichiometry]
) -> Compositions:
    """Every system with every stoichiometry, each formula once."""
    numbers = np.array([sorted(NUMBER[s] for s in system) for system in systems], dtype=np.int64)
    if not len(numbers):
        return Compositions.from_list([])
    counts = np.array(oriented(stoichiometries), dtype=np.int64)
    n, m = len(numbers), len(counts)
    return Compositions.from_padded(np.repeat(numbers, m, axis=0), np.tile(counts, (n, 1)))


def absent(compositions: Compositions) -> Compositions:
    """Those that neither database lists."""
    reference = load_reference()
    listed = {*reference.hull_formulas, *unpack_strings(reference.mp_hull["formulas"])}
    return compositions[np.array([f not in listed for f in compositions.formulas], dtype=bool)]


def without_crystal(elements: Collection[str]) -> list[str]:
    """Compounds of these elements that are stable in a database and have no crystal in the reference.

    All binaries: nothing here can tell whether their listed energy is that of the right structure. Then the
    deep holes (`anchor.hull.holes`) of three elements, which one database lacks. Each once.
    """
    have, allowed = set(load_reference().formulas.tolist()), {NUMBER[symbol] for symbol in elements}
    found: dict[str, None] = {}
    for hull, numbers, counts in _listed():
        rows = np.flatnonzero((np.count_nonzero(numbers, axis=1) == 2) & (counts.sum(axis=1) <= MAX_ATOMS))
        inside = np.isin(numbers[rows], [0, *allowed]).all(axis=1)
        rows = rows[inside]
        compounds = Compositions.from_padded(numbers[rows], counts[rows])
        above = hull.energy_above_hull(compounds.amounts, hull.index.phases.energies[rows])
        stable = zip(compounds.formulas, above < ON_HULL, strict=True)
        found |= dict.fromkeys(formula for formula, on in stable if on and formula not in have)
    deep = [hole for hole in find_holes(elements) if hole.depth > DEEP and len(hole.elements) == 3]
    small = of_size([hole.formula for hole in deep if hole.formula not in have])
    return list(found | dict.fromkeys(small))


def of_size(formulas: Sequence[str]) -> list[str]:
    """Formulas of at most MAX_ATOMS atoms."""
    return [f for f in formulas if sum(parse_amounts(f).values()) <= MAX_ATOMS]


def chances(compositions: Compositions) -> NDArray[np.float64]:
    """Probability of being a compound near the hull, before any crystal is made.  # [n]

    The surrogate alone believes anything far from its training (O4F5), therefore
    `anchor.screening.plausibility` weighs it against the nearest templates, of any number of formula units.
    """
    prior = load_prior("templates-all")
    assert isinstance(prior, TemplatePrior)
    evidence = gather_evidence(
        compositions, load_surrogate(), hull_energies(compositions, dft_hulls()), prior, any_units=True
    )
    return load_plausibility().probability(evidence)


def wanted(elements: Collection[str], ternaries: Iterable[Sequence[str]]) -> list[str]:
    """Reduced formulas to make, in the order in which they are worth it.

    First the likely binaries of all pairs of `elements`, then the likely compounds of the ternary systems,
    then all other binaries; each part by its chances.

    Args:
        elements: With well-determined references.
        ternaries: Systems of three elements; those with other elements are left out.
    """
    allowed = set(elements)
    pairs = list(combinations(sorted(allowed, key=NUMBER.__getitem__), 2))
    systems = sorted({tuple(sorted(system)) for system in ternaries if allowed.issuperset(system)})
    binary = absent(compositions_of(pairs, common_stoichiometries(2, BINARY_SHARE)))
    triple = Compositions.from_list([])
    if systems:
        triple = absent(compositions_of(systems, common_stoichiometries(3, TERNARY_SHARE)))
    p, q = chances(binary), chances(triple)
    parts = [
        _by(p, np.flatnonzero(p >= LIKELY), binary),
        _by(q, np.flatnonzero(q >= LIKELY), triple),
        _by(p, np.flatnonzero(p < LIKELY), binary),
    ]
    return [formula for part in parts for formula in part.formulas]


def _by(chance: NDArray[np.float64], rows: NDArray[np.int64], compositions: Compositions) -> Compositions:
    return compositions[rows[np.argsort(-chance[rows], kind="stable")]]
