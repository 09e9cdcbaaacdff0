"""Energy above the hull against pymatgen's PhaseDiagram, the oracle."""

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition

from anchor.errors import AnchorError, InputError
from anchor.hull.hull import SCORED, Hull, HullIdentity
from anchor.hull.phases import Phases

IDENTITY = HullIdentity("reference")


def oracle(formulas: list[str], energies: list[float]) -> PhaseDiagram:
    return PhaseDiagram(
        [
            PDEntry(Composition(f), e * Composition(f).num_atoms)
            for f, e in zip(formulas, energies, strict=True)
        ]
    )


def candidates(rng: np.random.Generator, elements: list[str], known: list[str], n: int) -> list[str]:
    """Formulas in the system and its subsystems, some of them known."""
    found = []
    for i in range(n):
        if i % 4 == 0:
            found.append(known[rng.integers(len(known))])
            continue
        chosen = rng.choice(elements, size=rng.integers(1, len(elements) + 1), replace=False)
        found.append("".join(f"{e}{rng.integers(1, 13)}" for e in chosen))
    return found


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_equals_phase_diagram(k: int) -> None:
    """3,000 candidates above, on and below hulls of invented phases; several phases share a composition."""
    rng = np.random.default_rng(k)
    elements = ["Li", "O", "Fe", "P", "S"][:k]
    below = above = 0
    for _ in range(20):
        formulas, energies = list(elements), rng.normal(0, 0.3, k).tolist()
        for _ in range(int(rng.integers(0, 25)) if k > 1 else 0):
            chosen = rng.choice(elements, size=rng.integers(2, k + 1), replace=False)
            formula = "".join(f"{e}{rng.integers(1, 5)}" for e in chosen)
            for _ in range(int(rng.integers(1, 3))):
                formulas.append(formula)
                energies.append(float(rng.normal(-0.4, 0.5)))
        diagram = oracle(formulas, energies)
        hull = Hull(Phases.from_formulas(formulas, energies), IDENTITY)
        asked = candidates(rng, elements, formulas, 30)
        energy = rng.normal(-0.3, 0.6, len(asked))
        expected = [
            diagram.get_e_above_hull(
                PDEntry(Composition(f), e * Composition(f).num_atoms), allow_negative=True, check_stable=False
            )
            for f, e in zip(asked, energy, strict=True)
        ]
        found = hull.energy_above_hull(asked, energy)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        below += int((found < -0.01).sum())
        above += int((found > 0.01).sum())
    assert min(below, above) > 60  # of 600: both sides of the hull are asked for


def test_decomposition_equals_phase_diagram() -> None:
    formulas = ["Li", "Fe", "O2", "Li2O", "Fe2O3", "FeO", "LiFeO2", "Li5FeO4"]
    energies = [0.0, 0.0, 0.0, -2.0, -1.7, -1.4, -1.95, -2.05]
    hull = Hull(Phases.from_formulas(formulas, energies, formulas), IDENTITY)
    diagram = oracle(formulas, energies)
    for formula in ["Li3FeO3", "LiFe2O4", "Li2FeO2", "LiFeO2", "Fe3O4", "O2"]:
        found = hull.decomposition(formula)
        assert found is not None
        expected = {e.reduced_formula: a for e, a in diagram.get_decomposition(Composition(formula)).items()}
        assert dict(zip(found.formulas, found.amounts, strict=True)) == pytest.approx(expected)
        assert found.energy == pytest.approx(diagram.get_hull_energy_per_atom(Composition(formula)))
        assert found.sources == found.formulas
        assert str(found).count("+") == len(expected) - 1


def test_matrices_and_formulas_agree_and_scale_does_not_matter() -> None:
    hull = Hull(Phases.from_formulas(["Na", "Cl", "NaCl"], [0.0, 0.0, -2.0]), IDENTITY)
    amounts = np.zeros((2, 119))
    amounts[0, [11, 17]] = 4, 4
    amounts[1, [11, 17]] = 0.75, 0.25
    np.testing.assert_allclose(hull.energy_above_hull(amounts, np.array([-2.5, 0.0])), [-0.5, 1.0])
    np.testing.assert_allclose(hull.energy_above_hull(["NaCl", "Na3Cl"], np.array([-2.5, 0.0])), [-0.5, 1.0])


