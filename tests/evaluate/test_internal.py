"""The paper's protocol: its definitions on tables made by hand, its numbers against other paths."""

import numpy as np
import pytest
from pymatgen.core import Composition as PymatgenComposition
from pymatgen.core import Lattice, Structure

from anchor.chemistry.elements import SYMBOLS
from anchor.crystals.crystals import Crystals
from anchor.evaluate.internal import InternalProtocol
from anchor.evaluate.protocol import Mean, Rate
from anchor.hull.references import load_hull
from anchor.outcomes.columns import ABOVE, above
from anchor.outcomes.table import Outcomes
from anchor.potentials.registry import load_potential
from anchor.reference.reference import load_reference
from anchor.relax import relax


@pytest.fixture(scope="module")
def protocol() -> InternalProtocol:
    return InternalProtocol(potential="mattersim-1m", max_steps=4)


def table_of(*rows: tuple[dict[str, object], Crystals | None]) -> Outcomes:
    """A measured table: the formula, whatever else is named, and a crystal with an energy or none."""
    crystals = [crystal for _, crystal in rows]
    at = np.array([i for i, crystal in enumerate(crystals) if crystal is not None])
    columns = [{"status": "measured", "reason": "", **row} for row, _ in rows]
    table = Outcomes.from_rows(columns).with_crystals(Crystals.concatenate(c for c in crystals if c), at)
    return table.with_crystal_columns(energy_ev=np.zeros(len(at)))


def core(formula: str | None, above: float | None = None, **columns: object) -> dict[str, object]:
    return {"formula": formula, ABOVE: above, **columns}


def crystal_of(formula: str) -> Crystals:
    """A reference crystal."""
    reference = load_reference()
    return reference.crystals[int(np.flatnonzero(reference.formulas == formula)[0])]


def chlorine_rich() -> Crystals:
    """NaCl2: no oxidation states balance it."""
    structure = Structure(Lattice.cubic(6.0), ["Na", "Cl", "Cl"], [[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5]])
    return Crystals.from_structures(structure)


def squeezed(crystal: Crystals, by: float) -> Crystals:
    return crystal.replace(lattice=crystal.lattice * by)


def test_flags_of_a_table_made_by_hand(protocol: InternalProtocol) -> None:
    """NaCl is known; MgO squeezed fails its bonds; NaCl2 is not neutral; Na3Mg7Cl17 is new."""
    salt, oxide = crystal_of("NaCl"), crystal_of("MgO")
    new = Crystals(
        np.array([27]),
        np.array([11] * 3 + [12] * 7 + [17] * 17),
        np.stack(np.meshgrid(*[np.arange(3) / 3] * 3), axis=-1).reshape(-1, 3),
        9.6 * np.eye(3)[None],
    )
    measured = table_of(
        (core("NaCl", -0.01, relaxation="converged"), salt),
        (core("NaCl", 0.02, relaxation="capped"), salt),
        (core("MgO", -0.1, relaxation="converged"), squeezed(oxide, 0.5)),
        (core("NaCl2", 0.0, relaxation="converged"), chlorine_rich()),
        (core(new.formulas[0], 0.1, relaxation="converged"), new),
        (core(new.formulas[0], 0.0, relaxation="converged"), new),
        (core("KF", status="failed", relaxation="diverged"), None),
        (core("KF", status="not scored"), crystal_of("KF")),
        (core(None, status="failed"), None),
    )
    table = protocol.flag(measured, measured)
    rows = list(table.rows())
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    assert columns["valid"] == [True, True, False, False, True, True, False, True, False]
    assert columns["unique"] == [True, False, True, True, True, False, True, False, False]
    assert columns["bonds_ok"] == [True, True, False, True, True, True, None, True, None]
    close, charged = "Mg–Mg at 0.68 of the shortest allowed", "not charge-neutral"
    assert columns["gate_reason"] == ["", "", close, charged, "", "", "", "", ""]
    assert columns["charge_ok"] == [True, True, True, False, True, True, None, True, None]
    assert columns["novelty"][0] == columns["novelty"][1] < 0.5  # two polymorphs are known, one is this
    assert columns["novelty"][4:6] == [0.75, 0.75]  # a formula of no index: the bootstrap value, twice
    assert columns["novel"] == [False, False, False, False, True, True, False, False, False]
    assert columns["stable"] == [True, False, False, False, False, True, False, False, False]
    assert columns["metastable"] == [True, True, False, False, True, True, False, False, False]
    assert columns["msun"] == [False] * 4 + [True] + [False] * 4
    assert columns["sun"] == [False] * 9  # the stable one is the second of its formula
    assert columns["known"] == [True, True, False, False, False, False, False, True, False]
    assert columns["known_anywhere"] == columns["known"]
    assert columns["new_msun"] == columns["msun"]

    found = protocol.metrics(table)
    for name in ("valid", "unique", "novel", "metastable", "stable", "msun", "sun", "known"):
        assert found[name] == Rate(sum(columns[name]), 9), name
    assert found["energy_above_hull"] == Mean.of([-0.01, 0.02, 0.1, 0.0])
    assert (found["failed"], found["not_scored"], found["converged"]) == (Rate(2, 9), Rate(1, 9), Rate(5, 9))
    assert (found["charge_ok"], found["bonds_ok"]) == (Rate(6, 9), Rate(6, 9))
    assert list(found) == [metric.name for metric in protocol.metric_list]


