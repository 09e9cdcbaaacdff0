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
from anchor.evaluate.protocol import Rate
from anchor.evaluate.registry import load_protocol
from anchor.matching.displacement import site_rmsd
from anchor.outcomes.table import Outcomes
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
    assert first_among(np.array([0, 0, 2, 0, 4]), chosen).tolist() == [False, True, True, False, True]


def table_with(
    protocol: LematProtocol, crystals: Crystals, submitted: list[float], relaxed: list[float]
) -> Outcomes:
    """Rows whose energies lie so many eV/atom above each potential's own hull, before and after relaxing."""
    n = len(crystals)
    table = Outcomes.of(crystals).with_columns(
        index=range(n),
        status=["measured"] * n,
        valid=[True] * n,
        formula=crystals.formulas,
        n_atoms=crystals.counts,
    )
    for name, hull in protocol.hulls.items():
        weights = protocol.potentials[name].checkpoint_hash
        zero = hull.score(crystals, np.zeros(n), checkpoint_hash=weights).energy_above_hull
        energies = {f"{name}_energy_ev": submitted, f"{name}_relaxed_energy_ev": relaxed}
        table = table.with_columns(**{c: (np.array(e) - zero) * crystals.counts for c, e in energies.items()})
    return table


@pytest.fixture(scope="module")
def hand(protocol: LematProtocol) -> Outcomes:
    """CsBr-like salts that the reference does not have, two of one kind, and one crystal that it has."""
    strange = [rock_salt("Ag", "Mg", a) for a in (5.0, 5.05)]
    known = load_reference().crystals[[int(np.flatnonzero(load_reference().formulas == "NaCl")[0])]]
    other = rock_salt("Ca", "Zn", 6.0)
    crystals = Crystals.concatenate([Crystals.from_structures([*strange, other]), known])
    submitted = [0.30, 0.05, 0.20, -0.01]
    relaxed = [0.05, -0.02, 0.08, -0.03]
    return table_with(protocol, crystals, submitted, relaxed)


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


def flags(protocol: LematProtocol, table: Outcomes) -> list[list[int]]:
    found = protocol.flag(table, table)
    return np.array([found.flags(column) for column in COLUMNS], dtype=int).T.tolist()


def test_sun_and_msun_by_hand(protocol: LematProtocol, hand: Outcomes) -> None:
    """Relaxed energies count; the duplicate (row 1) is the first of its kind among the stable ones."""
    assert flags(protocol, hand) == [
        [1, 1, 0, 1, 0, 1, 0, 1],
        [0, 1, 1, 0, 1, 0, 1, 0],
        [1, 1, 0, 1, 0, 1, 0, 1],
        [1, 0, 1, 0, 1, 0, 0, 0],
    ]
    assert protocol.flag(hand, hand)["duplicate_of"].tolist() == [None, 0, None, None]


def test_as_published_takes_energies_as_submitted(
    protocol: LematProtocol, published: LematProtocol, hand: Outcomes
) -> None:
    """LeMat-GenBench's SUN reads the energies before relaxation: other structures count."""
    found = flags(published, hand)
    assert [row[-2:] for row in found] == [[0, 0], [0, 1], [0, 0], [0, 0]]
    assert [row[-2:] for row in flags(protocol, hand)] == [[0, 1], [1, 0], [0, 1], [0, 0]]


def test_without_pre_relaxation_the_submitted_structures_are_judged(
    published: LematProtocol, hand: Outcomes
) -> None:
    nothing = hand.keep_crystals(np.zeros(4, dtype=bool))  # what `measure` hands back then
    assert flags(published, hand)[1] == [0, 1, 0, 1, 0, 1, 0, 1]
    assert published.flag(hand, nothing)["novel"].tolist() == [True, True, True, False]
    assert not published.flag(hand, nothing).has.any()


def test_one_potential_is_no_ensemble_unless_as_published(
    protocol: LematProtocol, published: LematProtocol, hand: Outcomes
) -> None:
    lone = hand.with_columns(chgnet_relaxed_energy_ev=[None] * 4, chgnet_energy_ev=[None] * 4)
    found = protocol.flag(lone, lone)
    assert found["energy_above_hull_ev_per_atom"].tolist() == [None] * 4
    assert found["n_potentials"].tolist() == [1] * 4
    again = published.flag(lone, lone)
    assert again["energy_above_hull_ev_per_atom"][1] == pytest.approx(0.05)


def test_ensemble_is_the_mean_over_own_hulls(protocol: LematProtocol, hand: Outcomes) -> None:
    shifted = hand.with_columns(chgnet_relaxed_energy_ev=hand["chgnet_relaxed_energy_ev"] + 0.2)
    found = next(protocol.flag(shifted, shifted).rows())  # two atoms: 0.1 eV/atom more
    assert found["mattersim-1m_above_hull_ev_per_atom"] == pytest.approx(0.05)
    assert found["chgnet_above_hull_ev_per_atom"] == pytest.approx(0.15)
    assert found["energy_above_hull_ev_per_atom"] == pytest.approx(0.10)
    assert found["ensemble_std_ev_per_atom"] == pytest.approx(0.05)