def test_elements_without_reference_are_not_scored_and_harm_nobody() -> None:
    hull = Hull(Phases.from_formulas(["Na", "Cl", "NaCl", "NaBr"], [0.0, 0.0, -2.0, -1.0]), IDENTITY)
    found = hull.energy_above_hull(["NaCl", "NaBr", "XeCl"], np.zeros(3))
    assert found[0] == pytest.approx(2.0)
    assert np.isnan(found[1:]).all()
    assert hull.status(["NaCl", "NaBr", "XeBr"]) == [
        SCORED,
        "not scored: no reference for Br",
        "not scored: no reference for Br, Xe",
    ]
    assert hull.decomposition("NaBr") is None


def test_a_potential_may_not_use_the_hull_of_another() -> None:
    identity = HullIdentity("reference", checkpoint_hash="a" * 64)
    identity.require("a" * 64)
    with pytest.raises(AnchorError, match="built for weights aaaaaaaaaaaa"):
        identity.require("b" * 64)
    with pytest.raises(AnchorError):
        HullIdentity("reference").require("a" * 64)


def test_identity_hash_tells_every_part() -> None:
    base = HullIdentity("r", "c", "mp2020", 1)
    others = [
        HullIdentity("R", "c", "mp2020", 1),
        HullIdentity("r", "C", "mp2020", 1),
        HullIdentity("r", "c", "none", 1),
        HullIdentity("r", "c", "mp2020", 2),
    ]
    assert len({base.hash, *(o.hash for o in others)}) == 5
    assert base.hash == HullIdentity("r", "c", "mp2020", 1).hash


def test_wrong_input_is_refused() -> None:
    hull = Hull(Phases.from_formulas(["Na"], [0.0]), IDENTITY)
    with pytest.raises(InputError, match="shape"):
        hull.hull_energy(np.ones((1, 3)))
    with pytest.raises(InputError, match="not negative"):
        hull.hull_energy(np.full((1, 119), -1.0))
    with pytest.raises(InputError, match="energies of shape"):
        hull.energy_above_hull(["Na"], np.zeros(2))


def test_no_candidates() -> None:
    hull = Hull(Phases.from_formulas(["Na"], [0.0]), IDENTITY)
    assert hull.energy_above_hull([], np.zeros(0)).shape == (0,)


def test_a_system_alone_and_a_hull_without_some() -> None:
    formulas = ["Li", "O2", "Na", "Li2O", "LiO2", "Na2O", "LiNaO2", "LiNaO"]
    energies = np.array([0, 0, 0, -2.0, -0.9, -1.4, -1.3, -1.75])
    hull = Hull(Phases.from_formulas(formulas, energies), HullIdentity("x"), hypothetical=[7])
    lithium = hull.within([3, 8])
    assert sorted(lithium.index.phases.formula(i) for i in range(len(lithium.index.phases))) == sorted(
        ["Li", "O2", "Li2O", "LiO2"]
    )
    asked = ["Li3O2", "LiO"]
    np.testing.assert_allclose(lithium.hull_energy(asked), hull.hull_energy(asked))
    fewer = hull.without(["Li4O2", "Na2O"])
    expected = Hull(Phases.from_formulas(formulas, energies), HullIdentity("x")).index.phases
    kept = [i for i, f in enumerate(formulas) if f not in ("Li2O", "Na2O")]
    np.testing.assert_array_equal(fewer.index.phases.energies, expected.energies[kept])
    for part in (hull.within([3, 8, 11]), fewer):  # what is hypothetical competes with others only
        assert part.hull_energy(["LiNaO"])[0] > -1.75
        assert part.decomposition("Li2NaO2") is not None