def test_a_find_known_elsewhere_is_no_headline(protocol: InternalProtocol) -> None:
    reference = load_reference()
    listed = sorted(reference.known_formulas - set(reference.formulas.tolist()))
    formula = next(f for f in listed if bool(PymatgenComposition(f).oxi_state_guesses()) and len(f) < 8)
    atoms = np.concatenate([[e.Z] * int(n) for e, n in PymatgenComposition(formula).items()])
    spread = np.stack([np.arange(len(atoms)) / len(atoms)] * 3, axis=1)
    crystal = Crystals(np.array([len(atoms)]), atoms, spread, 4.0 * len(atoms) * np.eye(3)[None])
    measured = table_of((core(formula, -0.2), crystal))
    (flag,) = protocol.flag(measured, measured).rows()
    assert flag["sun"]
    assert not flag["known"]
    assert flag["known_anywhere"]
    assert not flag["new_sun"]
    assert not flag["new_msun"]


def test_charge_is_that_of_the_realised_cell_whatever_it_holds(protocol: InternalProtocol) -> None:
    """pymatgen's answer also for noble gases and five elements; the row's own cell is not asked."""
    cells = ["NaCl", "NaCl2", "Fe3O4", "Xe2F4", "Li2Mn2Co2Ni2O8F", "KMgAlSiO5", "MgNi", "C6H6", "He2"]
    crystals = []
    for cell in cells:
        atoms = [str(e) for e, n in PymatgenComposition(cell).items() for _ in range(int(n))]
        spread = np.stack([np.arange(len(atoms)) / len(atoms)] * 3, axis=1)
        crystals.append(Crystals.from_structures(Structure(Lattice.cubic(4.0 * len(atoms)), atoms, spread)))
    measured = table_of(*((core(c.formulas[0], cell="NaCl3"), c) for c in crystals))
    expected = [bool(PymatgenComposition(cell).oxi_state_guesses()) for cell in cells]
    assert protocol.flag(measured, measured)["charge_ok"].tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_measured_energies_are_those_of_the_hull_command(protocol: InternalProtocol, small: Crystals) -> None:
    crystals = small[:6]
    table = protocol.measure(crystals)
    potential = load_potential("mattersim-1m")
    found = relax(crystals, potential, cell=True, max_steps=4, fmax=0.02)
    scores = load_hull(potential).score(
        found.crystals, found.energy, checkpoint_hash=potential.checkpoint_hash
    )
    assert table.texts("relaxation") == found.status.tolist()
    np.testing.assert_allclose(table.numbers(ABOVE), scores.energy_above_hull, atol=2e-4)
    assert table.crystals.formulas == crystals.formulas
    assert (table.numbers(above("dft")) <= table.numbers(ABOVE) + 1e-6).all()


def test_a_bad_crystal_fails_alone(protocol: InternalProtocol, small: Crystals) -> None:
    flat = small[0].replace(lattice=small[0].lattice * 1e-4)
    alone = protocol.measure(small[1])
    table = protocol.measure(Crystals.concatenate([flat, small[1]]))
    assert table.texts("status") == ["failed", "measured"]
    assert table.at.tolist() == [1]
    assert table.texts("reason")[0].startswith("relaxation failed: ")
    assert np.isnan(table.numbers(ABOVE)).tolist() == [True, False]
    assert table.numbers("energy_ev")[1] == pytest.approx(alone.numbers("energy_ev")[0], abs=1e-4)


def test_an_element_that_the_potential_does_not_know_is_not_scored(
    protocol: InternalProtocol, small: Crystals, monkeypatch: pytest.MonkeyPatch
) -> None:
    crystals, missing = small[:3], max(small[1].numbers.tolist())
    expected = [missing in crystal.numbers for crystal in crystals]
    monkeypatch.setattr(protocol.potential, "elements", protocol.potential.elements - {missing})
    table = protocol.measure(crystals)
    assert table.where("status", "not scored").tolist() == expected
    assert table.texts("reason")[1] == f"mattersim-1m does not cover {SYMBOLS[missing]}"
    assert list(table.rows(("relaxation", "energy_ev")))[1] == {"relaxation": None, "energy_ev": None}
    assert table.has.tolist() == [not it for it in expected]


def test_fixed_cell_keeps_the_lattice(small: Crystals) -> None:
    fixed = InternalProtocol(potential="mattersim-1m", max_steps=2, cell=False)
    shift = np.array([[0.02, 0.01, 0.0], [0.0, 0.0, 0.0]])
    strained = squeezed(small[3], 1.03).replace(frac=small[3].frac + shift)  # a free cell would shrink
    table = fixed.measure(strained)
    np.testing.assert_array_equal(table.crystals.lattice, strained.lattice)
    assert (table.crystals.frac != strained.frac).any()
    assert "lattice fixed" in fixed.footer()["relaxation"]


def test_the_gate_changes_flags_and_footer_but_not_measurements() -> None:
    ours = InternalProtocol(potential="mattersim-1m", max_steps=4)
    lemat = InternalProtocol(potential="mattersim-1m", max_steps=4, gate="lemat")
    assert ours.identity() == lemat.identity()
    assert ours.footer()["gate"] != lemat.footer()["gate"]
    alloy, squashed = crystal_of("MgCu2"), squeezed(crystal_of("NaCl"), 0.4)
    measured = table_of((core("MgCu2", 0.0), alloy), (core("NaCl", 0.0), squashed))
    assert ours.flag(measured, measured)["valid"].tolist() == [False, False]  # an alloy is not charge-neutral
    found = lemat.flag(measured, measured)
    assert found["valid"].tolist() == [True, False]  # metals are exempt there
    assert found["lemat_distance_ok"].tolist() == [True, False]
    assert "distance" in found.texts("gate_reason")[1]
