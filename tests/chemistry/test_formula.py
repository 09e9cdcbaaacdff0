import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymatgen.core import Composition as PymatgenComposition

from anchor.chemistry.elements import SYMBOLS, VOCABULARY
from anchor.chemistry.formula import parse_amounts, reduced_formula
from anchor.errors import InputError


def amounts(symbols: list[str], most_elements: int, most_atoms: int) -> st.SearchStrategy[dict[str, int]]:
    return st.dictionaries(
        st.sampled_from(symbols), st.integers(1, most_atoms), min_size=1, max_size=most_elements
    )


@settings(max_examples=800, deadline=None)
@given(amounts(list(VOCABULARY), 4, 12))
def test_reduced_formula_is_pymatgens(counts: dict[str, int]) -> None:
    assert reduced_formula(list(counts), list(counts.values())) == PymatgenComposition(counts).reduced_formula


@settings(max_examples=500, deadline=None)
@given(amounts(list(SYMBOLS[1:]), 7, 40))
def test_reduced_formula_is_pymatgens_for_any_element(counts: dict[str, int]) -> None:
    assert reduced_formula(list(counts), list(counts.values())) == PymatgenComposition(counts).reduced_formula


def test_reduced_formula_of_thousands_of_polyanions_and_peroxides() -> None:
    rng = np.random.default_rng(0)
    electronegative = ["C", "N", "O", "F", "P", "S", "Cl", "Se", "H"]
    for _ in range(3000):
        symbols = [*rng.choice(electronegative, 2, replace=False), *rng.choice(VOCABULARY, 2)]
        symbols = list(dict.fromkeys(map(str, symbols)))[: rng.integers(2, 5)]
        counts = (rng.integers(1, 5, len(symbols)) * rng.integers(1, 4)).tolist()
        expected = PymatgenComposition(dict(zip(symbols, counts, strict=True))).reduced_formula
        assert reduced_formula(symbols, counts) == expected
    for alkali in ("Li", "Na", "K", "Rb", "Cs", "H"):
        assert reduced_formula([alkali, "O"], [3, 3]) == f"{alkali}2O2"


@settings(max_examples=300, deadline=None)
@given(amounts(list(SYMBOLS[1:]), 6, 99))
def test_parsing_reads_what_pymatgen_writes(counts: dict[str, int]) -> None:
    composition = PymatgenComposition(counts)
    assert parse_amounts(composition.formula) == counts  # 'Li2 Fe1 Si1 O4'
    reduced = parse_amounts(composition.reduced_formula)  # with brackets
    assert PymatgenComposition(reduced).reduced_formula == composition.reduced_formula


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Li2FeSiO4", {"Li": 2, "Fe": 1, "Si": 1, "O": 4}),
        ("  Li2 Fe Si O4 ", {"Li": 2, "Fe": 1, "Si": 1, "O": 4}),
        ("Ca(OH)2", {"Ca": 1, "O": 2, "H": 2}),
        ("[Cu(NH3)4]2{SO4}3", {"Cu": 2, "N": 8, "H": 24, "S": 3, "O": 12}),
        ("CuSO4·5H2O", {"Cu": 1, "S": 1, "O": 9, "H": 10}),
        ("2 LiFePO4", {"Li": 2, "Fe": 2, "P": 2, "O": 8}),
        ("CH3COOH", {"C": 2, "H": 4, "O": 2}),
        ("H₂O", {"H": 2, "O": 1}),
    ],
)
def test_parsing_what_people_type(text: str, expected: dict[str, int]) -> None:
    assert parse_amounts(text) == expected
    assert list(parse_amounts(text)) == list(expected)  # order of first mention


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("li2 fe si o4", "did you mean 'Li2FeSiO4'?"),
        ("li2fesio4", "did you mean 'Li2FeSiO4'?"),
        ("LI2FESIO4", "did you mean 'Li2FeSiO4'?"),
        ("ca(oh)2", "did you mean 'Ca(OH)2'?"),
        ("NaCL", "did you mean 'NaCl'?"),
        ("Li0.5Co0.5O", "for instance LiCoO2"),
        ("Fe3+", "leave out charges"),
        ("(NaCl", "check the brackets"),
        ("NaCl)", "check the brackets"),
        ("(NaCl]2", "check the brackets"),
        ("Kx", "did you mean 'K'?"),
        ("NaCl·", "as in Li2FeSiO4"),
        ("·NaCl", "as in Li2FeSiO4"),
        ("", "Li2FeSiO4"),
        ("12", "as in Li2FeSiO4"),
        ("Na0Cl", "write 1 to"),
        ("Na9999999Cl", "write 1 to"),
        ("Na" + "9" * 5000, "check the number"),
        ("Na; import os", "as in Li2FeSiO4"),
    ],
)
def test_bad_formulas_are_refused_with_a_way_out(text: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        parse_amounts(text)
    assert hint in str(error.value.hint)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_formula_or_an_input_error(text: str) -> None:
    try:
        amounts = parse_amounts(text)
    except InputError as error:
        hint = error.hint
    else:
        hint = "not needed"
        assert min(amounts.values()) > 0
    assert hint
