"""MatterGen's protocol against SMACT itself, pymatgen, hand-worked tables, and a run on known crystals."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from pymatgen.analysis.phase_diagram import PhaseDiagram
from pymatgen.analysis.structure_matcher import StructureMatcher
from pymatgen.core import Lattice, Structure
from pymatgen.entries.compatibility import MaterialsProject2020Compatibility

from anchor.crystals.crystals import Crystals
from anchor.errors import MissingDependencyError
from anchor.evaluate.mattergen.official import official_metrics, side_by_side
from anchor.evaluate.mattergen.protocol import MatterGenProtocol
from anchor.evaluate.protocol import Mean, Rate
from anchor.evaluate.registry import load_protocol
from anchor.hull import load_hull
from anchor.hull.alex_mp import computed_entry, corrected_energies
from anchor.matching.displacement import mattergen_rmsd
from anchor.outcomes.table import Outcomes
from anchor.random import generator
from anchor.reference.reference import load_reference

smact_screening = pytest.importorskip("smact.screening")


def rock_salt(cation: str, anion: str, a: float) -> Structure:
    lattice = Lattice([[0, a / 2, a / 2], [a / 2, 0, a / 2], [a / 2, a / 2, 0]])
    return Structure(lattice, [cation, anion], [[0, 0, 0], [0.5, 0.5, 0.5]])


# RMSD


def test_rmsd_is_pymatgens_times_the_atomic_length() -> None:
    original = rock_salt("Na", "Cl", 5.6)
    moved = original.copy()
    moved.translate_sites([0], [0.01, -0.02, 0.015])
    matcher = StructureMatcher(ltol=0.5, stol=0.5, angle_tol=10, scale=False, attempt_supercell=True)
    expected = matcher.get_rms_dist(moved, original)[0] * (original.volume / 2) ** (1 / 3)
    assert mattergen_rmsd(moved, original) == pytest.approx(expected, rel=1e-6)
    assert mattergen_rmsd(original, original) == pytest.approx(0, abs=1e-6)


def test_no_match_counts_half_the_atomic_length() -> None:
    one, other = rock_salt("Na", "Cl", 5.6), rock_salt("Na", "Cl", 5.6)
    other.lattice = Lattice(other.lattice.matrix * 3.0)
    volume = (one.volume + other.volume) / 4
    assert mattergen_rmsd(one, other) == pytest.approx(0.5 * volume ** (1 / 3))


def test_published_rmsd_depends_on_the_cell_that_was_generated() -> None:
    """MatterGen makes the original primitive but not the relaxed one, and mixes their volumes."""
    primitive = rock_salt("Na", "Cl", 5.6)
    far = Structure(Lattice(primitive.lattice.matrix * 4), primitive.species, primitive.frac_coords)
    half = 0.5 * ((primitive.volume + far.volume) / 4) ** (1 / 3)  # no match: only the length is left
    assert mattergen_rmsd(primitive, far) == pytest.approx(half)
    assert mattergen_rmsd(primitive * (2, 2, 1), far) == pytest.approx(half)
    assert mattergen_rmsd(primitive * (2, 2, 1), far, as_published=True) < 0.9 * half


# Metrics of a table by hand


def row(
    index: int, energy: float | None, *, unique: bool, novel: bool, status: str = "measured", **more: object
) -> dict[str, object]:
    stable = energy is not None and energy <= 0.1
    on_hull = energy is not None and energy <= 0
    return {
        "index": index,
        "status": status,
        "energy_ev": None if status == "failed" else -1.0,
        "energy_above_hull_ev_per_atom": energy,
        "rmsd_from_relaxation_angstrom": None if status == "failed" else 0.1 * index,
        "unique": unique,
        "novel": novel,
        "novel_unique": unique and novel,
        "stable": stable,
        "on_hull": on_hull,
        "novel_unique_stable": unique and novel and stable,
        "novel_unique_on_hull": unique and novel and on_hull,
        "comp_validity": True,
        "structure_validity": status != "failed",
        "structure_comp_validity": status != "failed",
        "chemical_system": "Cl-Na",
        "novel_system": False,
        "matches_in_reference": "" if novel else "a b",
        "reference_size": 10,
        "relaxation": "diverged" if status == "failed" else "converged",
        **more,
    }


ROWS = [
    row(0, -0.01, unique=True, novel=True),
    row(1, 0.05, unique=True, novel=False, matches_in_reference="a"),
    row(2, 0.05, unique=False, novel=True, chemical_system="K-Na", novel_system=True),
    row(3, 0.5, unique=True, novel=True, relaxation="capped"),
    row(4, None, unique=True, novel=True, status="not scored", chemical_system="Ar"),
    row(5, None, unique=False, novel=False, status="failed", matches_in_reference=""),
]
TABLE = Outcomes.from_rows(ROWS)


def test_every_structure_counts() -> None:
    found = MatterGenProtocol().metrics(TABLE)
    assert set(found) == {metric.name for metric in MatterGenProtocol.metric_list}
    assert found["frac_successful_jobs"] == Rate(5, 6)
    assert found["frac_unique_structures"] == Rate(4, 6)
    assert found["frac_novel_structures"] == Rate(4, 6)
    assert found["frac_novel_unique_structures"] == Rate(3, 6)
    assert found["frac_stable_structures"] == Rate(3, 6)
    assert found["frac_on_hull_structures"] == Rate(1, 6)
    assert found["frac_novel_unique_stable_structures"] == Rate(1, 6)
    assert found["frac_novel_unique_on_hull_structures"] == Rate(1, 6)
    assert found["avg_structure_validity"] == Rate(5, 6)
    assert found["frac_unique_systems"] == Rate(3, 6)
    assert found["frac_novel_systems"] == Rate(1, 6)
    assert found["precision"] == Rate(1, 6)
    assert found["recall"] == Rate(1, 10)
    assert found["frac_capped"] == Rate(1, 6)
    assert found["avg_energy_above_hull_per_atom"].value == pytest.approx(0.59 / 4)
    assert found["avg_rmsd_from_relaxation"].value == pytest.approx(0.2)


def test_as_published_leaves_out_what_it_cannot_judge() -> None:
    """Uncovered elements are screened out first; structures are over what relaxed, energies over all else."""
    found = MatterGenProtocol(as_published=True).metrics(TABLE)
    assert found["frac_unique_structures"] == Rate(3, 4)
    assert found["frac_stable_structures"] == Rate(3, 5)
    assert found["frac_novel_unique_stable_structures"] == Rate(1, 5)
    assert found["frac_successful_jobs"] == Rate(4, 5)
    assert found["avg_rmsd_from_relaxation"].value == pytest.approx(0.15)


def test_sun_is_counted_jointly() -> None:
    """The product of marginal rates, which Crystalite reports, is another number."""
    found = MatterGenProtocol().metrics(TABLE)
    product = found["frac_novel_unique_structures"].value * found["frac_stable_structures"].value
    assert found["frac_novel_unique_stable_structures"].value != pytest.approx(product)


# A real run


@pytest.fixture(scope="module")
def run() -> Iterator[tuple[MatterGenProtocol, Outcomes]]:
    """NaCl, FeO, CsCl of the reference, NaCl rattled, solid argon, and two atoms in one place."""
    reference = load_reference()
    chosen = [int(np.flatnonzero(reference.formulas == f)[0]) for f in ("NaCl", "FeO", "CsCl")]
    crystals = reference.crystals[chosen]
    rattled = crystals[0].replace(frac=crystals[0].frac + generator(0, "rattle").normal(0, 0.01, (2, 3)))
    fcc = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.3), ["Ar"], [[0, 0, 0]])
    argon = Crystals.from_structures(fcc.get_primitive_structure())
    fused = Crystals.from_structures(Structure(Lattice.cubic(4.0), ["Na", "Cl"], [[0, 0, 0], [0.001, 0, 0]]))
    batch = Crystals.concatenate([crystals, rattled, argon, fused])
    protocol = load_protocol("mattergen", max_steps=120)
    assert isinstance(protocol, MatterGenProtocol)
    drawn = Outcomes.of(batch).with_columns(index=range(6), formula=batch.formulas)
    yield protocol, protocol.flag(drawn, protocol.measure(batch).onto(drawn))
    protocol.pool.close()


def test_one_bad_structure_harms_no_other(run: tuple[MatterGenProtocol, Outcomes]) -> None:
    _, table = run
    rows = list(table.rows())
    assert [row["status"] for row in rows] == ["measured"] * 4 + ["not scored", "failed"]
    assert rows[4]["reason"] == "no reference for Ar"
    assert rows[5]["reason"].startswith("relaxation ")
    assert rows[4]["unique"]
    assert rows[4]["energy_above_hull_ev_per_atom"] is None
    assert [rows[5][column] for column in ("unique", "novel", "energy_ev")] == [False, False, None]
    assert [row["comp_validity"] for row in rows] == [True] * 6
    assert [row["structure_validity"] for row in rows] == [True] * 5 + [False]
    assert table.at.tolist() == [0, 1, 2, 3, 4]


def test_known_crystals_are_near_the_hull_unique_and_not_novel(
    run: tuple[MatterGenProtocol, Outcomes],
) -> None:
    protocol, table = run
    rows = list(table.rows())
    assert [row["novel"] for row in rows[:4]] == [False] * 4
    assert [row["unique"] for row in rows[:4]] == [True, True, True, False]
    assert [row["duplicate_of"] for row in rows] == [None, None, None, 0, None, None]
    assert all(abs(row["energy_above_hull_ev_per_atom"]) < 0.1 for row in (rows[0], rows[1], rows[3]))
    assert rows[3]["rmsd_from_relaxation_angstrom"] > rows[0]["rmsd_from_relaxation_angstrom"]
    metrics = protocol.metrics(table)
    assert metrics["frac_stable_structures"] == Rate(4, 6)
    assert metrics["recall"].n == 20_025
    from_file = Outcomes.from_rows(json.loads(json.dumps(rows)))
    assert str(protocol.metrics(from_file)) == str(metrics)  # NaN included


def test_no_correction_is_added_to_calibrated_energies(run: tuple[MatterGenProtocol, Outcomes]) -> None:
    """FeO: the bundled hull's own answer, not the one with −2.9 eV per formula unit of MP2020."""
    protocol, table = run
    assert protocol.label == protocol.footer()["label"] == "mattergen-on-OQMD"
    hull, relaxed = load_hull("mattersim-1m"), table.crystals[1]
    energy = table.numbers("energy_ev")[[1]]
    plain = hull.score(relaxed, energy, checkpoint_hash=protocol.potential.checkpoint_hash)
    assert table.numbers("energy_above_hull_ev_per_atom")[1] == plain.energy_above_hull[0]
    assert corrected_energies(relaxed, energy)[0] - energy[0] < -2.5
    assert "no MP2020 correction" in protocol.footer()["hull"]


