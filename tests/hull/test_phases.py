"""Formulas, and the index that gathers the phases of a chemical system."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymatgen.core import Composition

from anchor.errors import InputError
from anchor.hull.phases import PhaseIndex, Phases, composition_matrix, formula_of, parse_amounts, system_key


@pytest.mark.parametrize(
    "formula", ["LiFePO4", "Ca3(PO4)2", "Ta2Te1Zr1", "Li0.5CoO2", "H2O", "O2", "HfO2", "CoO"]
)
def test_parse_amounts_agrees_with_pymatgen(formula: str) -> None:
    expected = {element.Z: amount for element, amount in Composition(formula).items()}
    assert parse_amounts(formula) == pytest.approx(expected)


@pytest.mark.parametrize("formula", ["", "Xx2O", "lifepo4", "Li2(O"])
def test_unreadable_formulas_are_named(formula: str) -> None:
    with pytest.raises(InputError):
        parse_amounts(formula)


def test_composition_matrix_counts_by_atomic_number() -> None:
    matrix = composition_matrix(["NaCl", "CCO"])
    assert matrix.shape == (2, 119)
    assert matrix[0, [11, 17]].tolist() == [1, 1]
    assert matrix[1, [6, 8]].tolist() == [2, 1]
    assert matrix.sum() == 5


@given(st.dictionaries(st.integers(1, 94), st.integers(1, 12), min_size=1, max_size=5))
def test_formula_of_fractions(amounts: dict[int, int]) -> None:
    numbers = sorted(amounts)
    counts = np.array([amounts[z] for z in numbers])
    expected = Composition({z: int(n) for z, n in amounts.items()}).reduced_formula
    assert formula_of(numbers, (counts / counts.sum()).tolist()) == expected


def random_phases(rng: np.random.Generator, n: int, elements: list[int], largest: int) -> Phases:
    amounts = [{z: 1.0} for z in elements]
    for _ in range(n):
        chosen = rng.choice(elements, size=rng.integers(2, largest + 1), replace=False)
        amounts.append({int(z): float(rng.integers(1, 6)) for z in chosen})
    energies = np.concatenate([np.zeros(len(elements)), rng.normal(-0.5, 0.5, n)])
    return Phases.from_amounts(amounts, energies)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
def test_gather_finds_exactly_the_phases_of_all_subsystems(k: int) -> None:
    rng = np.random.default_rng(k)
    elements = [3, 8, 11, 13, 26, 30]
    phases = random_phases(rng, 400, elements, largest=5)
    index = PhaseIndex(phases)
    system = tuple(sorted(rng.choice(elements, size=k, replace=False).tolist()))
    fractions, energies, rows = index.gather(system)
    assert np.array_equal(fractions[:, :k], np.eye(k))
    expected = {
        i
        for i in range(len(phases))
        if set(phases.numbers[i][phases.numbers[i] > 0].tolist()) <= set(system)
        and (phases.energies[i] < 0 or np.count_nonzero(phases.numbers[i]) == 1)
    }
    assert set(rows.tolist()) == expected
    assert len(rows) == len(expected)
    assert np.array_equal(energies, phases.energies[rows])
    for column, row in enumerate(rows.tolist()):
        dense = np.zeros(119)
        dense[phases.numbers[row]] += phases.fractions[row]
        assert np.array_equal(dense[list(system)], fractions[:, column])


def test_gather_in_an_index_with_fewer_systems_than_subsets() -> None:
    """A system of many elements in a small index is found by looking through the index."""
    formulas = ["Li", "O", "Fe", "Mn", "Na", "Cl", "Li2O", "FeO", "NaCl", "LiFeO2"]
    phases = Phases.from_formulas(formulas, [0.0] * 6 + [-1.0] * 4)
    fractions, energies, rows = PhaseIndex(phases).gather((3, 8, 25, 26))
    assert sorted(formulas[i] for i in rows) == ["Fe", "FeO", "Li", "Li2O", "LiFeO2", "Mn", "O"]
    at = [formulas[i] for i in rows].index("LiFeO2")
    assert fractions[:, at].tolist() == [0.25, 0.5, 0, 0.25]
    assert energies[at] == -1.0


def test_the_lowest_elemental_phase_is_the_reference() -> None:
    phases = Phases.from_formulas(["O2", "O", "Li", "Li2O"], [0.2, -0.1, 0.0, -1.0])
    index = PhaseIndex(phases)
    assert index.elements == {8: 1, 3: 2}


def test_concatenate_keeps_order_and_pads() -> None:
    a = Phases.from_formulas(["LiFePO4"], [-1.0], ["a"])
    b = Phases.from_formulas(["O2"], [0.0], ["b"])
    both = Phases.concatenate([b, a])
    assert [both.formula(0), both.formula(1)] == ["O2", "LiFePO4"]
    assert both.sources.tolist() == ["b", "a"]


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match="energies"):
        Phases.from_formulas(["Li"], [0.0, 1.0])
    with pytest.raises(InputError, match="not finite"):
        Phases.from_formulas(["Li"], [np.nan])


def test_system_key_has_one_bit_per_element() -> None:
    assert system_key([8, 3]) == (1 << 8) + (1 << 3)
