"""The disordered matcher on alloys, against pymatgen's own substitution; kinds, and what hangs."""

from itertools import combinations

import numpy as np
import pytest
from pymatgen.analysis.structure_matcher import OrderDisorderElementComparator, StructureMatcher
from pymatgen.core import Element, Lattice, Structure

from anchor.chemistry.elements import VOCABULARY
from anchor.crystals.crystals import Crystals
from anchor.executors import Processes
from anchor.matching.disordered import (
    DisorderedMatcher,
    interchangeable,
    interchangeable_groups,
    smeared,
    space_group,
)
from anchor.matching.kinds import KnownStructures, chemical_systems, first_of_kind, matches_in
from anchor.random import generator
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def pool():
    with Processes(workers=1) as pool:
        yield pool


def layered(order: str, a: float = 3.6) -> Structure:
    """A face-centred tetragonal stack of square layers, one element each."""
    n = len(order)
    lattice = Lattice.tetragonal(a / 2**0.5, a * n / 2)
    elements = {"A": "Fe", "B": "Ni", "N": "Na", "C": "Cl"}
    sites = [[0.5 * (i % 2), 0.5 * (i % 2), i / n] for i in range(n)]
    return Structure(lattice, [elements[letter] for letter in order], sites)


def test_rule_by_hand() -> None:
    """Radii (Å), electronegativities: Fe 1.40 1.83, Ni 1.35 1.91; Na 1.80 0.93, Cl 1.00; O 0.60, S 1.00."""
    assert interchangeable("Fe", "Ni")
    assert not interchangeable("Na", "Cl")
    assert not interchangeable("O", "S")
    assert interchangeable("Cu", "Au")
    assert not interchangeable("He", "Ne")  # no electronegativity


def test_groups_are_the_closure_of_the_pairs() -> None:
    stream = generator(3, "groups")
    for _ in range(50):
        symbols = stream.choice(VOCABULARY, 6, replace=False).tolist()
        reach = np.eye(6, dtype=bool)
        for i, j in combinations(range(6), 2):
            a, b = Element(symbols[i]), Element(symbols[j])
            similar = (
                abs(a.atomic_radius - b.atomic_radius) / np.mean([a.atomic_radius, b.atomic_radius]) <= 0.3
            )
            reach[i, j] = reach[j, i] = similar and abs(a.X - b.X) <= 1.0
        reach = np.linalg.matrix_power(reach.astype(int), 6) > 0
        expected = {frozenset(np.array(symbols)[row]) for row in reach if row.sum() > 1}
        assert {frozenset(group) for group in interchangeable_groups(symbols)} == expected


def test_two_orderings_of_an_alloy_are_one_structure() -> None:
    one, other = layered("ABAB"), layered("AABB")
    assert not StructureMatcher().fit(one, other)
    assert DisorderedMatcher().fit(one, other)
    assert DisorderedMatcher().fit(other, one)


def test_two_orderings_of_a_salt_are_two_structures() -> None:
    assert not DisorderedMatcher().fit(layered("NCNC", 5.6), layered("NNCC", 5.6))


def test_smearing_keeps_sites_and_composition() -> None:
    structure = layered("AABABB")
    found = smeared(structure, [["Fe", "Ni"]])
    assert found.composition.almost_equals(structure.composition)
    assert all(site.species.get_el_amt_dict() == pytest.approx({"Fe": 0.5, "Ni": 0.5}) for site in found)


def test_the_space_group_decides_first() -> None:
    """A distortion that pymatgen's matcher ignores: different for MatterGen, because the space groups are."""
    salt = layered("NC", 5.6)
    bent = salt.copy()
    bent.translate_sites([0], [0.06, 0.03, 0.02])
    assert space_group(salt) != space_group(bent)
    assert StructureMatcher().fit(salt, bent)
    assert not DisorderedMatcher().fit(salt, bent)
    assert DisorderedMatcher(same_space_group=False).fit(salt, bent)


