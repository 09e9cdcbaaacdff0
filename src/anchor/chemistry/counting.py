"""How many actions there are and how many are charge-neutral, exactly and without listing them.

Elements with the same oxidation states are interchangeable: the 84 fall into a few dozen types. For one
stoichiometry n1 <= n2 <= … all assignments of types to its positions are tested at once (two pair sums meet
or not), and each counts as often as there are distinct elements of those types.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchor.chemistry.bounds import MAX_ATOMS, MAX_ATOMS_PER_ELEMENT, K, primitive_stoichiometries
from anchor.chemistry.charge import TABLE_ELEMENTS, charge_table, oxidation_states
from anchor.chemistry.elements import NUMBERS, SYMBOLS, VOCABULARY, vocabulary_indices


@dataclass(frozen=True)
class NeutralCount:
    """Sizes of the action space at one k. An action is an unordered set of (element, atoms in the cell).

    Attributes:
        actions: All actions.
        neutral_actions: Those that are charge-neutral.
        formulas: Distinct reduced formulas of all actions.
        neutral_formulas: Reduced formulas of which at least one cell in the space is charge-neutral.
        neutral_formula_units: Reduced formulas of which one formula unit is charge-neutral (paper's count).
        neutral_by_atoms: Charge-neutral actions by atoms in the cell.
    """

    actions: int
    neutral_actions: int
    formulas: int
    neutral_formulas: int
    neutral_formula_units: int
    neutral_by_atoms: dict[int, int]


def count_neutral(elements: Sequence[str] = VOCABULARY) -> dict[int, NeutralCount]:
    """Exact sizes by k of the action space over `elements`; a few seconds for all 84."""
    numbers = NUMBERS[vocabulary_indices(elements)].tolist()
    states = [oxidation_states(SYMBOLS[z]) for z in numbers]
    types = Counter(states)
    representatives = np.array([numbers[states.index(kind)] for kind in types])  # one element for each type
    multiplicity = np.array(list(types.values()))
    return {k: _count(k, len(numbers), representatives, multiplicity) for k in K}


def _count(
    k: int, n_elements: int, representatives: NDArray[np.int64], multiplicity: NDArray[np.int64]
) -> NeutralCount:
    weight = _ordered_choices(k, multiplicity)
    actions = formulas = neutral_formulas = neutral_units = 0
    by_atoms: Counter[int] = Counter()
    for rho in _primitive(k):
        # Positions with equal counts can be permuted without changing the action
        same = math.prod(math.factorial(n) for n in Counter(rho).values())
        largest = min(MAX_ATOMS // sum(rho), MAX_ATOMS_PER_ELEMENT // max(rho))
        any_neutral = np.zeros(weight.shape, dtype=bool)
        for units in range(1, largest + 1):
            neutral = neutral_assignments(tuple(units * n for n in rho), representatives)
            found = int(weight @ neutral) // same
            by_atoms[units * sum(rho)] += found
            neutral_units += found if units == 1 else 0
            any_neutral |= neutral
        choices = math.perm(n_elements, k) // same
        actions += largest * choices
        formulas += choices
        neutral_formulas += int(weight @ any_neutral) // same
    return NeutralCount(
        actions=actions,
        neutral_actions=by_atoms.total(),
        formulas=formulas,
        neutral_formulas=neutral_formulas,
        neutral_formula_units=neutral_units,
        neutral_by_atoms=dict(sorted(by_atoms.items())),
    )


def _primitive(k: int) -> list[tuple[int, ...]]:
    """Ascending stoichiometries without a common divisor."""
    return [tuple(rho) for rho in primitive_stoichiometries(k).tolist() if rho == sorted(rho)]


def _ordered_choices(k: int, multiplicity: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ways to give k positions distinct elements, by the types of the positions.  # [n_types ** k]"""
    index = np.indices((len(multiplicity),) * k).reshape(k, -1)
    ways = np.ones(index.shape[1], dtype=np.int64)
    for i in range(k):
        ways *= multiplicity[index[i]] - (index[:i] == index[i]).sum(axis=0)
    return ways


def neutral_assignments(rho: tuple[int, ...], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the cell is neutral, for all choices of an element for each position of `rho`.

    Args:
        rho: Atoms at each of k positions.
        numbers: Atomic numbers to choose from.  # [e]

    Returns: # [e ** k], the last position varies fastest
    """
    table = charge_table()
    # Position i takes any element; positions beyond k are the set {0}
    sets = [table.set_of[numbers, n] for n in rho] + [np.zeros(1, dtype=int)] * (TABLE_ELEMENTS - len(rho))
    left = table.sums[sets[0][:, None], sets[1]].reshape(-1, table.sums.shape[-1])  # [e^2, words]
    right = table.opposite[sets[2][:, None], sets[3]].reshape(-1, table.sums.shape[-1])
    meet = np.zeros((len(left), len(right)), dtype=bool)
    for word in np.flatnonzero(left.any(axis=0) & right.any(axis=0)):  # few atoms reach few charges
        meet |= (left[:, None, word] & right[:, word]) != 0
    return meet.reshape(-1)
