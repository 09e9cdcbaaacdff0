"""Finds on the hull of all others, against pymatgen's phase diagrams."""

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition

from anchor.hull.competition import FILLED, above_with_others
from anchor.hull.hull import Hull, HullIdentity
from anchor.hull.phases import Phases, composition_matrix

ELEMENTS = ("Li", "Fe", "O")


def random_phases(rng: np.random.Generator, n: int) -> tuple[list[str], np.ndarray]:
    counts = rng.integers(0, 5, (n, 3))
    counts[(counts > 0).sum(axis=1) < 2] = [1, 1, 2]
    formulas = ["".join(f"{s}{c}" for s, c in zip(ELEMENTS, row, strict=True) if c) for row in counts]
    return formulas, rng.uniform(-1.5, -0.2, n)


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_a_phase_diagram_of_everything_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known, known_energy = random_phases(rng, 8)
    finds, find_energy = random_phases(rng, 6)
    hull = Hull(
        Phases.from_formulas([*ELEMENTS, *known], [0, 0, 0, *known_energy], "list"), HullIdentity("test")
    )
    amounts = composition_matrix(finds)
    above = hull.energy_above_hull(amounts, find_energy)
    found = above_with_others(hull, amounts, above, amounts, above)

    def entry(formula: str, energy: float) -> PDEntry:
        return PDEntry(Composition(formula).fractional_composition, energy)

    base = [entry(e, 0.0) for e in ELEMENTS] + list(map(entry, known, known_energy))
    for i, formula in enumerate(finds):
        reduced = Composition(formula).reduced_formula
        rest = [
            entry(f, e)
            for f, e in zip(finds, find_energy, strict=True)
            if Composition(f).reduced_formula != reduced
        ]
        at = PhaseDiagram(base + rest).get_hull_energy_per_atom(Composition(formula))
        assert found[i] == pytest.approx(find_energy[i] - at, abs=1e-6)
    assert (found >= above - 1e-9).all()


def test_a_find_falls_to_a_better_one_and_never_to_itself() -> None:
    hull = Hull(Phases.from_formulas(["Li", "O"], [0.0, 0.0]), HullIdentity("test"))
    amounts = composition_matrix(["LiO", "Li2O", "Li2O"])
    above = np.array([-1.0, -3.0, np.nan])
    found = above_with_others(hull, amounts, above, amounts, above)
    assert found[0] == pytest.approx(-1.0 + 0.75 * 3.0)  # of four atoms, three become Li2O
    assert found[1] == pytest.approx(-3.0 + 2 / 3)  # LiO takes two thirds of the atoms; no other Li2O does
    assert np.isnan(found[2])


def test_what_was_filled_in_competes_with_others_only() -> None:
    sources = ["", "", FILLED]
    hull = Hull(Phases.from_formulas(["Li", "O", "Li2O"], [0.0, 0.0, -1.0], sources), HullIdentity("test"))
    other = composition_matrix(["LiO"])
    find = composition_matrix(["Li2O"])
    found = above_with_others(hull, find, np.array([-0.5]), other, np.array([-2.0 + 0.75]))
    # On the hull without the filling, LiO (at −2.0 = −1.25 below −0.75) takes two thirds: hull at −4/3.
    assert found[0] == pytest.approx(-0.5 + 4 / 3)
