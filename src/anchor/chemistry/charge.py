"""Charge neutrality, the composition half of the validity gate (paper, app:reward/validity).

A composition passes when pymatgen's `Composition.oxi_state_guesses()` with default arguments is not empty:
every atom takes one of its element's ICSD oxidation states (the common states where ICSD has none), atoms of
one element may differ, and the charges of the whole cell as proposed add up to zero. pymatgen lists all
combinations; here the sums that n atoms of an element can reach are a set of integers, and four such sets
contain a zero sum exactly when (A + B) meets -(C + D). Both pair sums are looked up as bits of four words.
Cells of more elements or atoms than the tables hold are added up atom by atom, as exactly. With an element
that has no states at all (He, Ne, Ar, Rn, Db and beyond) nothing is neutral but the element alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.composition import Composition, Compositions
from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.chemistry.symbols import near_symbol
from anchor.errors import InputError

Bounds = tuple[tuple[str, int, int], ...]

TABLE_ATOMS = 12
"""Atoms of one element that the tables hold, the bound of the action space."""

TABLE_ELEMENTS = 4
"""Elements of one cell that the tables hold: two pairs."""

ASSIGNED_ATOMS = 200
"""Largest cell for which an assignment is searched."""


@cache
def oxidation_states(symbol: str) -> tuple[int, ...]:
    """States an atom may take, ascending: ICSD's, or the common ones; some elements have neither."""
    from pymatgen.core import Element

    element = Element(symbol)
    return tuple(sorted(element.icsd_oxidation_states or element.common_oxidation_states))


@dataclass(frozen=True)
class ChargeTable:
    """Reachable charges of elements and of pairs of elements.

    Attributes:
        set_of: Charge set of n atoms by atomic number; {0} for number 0 or n = 0.  # [119, 13]
        sums: Charges -reach..reach that two sets reach together, as bits.  # [n_sets, n_sets, words], uint64
        opposite: The same with all charges negated.  # [n_sets, n_sets, words], uint64
        reach: Largest charge that can still be balanced by another pair.
    """

    set_of: NDArray[np.int64]
    sums: NDArray[np.uint64]
    opposite: NDArray[np.uint64]
    reach: int


def reachable_charges(states: Sequence[int], n_atoms: int) -> list[frozenset[int]]:
    """Sums of 0, 1, …, n_atoms numbers taken from `states`.  # [n_atoms + 1]"""
    sets = [frozenset({0})]
    for _ in range(n_atoms):
        sets.append(frozenset(total + state for total in sets[-1] for state in states))
    return sets


