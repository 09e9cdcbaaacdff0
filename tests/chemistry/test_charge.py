from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymatgen.core import Composition as PymatgenComposition
from pymatgen.core import Element, Species

from anchor.chemistry.charge import is_neutral, neutral_assignment, oxidation_states, reachable_charges
from anchor.chemistry.composition import Composition, Compositions, parse_formula
from anchor.chemistry.elements import SYMBOLS, VOCABULARY
from anchor.chemistry.spaces import sample_random
from anchor.errors import InputError


def guesses(composition: Composition) -> tuple:
    amounts = dict(zip(composition.elements, composition.counts, strict=True))
    return PymatgenComposition(amounts).oxi_state_guesses()


def test_random_actions_agree_with_pymatgen() -> None:
    batch = sample_random(400, np.random.default_rng(7))
    expected = [bool(guesses(composition)) for composition in batch]
    assert is_neutral(batch).tolist() == expected
    assert 20 < sum(expected) < 100  # both answers occur


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(VOCABULARY), st.integers(1, 6), min_size=1, max_size=4),
)
def test_any_small_composition_agrees_with_pymatgen(amounts: dict[str, int]) -> None:
    composition = Composition(tuple(amounts), tuple(amounts.values()))
    expected = bool(guesses(composition))
    assert is_neutral(Compositions.from_list([composition])).tolist() == [expected]
    states = neutral_assignment(composition.elements, composition.counts)
    assert (states is not None) == expected
    if states is not None and composition.k > 1:
        assert sum(sum(atoms) for atoms in states.values()) == 0
        for symbol, n in amounts.items():
            assert len(states[symbol]) == n
            assert set(states[symbol]) <= set(oxidation_states(symbol))


@pytest.mark.parametrize(
    "formula", ["Fe3O4", "LiMn2O4", "CuS", "Li2FeSiO4", "As2S3", "CNO", "BiTe", "K2Cr2O7"]
)
def test_assignment_is_as_probable_as_pymatgens_first(formula: str) -> None:
    composition = parse_formula(formula)
    states = neutral_assignment(composition.elements, composition.counts)
    assert states is not None
    _, combos = PymatgenComposition(formula)._get_oxi_state_guesses(False, None, None, 0)

    def score(assignment: dict[str, list[int]]) -> float:
        occurrence = PymatgenComposition.oxi_prob
        return sum(occurrence.get(Species(s, q), 0) for s, atoms in assignment.items() for q in atoms)

    assert score(states) == pytest.approx(score(combos[0]))


def test_charge_is_tested_on_the_cell_as_proposed() -> None:
    # H has +1 and -1, Si +4 and -4: only an even number of each balances
    batch = Compositions.from_list(["HSi", "H2Si2", "H3Si3"])
    assert is_neutral(batch).tolist() == [False, True, False] == [bool(guesses(c)) for c in batch]


def test_more_atoms_of_one_element_than_the_tables_hold() -> None:
    batch = Compositions.from_list(["Fe15O20", "Fe15F13", "Na13Cl13", "Na13Cl14", "Fe3O4"])
    assert is_neutral(batch).tolist() == [True, False, True, False, True]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(SYMBOLS[1:]), st.integers(1, 3), min_size=1, max_size=6))
def test_any_elements_in_any_number_agree_with_pymatgen(amounts: dict[str, int]) -> None:
    composition = Composition(tuple(amounts), tuple(amounts.values()))
    assert is_neutral(Compositions.from_list([composition])).tolist() == [bool(guesses(composition))]


def test_rows_of_all_kinds_in_one_batch() -> None:
    cells = ["NaCl", "LiNaKRbO2", "LiNaKRbO", "He", "HeO", "Fe15O20", "PoO2", "KrF2", "OgO", "LiNaKRbCsFrO3"]
    expected = [True, True, False, True, False, True, True, True, False, True]
    assert is_neutral(Compositions.from_list(cells)).tolist() == expected
    assert [bool(guesses(parse_formula(c))) for c in cells if c != "Fe15O20"] == [
        e for c, e in zip(cells, expected, strict=True) if c != "Fe15O20"
    ]
    assert is_neutral(Compositions.from_list(["LiNaKRbO2"]), bounds={"O": (-1, -1)}).tolist() == [False]


def test_an_element_alone_is_neutral_and_noble_gases_are_as_pymatgen_has_them() -> None:
    assert is_neutral(Compositions.from_list(["Fe", "O2", "Fe13", "He999999"])).all()
    assert neutral_assignment(["Fe"], [3]) == {"Fe": [0, 0, 0]}
    assert neutral_assignment(["He", "O"], [1, 1]) is None
    assert bool(guesses(parse_formula("XeF2"))) == (neutral_assignment(["Xe", "F"], [1, 2]) is not None)


def test_huge_cells_and_unknown_elements_are_refused() -> None:
    with pytest.raises(InputError, match="no element 'Xx'"):
        neutral_assignment(["Xx", "O"], [1, 1])
    with pytest.raises(InputError, match="700 atoms"):
        neutral_assignment(["Fe", "O"], [300, 400])


@given(st.sets(st.integers(-4, 7), min_size=1, max_size=5), st.integers(0, 5))
def test_reachable_charges_are_all_sums(states: set[int], n: int) -> None:
    expected = {sum(combo) for combo in combinations_with_replacement(sorted(states), n)}
    assert reachable_charges(sorted(states), n)[n] == expected


def test_states_are_icsd_or_common() -> None:
    for symbol in SYMBOLS[1:95]:
        element = Element(symbol)
        assert set(oxidation_states(symbol)) == set(
            element.icsd_oxidation_states or element.common_oxidation_states
        )
    assert all(oxidation_states(symbol) for symbol in VOCABULARY)
    assert oxidation_states("Au") == (3,)  # ICSD list is empty, the common one is used


def test_empty_batch() -> None:
    assert is_neutral(Compositions.from_list([])).shape == (0,)


def test_oxidation_bounds_restrict_single_elements() -> None:
    batch = Compositions.from_list(["MnO", "Mn2O3", "Mn3O4", "MnO2", "NaCl", "Mn14O20"])
    assert is_neutral(batch).all()
    assert is_neutral(batch, bounds={"Mn": (2, 3)}).tolist() == [True, True, True, False, True, True]
    assert is_neutral(batch, bounds={"Mn": (3, 3)}).tolist() == [False, True, False, False, True, False]
    assert is_neutral(batch, bounds={"Mn": (9, 9)}).tolist() == [False] * 4 + [True, False]
    with pytest.raises(InputError, match="empty"):
        is_neutral(batch, bounds={"Mn": (3, 2)})
    with pytest.raises(InputError, match="oxidation bounds name"):
        is_neutral(batch, bounds={"Xx": (1, 2)})
