"""Finds: who is chosen, who competes with whom, and what is listed apart."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anchor.cli.found import show_found, spoken
from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, Notice
from anchor.exports.chosen import choose as choose_crystals
from anchor.hull.alex_mp import AlexMPHull
from anchor.hull.phases import Phases
from anchor.outcomes.columns import ABOVE, ABOVE_WITH_FINDS
from anchor.outcomes.tally import Tally
from anchor.report.entries import campaign_entries
from anchor.results import read_found
from anchor.search import finds as finds_module
from anchor.search.campaign import Campaign
from anchor.search.finds import EACH, Finds, _with_finds, about, choose, choose_known, refine
from anchor.search.ledger import Ledger, decode_crystal, encode_crystal
from anchor.search.outputs import write_finds
from anchor.search.tables import candidates, finds
from anchor.selecting import everything, parse

CRYSTAL = encode_crystal(
    Crystals(np.array([2]), np.array([11, 17]), np.array([[0, 0, 0], [0.5] * 3]), 4.0 * np.eye(3)[None])
)
IDENTITY = {
    "anchor": "0", "reference": "r", "hull": "h", "code": "c", "threads": 1,
    "potential": {"name": "p", "hash": "p"}, "prior": {"name": "q", "hash": "q"},
}  # fmt: skip


def candidate(number: int, formula: str, above: float, known_in: str = "", **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(column.name for column in candidates.c)
    return values | {
        "id": number, "step": 0, "group_index": 0, "member": number, "formula": formula, "cell": formula,
        "n_elements": 2, "n_atoms": 2, "valid": True, "included": True, "status": "scored", "reason": "",
        "known_in": known_in, "own_objectives": {}, "relaxed": CRYSTAL, ABOVE: above,
        EACH: {"alex-mp": above}, "thin": "", **more,
    }  # fmt: skip


def find(number: int, above: float, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(column.name for column in finds.c)
    return values | {
        "candidate": number, "crystal": CRYSTAL, "spacegroup": "Pm-3m", "spacegroup_number": 221,
        "relaxation": "converged", "bonds_ok": True, "valid": True, ABOVE: above, ABOVE_WITH_FINDS: above,
        EACH: {"dft": above}, "novelty_reference": 0.75, "suspicious": False, **more,
    }  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    config = load_config(overrides=["policy.source=neutral"]).config.model_dump(mode="json")
    ledger = Ledger.create(tmp_path, config, IDENTITY, "2026-01-01T00:00:00+00:00")
    rows = [
        candidate(0, "NaCl", -0.1, "icsd,mp,reference"),
        candidate(1, "Na2Cl", -0.3),
        candidate(2, "NaCl2", -0.2, thin="no compound"),
        candidate(3, "Na3Cl", -0.05, "icsd"),
        candidate(4, "Na3Cl2", -0.05, "oqmd"),
        candidate(5, "Na2Cl", -0.4),
        candidate(6, "NaCl3", -0.9, valid=False),
    ]
    step = {"step": 0, "structures": 7, "contexts": [], "metrics": {}, "seconds": {}}
    ledger.commit_step(step, rows, b"", keep=False)
    return ledger


def test_the_new_and_the_known_are_chosen_apart(ledger: Ledger) -> None:
    campaign: Any = SimpleNamespace(ledger=ledger)
    assert [row["id"] for row in choose(campaign, 5)] == [5, 2]  # one per formula, the invalid one is not
    assert [row["id"] for row in choose(campaign, 1)] == [5]
    # of the reference, or OQMD's own idea: no rediscovery
    assert [row["formula"] for row in choose_known(campaign, 5)] == ["Na3Cl"]


def test_finds_compete_with_all_valid_candidates(ledger: Ledger) -> None:
    elements = Phases.from_formulas(["Na", "Cl"], [0.0, 0.0])
    potential: Any = SimpleNamespace(checkpoint_hash="", energies_corrected=True)
    environment = SimpleNamespace(hull=AlexMPHull(elements, potential))
    campaign: Any = SimpleNamespace(ledger=ledger, environment=environment)
    rows = [{EACH: {"alex-mp": -0.25}}, {EACH: {"alex-mp": None}}]
    first, second = _with_finds(campaign, ["NaCl2", "NaCl"], rows)
    # Best mixture at NaCl2: its six atoms give Na2Cl (−0.4, three of them) and chlorine, −0.2.
    assert first == pytest.approx(-0.25 + 0.2)
    assert second is None


def test_what_is_no_find_is_listed_apart(ledger: Ledger, tmp_path: Path) -> None:
    ledger.store_finds(
        [
            find(1, -0.4, suspicious=True, depth_percentile=99.7),
            find(2, -0.2, **{ABOVE_WITH_FINDS: 0.01}),
            find(3, -0.3, space_group_known=True),
        ]
    )
    found = Finds.read(ledger)
    assert {what: [r["formula"] for r in rows] for what, rows in found.groups().items()} == {
        "find": ["NaCl2"],
        "deep": ["Na2Cl"],
        "known": ["Na3Cl"],
    }
    assert found.counts() == {
        "finds": 1, "on_hull_with_finds": 0, "in_thin_systems": 1, "attacked": 0, "verified": 0,
        "near": 0, "far": 0, "deep": 1, "failed": 0, "known": 1,
    }  # fmt: skip
    assert [row["formula"] for row in ledger.find_rows()] == ["Na2Cl", "NaCl2"]  # exports: no rediscovery
    finds, others = tables(found, tmp_path)
    assert [(row["what"], row["formula"], row["cif"]) for row in finds] == [
        ("find", "NaCl2", "finds/01-NaCl2.cif")
    ]
    assert [(row["what"], row["formula"], row["cif"]) for row in others] == [
        ("deep", "Na2Cl", "others/01-Na2Cl.cif"), ("known", "Na3Cl", "others/02-Na3Cl.cif"),
    ]  # fmt: skip
    assert finds[0]["energy_above_hull_with_finds_ev_per_atom"] == "0.01"
    assert others[1]["space_group_known"] == "True"
    standings = {entry["formula"]: entry["standing"] for entry in campaign_entries(ledger).shown}
    assert standings == {"NaCl2": "find", "Na2Cl": "deep", "Na3Cl": "known"}


def tables(found: Finds, folder: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Rows of finds.csv and of others.csv."""
    path = write_finds(found, folder)
    with path.open() as finds, path.with_name("others.csv").open() as others:
        return list(csv.DictReader(finds)), list(csv.DictReader(others))


