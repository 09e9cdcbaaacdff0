"""What is worth making: neither list has it, every orientation once, likely ones first."""

from math import gcd

import pytest

from anchor.arrays import unpack_strings
from anchor.chemistry.composition import Compositions, parse_formula
from anchor.filling.wanted import (
    LIKELY,
    absent,
    chances,
    common_stoichiometries,
    compositions_of,
    oriented,
    wanted,
    without_crystal,
)
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def binaries() -> list[tuple[int, ...]]:
    return common_stoichiometries(2, 0.9)


def test_common_binaries_are_what_everybody_knows(binaries: list[tuple[int, ...]]) -> None:
    assert {(1, 1), (1, 2), (1, 3), (2, 3), (3, 4), (2, 5)} <= set(binaries)
    assert all(a <= b and gcd(a, b) == 1 and a + b <= 20 for a, b in binaries)
    assert binaries[:3] == common_stoichiometries(2, 0.5)[:3]
    assert len(common_stoichiometries(2, 0.5)) < len(binaries) < 20


def test_orientations_are_distinct() -> None:
    assert oriented([(1, 1), (1, 2)]) == [(1, 1), (1, 2), (2, 1)]
    assert len(oriented([(1, 2, 3)])) == 6
    assert len(oriented([(1, 1, 4)])) == 3


def test_every_system_has_every_stoichiometry_once() -> None:
    found = compositions_of([("Se", "K"), ("K", "Y")], [(1, 1), (1, 2)]).formulas
    assert sorted(found) == sorted(["KSe", "KSe2", "K2Se", "KY", "KY2", "K2Y"])
    assert len(compositions_of([], [(1, 1)])) == 0


def test_what_is_listed_is_not_made() -> None:
    asked = Compositions.from_list(["Y2Se3", "YSe", "Y2Se5", "NaCl"])  # MP has the first, OQMD the second
    assert absent(asked).formulas == ["Y2Se5"]


def test_likely_ones_come_first_and_unlikely_ternaries_not_at_all() -> None:
    found = wanted(["K", "Y", "Se"], [("K", "Y", "Se"), ("K", "Y", "Pu")])
    assert len(found) == len(set(found))
    reference = load_reference()
    listed = {*reference.hull_formulas, *unpack_strings(reference.mp_hull["formulas"])}
    assert not listed & set(found)
    assert "KYSe2" in found
    assert not any("Pu" in f for f in found)
    chance = chances(Compositions.from_list(found)).tolist()
    kinds = [(parse_formula(f).k, p >= LIKELY) for f, p in zip(found, chance, strict=True)]
    order = [(2, True), (3, True), (2, False)]
    assert [kind for kind in order for _ in range(kinds.count(kind))] == kinds
    for kind in order:
        part = [p for k, p in zip(kinds, chance, strict=True) if k == kind]
        assert part == sorted(part, reverse=True)


def test_listed_compounds_without_a_crystal() -> None:
    """TmF3, too high in both databases, and Y2Se3, which OQMD lacks; never what the reference has."""
    found = without_crystal(["K", "Y", "Tm", "F", "Se"])
    assert {"TmF3", "Y2Se3", "Tm2Se3"} <= set(found)
    assert not set(found) & set(load_reference().formulas.tolist())
    assert len(found) == len(set(found))
