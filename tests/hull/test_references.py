"""The hulls of a potential: a small one built here with real energies, and the bundled ones."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition

from anchor.chemistry.elements import NUMBER, SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.hull import databases, references
from anchor.hull import energies as store
from anchor.hull.calibration import Calibration
from anchor.hull.hull import Hull, HullIdentity
from anchor.hull.phases import Phases
from anchor.paths import BUNDLED
from anchor.potentials import Potential, load_potential
from anchor.reference.reference import Reference, load_reference

ELEMENTS = ("Li", "Na", "O", "Cl", "Br")


@pytest.fixture(scope="module")
def potential() -> Potential:
    return load_potential("chgnet")


@pytest.fixture(scope="module")
def part() -> Reference:
    """The reference crystals of Li–Na–O–Cl–Br with at most eight atoms: what a hull needs of a reference."""
    whole = load_reference()
    inside = np.isin(whole.crystals.numbers, [NUMBER[s] for s in ELEMENTS])
    foreign = np.bincount(whole.crystals.owner[~inside], minlength=len(whole.crystals))
    rows = np.flatnonzero((foreign == 0) & (whole.crystals.counts <= 8))
    assert len(rows) > 15
    return SimpleNamespace(  # type: ignore[return-value]
        crystals=whole.crystals[rows],
        formulas=whole.formulas[rows],
        formation_energy=whole.formation_energy[rows],
        ids=whole.ids[rows],
    )


@pytest.fixture(scope="module")
def energies(part: Reference, potential: Potential) -> store.Energies:
    columns = store.single_point_columns(potential, part.crystals)
    n = len(part.crystals)
    return store.Energies(
        potential=potential.name,
        checkpoint_hash=potential.checkpoint_hash,
        crystals_hash=store.crystals_hash(part.crystals),
        single_point=columns["single_point"].astype(float),
        max_force=columns["max_force"].astype(float),
        relaxed=np.full(n, np.nan),
        status=np.zeros(n, dtype=np.int64),
        volume_ratio=np.full(n, np.nan),
    )


@pytest.fixture(scope="module")
def hull(part: Reference, energies: store.Energies) -> references.PotentialHull:
    calibration = databases.calibrate(part, energies)
    dft = Phases.from_formulas(list(part.formulas), part.formation_energy, "dft")
    identity = HullIdentity("part", energies.checkpoint_hash)
    found = {
        "oqmd": database_hulls(part, energies, calibration, dft),
        "mp": database_hulls(part, energies, second_scale(calibration), without_bromine(dft)),
    }
    return references.PotentialHull(found, identity)


def database_hulls(
    part: Reference, energies: store.Energies, calibration: Calibration, dft: Phases
) -> databases.DatabaseHulls:
    identity = HullIdentity("part", energies.checkpoint_hash)
    own = databases.potential_phases(part, energies, calibration)
    inside = np.isin(own.numbers, [0, *dft.numbers[dft.numbers > 0]]).all(axis=1)
    own = Phases(own.numbers[inside], own.fractions[inside], own.energies[inside], own.sources[inside])
    elements = Phases.from_formulas(list(ELEMENTS), np.zeros(len(ELEMENTS)))
    return databases.DatabaseHulls(
        calibration,
        Hull(dft, identity),
        Hull(Phases.concatenate([elements, own]), identity),
        Hull(Phases.concatenate([dft, own]), identity),
        own.energies,
    )


def second_scale(calibration: Calibration) -> Calibration:
    """Another database's: oxygen is 0.3 eV higher there, sodium 0.2 lower."""
    moved = calibration.element_energy.copy()
    moved[[NUMBER["O"], NUMBER["Na"]]] += [-0.3, 0.2]
    return replace(calibration, element_energy=moved)


def without_bromine(phases: Phases) -> Phases:
    rows = ~(phases.numbers == NUMBER["Br"]).any(axis=1)
    return Phases(phases.numbers[rows], phases.fractions[rows], phases.energies[rows], phases.sources[rows])


