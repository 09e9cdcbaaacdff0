"""Settings follow from the elements of a reaction."""

import pytest

from anchor.dft.rules import hubbard, mixes_hubbard, moments, settings_for, valence_electrons


@pytest.mark.parametrize(
    ("formulas", "cutoff", "density"),
    [
        (["RbCl", "CsCl"], 400, 1000),
        (["RbCl", "LiCl"], 500, 1000),  # Li is hard, so all phases are calculated so
        (["K2Se", "YSe"], 400, 1500),
        (["YPd3", "YCl3"], 400, 2000),  # an alloy among them
        (["K2O", "K"], 500, 2000),  # an element among them
        (["P", "K3P"], 400, 2000),  # an element is metallic whatever it is in compounds
    ],
)
def test_a_reaction_shares_settings(formulas: list[str], cutoff: float, density: float) -> None:
    found = settings_for(formulas)
    assert (found.cutoff, found.density) == (cutoff, density)
    assert settings_for(reversed(formulas)) == found


def test_hubbard_in_oxides_only_and_mixing_is_named() -> None:
    assert hubbard(["Ni", "O"]) == {"Ni": ("d", 6.4)}
    assert hubbard(["Ni", "F"]) == {}  # the Materials Project has U in fluorides, OQMD has not
    assert hubbard(["Mo", "O"]) == {}
    assert mixes_hubbard(["NiO", "Ni"]) == ["Ni"]
    assert mixes_hubbard(["LiNiO2", "NiO", "Li2O"]) == []


def test_spin_where_elements_ask_for_it() -> None:
    assert moments(["Fe", "Al"]) == {"Fe": 4.0}
    assert moments(["Gd", "N"]) == {}  # its moment is in the frozen shell


@pytest.mark.parametrize(
    ("symbol", "electrons"), [("Na", 9), ("Cl", 7), ("K", 9), ("Y", 11), ("In", 13), ("Nd", 11), ("Ta", 13)]
)
def test_valence_electrons(symbol: str, electrons: int) -> None:
    assert valence_electrons(symbol) == electrons
