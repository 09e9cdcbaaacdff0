"""`anchor verify` on a tiny campaign and on files: verdicts are kept, shown, and not made again."""

import json
from pathlib import Path

import ase.io
import pytest
from ase.build import bulk
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.errors import AnchorError, InputError
from anchor.search.ledger import Ledger

RUNNER = CliRunner()
TINY = [
    "--preset", "default", "-n", "16", "--elements", "Na,Mg,Cl,F", "--k", "3", "--max-atoms", "6",
    "--seed", "1", "--set", "grpo.group_size=8", "--set", "relax.max_steps=3", "--set", "run.workers=1",
    "--finds", "2", "--verify", "0",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("campaign")
    result = RUNNER.invoke(app, ["search", "--out", str(place), "--json", *TINY])
    assert result.exit_code == 0, result.output
    return place


def test_a_campaign(folder: Path) -> None:
    command = ["verify", str(folder), "--level", "1", "--workers", "1"]
    result = RUNNER.invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    rows = Ledger.open(folder).verdict_rows()
    assert len(document["claims"]) == len(rows) > 0
    assert {claim["level"] for claim in document["claims"]} <= {0, 1}
    assert all(claim["why"] for claim in document["claims"] if claim["level"] == 0)
    table = (folder / "finds.csv").read_text().splitlines()
    assert table[0].split(",")[3:6] == ["formula", "level", "why"]
    again = RUNNER.invoke(app, command)
    assert again.exit_code == 0, again.output
    assert "level\tformula\tE_hull" in again.output
    assert Ledger.open(folder).verdict_rows() == rows  # not made again: not even the seconds differ


def test_every_new_candidate(folder: Path) -> None:
    command = ["verify", str(folder), "--level", "1", "--workers", "1", "--which", "msun", "--json"]
    result = RUNNER.invoke(app, command)
    if isinstance(result.exception, InputError):  # what a campaign of 16 finds is chance
        assert "has no msun" in result.exception.message
        return
    document = json.loads(result.output)
    assert document["levels"][0]["name"] in ("relaxed", "oracle")


def test_files(tmp_path: Path) -> None:
    path, out = tmp_path / "salt.cif", tmp_path / "verdicts"
    ase.io.write(path, bulk("NaCl", "rocksalt", 5.7))
    command = ["verify", str(path), "--level", "1", "--out", str(out), "--workers", "1", "--json"]
    first = RUNNER.invoke(app, command)
    assert first.exit_code == 0, first.output
    (claim,) = json.loads(first.output)["claims"]
    assert claim["id"] == "salt"
    assert abs(claim["energy_above_hull_ev_per_atom"]) < 0.05
    assert "a rediscovery" in claim["why"]
    assert sorted(p.name for p in out.iterdir()) == ["salt-level-0.json", "salt-level-1.json"]
    before = {p: p.stat().st_mtime_ns for p in out.iterdir()}
    second = RUNNER.invoke(app, command)
    assert json.loads(second.output)["claims"] == [claim]
    assert {p: p.stat().st_mtime_ns for p in out.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.cif"], "nowhere.cif"),
        (["--level", "9", "x.cif"], "no level 9"),
        (["nowhere/ledger.db"], "no ledger"),
    ],
)
def test_wrong_input(arguments: list[str], said: str) -> None:
    result = RUNNER.invoke(app, ["verify", *arguments])
    assert isinstance(result.exception, AnchorError)
    assert said in result.exception.message


def test_wrong_sets(folder: Path) -> None:
    for arguments, said in ((["--which", "suns"], "no set of claims"), ([str(folder)], "one campaign")):
        result = RUNNER.invoke(app, ["verify", str(folder), *arguments, "--workers", "1"])
        assert isinstance(result.exception, InputError)
        assert said in result.exception.message