def test_composition_counts() -> None:
    crystals = Crystals([3, 2], [8, 8, 3, 11, 17], np.zeros((5, 3)), np.stack([np.eye(3)] * 2))
    amounts = crystals.compositions.amounts
    assert amounts[0, [3, 8]].tolist() == [1, 2]
    assert amounts[1, [11, 17]].tolist() == [1, 1]
    assert amounts.sum() == 5


def test_partial_values_equal_phase_diagrams(
    hull: references.PotentialHull, part: Reference, energies: store.Energies
) -> None:
    total = energies.single_point * part.crystals.counts - 0.05
    found = hull.score(part.crystals, total, checkpoint_hash=energies.checkpoint_hash)
    assert list(found.above) == ["dft", "potential", "oqmd", "mp", "union"]
    amounts = part.crystals.compositions.amounts
    for name, own in hull.hulls.items():
        calibration = hull.databases.get(name, hull.databases["oqmd"]).calibration
        formation = calibration.formation_energy(amounts, total / part.crystals.counts)
        covered = [not (name == "mp" and "Br" in f) for f in part.formulas]
        assert np.isfinite(found.above[name]).tolist() == covered
        phases = own.index.phases
        entries = [
            PDEntry(Composition({SYMBOLS[z]: x for z, x in zip(zs, xs, strict=True) if z}), e)
            for zs, xs, e in zip(
                phases.numbers.tolist(), phases.fractions.tolist(), phases.energies, strict=True
            )
        ]
        diagram = PhaseDiagram(entries)
        expected = [
            e - diagram.get_hull_energy_per_atom(Composition(formula))
            for formula, e, inside in zip(part.formulas, formation, covered, strict=True)
            if inside
        ]
        np.testing.assert_allclose(found.above[name][covered], expected, atol=1e-6)
    assert (found.above["oqmd"] >= np.fmax(found.above["dft"], found.above["potential"]) - 1e-12).all()
    np.testing.assert_array_equal(found.above["union"], np.fmax(found.above["oqmd"], found.above["mp"]))
    assert np.array_equal(found.energy_above_hull, found.above["union"])


def test_one_database_is_enough_and_says_so(
    hull: references.PotentialHull, part: Reference, energies: store.Energies
) -> None:
    total = energies.single_point * part.crystals.counts
    found = hull.score(part.crystals, total, checkpoint_hash=energies.checkpoint_hash)
    for formula, status, union, oqmd in zip(
        part.formulas, found.status, found.above["union"], found.above["oqmd"], strict=True
    ):
        if "Br" in formula:
            assert status == "scored on OQMD alone: Materials Project has no reference for Br"
            assert union == oqmd
        else:
            assert status == "scored"


def test_the_decomposition_is_that_of_the_larger_distance(
    hull: references.PotentialHull, part: Reference, energies: store.Energies
) -> None:
    total = energies.single_point * part.crystals.counts
    found = hull.score(part.crystals, total, checkpoint_hash=energies.checkpoint_hash)
    counting = set()
    for i, formula in enumerate(part.formulas.tolist()):
        both = hull.decompositions(formula)
        name = "mp" if found.above["mp"][i] > found.above["oqmd"][i] + 1e-9 else "oqmd"
        if name == "mp" or found.above["oqmd"][i] > np.nan_to_num(found.above["mp"][i], nan=-9) + 1e-9:
            assert hull.decomposition(formula) == both[name]
            counting.add(name)
    assert counting == {"oqmd", "mp"}
    assert hull.decomposition("MgO") is None


def test_elements_stay_at_zero(
    part: Reference, energies: store.Energies, hull: references.PotentialHull
) -> None:
    """The potential's own Cl2 or O2 is no reference: the scale has elements at zero."""
    own = databases.potential_phases(part, energies, hull.calibration)
    assert (np.count_nonzero(own.numbers, axis=1) > 1).all()
    assert hull.hulls["potential"].hull_energy(list(ELEMENTS)) == pytest.approx(np.zeros(5))