# With MatterGen's reference, in small


def entries() -> list[tuple[Structure, float]]:
    oxygen = Structure(Lattice.cubic(5.0), ["O", "O"], [[0, 0, 0], [0.24, 0, 0]])
    iron = Structure(Lattice.cubic(2.8), ["Fe", "Fe"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    return [(oxygen, -9.8), (iron, -16.6), (rock_salt("Fe", "O", 4.3), -13.2)]


def test_alex_mp_hull_and_corrections_equal_pymatgen(tmp_path: Path) -> None:
    scheme = MaterialsProject2020Compatibility()
    processed = [scheme.process_entry(computed_entry(s, e), inplace=False) for s, e in entries()]
    path = tmp_path / "reference.json"
    path.write_text(json.dumps([{**e.as_dict(), "energy": e.energy, "correction": 0.0} for e in processed]))
    protocol = MatterGenProtocol(alex_mp=path, max_steps=0)
    (found,) = protocol.measure(Crystals.from_structures(rock_salt("Fe", "O", 4.35))).rows()
    candidate = scheme.process_entry(computed_entry(rock_salt("Fe", "O", 4.35), found["energy_ev"]))
    expected = PhaseDiagram(processed).get_e_above_hull(candidate, allow_negative=True)
    assert found["energy_above_hull_ev_per_atom"] == pytest.approx(expected, abs=1e-6)
    assert protocol.footer()["label"] == "mattergen"
    assert "MP2020 correction" in protocol.footer()["hull"]
    assert len(protocol.known) == 3
    protocol.pool.close()


def test_a_missing_reference_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="not there") as caught:
        _ = MatterGenProtocol(alex_mp=tmp_path / "no.gz").known
    assert "reference_MP2020correction.gz" in str(caught.value)


# MatterGen itself


def test_official_without_mattergen_names_the_way_out() -> None:
    if "mattergen" in sys.modules:
        pytest.skip("mattergen is installed")
    with pytest.raises(MissingDependencyError, match="mattergen is not installed") as caught:
        official_metrics(Crystals.from_structures(rock_salt("Na", "Cl", 5.6)), elements=frozenset({11, 17}))
    assert "github.com/microsoft/mattergen" in str(caught.value)


def test_official_gets_every_covered_structure_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package, which cannot be installed here: what it is given, what comes back."""
    given: dict[str, object] = {}

    def evaluate(**kwargs: object) -> dict[str, float]:
        given.update(kwargs)
        return {"frac_stable_structures": 0.25, "precision": 0.5}

    module = ModuleType("mattergen.evaluation.evaluate")
    module.evaluate = evaluate  # type: ignore[attr-defined]
    for name in ("mattergen", "mattergen.evaluation"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "mattergen.evaluation.evaluate", module)
    pairs = (("Na", "Cl"), ("Tc", "Cl"), ("Na", "F"))
    crystals = Crystals.from_structures([rock_salt(a, b, 5.6) for a, b in pairs])
    found = official_metrics(crystals, elements=frozenset({9, 11, 17}))
    assert [s.composition.reduced_formula for s in given["structures"]] == ["NaCl", "NaF"]  # type: ignore[attr-defined]
    assert (found["n_submitted"], found["n_left_out"]) == (2, 1)
    ours: dict[str, Rate | Mean] = {"frac_stable_structures": Rate(1, 4), "frac_capped": Rate(0, 4)}
    assert side_by_side(ours, found)[:2] == [
        ("frac_stable_structures", 0.25, 0.25),
        ("frac_capped", 0.0, None),
    ]
