"""The paper's protocol: its definitions on tables made by hand, its numbers against other paths."""

import numpy as np
import pytest
from pymatgen.core import Composition as PymatgenComposition

from anchor.crystals.crystals import Crystals
from anchor.evaluate.internal import InternalProtocol, charges
from anchor.evaluate.protocol import RELAXED, Mean, Row
from anchor.hull.references import load_hull
from anchor.hull.score import score_crystals
from anchor.potentials.registry import load_potential
from anchor.reference.reference import load_reference


@pytest.fixture(scope="module")
def protocol() -> InternalProtocol:
    return InternalProtocol(potential="mattersim-1m", max_steps=4)


def core(formula: str | None, cell: str | None = None, **columns: object) -> Row:
    return {"formula": formula, "cell": cell or formula, "status": "measured", "reason": "", **columns}


def crystal_of(formula: str) -> Crystals:
    """A reference crystal."""
    reference = load_reference()
    return reference.crystals[int(np.flatnonzero(reference.formulas == formula)[0])]


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
    table = [
        (core("NaCl", "Na2Cl2", energy_above_hull_ev_per_atom=-0.01, relaxation="converged"), salt),
        (core("NaCl", energy_above_hull_ev_per_atom=0.02, relaxation="capped"), salt),
        (core("MgO", energy_above_hull_ev_per_atom=-0.1, relaxation="converged"), squeezed(oxide, 0.5)),
        (core("NaCl2", energy_above_hull_ev_per_atom=0.0, relaxation="converged"), salt),
        (core(new.formulas[0], energy_above_hull_ev_per_atom=0.1, relaxation="converged"), new),
        (core(new.formulas[0], energy_above_hull_ev_per_atom=0.0, relaxation="converged"), new),
        (core("KF", status="failed", relaxation="diverged"), None),
        (core("KF", energy_above_hull_ev_per_atom=None, status="not scored"), crystal_of("KF")),
        (core(None, status="failed"), None),
    ]
    rows, crystals = [row for row, _ in table], [crystal for _, crystal in table]
    flags = protocol.flag(rows, crystals, crystals)
    columns = {name: [flag[name] for flag in flags] for name in flags[0]}
    yes = [bool(value) for value in columns["valid"]]
    assert yes == [True, True, False, False, True, True, False, True, False]
    assert columns["unique"] == [True, False, True, True, True, False, True, False, False]
    assert columns["bonds_ok"][2] is False
    assert "Mg" in columns["gate_reason"][2] or "O" in columns["gate_reason"][2]
    assert columns["gate_reason"][3] == "not charge-neutral"
    assert columns["charge_ok"][-1] is None
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

    found = protocol.metrics([{**row, **flag} for row, flag in zip(rows, flags, strict=True)])
    for name in ("valid", "unique", "novel", "metastable", "stable", "msun", "sun", "known"):
        assert (found[name].k, found[name].n) == (sum(columns[name]), 9), name  # type: ignore[union-attr]
    assert found["energy_above_hull"] == Mean.of([-0.01, 0.02, 0.1, 0.0])
    assert (found["failed"].k, found["not_scored"].k) == (2, 1)  # type: ignore[union-attr]
    assert list(found) == [metric.name for metric in protocol.metric_list]


def test_a_find_known_elsewhere_is_no_headline(protocol: InternalProtocol) -> None:
    reference = load_reference()
    listed = sorted(reference.known_formulas - set(reference.formulas.tolist()))
    formula = next(f for f in listed if bool(PymatgenComposition(f).oxi_state_guesses()) and len(f) < 8)
    atoms = np.concatenate([[e.Z] * int(n) for e, n in PymatgenComposition(formula).items()])
    spread = np.stack([np.arange(len(atoms)) / len(atoms)] * 3, axis=1)
    crystal = Crystals(np.array([len(atoms)]), atoms, spread, 4.0 * len(atoms) * np.eye(3)[None])
    row = core(formula, energy_above_hull_ev_per_atom=-0.2)
    (flag,) = protocol.flag([row], [crystal], [crystal])
    assert flag["sun"]
    assert not flag["known"]
    assert flag["known_anywhere"]
    assert not flag["new_sun"]
    assert not flag["new_msun"]


def test_charges_are_pymatgens_for_any_cell() -> None:
    cells = ["NaCl", "NaCl2", "Fe3O4", "Xe2F4", "Li2Mn2Co2Ni2O8F", "KMgAlSiO5", "MgNi", "C6H6", "He2"]
    expected = [bool(PymatgenComposition(cell).oxi_state_guesses()) for cell in cells]
    assert charges([{"cell": cell} for cell in cells]) == expected
    assert charges([{"cell": None}, {"cell": "Na120Cl120"}]) == [None, True]


def test_measured_energies_are_those_of_the_hull_command(protocol: InternalProtocol, small: Crystals) -> None:
    crystals = small[:6]
    rows = protocol.measure(crystals)
    potential = load_potential("mattersim-1m")
    scored = score_crystals(crystals, potential, load_hull(potential), relax="cell", max_steps=4)
    assert [row["relaxation"] for row in rows] == scored.relaxation
    np.testing.assert_allclose(
        [row["energy_above_hull_ev_per_atom"] for row in rows], scored.scores.energy_above_hull, atol=2e-4
    )
    for row, crystal in zip(rows, crystals, strict=True):
        assert row[RELAXED].formulas == crystal.formulas
        assert row["energy_above_dft_hull_ev_per_atom"] <= row["energy_above_hull_ev_per_atom"] + 1e-6


def test_a_bad_crystal_fails_alone(protocol: InternalProtocol, small: Crystals) -> None:
    flat = small[0].replace(lattice=small[0].lattice * 1e-4)
    alone = protocol.measure(small[1])
    rows = protocol.measure(Crystals.concatenate([flat, small[1]]))
    assert rows[0]["status"] == "failed"
    assert RELAXED not in rows[0]
    assert rows[0]["reason"]
    assert rows[0]["energy_above_hull_ev_per_atom"] is None
    assert rows[1]["energy_ev"] == pytest.approx(alone[0]["energy_ev"], abs=1e-4)


def test_fixed_cell_keeps_the_lattice(small: Crystals) -> None:
    fixed = InternalProtocol(potential="mattersim-1m", max_steps=2, cell=False)
    (row,) = fixed.measure(small[3])
    np.testing.assert_array_equal(row[RELAXED].lattice, small[3].lattice)
    assert "lattice fixed" in fixed.footer()["relaxation"]


def test_the_gate_changes_flags_and_footer_but_not_measurements() -> None:
    ours = InternalProtocol(potential="mattersim-1m", max_steps=4)
    lemat = InternalProtocol(potential="mattersim-1m", max_steps=4, gate="lemat")
    assert ours.identity() == lemat.identity()
    assert ours.footer() != lemat.footer()
    alloy, squashed = crystal_of("MgCu2"), squeezed(crystal_of("NaCl"), 0.4)
    rows = [core("MgCu2", energy_above_hull_ev_per_atom=0.0), core("NaCl", energy_above_hull_ev_per_atom=0.0)]
    crystals = [alloy, squashed]
    by_ours = [flag["valid"] for flag in ours.flag(rows, crystals, crystals)]
    found = lemat.flag(rows, crystals, crystals)
    assert by_ours == [False, False]  # an alloy is not charge-neutral
    assert [flag["valid"] for flag in found] == [True, False]  # metals are exempt there
    assert "distance" in found[1]["gate_reason"]
