"""LeMat-GenBench's protocol: its order of steps by hand, pieces against pymatgen, ASE, SciPy, a real run."""

import csv
from pathlib import Path

import numpy as np
import pytest
from ase.geometry import find_mic
from pymatgen.analysis.molecule_structure_comparator import CovalentRadius
from pymatgen.analysis.phase_diagram import PDEntry, PhaseDiagram
from pymatgen.core import Composition, Lattice, Structure
from scipy.stats import entropy as scipy_entropy

from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError, MissingDependencyError
from anchor.evaluate.lemat.csv_line import CSV_COLUMNS, csv_row
from anchor.evaluate.lemat.diversity import size_columns, size_diversity, supply_risk, vendi_score
from anchor.evaluate.lemat.hulls import load_table_hull
from anchor.evaluate.lemat.protocol import LematProtocol, first_among
from anchor.evaluate.protocol import RELAXED, Rate, Row
from anchor.evaluate.registry import load_protocol
from anchor.matching.displacement import site_rmsd
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.random import generator
from anchor.reference.reference import load_reference

pytest.importorskip("smact")


@pytest.fixture(scope="module")
def protocol():
    protocol = load_protocol("lemat", pre_relax="mattersim-1m", pre_relax_steps=30, max_steps=20)
    assert isinstance(protocol, LematProtocol)
    yield protocol
    protocol.pool.close()


@pytest.fixture(scope="module")
def published(protocol: LematProtocol) -> LematProtocol:
    """As published, with what the other has loaded."""
    same = LematProtocol(as_published=True)
    same.__dict__.update({name: getattr(protocol, name) for name in ("potentials", "hulls", "known", "pool")})
    return same


def rock_salt(cation: str, anion: str, a: float) -> Structure:
    lattice = Lattice([[0, a / 2, a / 2], [a / 2, 0, a / 2], [a / 2, a / 2, 0]])
    return Structure(lattice, [cation, anion], [[0, 0, 0], [0.5, 0.5, 0.5]])


# Order of the steps


def test_first_among_the_chosen() -> None:
    """Rows 1 and 3 duplicate row 0, which is not chosen: the first of them stands for the kind."""
    chosen = np.array([False, True, True, True, True])
    assert first_among([0, 0, 2, 0, None], chosen).tolist() == [False, True, True, False, True]


def rows_with(
    protocol: LematProtocol, crystals: Crystals, submitted: list[float], relaxed: list[float]
) -> list[Row]:
    """Rows whose energies lie so many eV/atom above each potential's own hull, before and after relaxing."""
    rows: list[Row] = [
        {"index": i, "status": "measured", "valid": True, "formula": f, "n_atoms": int(n)}
        for i, (f, n) in enumerate(zip(crystals.formulas, crystals.counts, strict=True))
    ]
    for name, hull in protocol.hulls.items():
        zero = hull.score(
            crystals,
            np.zeros(len(crystals)),
            checkpoint_hash=protocol.potentials[name].checkpoint_hash,
        ).energy_above_hull
        for row, base, n, before, after in zip(rows, zero, crystals.counts, submitted, relaxed, strict=True):
            row[f"{name}_energy_ev"] = float((before - base) * n)
            row[f"{name}_relaxed_energy_ev"] = float((after - base) * n)
    return rows


@pytest.fixture(scope="module")
def hand(protocol: LematProtocol) -> tuple[Crystals, list[Row]]:
    """CsBr-like salts that the reference does not have, two of one kind, and one crystal that it has."""
    strange = [rock_salt("Ag", "Mg", a) for a in (5.0, 5.05)]
    known = load_reference().crystals[[int(np.flatnonzero(load_reference().formulas == "NaCl")[0])]]
    other = rock_salt("Ca", "Zn", 6.0)
    crystals = Crystals.concatenate([Crystals.from_structures([*strange, other]), known])
    submitted = [0.30, 0.05, 0.20, -0.01]
    relaxed = [0.05, -0.02, 0.08, -0.03]
    return crystals, rows_with(protocol, crystals, submitted, relaxed)


