"""`anchor screen`: table, CSV and JSON say the same; wrong input is explained."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.errors import InputError
from anchor.screening import order

RUNNER = CliRunner()
FEW = ["screen", "--elements", "Li,Mg,O,F", "--max-atoms", "8", "-n", "7"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "cache_dir", lambda: tmp_path / "cache")


def test_json_and_csv_and_table(tmp_path: Path) -> None:
    out = tmp_path / "best.csv"
    result = RUNNER.invoke(app, [*FEW, "--json", "--out", str(out)])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    rows = document["formulas"]
    assert [row["rank"] for row in rows] == list(range(1, 8))
    assert document["considered"] >= 7
    assert all(1 >= row["chance_metastable"] >= row["chance_stable"] >= 0 for row in rows)
    with out.open() as file:
        assert [row["formula"] for row in csv.DictReader(file)] == [row["formula"] for row in rows]
    table = RUNNER.invoke(app, FEW)
    assert [line.split("\t")[1] for line in table.stdout.splitlines()[1:8]] == [r["formula"] for r in rows]


def test_known_formulas_only_when_asked_for() -> None:
    new, every = (
        {row["formula"] for row in json.loads(RUNNER.invoke(app, [*FEW, *more, "--json"]).stdout)["formulas"]}
        for more in ([], ["--include-known"])
    )
    assert "Li2O" not in new
    assert "Li2O" in every


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--elements", "Li,Xx"], "is not an element"),
        (["--elements", "Li,O", "--k", "3"], "only 2 allowed elements"),
        (["--out", f"{__file__}/best.csv"], "is a file, not a folder"),
        (["--out", "."], "is a folder"),
        (["--counts", "O"], "not a bound"),
    ],
)
def test_wrong_input_is_explained(options: list[str], expected: str) -> None:
    result = RUNNER.invoke(app, ["screen", *options])
    assert isinstance(result.exception, InputError)
    assert expected in str(result.exception)