def by_pymatgen(first: Structure, second: Structure) -> bool:
    """The rules once more: pymatgen's matchers and its own `replace_species`, the published order."""
    same_group = len({s.get_space_group_info(symprec=0.1)[1] for s in (first, second)}) == 1
    if same_group and StructureMatcher(ltol=0.2, stol=0.3, angle_tol=5).fit(first, second):
        return True
    groups = interchangeable_groups([e.symbol for e in first.composition.elements])
    if not groups:
        return False
    mixed, amounts = first.copy(), first.composition.get_el_amt_dict()
    for group in groups:
        total = sum(amounts[s] for s in group)
        mixture = {s: amounts[s] / total for s in group}
        mixed.replace_species(dict.fromkeys(group, mixture))
    loose = StructureMatcher(
        comparator=OrderDisorderElementComparator(), attempt_supercell=True, allow_subset=True
    )
    return bool(loose.fit(mixed, second))


def test_polymorphs_of_the_reference_against_pymatgen() -> None:
    reference = load_reference()
    formulas, counts = np.unique(reference.formulas[reference.crystals.counts <= 8], return_counts=True)
    chosen = generator(1, "polymorphs").choice(formulas[counts >= 2], 40, replace=False)
    answers = []
    for formula in chosen:
        rows = np.flatnonzero((reference.formulas == formula) & (reference.crystals.counts <= 8))[:2]
        first, second = reference.crystals[rows].to_structures()
        answers.append(DisorderedMatcher().fit(first, second))
        assert answers[-1] == by_pymatgen(first, second), formula
    assert 0 < sum(answers) < len(answers)


def test_first_of_kind_in_order_and_by_formula(pool: Processes) -> None:
    structures = [
        layered("ABAB"),
        layered("NCNC", 5.6),
        layered("AABB"),
        layered("NNCC", 5.6),
        layered("CNCN", 5.6),
    ]
    first, faults = first_of_kind(Crystals.from_structures(structures), DisorderedMatcher(), pool)
    assert first.tolist() == [0, 1, 0, 3, 1]
    assert not faults


def test_reference_crystals_are_found_in_the_reference(pool: Processes) -> None:
    known = KnownStructures.bundled()
    reference = load_reference()
    rows = np.flatnonzero(reference.formulas == "CuAu").tolist()  # two orderings
    nowhere = layered("AABABBBB")
    crystals = Crystals.concatenate([reference.crystals[rows], Crystals.from_structures(nowhere)])
    found, faults = matches_in(crystals, known, DisorderedMatcher(), pool)
    for i, row in enumerate(rows):
        assert reference.ids[row] in found[i]
    ordered, _ = matches_in(crystals, known, StructureMatcher(), pool)
    assert sum(map(len, ordered)) < sum(map(len, found))  # as alloys the two are one
    assert found[-1] == []
    assert not faults
    assert {"Au-Cu", "Cl-Na"} <= known.systems


def test_chemical_systems_as_pymatgen() -> None:
    crystals = load_reference().crystals[:40]
    assert chemical_systems(crystals) == [s.chemical_system for s in crystals.to_structures()]


def test_a_hang_is_killed_and_harms_no_other_pair() -> None:
    from hanging_matcher import HangingMatcher

    salts = [layered("NC", a) for a in (5.6, 5.7, 5.0, 5.65)]
    matcher = HangingMatcher(volume=(salts[2].volume + salts[0].volume) / 2)  # hangs on the third alone
    known = KnownStructures(Crystals.from_structures([salts[0]]), ["one"], ["NaCl"], "one salt")
    with Processes(workers=1, seconds=2.0) as pool:
        first, faults = first_of_kind(Crystals.from_structures(salts), matcher, pool)
        assert first.tolist() == [0, 0, 2, 0]
        assert faults == {2: "killed after 2 s"}
        found, faults = matches_in(Crystals.from_structures(salts[1:3]), known, matcher, pool)
    assert found == [["one"], []]
    assert faults == {1: "killed after 2 s"}