def test_what_cannot_be_scored_says_why(
    hull: references.PotentialHull, part: Reference, energies: store.Energies
) -> None:
    no_bromine = np.flatnonzero(["Br" not in f for f in part.formulas])
    crystals = Crystals.concatenate(
        [
            part.crystals[no_bromine[:2]],
            Crystals([2], [12, 8], [[0, 0, 0], [0.5, 0.5, 0.5]], 4.2 * np.eye(3)[None]),
        ]
    )
    energy = np.array([energies.single_point[no_bromine[0]], np.nan, -6.0]) * crystals.counts
    found = hull.score(crystals, energy, checkpoint_hash=energies.checkpoint_hash)
    assert found.status == ["scored", "not scored: no energy", "not scored: no reference for Mg"]
    assert np.isfinite(found.energy_above_hull).tolist() == [True, False, False]


def test_energies_of_another_potential_are_refused(hull: references.PotentialHull, part: Reference) -> None:
    with pytest.raises(AnchorError, match="built for weights"):
        hull.score(part.crystals, np.zeros(len(part.crystals)), checkpoint_hash="0" * 64)
    with pytest.raises(InputError, match="energies of shape"):
        hull.score(part.crystals, np.zeros(1), checkpoint_hash=hull.identity.checkpoint_hash)


def test_a_calibration_is_tied_to_its_numbers(part: Reference, energies: store.Energies) -> None:
    same = databases.fit_hash(part, energies)
    moved = SimpleNamespace(formation_energy=part.formation_energy + 0.01)
    assert databases.fit_hash(moved, energies) != same  # type: ignore[arg-type]
    assert databases.fit_hash(part, energies) == same
    assert databases.fit_hash(part, energies, "oqmd-by-presence") != same


def test_folds_keep_polymorphs_together() -> None:
    folds = databases.formula_folds(["TiO2", "SiO2", "TiO2", *[f"Li{i}O" for i in range(1, 200)]])
    assert folds[0] == folds[2]
    assert set(folds.tolist()) == set(range(5))


# The bundled data


@pytest.fixture(scope="module", params=store.available())
def bundled(request: pytest.FixtureRequest) -> references.PotentialHull:
    return references.load_hull(request.param)


def test_the_default_potential_has_energies() -> None:
    assert "mattersim-1m" in store.available()


def test_bundled_energies_cover_the_reference(bundled: references.PotentialHull) -> None:
    reference = load_reference()
    found = store.load_energies(bundled.calibration.potential, reference.crystals)
    assert found.n_single_points > 0.99 * len(reference.crystals)
    assert np.nanmedian(found.max_force) < 0.3  # DFT geometries are near the potential's minima
    assert (found.lowest <= found.single_point)[np.isfinite(found.single_point)].all()


def test_bundled_calibrations_are_those_the_command_makes(bundled: references.PotentialHull) -> None:
    reference = load_reference()
    name = bundled.calibration.potential
    energies = store.load_energies(name, reference.crystals)
    for scheme in databases.SCHEMES:
        stored = Calibration.load(databases.calibration_path(name, BUNDLED, scheme))
        again = databases.calibrate(reference, energies, scheme)
        assert stored.fitted_on == again.fitted_on
        assert stored.bounded == (scheme != "oqmd-by-presence")
        np.testing.assert_allclose(again.element_energy, stored.element_energy, atol=1e-6)
        np.testing.assert_allclose(again.oxide_shift, stored.oxide_shift, atol=1e-6)
        np.testing.assert_allclose(again.fluoride_shift, stored.fluoride_shift, atol=1e-6)
        assert stored.errors["all"]["median"] < (0.018 if scheme == "mp" else 0.03)
        assert stored.errors["families"]["oxide"]["median"] < 0.03