def test_a_list_called_finds_holds_finds(ledger: Ledger, tmp_path: Path) -> None:
    """Near, far and broken ones are new, too, and have no place in it."""
    ledger.store_finds([find(1, 0.91), find(2, 0.03)])
    found = Finds.read(ledger)
    assert found.finds == []
    assert [(row["formula"], row["what"]) for row in found.new] == [("NaCl2", "near"), ("Na2Cl", "far")]
    finds, others = tables(found, tmp_path)
    assert finds == []
    assert [row["what"] for row in others] == ["near", "far"]
    assert list((tmp_path / "finds").glob("*")) == []
    api = read_found(ledger, None)
    assert (len(api), len(api.near), len(api.others)) == (0, 1, 1)
    assert "No new crystal on the hull; 1 within 0.1 eV/atom" in repr(api)
    assert "More structures" in repr(api)
    assert "1 near the hull in .near" in repr(api)
    assert api.near[0]["formula"] == "NaCl2"
    assert "What to try" in api._repr_html_()
    with pytest.raises(InputError, match="has no finds"):
        choose_crystals(str(ledger.location), everything())
    assert len(choose_crystals(str(ledger.location), parse("what = near"), which="refined")) == 1


def test_the_terminal_tells_finds_and_others_apart(ledger: Ledger, capsys: pytest.CaptureFixture) -> None:
    ledger.store_finds([find(1, 0.91), find(2, -0.03)])
    words = spoken(ledger, "runs/mine")
    show_found(words, Tally(), Finds.read(ledger))
    said = capsys.readouterr().out
    assert "1 new crystal on both hulls" in said
    assert "what to try" not in said
    rows = [line.split("\t")[:3] for line in said.splitlines() if "\t" in line]
    assert rows[1:] == [["find", "–", "NaCl2"], ["far", "–", "Na2Cl"]]

    ledger.store_finds([find(1, 0.91), find(2, 0.5)])
    show_found(spoken(ledger, "runs/mine"), Tally(), Finds.read(ledger))
    said = capsys.readouterr().out
    assert "No find" in said
    assert "merely the best of this search" in " ".join(said.split())
    assert "anchor resume runs/mine -n 500" in said


def test_what_is_said_about_a_find() -> None:
    row: dict[str, Any] = {"suspicious": None, "thin": None, "holes": None, "known_in": "", "why": ""}
    row["space_group_known"] = None
    assert about(row) == ""
    assert about({**row, "level": 1, "why": "a lower crystal"}) == "failed level 2: a lower crystal"
    row |= {"thin": "no compound", "holes": "Y2Se3", "known_in": "cod", "space_group_known": False}
    assert about(row) == "thin: no compound; holes: Y2Se3; known in cod, another space group"