def test_invalid_structures_go_no_further(protocol: LematProtocol, hand: Outcomes) -> None:
    found = flags(protocol, hand.with_columns(valid=[True, False, True, True]))
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
    columns = size_columns(crystals)
    for i, structure in enumerate(crystals.to_structures()):
        found = {name: values[i] for name, values in columns.items()}
        filled = sum(4 / 3 * np.pi * radius[site.specie.symbol] ** 3 for site in structure) / structure.volume
        assert found["density_g_per_cm3"] == pytest.approx(float(structure.density), rel=1e-6)
        assert [found[f"{x}_angstrom"] for x in "abc"] == pytest.approx(structure.lattice.abc)
        assert found["packing_factor"] == pytest.approx(min(filled, 1.0), rel=1e-6)


def test_diversity_against_scipy() -> None:
    assert vendi_score([1, 1, 2, 3]) == pytest.approx(np.exp(scipy_entropy([2, 1, 1])))
    d, same = np.array([1.1, 1.2, 2.6, 9.0]), np.ones(4)
    columns = {"density_g_per_cm3": d, "a_angstrom": 3.1 * same, "b_angstrom": 4.0 + d,
               "c_angstrom": 5.0 * same, "packing_factor": 0.5 * same}  # fmt: skip
    expected = 2 * scipy_entropy([2, 1, 1]) / 5 / np.log(4)
    assert size_diversity(columns) == pytest.approx(expected)
    assert size_diversity(columns, as_published=True) == pytest.approx(expected * np.log(2))


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
def run(protocol: LematProtocol) -> Outcomes:
    """NaCl and LiF of the reference, NaCl rattled, fused atoms, an invalid composition, a cell too thin."""
    reference = load_reference()
    chosen = [int(np.flatnonzero(reference.formulas == f)[0]) for f in ("NaCl", "LiF")]
    crystals = reference.crystals[chosen]
    rattled = crystals[0].replace(frac=crystals[0].frac + generator(0, "rattle").normal(0, 0.01, (2, 3)))
    fused = Structure(Lattice.cubic(4.0), ["Na", "Cl"], [[0, 0, 0], [0.001, 0, 0]])
    charged = Structure(Lattice.cubic(4.2), ["Ca", "F"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    bad = Crystals.from_structures([fused, charged])
    batch = Crystals.concatenate([crystals, rattled, bad])
    drawn = Outcomes.of(batch).with_columns(index=range(5), reason=[""] * 5, n_atoms=batch.counts)
    return protocol.flag(drawn, protocol.measure(batch).onto(drawn))


def test_known_crystals_pass_and_bad_ones_do_not(run: Outcomes) -> None:
    rows = list(run.rows())
    assert run.flags("valid").tolist() == [True, True, True, False, False]
    assert rows[3]["status"] == "failed"
    assert rows[3]["reason"].startswith("pre-relaxation ")
    assert rows[3]["valid"] is None
    assert rows[4]["validity_reason"] == "charge: no step finds it neutral"
    assert rows[4]["mattersim-1m_energy_ev"] is None  # only valid structures go on
    assert [row["novel"] for row in rows[:3]] == [False] * 3
    assert [row["unique"] for row in rows] == [True, True, False, False, False]
    assert all(abs(row["energy_above_hull_ev_per_atom"]) < 0.05 for row in rows[:3])
    assert rows[0]["charge_by"]
    assert run.at.tolist() == [0, 1, 2, 4]  # pre-relaxed, valid or not


def test_an_element_that_one_potential_lacks(
    protocol: LematProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    chgnet = protocol.potentials["chgnet"]
    monkeypatch.setattr(chgnet, "elements", chgnet.elements - {11})
    crystals = Crystals.from_structures([rock_salt("Na", "Cl", 5.6), rock_salt("Li", "F", 4.0)])
    table = protocol._energies("chgnet", Outcomes.of(crystals))
    assert table.texts("chgnet_relaxation")[0] == "element not covered"
    assert np.isfinite(table.numbers("chgnet_energy_ev")).tolist() == [False, True]
    assert np.isfinite(table.numbers("chgnet_relaxed_energy_ev")).tolist() == [False, True]


def test_paired_columns_exist(run: Outcomes) -> None:
    assert {metric.column for metric in LematProtocol.metric_list if metric.column} <= set(run.columns)


def test_its_table(protocol: LematProtocol, run: Outcomes) -> None:
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
    above = run.numbers("energy_above_hull_ev_per_atom")[:3]
    assert line["stability_mean_above_hull"] == pytest.approx(np.mean(above))
    assert line["stability_std_e_above_hull"] == pytest.approx(np.std(above))


def test_footer_names_the_ensemble(protocol: LematProtocol) -> None:
    footer = protocol.footer()
    assert footer["label"] == "lemat-on-OQMD"
    assert footer["potential"].startswith("mean of mattersim-1m (28b0b0b0f13e) + chgnet (")
    assert "Orb-v3" in footer["potential"]
    assert footer["pre-relaxation"].startswith("mattersim-1m")
