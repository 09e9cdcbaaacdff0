"""The catalogue: kept as it was made, filtered, exported, and refused when it is damaged."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from anchor.catalogue.build import build_catalogue, lowest_of_each
from anchor.catalogue.catalogue import Catalogue, load_catalogue, save_catalogue
from anchor.cli.main import app
from anchor.config import load_config
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError, MissingDependencyError
from anchor.formats.load import load
from anchor.outcomes.columns import ABOVE
from anchor.reference.reference import load_reference
from anchor.search.campaign import Campaign
from anchor.search.finds import refine

N = 12


@pytest.fixture(scope="module")
def made() -> Catalogue:
    """Known crystals with made-up energies."""
    crystals = load_reference().crystals[np.arange(100, 100 + N)]
    above = np.linspace(-0.05, 0.1, N)
    return Catalogue(
        crystals=crystals,
        number=np.arange(1, N + 1),
        formulas=crystals.formulas,
        spacegroups=["P1"] * N,
        why=[""] * (N - 1) + ["a lower crystal was found"],
        thin=["", "no ternary is known"] * (N // 2),
        above_hull=above,
        above_oqmd=above,
        above_mp=np.where(np.arange(N) % 3 == 0, np.nan, above - 0.01),
        above_with_finds=above + 0.01,
        formation_energy=np.full(N, -1.0),
        level=np.array([3] * 6 + [0] * 6),
        card={"potential": {"name": "toy"}},
    )


@pytest.fixture
def path(made: Catalogue, tmp_path: Path) -> Path:
    save_catalogue(tmp_path / "mine.npz", made)
    return tmp_path / "mine.npz"


def test_what_was_saved_is_read(made: Catalogue, path: Path) -> None:
    read = load_catalogue(path)
    assert read.formulas == made.formulas
    assert read.why == made.why
    assert np.abs(read.crystals.lattice - made.crystals.lattice).max() < 1e-5
    difference = read.crystals.frac - made.crystals.frac
    assert np.abs(difference - np.round(difference)).max() < 1e-6
    assert read.counts() == made.counts()
    assert read[0].above == pytest.approx({"oqmd": -0.05}), "a missing database is left out"


def test_the_card_counts_what_the_file_has(made: Catalogue, tmp_path: Path) -> None:
    """An entry that storing rounds onto the hull is on it in the card, too."""
    nearly = made.above_with_finds.copy()
    nearly[0] = 3e-6
    file = tmp_path / "nearly.npz"
    save_catalogue(file, replace(made, above_with_finds=nearly))
    read = load_catalogue(file)
    assert read.above_with_finds[0] == 0.0
    assert read.counts()["stable_with_finds"] == int((nearly <= 0).sum()) + 1
    assert json.loads(file.with_suffix(".json").read_text())["counts"] == read.counts()


def test_the_card_that_ships_counts_what_ships() -> None:
    shipped = load_catalogue()
    assert shipped.card["counts"] == shipped.counts()


def test_same_entries_same_bytes(made: Catalogue, path: Path, tmp_path: Path) -> None:
    save_catalogue(tmp_path / "again.npz", made)
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_select_agrees_with_a_plain_loop(made: Catalogue) -> None:
    element = sorted(made._element_sets()[0])[0]
    chosen = made.select(must_contain=[element], most=0.05, level=1)
    expected = [
        e.number for e in made
        if element in e.crystal.to_structures()[0].composition.as_dict()
        and e.above_with_finds <= 0.05 and e.level >= 1
    ]  # fmt: skip
    assert expected
    assert chosen.number.tolist() == expected
    assert not len(made.select(elements=["He"]))
    without = made.select(exclude=[element])
    assert all(element not in formula_set for formula_set in without._element_sets())
    assert len(made.select(k=[1])) == 0


def test_find_by_number_and_formula(made: Catalogue) -> None:
    assert made.find("3").number == 3
    assert made.find(made.formulas[4]).formula == made.formulas[4]
    with pytest.raises(InputError, match="no entry"):
        made.find("999")


def test_a_damaged_file_is_refused(path: Path, tmp_path: Path) -> None:
    card = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps({**card, "content_hash": "0" * 64}))
    with pytest.raises(InputError, match="not that of its card"):
        load_catalogue.__wrapped__(path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="no readable catalogue"):
        load_catalogue.__wrapped__(path)
    with pytest.raises(MissingDependencyError, match="anchor catalogue build"):
        load_catalogue(tmp_path / "none.npz")


def test_the_lowest_of_each_formula_stays() -> None:
    def row(
        formula: str, above: float, *, suspicious: bool = False, level: int | None = None
    ) -> dict[str, object]:
        return {"formula": formula, ABOVE: above, "suspicious": suspicious, "level": level}

    rows = [row("NaCl", 0.02), row("NaCl", 0.01), row("KCl", 0.3), row("LiF", -0.2, suspicious=True)]
    assert lowest_of_each(rows, 0.1) == [rows[1]]
    verified = row("NaCl", 0.0101, level=3)
    assert lowest_of_each([*rows, verified], 0.1) == [verified], "the same energy, and it survived more"


def test_built_from_a_campaign(tmp_path: Path) -> None:
    """Every entry is a find of the ledger, where the hull of today has it, and competes with the others."""
    values = {"run.structures": 24, "run.workers": 1, "action_space.elements": ("K", "Rb", "Y", "Se", "S")}
    campaign = Campaign.start(load_config(preset="quick", values=values).config, tmp_path / "run")
    campaign.run()
    refine(campaign, 12)
    built = build_catalogue([str(tmp_path / "run")])
    rows = {row["formula"]: row for row in campaign.ledger.find_rows()}
    assert len(built)
    for entry in built:
        row = rows[entry.formula]
        assert entry.above_hull == pytest.approx(row[ABOVE], abs=1e-5)
        assert entry.above_with_finds >= entry.above_hull - 1e-5
        assert entry.above_hull <= 0.1
    assert (np.diff(built.above_with_finds) >= 0).all()
    with pytest.raises(InputError, match="no new finds"):
        build_catalogue([str(tmp_path / "run")], most=-5.0)
    shipped = load_catalogue()
    larger = build_catalogue([str(tmp_path / "run"), "catalogue"])  # entries of another catalogue join
    assert set(larger.formulas) == {*built.formulas, *shipped.formulas}
    before = dict(zip(shipped.formulas, shipped.above_hull, strict=True))
    same = [(entry.above_hull, before[entry.formula]) for entry in larger if entry.formula in before]
    assert np.ptp(np.subtract(*np.array(same).T)) < 0.1  # the lower of both, where both have a formula
    assert np.median(np.abs(np.subtract(*np.array(same).T))) < 2e-5  # energies led back
    assert larger.card["catalogues"][0]["entries"] == len(shipped)


def test_commands(path: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["catalogue", "list", "--file", str(path), "--most", "0.0"])
    assert listed.exit_code == 0, listed.output
    assert f"of {N} entries" in listed.output
    some = runner.invoke(app, ["catalogue", "list", "--file", str(path), "--where", "e_hull < 0.0"])
    assert f"{sum(np.linspace(-0.05, 0.1, N) < 0)} of {N} entries" in some.output
    shown = runner.invoke(app, ["catalogue", "show", "1", "--file", str(path)])
    assert "-0.0500 eV/atom" in shown.output
    out = tmp_path / "some.extxyz"
    done = runner.invoke(app, ["export", str(path), "--where", "level >= 3", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert len(load([out]).crystals) == 6
    wrong = runner.invoke(app, ["catalogue", "list", "--file", str(path), "--elements", "na"])
    assert isinstance(wrong.exception, InputError)
    assert "Na" in str(wrong.exception)
    nothing = runner.invoke(app, ["export", str(path), "--elements", "He", "--out", str(tmp_path / "x")])
    assert isinstance(nothing.exception, InputError)


def test_crystals_are_a_batch(made: Catalogue) -> None:
    assert isinstance(made[0].crystal, Crystals)
    assert len(made[0].crystal) == 1