def test_the_old_kind_is_that_of_one_database() -> None:
    """What a search of before gave for KYSe2 (MatterSim-1M, four atoms at −21.6089 eV), to the last digit."""
    crystal = Crystals([4], [19, 39, 34, 34], np.arange(12).reshape(4, 3) / 12, 5 * np.eye(3)[None])
    energy = np.array([-21.608859602585312])
    hull = references.load_hull("mattersim-1m", "oqmd")
    found = hull.score(crystal, energy, checkpoint_hash=hull.identity.checkpoint_hash)
    assert found.formation_energy[0] == -1.777969122
    assert found.energy_above_hull[0] == found.above["oqmd"][0] == -0.416948786
    assert (found.above["dft"][0], found.above["potential"][0]) == (-0.417916298, -0.422004954)
    assert set(found.above) == {"dft", "potential", "oqmd"}
    hull = references.load_hull("mattersim-1m", "unfilled")
    found = hull.score(crystal, energy, checkpoint_hash=hull.identity.checkpoint_hash)
    assert found.energy_above_hull[0] == found.above["mp"][0] == pytest.approx(-0.168, abs=0.003)
    assert set(hull.decompositions("KYSe2")["mp"].formulas) == {"Y2Se3", "K2Se"}  # not in OQMD's list
    assert hull.decomposition("KYSe2") == hull.decompositions("KYSe2")["mp"]


def test_loose_elements_are_left_out(bundled: references.PotentialHull) -> None:
    assert not {"Pm", "Ac", "Pa", "Tc", "Pu", "Yb"} & set(bundled.searchable_elements)
    assert {"Li", "O", "Fe", "Si", "Cl", "Zn", "Ca", "Ti"} <= set(bundled.searchable_elements)


def test_known_crystals_lie_on_or_above_the_union(bundled: references.PotentialHull) -> None:
    """Every reference crystal is a phase of the union, so none can be far below it."""
    reference = load_reference()
    found = store.load_energies(bundled.calibration.potential, reference.crystals)
    rows = np.flatnonzero((reference.crystals.compositions.amounts > 0).sum(axis=1) > 1)[::10]
    scores = bundled.score(
        reference.crystals[rows],
        found.lowest[rows] * reference.crystals.counts[rows],
        checkpoint_hash=found.checkpoint_hash,
    )
    valid = np.isfinite(scores.energy_above_hull)
    assert valid.mean() > 0.98
    assert (scores.above["oqmd"][valid] > -1e-9).all()
    assert np.nanmin(scores.above["mp"]) > -1e-9
    assert np.median(np.abs(scores.above["dft"][valid] - reference.e_above_hull[rows][valid])) < 0.03


@pytest.mark.parametrize("database", ["oqmd", "mp"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_dft_systems_equal_phase_diagrams(size: int, database: databases.Database) -> None:
    """Real phases: 30 systems of each size, 20 candidates each, to 1e-6 eV/atom."""
    dft = references.dft_hull(database)
    phases = dft.index.phases
    rng = np.random.default_rng(size)
    full = np.unique(phases.numbers[np.count_nonzero(phases.numbers, axis=1) == size, :size], axis=0)
    for system in full[rng.choice(len(full), 30, replace=False)].tolist():
        rows = np.flatnonzero(np.isin(phases.numbers, [0, *system]).all(axis=1))
        diagram = PhaseDiagram(
            [PDEntry(Composition(phases.formula(i)).fractional_composition, phases.energies[i]) for i in rows]
        )
        counts = rng.integers(0, 7, size=(20, size))
        counts[counts.sum(axis=1) == 0] = 1
        amounts = np.zeros((20, 119))
        amounts[:, system] = counts
        expected = [
            diagram.get_hull_energy_per_atom(
                Composition({SYMBOLS[z]: int(n) for z, n in zip(system, row, strict=True) if n})
            )
            for row in counts
        ]
        np.testing.assert_allclose(dft.hull_energy(amounts), expected, atol=1e-6)