COLUMNS = (
    "unique",
    "novel",
    "stable",
    "metastable",
    "unique_in_stable",
    "unique_in_metastable",
    "sun",
    "msun",
)


def flags(protocol: LematProtocol, crystals: Crystals, rows: list[Row]) -> list[list[int]]:
    found = protocol.flag(rows, list(crystals), [None] * len(crystals))
    return [[int(row[column]) for column in COLUMNS] for row in found]


def test_sun_and_msun_by_hand(protocol: LematProtocol, hand: tuple[Crystals, list[Row]]) -> None:
    """Relaxed energies count; the duplicate (row 1) is the first of its kind among the stable ones."""
    assert flags(protocol, *hand) == [
        [1, 1, 0, 1, 0, 1, 0, 1],
        [0, 1, 1, 0, 1, 0, 1, 0],
        [1, 1, 0, 1, 0, 1, 0, 1],
        [1, 0, 1, 0, 1, 0, 0, 0],
    ]


def test_as_published_takes_energies_as_submitted(
    protocol: LematProtocol, published: LematProtocol, hand: tuple[Crystals, list[Row]]
) -> None:
    """LeMat-GenBench's SUN reads the energies before relaxation: other structures count."""
    found = flags(published, *hand)
    assert [row[-2:] for row in found] == [[0, 0], [0, 1], [0, 0], [0, 0]]
    assert [row[-2:] for row in flags(protocol, *hand)] == [[0, 1], [1, 0], [0, 1], [0, 0]]


def test_one_potential_is_no_ensemble_unless_as_published(
    protocol: LematProtocol, published: LematProtocol, hand: tuple[Crystals, list[Row]]
) -> None:
    crystals, rows = hand
    lone = [{**row, "chgnet_relaxed_energy_ev": None, "chgnet_energy_ev": None} for row in rows]
    found = protocol.flag(lone, list(crystals), [None] * 4)
    assert [row["energy_above_hull_ev_per_atom"] for row in found] == [None] * 4
    assert [row["n_potentials"] for row in found] == [1] * 4
    again = published.flag(lone, list(crystals), [None] * 4)
    assert again[1]["energy_above_hull_ev_per_atom"] == pytest.approx(0.05)


def test_ensemble_is_the_mean_over_own_hulls(
    protocol: LematProtocol, hand: tuple[Crystals, list[Row]]
) -> None:
    crystals, rows = hand
    shifted = [{**row, "chgnet_relaxed_energy_ev": row["chgnet_relaxed_energy_ev"] + 0.2} for row in rows]
    found = protocol.flag(shifted, list(crystals), [None] * 4)[0]  # two atoms: 0.1 eV/atom more
    assert found["mattersim-1m_above_hull_ev_per_atom"] == pytest.approx(0.05)
    assert found["chgnet_above_hull_ev_per_atom"] == pytest.approx(0.15)
    assert found["energy_above_hull_ev_per_atom"] == pytest.approx(0.10)
    assert found["ensemble_std_ev_per_atom"] == pytest.approx(0.05)


def test_invalid_structures_go_no_further(protocol: LematProtocol, hand: tuple[Crystals, list[Row]]) -> None:
    crystals, rows = hand
    invalid = [{**row, "valid": row["index"] != 1} for row in rows]
    found = flags(protocol, crystals, invalid)
    assert found[1] == [0] * len(COLUMNS)
    assert found[0][-1] == 1  # and row 0 is not affected


# Displacements, diversity, supply


def test_displacement_across_the_boundary() -> None:
    stream = generator(2, "displacement")
    start = Crystals.from_structures(rock_salt("Na", "Cl", 5.6))
    step = stream.normal(0, 0.02, (2, 3))
    end = start.replace(frac=(start.frac + step) % 1.0)  # the atom at the origin comes in on the other side
    moved, _ = find_mic(end.cart - start.cart, start.lattice[0])
    moved -= moved.mean(axis=0)
    assert site_rmsd(end, start) == pytest.approx(np.sqrt((moved**2).sum(axis=1).mean()))
    assert site_rmsd(end, start, as_published=True) > 1.0
    assert site_rmsd(start.replace(frac=start.frac + 0.1), start) == pytest.approx(0, abs=1e-12)


