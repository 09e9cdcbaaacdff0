"""Holes against pymatgen's phase diagrams of the other entries, and what is known about systems."""

import re

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition

from anchor.hull.databases import dft_hull
from anchor.hull.holes import DEEP, Knowledge, depths_below_others, find_holes, in_words
from anchor.reference.reference import load_reference

ELEMENTS = ("Li", "Sc", "Y", "Se")


def test_the_holes_that_the_search_lived_in() -> None:
    holes = {hole.formula: hole for hole in find_holes(ELEMENTS)}
    assert holes["Sc2Se3"].stable_in == holes["Y2Se3"].stable_in == "mp"
    assert holes["Sc2Se3"].depth == pytest.approx(0.310, abs=0.002)
    assert holes["Sc2Se3"].system == "Sc-Se"
    reference = load_reference()
    assert not {f for f, h in holes.items() if h.stable_in == "mp"} & set(reference.hull_formulas)
    assert not {f for f, h in holes.items() if h.stable_in == "oqmd"} & set(reference.mp_hull_energy)


def test_depths_equal_phase_diagrams_without_the_phase() -> None:
    hull = dft_hull("mp")
    phases = hull.index.phases
    system = [3, 21, 34, 39]
    rows = np.flatnonzero(np.isin(phases.numbers, [0, *system]).all(axis=1))
    entries = {
        int(i): PDEntry(Composition(phases.formula(i)).fractional_composition, phases.energies[i])
        for i in rows
    }
    compounds = [i for i in entries if np.count_nonzero(phases.numbers[i]) > 1]
    expected = {}
    for i in compounds:
        diagram = PhaseDiagram([entry for j, entry in entries.items() if j != i])
        depth = diagram.get_hull_energy_per_atom(entries[i].composition) - phases.energies[i]
        if depth > 1e-9:
            expected[i] = depth
    assert len(expected) >= 4
    assert dict(depths_below_others(hull, compounds)) == pytest.approx(expected, abs=1e-6)


def test_thin_systems_are_marked() -> None:
    knowledge = Knowledge()
    thin, known = knowledge.of(["K", "Y", "Se"]), knowledge.of(["O", "Fe", "Li"])
    assert thin.entries == 0
    assert thin.thin
    assert "thin" in str(thin)
    assert thin.thin == "no compound of K-Se-Y in either database"
    assert not known.thin
    assert knowledge.of(["Fe"]).thin == ""  # an element has no compounds
    assert known.elements == ("Li", "O", "Fe")
    reference = load_reference()
    inside = np.isin(reference.hull_numbers, [0, 3, 8, 26]).all(axis=1)
    assert known.phases["oqmd"] == inside.sum()


def test_a_compound_of_both_databases_counts_once() -> None:
    reference = load_reference()
    oxide = re.compile(r"Ca\d*O\d*")
    ours = set(filter(oxide.fullmatch, reference.hull_formulas))
    theirs = set(filter(oxide.fullmatch, reference.mp_hull_energy))
    assert ours & theirs
    assert Knowledge().of(["Ca", "O"]).entries == len(ours | theirs)


def test_shipped_holes_of_a_system_are_those_of_the_lists() -> None:
    elements = (*ELEMENTS, "Na", "S", "F", "Ti")
    shipped = Knowledge().deep_holes(elements)
    found = [hole for hole in find_holes(elements) if hole.depth > DEEP]
    assert len(found) > 5
    assert [(h.formula, h.elements, h.stable_in) for h in shipped] == [
        (h.formula, h.elements, h.stable_in) for h in found
    ]
    assert [h.depth for h in shipped] == pytest.approx([h.depth for h in found], abs=1e-4)
    assert "Sc2Se3 (Materials Project only, 0.31)" in in_words(Knowledge().deep_holes(["Se", "Sc"]))
