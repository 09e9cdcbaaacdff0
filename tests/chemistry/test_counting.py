from collections import Counter
from functools import cache
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from pymatgen.core import Element

from anchor.chemistry.bounds import stoichiometries
from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.counting import NeutralCount, count_neutral
from anchor.chemistry.elements import NUMBERS
from anchor.chemistry.formula import reduced_formula
from anchor.chemistry.spaces import sample_random
from anchor.errors import InputError


@cache
def sums(symbol: str, n: int) -> frozenset[int]:
    """Charges of n atoms, straight from pymatgen's states."""
    states = Element(symbol).icsd_oxidation_states or Element(symbol).common_oxidation_states
    return frozenset(states) if n == 1 else frozenset(a + b for a, b in product(sums(symbol, n - 1), states))


def brute_force(elements: list[str], k: int) -> tuple[int, int, int, int, int, dict[int, int]]:
    """Every action one by one: the numbers of `NeutralCount` in its order."""
    formulas, neutral_formulas, units = set(), set(), set()
    by_atoms: Counter[int] = Counter()
    actions = 0
    for symbols in combinations(elements, k):
        for rho in stoichiometries(k).tolist():
            actions += 1
            reachable = frozenset({0})
            for symbol, n in zip(symbols[:-1], rho[:-1], strict=True):
                reachable = frozenset(a + b for a, b in product(reachable, sums(symbol, n)))
            formula = reduced_formula(symbols, rho)
            formulas.add(formula)
            if any(-charge in reachable for charge in sums(symbols[-1], rho[-1])):
                by_atoms[sum(rho)] += 1
                neutral_formulas.add(formula)
                if np.gcd.reduce(rho) == 1:
                    units.add(formula)
    return actions, by_atoms.total(), len(formulas), len(neutral_formulas), len(units), dict(by_atoms)


@pytest.mark.parametrize(
    "elements",
    [
        ["Na", "K", "Cl", "F", "O"],  # two pairs of one type each
        ["H", "Si", "B", "Fe", "N"],  # cells of a formula that differ in neutrality
    ],
)
def test_counts_equal_brute_force(elements: list[str]) -> None:
    for k, size in count_neutral(elements).items():
        expected = brute_force(elements, k)
        found = (
            size.actions,
            size.neutral_actions,
            size.formulas,
            size.neutral_formulas,
            size.neutral_formula_units,
            {n_atoms: n for n_atoms, n in size.neutral_by_atoms.items() if n},
        )
        assert found == expected


@pytest.fixture(scope="module")
def sizes() -> dict[int, NeutralCount]:
    return count_neutral()


def test_full_binary_counts_equal_the_list(sizes: dict[int, NeutralCount]) -> None:
    pairs = np.array(list(combinations(range(84), 2)))
    rho = stoichiometries(2)
    n = len(pairs) * len(rho)
    counts = np.tile(rho, (len(pairs), 1))
    neutral = is_neutral(Compositions.from_padded(NUMBERS[np.repeat(pairs, len(rho), axis=0)], counts))
    assert (sizes[2].actions, sizes[2].neutral_actions) == (n, neutral.sum())
    by_atoms = np.bincount(counts.sum(axis=1), weights=neutral)
    assert list(sizes[2].neutral_by_atoms.values()) == by_atoms[2:].tolist()
    assert sizes[2].neutral_formula_units == (neutral & (np.gcd(counts[:, 0], counts[:, 1]) == 1)).sum()


def test_full_counts_agree_with_the_paper_and_with_flat_draws(sizes: dict[int, NeutralCount]) -> None:
    assert [f"{sizes[k].neutral_formula_units:.1e}" for k in (2, 3, 4)] == ["4.4e+04", "1.1e+07", "1.1e+09"]
    for k, size in sizes.items():
        assert size.actions == comb(84, k) * len(stoichiometries(k))
    batch = sample_random(100_000, np.random.default_rng(3), "flat")
    share = sum(s.neutral_actions for s in sizes.values()) / sum(s.actions for s in sizes.values())
    assert is_neutral(batch).mean() == pytest.approx(share, abs=5 * (share / 100_000) ** 0.5)


def test_elements_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(InputError, match="Xe"):
        count_neutral(["Xe", "F", "O", "H"])
