import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchor.chemistry.asking import Asking, asked_for, can_be_neutral
from anchor.chemistry.charge import is_neutral, neutral_assignment
from anchor.chemistry.composition import Composition, Compositions

SYMBOLS = ("H", "B", "Si", "Fe", "As", "Pb", "Zr", "Li", "O")
CELLS = Compositions.from_list(["As3Te3Li3", "Na2Cl2", "H2Si2", "HSi", "Mg3Ca6"])


@pytest.mark.parametrize(
    ("query", "asked", "neutral"),
    [
        ("cell", ["As3Te3Li3", "Na2Cl2", "H2Si2", "HSi", "Mg3Ca6"], [True, True, True, False, False]),
        ("reduced", ["AsTeLi", "NaCl", "HSi", "HSi", "MgCa2"], [False, True, False, False, False]),
        ("free", ["AsTeLi", "NaCl", "HSi", "HSi", "MgCa2"], [True, True, True, True, False]),
    ],
)
def test_charge_is_tested_on_what_is_made(query: Asking, asked: list[str], neutral: list[bool]) -> None:
    assert asked_for(CELLS, query).cells == asked
    assert can_be_neutral(CELLS, query, 20).tolist() == neutral


def test_a_free_prior_cannot_choose_more_atoms_than_it_places() -> None:
    assert can_be_neutral(CELLS, "free", 5).tolist() == [False, True, True, True, False]  # As3Te3Li3 has 9
    assert can_be_neutral(CELLS, "free", 1).tolist() == [False, True, False, False, False]  # one unit always
    assert can_be_neutral(CELLS[:0], "free", 20).shape == (0,)
    assert not can_be_neutral(CELLS, "free", 20, bounds={"Te": (4, 6)})[0]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(SYMBOLS), st.integers(1, 6), min_size=1, max_size=5),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 24),
)
def test_free_is_any_number_of_units_that_fits(amounts: list[dict[str, int]], max_atoms: int) -> None:
    batch = Compositions.from_list(Composition(tuple(a), tuple(a.values())) for a in amounts)
    expected = []
    for unit in batch.reduced():
        most = max(max_atoms // unit.n_atoms, 1)
        cells = [tuple(units * n for n in unit.counts) for units in range(1, most + 1)]
        expected.append(any(neutral_assignment(unit.elements, cell) is not None for cell in cells))
    found = can_be_neutral(batch, "free", max_atoms)
    assert found.tolist() == expected
    assert (found >= is_neutral(batch.reduced())).all()
    np.testing.assert_array_equal(can_be_neutral(batch, "cell", max_atoms), is_neutral(batch))