def test_sizes_against_pymatgen() -> None:
    crystals = load_reference().crystals[:30]
    radius = CovalentRadius.radius
    for structure, found in zip(crystals.to_structures(), size_columns(crystals), strict=True):
        filled = sum(4 / 3 * np.pi * radius[site.specie.symbol] ** 3 for site in structure) / structure.volume
        assert found["density_g_per_cm3"] == pytest.approx(float(structure.density), rel=1e-6)
        assert [found[f"{x}_angstrom"] for x in "abc"] == pytest.approx(structure.lattice.abc)
        assert found["packing_factor"] == pytest.approx(min(filled, 1.0), rel=1e-6)


def test_diversity_against_scipy() -> None:
    assert vendi_score([1, 1, 2, 3]) == pytest.approx(np.exp(scipy_entropy([2, 1, 1])))
    rows = [{"density_g_per_cm3": d, "a_angstrom": 3.1, "b_angstrom": 4.0 + d, "c_angstrom": 5.0,
             "packing_factor": 0.5} for d in (1.1, 1.2, 2.6, 9.0)]  # fmt: skip
    expected = 2 * scipy_entropy([2, 1, 1]) / 5 / np.log(4)
    assert size_diversity(rows) == pytest.approx(expected)
    assert size_diversity(rows, as_published=True) == pytest.approx(expected * np.log(2))


def test_supply_risk_by_hand() -> None:
    """In thousands: Fe 2.4 and 1.4, O 0.5 and 0.5; hydrogen has no figure and counts as the worst."""
    oxide, hydride = rock_salt("Fe", "O", 4.3), rock_salt("Fe", "H", 4.0)
    found = supply_risk(Crystals.from_structures([oxide, hydride]))
    assert found == pytest.approx(np.array([[1.45, 0.95], [6.2, 5.7]]))


# Its own hulls


@pytest.fixture(scope="module")
def potential() -> Potential:
    return load_potential("mattersim-1m")


def write_table(folder: Path, checkpoint: str) -> list[PDEntry]:
    energies = {"Na": -1.3, "Cl": -1.8, "NaCl": -3.3, "NaCl3": -2.2}
    path = folder / "lemat-hulls" / "mp-20" / "mattersim-1m.csv"
    path.parent.mkdir(parents=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["formula", "energy_ev_per_atom", "checkpoint"])
        writer.writerows([formula, energy, checkpoint] for formula, energy in energies.items())
    return [PDEntry(Composition(f), e * Composition(f).num_atoms) for f, e in energies.items()]


def test_its_hull_equals_pymatgens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, potential: Potential
) -> None:
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    diagram = PhaseDiagram(write_table(tmp_path, potential.checkpoint_hash))
    hull = load_table_hull("mp-20", potential)
    crystals = Crystals.from_structures([rock_salt("Na", "Cl", 5.6), rock_salt("Na", "F", 4.6)])
    found = hull.score(crystals, np.array([-6.0, -8.0]), checkpoint_hash=potential.checkpoint_hash)
    entry = PDEntry(Composition("NaCl"), -6.0)
    assert found.energy_above_hull[0] == pytest.approx(diagram.get_e_above_hull(entry))
    assert found.formation_energy[0] == pytest.approx(diagram.get_form_energy_per_atom(entry))
    assert found.status == ["scored", "not scored: no reference for F"]


def test_a_hull_of_other_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, potential: Potential
) -> None:
    """LeMat-GenBench compared MPA-0 energies with a hull of medium-0b3."""
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    write_table(tmp_path, "0" * 64)
    with pytest.raises(AnchorError, match="energies of weights 000000000000"):
        load_table_hull("mp-20", potential)


