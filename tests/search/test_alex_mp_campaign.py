"""A campaign on the paper's hull: a tiny Alex-MP-like file of Na, Cl and NaCl."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Lattice, Structure
from pymatgen.entries.compatibility import MaterialsProject2020Compatibility
from pymatgen.entries.computed_entries import ComputedStructureEntry

from anchor.chemistry.composition import Compositions
from anchor.config import Config, load_config
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.hull.alex_mp import computed_entry
from anchor.potentials.registry import load_potential
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment
from anchor.search.finds import refine
from anchor.search.ledger import decode_crystal
from anchor.search.policies import load_trained

STRUCTURES = [
    Structure(Lattice.cubic(4.2), ["Na", "Na"], [[0, 0, 0], [0.5, 0.5, 0.5]]),
    Structure(Lattice.cubic(5.0), ["Cl", "Cl"], [[0, 0, 0], [0.4, 0, 0]]),
    Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.7), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]]),
]
ENTRIES = "entries: alex #1.json"  # a path that YAML would cut


def corrected(structures: list[Structure], energies: list[float]) -> list[ComputedStructureEntry]:
    scheme = MaterialsProject2020Compatibility()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entries = [computed_entry(s, float(e)) for s, e in zip(structures, energies, strict=True)]
        return scheme.process_entries(entries, inplace=False)


def write(path: Path, shift: float) -> None:
    """Entries with the potential's own energies, the compound's shifted by some eV."""
    found = load_potential("mattersim-1m").evaluate(Crystals.from_structures(STRUCTURES)).energy.tolist()
    entries = corrected(STRUCTURES, [*found[:2], found[2] + shift])
    path.write_text(json.dumps([entry.as_dict() for entry in entries]))


def config(folder: Path, *overrides: str) -> Config:
    settings = ["run.structures=8", "run.workers=1", "grpo.group_size=8", "relax.max_steps=2", "run.seed=2"]
    settings += ["hull.kind=alex-mp", f"hull.path={folder / ENTRIES}", "action_space.max_atoms=4"]
    return load_config(overrides=[*settings, *overrides]).config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the reference, the compound 4 eV too high, so that some candidates are below the hull."""
    path = tmp_path_factory.mktemp("alex")
    write(path / ENTRIES, shift=4.0)
    return path


@pytest.fixture(scope="module")
def campaign(folder: Path) -> Campaign:
    campaign = Campaign.start(config(folder, "policy.start_from=default"), folder / "run")
    campaign.run()
    return campaign


def test_only_its_elements_are_searched(campaign: Campaign, folder: Path) -> None:
    assert campaign.ledger.identity["elements"] == ["Na", "Cl"]
    assert load_trained(str(folder / "run")).elements == ("Na", "Cl")


def test_energies_above_the_hull_are_pymatgens(campaign: Campaign, folder: Path) -> None:
    entries = [ComputedStructureEntry.from_dict(e) for e in json.loads((folder / ENTRIES).read_text())]
    columns = ["relaxed", "energy_ev", "status", "energy_above_hull_ev_per_atom"]
    columns += ["energy_above_each_hull_ev_per_atom"]
    rows = [row for row in campaign.ledger.rows(columns) if row["relaxed"] is not None]
    assert rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagram = PhaseDiagram(entries)
    for row in rows:
        assert row["status"] in ("scored", "invalid")
        each = row["energy_above_each_hull_ev_per_atom"]
        assert each == {"alex-mp": row["energy_above_hull_ev_per_atom"]}
        (structure,) = decode_crystal(row["relaxed"]).to_structures()
        (entry,) = corrected([structure], [row["energy_ev"]])
        expected = diagram.get_e_above_hull(
            PDEntry(entry.composition, entry.energy), allow_negative=True, check_stable=False
        )
        assert row["energy_above_hull_ev_per_atom"] == pytest.approx(expected, abs=1e-6)


def test_finds_have_no_other_hull(campaign: Campaign) -> None:
    for row in refine(campaign, 1, max_steps=1).finds:
        assert set(row["energy_above_each_hull_ev_per_atom"]) == {"alex-mp"}


def test_another_file_is_another_hull(campaign: Campaign, folder: Path) -> None:
    location = campaign.ledger.location
    write(folder / ENTRIES, shift=0.0)
    with pytest.raises(AnchorError, match="hull was"):
        Campaign.resume(location)
    write(folder / ENTRIES, shift=4.0)
    assert Campaign.resume(location).structures == 8


def test_elements_without_reference_are_excluded_and_not_punished(folder: Path) -> None:
    environment = Environment.load(config(folder, "action_space.allow_loose_references=true"))
    (group,) = environment.realiser([Compositions.from_list(["Na2Cl2", "K2Cl2", "Na3Cl"])], step=0)
    assert group.outcomes.texts("status") == ["measured", "not scored", "not realised"]
    assert group.outcomes.texts("reason")[1] == "no energy reference for K"
    assert np.isfinite(group.outcomes.numbers("energy_above_hull_ev_per_atom")[0])
    (nothing,) = environment.realiser([Compositions.from_list(["Na3Cl"])], step=0)
    assert nothing.outcomes.texts("status") == ["not realised"]


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    for overrides in (["hull.path=null"], []):
        with pytest.raises(InputError, match="needs its reference file"):
            Environment.load(config(tmp_path, *overrides))
