"""Counts of known compounds by chemical system."""

from __future__ import annotations

from anchor.chemistry.composition import Compositions
from anchor.hull.holes import load_knowledge
from anchor.screening.systems import load_systems

FORMULAS = ["NaCl", "Cl4Na4", "KYSe2", "LiFePO4", "OPFeLi", "Cs2AgBiBr6"]


def test_counts_are_those_of_the_holes_report() -> None:
    """`anchor.hull.holes` counts one system at a time, by another way."""
    batch = Compositions.from_list(FORMULAS)
    counts = load_systems().counts(batch)
    for i, composition in enumerate(batch):
        expected = load_knowledge().of(composition.elements)
        assert counts["own"][i] == expected.entries, FORMULAS[i]
        assert counts["mp"][i] == expected.phases["mp"], FORMULAS[i]


def test_order_of_elements_does_not_matter() -> None:
    counts = load_systems().counts(Compositions.from_list(["LiFePO4", "O4PFeLi", "PLiO4Fe"]))
    for own in counts.values():
        assert len(set(own.tolist())) == 1
        assert own[0] > 0
