"""Formula units and anonymous formulas."""

from __future__ import annotations

import numpy as np
import pytest

from anchor.chemistry.composition import parse_formula
from anchor.errors import InputError
from anchor.priors.request import Request
from anchor.priors.units import anonymous, choose_units, of_split, stoichiometry
from anchor.reference.reference import load_reference


def request(formula: str, draw: int = 0) -> Request:
    return Request(parse_formula(formula), None, draw, 0, ("units",))


def test_stoichiometry():
    assert stoichiometry((4, 2, 8)) == (1, 2, 4)
    assert stoichiometry((6,)) == (1,)


def test_anonymous_agrees_with_pymatgen():
    crystals = load_reference().crystals[::997]
    for (elements, ratio, units), structure in zip(
        anonymous(crystals), crystals.to_structures(), strict=True
    ):
        _, factor = structure.composition.get_integer_formula_and_factor()
        assert units == factor or structure.composition.reduced_formula in ("O2", "N2", "H2", "F2", "Cl2")
        amounts = structure.composition.get_el_amt_dict()
        assert sorted(amounts.values()) == [units * r for r in ratio]
        assert [structure.composition[int(z)] for z in elements] == [units * r for r in ratio]


def test_first_draw_takes_the_most_frequent_number():
    reference = load_reference()
    train = reference.crystals[of_split(reference, "train")]
    units = [z for _, ratio, z in anonymous(train) if ratio == (1, 1, 3)]
    assert choose_units(request("CaTiO3"), 20) == np.bincount(units).argmax()
    drawn = [choose_units(request("CaTiO3", draw), 20) for draw in range(1, 200)]
    for z in (1, 2, 4):
        assert np.mean(np.array(drawn) == z) == pytest.approx(np.mean(np.array(units) == z), abs=0.12)


def test_size_is_respected_even_for_unseen_stoichiometries():
    assert choose_units(request("CaTiO3"), 9) == 1
    assert choose_units(request("Li7Fe11"), 20) == 1
    with pytest.raises(InputError, match="does not fit"):
        choose_units(request("CaTiO3"), 4)


def test_unknown_split():
    with pytest.raises(InputError, match="no split 'tests'"):
        of_split(load_reference(), "tests")