@cache
def charge_table(bounds: Bounds = ()) -> ChargeTable:
    """The table of all elements, built once for the same bounds, in less than a second."""
    ids: dict[frozenset[int], int] = {frozenset({0}): 0}
    set_of = np.zeros((len(SYMBOLS), TABLE_ATOMS + 1), dtype=np.int64)
    for symbol, number in NUMBER.items():
        for n, charges in enumerate(reachable_charges(_allowed_states(symbol, bounds), TABLE_ATOMS)):
            set_of[number, n] = ids.setdefault(charges, len(ids))
    low, high = (pick(pick(charges) for charges in ids if charges) for pick in (min, max))
    single = np.zeros((len(ids), high - low + 1), dtype=bool)  # columns: charges low..high
    for charges, i in ids.items():
        single[i, [charge - low for charge in charges]] = True

    reach = 2 * min(-low, high)
    sums = np.zeros(
        (len(ids), len(ids), 64 * (2 * reach // 64 + 1)), dtype=bool
    )  # columns: -reach..reach, padding
    opposite = sums.copy()
    for charges, i in ids.items():
        both = np.zeros((len(ids), 2 * (high - low) + 1), dtype=bool)  # columns: 2 low..2 high
        for charge in charges:
            both[:, charge - low : charge - low + single.shape[1]] |= single
        balanced = both[:, -reach - 2 * low : reach - 2 * low + 1]
        sums[i, :, : 2 * reach + 1] = balanced
        opposite[i, :, : 2 * reach + 1] = balanced[:, ::-1]
    return ChargeTable(set_of, _pack(sums), _pack(opposite), reach)


def _pack(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    return np.packbits(bits, axis=-1).view(np.uint64)


def is_neutral(
    compositions: Compositions, *, bounds: Mapping[str, tuple[int, int]] | None = None
) -> NDArray[np.bool_]:
    """Whether each cell has a charge-neutral assignment; several million per second.  # [n]

    Equal to `bool(Composition.oxi_state_guesses())` of pymatgen, for which an element alone is neutral.

    Args:
        compositions: n cells.
        bounds: Lowest and highest state allowed for single elements, e.g. {"Fe": (2, 3)}; the paper has none.
    """
    limits = _checked(bounds or {})
    table = charge_table(limits)
    large = compositions.sizes > TABLE_ELEMENTS
    if (many := compositions.counts > TABLE_ATOMS).any():
        large[compositions.owner[many]] = True
    tabulated = compositions[~large] if large.any() else compositions
    sets = np.zeros((len(tabulated), TABLE_ELEMENTS), dtype=np.int64)
    sets[tabulated.owner, tabulated.column] = table.set_of[tabulated.numbers, tabulated.counts]
    meeting = table.sums[sets[:, 0], sets[:, 1]] & table.opposite[sets[:, 2], sets[:, 3]]  # [n, words]
    neutral = np.zeros(len(compositions), dtype=bool)
    neutral[~large] = meeting.any(axis=1)
    for row in np.flatnonzero(large & (compositions.k > 1)):
        neutral[row] = _reaches_zero(compositions[int(row)], limits)
    return neutral | (compositions.k == 1)


def _reaches_zero(composition: Composition, bounds: Bounds) -> bool:
    """Whether states of all atoms can add up to zero. Charges are the bits of one integer, lowest first."""
    reached, lowest = 1, 0
    for symbol, n in zip(composition.elements, composition.counts, strict=True):
        states = _allowed_states(symbol, bounds)
        if not states:
            return False
        lowest += n * states[0]
        for _ in range(n):
            reached = reduce(or_, (reached << state - states[0] for state in states))
    return lowest <= 0 and bool(reached >> -lowest & 1)


def _checked(bounds: Mapping[str, tuple[int, int]]) -> Bounds:
    """Bounds as a key of the tables; unknown elements and empty ranges are refused."""
    for symbol, (low, high) in bounds.items():
        if symbol not in NUMBER:
            raise InputError(f"oxidation bounds name '{symbol}'", near_symbol(symbol))
        if low > high:
            raise InputError(f"the oxidation bounds of {symbol} are empty: {low} to {high}")
    return tuple(sorted((symbol, int(low), int(high)) for symbol, (low, high) in bounds.items()))


def _allowed_states(symbol: str, bounds: Bounds) -> tuple[int, ...]:
    low, high = next(((low, high) for name, low, high in bounds if name == symbol), (-99, 99))
    return tuple(state for state in oxidation_states(symbol) if low <= state <= high)


def neutral_assignment(elements: Sequence[str], counts: Sequence[int]) -> dict[str, list[int]] | None:
    """The most probable neutral assignment, or None: states of each element's atoms, descending.

    Probable as pymatgen means it: the largest sum over atoms of how often ICSD has the state. An element
    alone is neutral with all its atoms at 0.
    """
    composition = Composition(tuple(elements), tuple(counts))  # refuses what is no composition
    if composition.n_atoms > ASSIGNED_ATOMS:
        raise InputError(
            f"a cell of {composition.n_atoms} atoms is too large to assign", f"at most {ASSIGNED_ATOMS} atoms"
        )
    if len(elements) == 1:
        return {elements[0]: [0] * counts[0]}
    # Best score and the charge of each element so far, by total charge
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    choices = [_best_states(symbol, n) for symbol, n in zip(elements, counts, strict=True)]
    for options in choices:
        extended: dict[int, tuple[float, tuple[int, ...]]] = {}
        for total, (score, charges) in best.items():
            for charge, (more, _) in options.items():
                known = extended.get(total + charge)
                if known is None or score + more > known[0]:
                    extended[total + charge] = (score + more, (*charges, charge))
        best = extended
    if 0 not in best:
        return None
    picked = zip(elements, choices, best[0][1], strict=True)
    return {symbol: sorted(options[charge][1], reverse=True) for symbol, options, charge in picked}


@cache
def _occurrence() -> dict[tuple[str, int], float]:
    """How often ICSD has an element in an oxidation state, as pymatgen ships it."""
    from pymatgen.core import Composition

    if Composition.oxi_prob is None:
        Composition("NaCl").oxi_state_guesses()  # pymatgen reads its table on the first guess
    return {(species.symbol, int(species.oxi_state)): n for species, n in Composition.oxi_prob.items()}


@lru_cache(maxsize=4096)
def _best_states(symbol: str, n_atoms: int) -> dict[int, tuple[float, tuple[int, ...]]]:
    """For each charge that n atoms reach: the largest summed occurrence and the states that have it."""
    occurrence = _occurrence()
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for _ in range(n_atoms):
        extended: dict[int, tuple[float, tuple[int, ...]]] = {}
        for charge, (score, states) in best.items():
            for state in oxidation_states(symbol):
                total = score + occurrence.get((symbol, state), 0.0)
                known = extended.get(charge + state)
                if known is None or total > known[0]:
                    extended[charge + state] = (total, (*states, state))
        best = extended
    return best
