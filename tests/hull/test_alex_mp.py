"""The paper's hull on small files: entries of Li–Fe–O with invented energies, corrected as pymatgen does."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Lattice, Structure
from pymatgen.entries.compatibility import MaterialsProject2020Compatibility
from pymatgen.entries.computed_entries import ComputedStructureEntry

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.hull.alex_mp import (
    AlexMPHull,
    computed_entry,
    mp2020_energies,
    phases_from_entries,
    phases_from_file,
)
from anchor.potentials import Potential, load_potential


def rocksalt(a: str, b: str, size: float = 4.3) -> Structure:
    return Structure.from_spacegroup("Fm-3m", Lattice.cubic(size), [a, b], [[0, 0, 0], [0.5, 0.5, 0.5]])


def layered() -> Structure:
    lattice = Lattice.hexagonal(2.9, 14.2)
    return Structure.from_spacegroup(
        "R-3m", lattice, ["Li", "Fe", "O"], [[0, 0, 0], [0, 0, 0.5], [0, 0, 0.24]]
    )


STRUCTURES = {
    "Li": (Structure(Lattice.cubic(3.4), ["Li", "Li"], [[0, 0, 0], [0.5, 0.5, 0.5]]), -1.9),
    "Fe": (Structure(Lattice.cubic(2.8), ["Fe", "Fe"], [[0, 0, 0], [0.5, 0.5, 0.5]]), -8.3),
    "O": (Structure(Lattice.cubic(5.0), ["O", "O"], [[0, 0, 0], [0.24, 0, 0]]), -4.9),
    "FeO": (rocksalt("Fe", "O"), -6.6),
    "LiO": (rocksalt("Li", "O"), -4.3),
    "LiFeO2": (layered(), -5.9),
}


@pytest.fixture(scope="module")
def entries() -> list[ComputedStructureEntry]:
    return [computed_entry(s, e * len(s)) for s, e in STRUCTURES.values()]


@pytest.fixture(scope="module")
def uncorrected() -> Potential:
    return load_potential("sevennet-0")


@pytest.fixture(scope="module")
def corrected() -> Potential:
    return load_potential("chgnet")


def test_entries_have_the_settings_of_the_materials_project(entries: list[ComputedStructureEntry]) -> None:
    iron_oxide, lithium = entries[3], entries[0]
    assert iron_oxide.parameters["run_type"] == "GGA+U"
    assert iron_oxide.parameters["hubbards"] == {"Fe": 5.3, "O": 0}
    assert iron_oxide.data["oxide_type"] == "oxide"
    assert lithium.parameters["run_type"] == "GGA"
    assert entries[1].parameters["run_type"] == "GGA"  # U is for oxides and fluorides, not for the metal


def test_corrections_have_the_published_values(entries: list[ComputedStructureEntry]) -> None:
    """FeO, four formula units: −0.687 eV per oxide ion and −2.256 eV per iron atom (MP2020)."""
    found = mp2020_energies(entries)
    assert found[3] - entries[3].uncorrected_energy == pytest.approx(4 * (-0.687 - 2.256), abs=1e-3)
    assert found[:3] == pytest.approx([e.uncorrected_energy for e in entries[:3]])


def test_score_equals_pymatgen(entries: list[ComputedStructureEntry], uncorrected: Potential) -> None:
    hull = AlexMPHull(phases_from_entries([e.as_dict() for e in entries]), uncorrected)
    structures = [rocksalt("Fe", "O", 4.4), layered(), rocksalt("Li", "Fe"), rocksalt("Na", "O")]
    energies = np.array([-6.9, -5.0, -4.0, -4.0]) * [len(s) for s in structures]
    found = hull.score(
        Crystals.from_structures(structures), energies, checkpoint_hash=uncorrected.checkpoint_hash
    )
    scheme = MaterialsProject2020Compatibility()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagram = PhaseDiagram(scheme.process_entries(entries, inplace=False))
        for i in range(3):
            entry = scheme.process_entry(computed_entry(structures[i], energies[i]), inplace=False)
            expected = diagram.get_e_above_hull(
                PDEntry(entry.composition, entry.energy), allow_negative=True, check_stable=False
            )
            assert found.energy_above_hull[i] == pytest.approx(expected, abs=1e-6)
            formation = diagram.get_form_energy_per_atom(PDEntry(entry.composition, entry.energy))
            assert found.formation_energy[i] == pytest.approx(formation, abs=1e-6)
    assert found.energy_above_hull[0] < 0 < found.energy_above_hull[1]
    assert np.isnan(found.energy_above_hull[3])
    assert found.status == ["scored", "scored", "scored", "not scored: no reference for Na"]
    assert hull.decomposition("LiFeO2") is not None


def test_energies_that_are_corrected_are_not_corrected_again(
    entries: list[ComputedStructureEntry], corrected: Potential
) -> None:
    hull = AlexMPHull(phases_from_entries([e.as_dict() for e in entries]), corrected)
    energy = mp2020_energies(entries[3:4])
    found = hull.score(
        Crystals.from_structures([entries[3].structure]), energy, checkpoint_hash=corrected.checkpoint_hash
    )
    assert found.energy_above_hull[0] == pytest.approx(0.0, abs=1e-9)


def test_failed_candidates_and_other_potentials(
    entries: list[ComputedStructureEntry], uncorrected: Potential, corrected: Potential
) -> None:
    hull = AlexMPHull(phases_from_entries([e.as_dict() for e in entries]), uncorrected)
    crystals = Crystals.from_structures([rocksalt("Fe", "O")])
    found = hull.score(crystals, np.array([np.nan]), checkpoint_hash=uncorrected.checkpoint_hash)
    assert found.status == ["not scored: no energy"]
    with pytest.raises(AnchorError, match="built for weights"):
        hull.score(crystals, np.zeros(1), checkpoint_hash=corrected.checkpoint_hash)


def test_files_keep_the_corrections_they_carry(entries: list[ComputedStructureEntry], tmp_path: Path) -> None:
    scheme = MaterialsProject2020Compatibility()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        processed = scheme.process_entries(entries, inplace=False)
    path = tmp_path / "entries.json"
    path.write_text(json.dumps([e.as_dict() for e in processed]))
    from_file, from_entries = phases_from_file(path), phases_from_entries([e.as_dict() for e in entries])
    np.testing.assert_allclose(from_file.energies, from_entries.energies)
    assert [from_file.formula(i) for i in range(6)] == [from_entries.formula(i) for i in range(6)]


def test_structures_without_energies_are_no_reference(tmp_path: Path) -> None:
    rocksalt("Fe", "O").to(str(tmp_path / "FeO.cif"))
    with pytest.raises(InputError, match="without energies"):
        phases_from_file(tmp_path / "FeO.cif")