def test_a_hull_that_is_not_here_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, potential: Potential
) -> None:
    monkeypatch.setenv("ANCHOR_CACHE", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"lemat-bulk hull of mattersim-1m is not here"):
        load_table_hull("lemat-bulk", potential)
    status = LematProtocol().hull_status()
    assert status["mp-20"].startswith("not here: ")
    assert "chgnet.csv" in status["lemat-bulk"]


def test_bad_options() -> None:
    with pytest.raises(InputError, match="no hull 'mp20'"):
        LematProtocol(hull="mp20")
    with pytest.raises(InputError, match="twice"):
        LematProtocol(ensemble="chgnet+chgnet")


# A real run


@pytest.fixture(scope="module")
def run(protocol: LematProtocol) -> list[Row]:
    """NaCl and LiF of the reference, NaCl rattled, fused atoms, an invalid composition, a cell too thin."""
    reference = load_reference()
    chosen = [int(np.flatnonzero(reference.formulas == f)[0]) for f in ("NaCl", "LiF")]
    crystals = reference.crystals[chosen]
    rattled = crystals[0].replace(frac=crystals[0].frac + generator(0, "rattle").normal(0, 0.01, (2, 3)))
    fused = Structure(Lattice.cubic(4.0), ["Na", "Cl"], [[0, 0, 0], [0.001, 0, 0]])
    charged = Structure(Lattice.cubic(4.2), ["Ca", "F"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    bad = Crystals.from_structures([fused, charged])
    batch = Crystals.concatenate([crystals, rattled, bad])
    measured = protocol.measure(batch)
    relaxed = [row.pop(RELAXED, None) for row in measured]
    rows = [
        {"index": i, "status": "measured", "reason": "", "n_atoms": int(batch.counts[i])} | row
        for i, row in enumerate(measured)
    ]
    return [a | b for a, b in zip(rows, protocol.flag(rows, list(batch), relaxed), strict=True)]


def test_known_crystals_pass_and_bad_ones_do_not(run: list[Row]) -> None:
    assert [row.get("valid", False) for row in run] == [True, True, True, False, False]
    assert run[3]["status"] == "failed"
    assert "pre-relaxation" in run[3]["reason"]
    assert run[4]["validity_reason"] == "charge: no step finds it neutral"
    assert run[4].get("mattersim-1m_energy_ev") is None  # only valid structures go on
    assert [row["novel"] for row in run[:3]] == [False] * 3
    assert [row["unique"] for row in run[:3]] == [True, True, False]
    assert all(abs(row["energy_above_hull_ev_per_atom"]) < 0.05 for row in run[:3])
    assert run[0]["charge_by"]


def test_paired_columns_exist(run: list[Row]) -> None:
    assert {metric.column for metric in LematProtocol.metric_list if metric.column} <= set(run[0])


def test_its_table(protocol: LematProtocol, run: list[Row]) -> None:
    metrics = protocol.metrics(run)
    assert set(metrics) == {metric.name for metric in LematProtocol.metric_list}
    assert metrics["overall_valid_count"] == Rate(3, 5)
    assert metrics["unique_count"] == Rate(2, 5)
    assert metrics["element_diversity"] == Rate(4, 118)
    line = csv_row(metrics, run_name="test", timestamp="", n_structures=5)
    assert protocol.tables(run, label="test") == {"lemat.csv": [line]}
    assert tuple(line) == CSV_COLUMNS
    assert (line["overall_valid_count"], line["novel_count"], line["sun_count"]) == (3, 0, 0)
    assert line["MMD"] is None
    above = [row["energy_above_hull_ev_per_atom"] for row in run[:3]]
    assert line["stability_mean_above_hull"] == pytest.approx(np.mean(above))
    assert line["stability_std_e_above_hull"] == pytest.approx(np.std(above))


def test_footer_names_the_ensemble(protocol: LematProtocol) -> None:
    footer = protocol.footer()
    assert footer["label"] == "lemat-on-OQMD"
    assert footer["potential"].startswith("mean of mattersim-1m (28b0b0b0f13e) + chgnet (")
    assert "Orb-v3" in footer["potential"]
    assert footer["pre-relaxation"].startswith("mattersim-1m")
