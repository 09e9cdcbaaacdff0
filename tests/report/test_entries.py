"""What a campaign has to show: who is a find, what the head says, and what it does not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign_ledgers import candidate, delafossite, rock_salt, told_apart, write_ledger
from scipy.spatial import ConvexHull

from anchor.config import load_config
from anchor.hull.energies import load_energies
from anchor.hull.references import load_hull
from anchor.reference.reference import load_reference
from anchor.report.data import campaign_data, element_table, overview, pack
from anchor.report.entries import FAR_SHOWN, LEVELS, Entries, campaign_entries
from anchor.report.headline import headline
from anchor.report.summary import Run
from anchor.report.systems import _lower_edges, add_hulls
from anchor.search.ledger import Ledger
from anchor.verify.levels import LEVELS as ATTACKS


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return told_apart(tmp_path)


def standings(ledger: Ledger) -> dict[str, str]:
    return {entry["formula"]: entry["standing"] for entry in campaign_entries(ledger).shown}


def test_everything_is_told_apart(ledger: Ledger) -> None:
    assert standings(ledger) == {
        "KYSe2": "find", "RbS": "find", "NaSe": "near", "LiTe": "far", "Cs2O2": "deep", "NaTe": "failed",
        "NaCl": "known",
    }  # fmt: skip


def test_an_entry_says_what_was_measured(ledger: Ledger) -> None:
    first, second = campaign_entries(ledger).of("find")
    assert (first["level"], first["refined"], first["above"]) == (3, True, -0.12)
    assert first["potentials"] == {"chgnet": -0.11, "sevennet-0": -0.09}
    assert first["decomposition"]["mp"] == "0.5 K2Se + 0.5 Y2Se3"
    assert first["crystal"]["numbers"].count(39) * 4 == first["atoms"]
    assert "level" not in second  # nobody relaxed its cell, nobody checked it
    assert not second["refined"]
    assert second["space_group_number"] == 225


def test_of_a_formula_there_is_one_entry_and_the_lowest(tmp_path: Path) -> None:
    rows = [candidate(i, rock_salt("Na", "Se", 6.0), above) for i, above in enumerate((0.3, 0.05, 0.2))]
    (entry,) = campaign_entries(write_ledger(tmp_path, rows, [])).shown
    assert (entry["id"], entry["above"]) == (1, 0.05)


def test_far_ones_are_counted_and_few_are_shown(tmp_path: Path) -> None:
    row = candidate(0, rock_salt("Na", "Se", 6.0), 0.0)
    rows = [
        {**row, "id": i, "member": i, "formula": f"Na{i}Se", "energy_above_hull_ev_per_atom": 0.2 + i}
        for i in range(30)
    ]
    entries = campaign_entries(write_ledger(tmp_path, rows, []))
    assert len(entries.shown) == FAR_SHOWN
    assert entries.counts["far"] == 30
    assert max(entry["above"] for entry in entries.shown) == 0.2 + FAR_SHOWN - 1


def test_an_attack_that_could_not_be_tried_breaks_nothing(ledger: Ledger) -> None:
    refined = next(row for row in ledger.find_rows() if row["formula"] == "KYSe2")
    rows = [v for v in ledger.verdict_rows() if v["candidate"] == refined["candidate"]]
    ledger.store_verdicts([{**rows[-1], "passed": None, "reason": "no other potential is installed"}])
    entry = campaign_entries(ledger).of("find")[0]
    assert (entry["formula"], entry["level"]) == ("KYSe2", 2)


def test_levels_are_those_of_the_attacks() -> None:
    assert set(LEVELS) == set(ATTACKS)


# Words


def words(entries: list[dict[str, Any]], *settings: str, proposed: int = 100, **counts: int) -> Any:
    every = {"find": 0, "near": 0, "far": 0, "deep": 0, "failed": 0, "known": 0} | counts
    return headline(Entries(entries, every), load_config(overrides=settings).config, proposed)


def test_the_head_says_no_more_than_was_measured(ledger: Ledger) -> None:
    data = campaign_data(ledger, hulls=False)
    head = data["head"]
    assert head["title"] == "2 new crystals on both hulls, 1 confirmed by two other potentials"
    said = " ".join(head["sentences"])
    assert "1 were relaxed with the cell free; the other 1 have only had their positions relaxed" in said
    assert "None has been computed with DFT." in said
    assert "1 more lies within 0.1 eV/atom: near, not finds." in said
    assert "1 broken by a check, 1 too deep to believe, 1 known already" in said
    assert head["advice"] == []


def test_what_broke_at_a_level_passed_those_before() -> None:
    kept = {"standing": "find", "refined": True, "above": -0.1, "above_each": {"oqmd": -0.1, "mp": -0.2}}
    passed = [{"level": level, "passed": True, "reason": ""} for level in (1, 2, 3)]
    stands = {**kept, "level": 3, "verdicts": passed}
    broken = {
        **kept,
        "standing": "failed",
        "level": 2,
        "verdicts": [*passed[:2], {**passed[2], "passed": False}],
    }
    said = " ".join(words([stands, broken], find=1, failed=1).sentences)
    assert "2 of 2 tried hold" in said
    assert "2 of 2 tried against other structures" in said
    assert "1 of 2 tried against other potentials" in said


def test_a_find_that_nobody_checked_is_not_confirmed() -> None:
    one = {
        "standing": "find", "refined": True, "above": -0.1, "above_each": {"oqmd": -0.1, "mp": -0.2},
        "level": 0,
    }  # fmt: skip
    head = words([one], find=1)
    assert head.title == "1 new crystal on both hulls"
    assert any("None of them has been checked any further" in s for s in head.sentences)
    alone = words([{**one, "above_each": {"oqmd": -0.1}}], find=1)
    assert any("only one of the databases knows all elements" in s for s in alone.sentences)
    assert words([one], "hull.kind=mp", find=1).title == "1 new crystal on the hull"


def test_nothing_found_says_so_and_what_to_try() -> None:
    best = {"standing": "far", "refined": False, "above": 0.91, "formula": "NaXP2", "above_each": {}}
    head = words([best], "action_space.must_contain=[Na]", "policy.source=policy", far=40, proposed=64)
    assert head.title == "No find"
    assert "NaXP2, +0.910 eV/atom above it: merely the best of this search." in " ".join(head.sentences)
    advice = " ".join(head.advice)
    assert "--source screened" in advice
    assert "anchor resume FOLDER -n 500" in advice
    assert "--must-contain" in advice
    near = words([{**best, "standing": "near", "above": 0.02}], near=1)
    assert near.title == "No new crystal on the hull; 1 within 0.1 eV/atom"
    assert words([], proposed=0).title == "Nothing has been tried yet"
    assert "No new formula was relaxed" in " ".join(words([]).sentences)


# Hulls


def test_edges_of_a_hull_agree_with_qhull_by_hand() -> None:
    """Two elements, a deep compound, one above the line to it: the second is on no edge."""
    fractions = np.array([[1, 0, 0.5, 0.75], [0, 1, 0.5, 0.25]], dtype=float)
    assert _lower_edges(fractions, np.array([0, 0, -1.0, -0.4])) == [(0, 2), (1, 2)]
    assert _lower_edges(fractions, np.array([0, 0, -1.0, -0.6])) == [(0, 3), (1, 2), (2, 3)]
    assert _lower_edges(fractions[:, :2], np.zeros(2)) == [(0, 1)]
    assert len(ConvexHull(np.array([[0, 0], [1, 0], [0.5, -1.0]])).simplices) == 3


def test_diagrams_hold_the_phases_of_the_hull(tmp_path: Path) -> None:
    """The lowest mixture at a find's composition, from the diagram's phases, is the hull's own energy."""
    name = "mattersim-1m"
    checkpoint = load_energies(name, load_reference().crystals).checkpoint_hash
    rows = [candidate(0, delafossite("K", "Y", "Se"), -0.1), candidate(1, rock_salt("Na", "Cl", 5.6), -0.1)]
    ledger = write_ledger(tmp_path, rows, [], potential={"name": name, "hash": checkpoint})
    entries = campaign_entries(ledger).shown
    diagrams = add_hulls(entries, ledger)
    hull = load_hull(name)
    assert "have changed since" in diagrams["note"]  # the ledger's hull is nobody's
    assert set(diagrams["systems"]) == {"K-Se-Y", "Na-Cl"}
    for database, diagram in diagrams["systems"]["K-Se-Y"].items():
        names = [phase[1] for phase in diagram["phases"]]
        mixture = hull.hulls[database].decomposition("KYSe2")
        assert mixture is not None
        assert set(mixture.formulas) <= set(names)
        for phase in diagram["phases"]:
            place = hull.hulls[database].hull_energy([phase[1]])[0]
            assert phase[2] == pytest.approx(place, abs=1e-3) or phase[3]
        assert all(0 <= i < len(names) for line in diagram["lines"] for i in line)
    assert set(entries[0]["decomposition"]) == {"oqmd", "mp"}
    assert set(entries[0]["on_scale"]) == {"oqmd", "mp"}


def test_without_hulls_the_report_says_why(ledger: Ledger) -> None:
    found = add_hulls(campaign_entries(ledger).shown, ledger)
    assert found["systems"] == {}
    assert found["note"].startswith("There are no hulls to draw")


# Overview


def test_counts_of_the_overview(ledger: Ledger) -> None:
    data = overview(Run.read(ledger), ledger)
    assert data["proposed"] == 7
    assert data["elements"]["Na"] == [3, 3, 2]
    assert sum(data["histogram"]["counts"]) == 7
    assert data["found"]["sun"][-1] == [7, 5]
    assert data["seconds"] == {"prior": 1.0, "relaxation": 9.0}
    assert data["curves"]["known"] == []  # a screened search proposes nothing that is known


def test_packed_data_is_harmless_text() -> None:
    packed = pack({"formula": "</script><script>alert(1)</script>", "é": None})
    assert packed.isascii()
    assert "<" not in packed
    with pytest.raises(ValueError, match="JSON"):
        pack({"energy": float("nan")})


def test_the_table_of_elements() -> None:
    table = element_table()
    assert table[11][0] == "Na"
    assert table[11][3]
    assert not table[17][3]
    assert table[9][4] == pytest.approx(3.98)