def test_finds_of_others_stay_and_no_formula_leads_out(ledger: Ledger, tmp_path: Path) -> None:
    """Files that somebody keeps among the finds, and a ledger that somebody tampered with."""
    folder = tmp_path / "deep" / "run"
    (folder / "finds").mkdir(parents=True)
    (folder / "finds" / "mine.cif").write_text("mine")
    (folder / "finds.csv").write_text("mine")
    ledger.store_finds([find(1, -0.4), find(2, -0.2)])
    found = Finds.read(ledger)
    found.finds[0]["formula"] = "/../../../escaped"
    with pytest.warns(Notice, match="it stays"):
        assert write_finds(found, folder).name == "finds-2.csv"
    names = sorted(path.name for path in (folder / "finds").iterdir())
    assert names == ["01-_.._.._.._escaped.cif", "02-NaCl2.cif", "mine.cif"]
    assert sorted(p.name for p in tmp_path.rglob("*escaped*")) == ["01-_.._.._.._escaped.cif"]

    found.finds.pop()
    with pytest.warns(Notice):
        write_finds(found, folder)  # one find less: its file goes, others' do not
    assert sorted(path.name for path in (folder / "finds").iterdir()) == names[:1] + names[2:]
    assert (folder / "finds" / "mine.cif").read_text() == (folder / "finds.csv").read_text() == "mine"


def test_finds_are_ordered_by_the_level_that_they_passed(ledger: Ledger, tmp_path: Path) -> None:
    """What attacks said is shown, a lower crystal takes its place, one on another says nothing."""
    ledger.store_finds([find(1, -0.4), find(2, -0.2), find(5, -0.1)])
    rows = {row["candidate"]: row for row in ledger.find_rows()}
    lower = decode_crystal(rows[2]["crystal"])
    lower = lower.replace(lattice=lower.lattice * 1.01)

    def verdict(candidate: int, level: int, passed: bool | None, **other: Any) -> dict[str, Any]:
        origin = decode_crystal(rows[candidate]["crystal"]).hash
        said = {"reason": f"said at {level}", "evidence": {}, "key": "", "cpu_seconds": 1.0}
        blank = {"crystal": None, "replaced": None, "origin": origin}
        return {"candidate": candidate, "level": level, "passed": passed, **said, **blank, **other}

    columns = {ABOVE: -0.25, "spacegroup": "P1", "limit": 0.0}
    ledger.store_verdicts(
        [
            verdict(1, 1, False),
            verdict(2, 1, True),
            verdict(2, 2, True, crystal=encode_crystal(lower), replaced=columns),
            verdict(2, 3, None),
            verdict(5, 1, True, origin="of another crystal"),
        ]
    )
    found = Finds.read(ledger).new
    assert [(row["candidate"], row["level"], row["why"]) for row in found] == [
        (2, 2, "said at 3"), (5, None, ""), (1, 0, "said at 1"),
    ]  # fmt: skip
    assert decode_crystal(found[0]["crystal"]).hash == lower.hash
    assert (found[0][ABOVE], found[0]["spacegroup"]) == (-0.25, "P1")
    assert about(found[0]).startswith("failed level 3: said at 3")
    ledger.store_verdicts([verdict(2, 3, True)])  # made again: the older one is gone
    counts = Finds.read(ledger).counts()
    assert (counts["attacked"], counts["verified"]) == (2, 1)
    finds, others = tables(Finds.read(ledger), tmp_path)
    assert [row["formula"] for row in finds] == ["NaCl2", "Na2Cl"]
    assert [(row["what"], row["level"], row["why"]) for row in others] == [("failed", "0", "said at 1")]
    shown = {entry["id"]: entry for entry in campaign_entries(ledger).shown}
    assert (shown[2]["level"], shown[2]["verdicts"][-1]["reason"]) == (3, "said at 3")


def test_a_refinement_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between two blocks, it ends with the rows of one that was not; nothing is made twice."""
    overrides = ["run.structures=24", "grpo.group_size=8", "policy.source=neutral", "run.workers=1"]
    config = load_config(overrides=overrides).config
    monkeypatch.setattr(finds_module, "BLOCK", 8)
    campaign = Campaign.start(config, tmp_path / "run")
    campaign.run()

    def rows() -> list[dict[str, Any]]:
        return [*campaign.ledger.find_rows(), *campaign.ledger.find_rows(known=True)]

    refine(campaign, 20, max_steps=3)
    whole = rows()
    assert len({row["candidate"] // 8 for row in whole}) > 1, "one block shows nothing"
    campaign.ledger.store_finds([])

    class Stop(Exception):
        pass

    def stop(_done: int, _of: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        refine(campaign, 20, max_steps=3, on_progress=stop)
    assert 0 < len(rows()) < len(whole)
    made: list[int] = []
    original = finds_module._refined

    def watched(which: Campaign, chosen: list[dict[str, Any]], max_steps: int) -> list[dict[str, Any]]:
        made.extend(row["id"] for row in chosen)
        return original(which, chosen, max_steps)

    monkeypatch.setattr(finds_module, "_refined", watched)
    before = {row["candidate"] for row in rows()}
    refine(campaign, 20, max_steps=3)
    assert rows() == whole
    assert made
    assert not before & set(made)
    refine(campaign, 1, max_steps=3)
    assert len(rows()) < len(whole), "fewer are asked for: the others go"
    had = whole[0]["formula"]
    refine(campaign, 20, without={had}, max_steps=3)
    assert {row["formula"] for row in campaign.ledger.find_rows()} == {
        row["formula"] for row in whole if not row["known_in"]
    } - {had}
