"""`anchor prior` from outside."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anchor.cli.prior import app
from anchor.errors import InputError
from anchor.formats import load, write
from anchor.priors.match_rate import held_out

runner = CliRunner()


def run(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_sample_writes_cifs(tmp_path):
    out = tmp_path / "crystals"
    text = run("sample", "Li2FeSiO4", "-n", "3", "--out", str(out))
    shown = [line.split("\t") for line in text.splitlines() if line.startswith("Li2FeSiO4-")]
    assert sum(int(cells[-1]) for cells in shown) == 3, "the same crystal is shown once, with its count"
    loaded = load(out)
    assert loaded.crystals.formulas == ["Li2FeSiO4"] * 3


def test_sample_json_and_z():
    document = json.loads(run("sample", "NaCl", "-n", "2", "--z", "2", "--prior", "templates", "--json"))
    assert [c["atoms"] for c in document["crystals"]] == [4, 4]
    assert sorted(document["crystals"][0]["numbers"]) == [11, 11, 17, 17]
    again = json.loads(run("sample", "NaCl", "-n", "2", "--z", "2", "--prior", "templates", "--json"))
    assert document == again


def test_sample_relaxed_with_energy_above_hull(tmp_path):
    out = tmp_path / "crystals.extxyz"
    arguments = ["--relax", "--max-steps", "5", "--out", str(out), "--json"]
    document = json.loads(run("sample", "NaCl", "-n", "2", "--z", "1", *arguments))
    energies = [c["energy_above_hull_ev_per_atom"] for c in document["crystals"]]
    assert energies == sorted(energies)
    assert energies[0] == pytest.approx(0.0, abs=0.02), "rock salt is on the hull"
    assert load(out).crystals.formulas == ["NaCl", "NaCl"]
    with pytest.raises(InputError, match="exists"):
        runner.invoke(app, ["sample", "NaCl", "--out", str(out)], catch_exceptions=False)


def test_settings_of_the_prior_reach_it():
    cold = json.loads(run("sample", "NaCl", "-n", "1", "--z", "2", "--set", "rattle=0.5", "--json"))
    plain = json.loads(run("sample", "NaCl", "-n", "1", "--z", "2", "--json"))
    assert cold["crystals"][0]["frac"] != plain["crystals"][0]["frac"]
    with pytest.raises(InputError, match="does not take these settings"):
        runner.invoke(app, ["test", "-n", "1", "--set", "steps=3"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "Og2O"], "does not know Og"),
        (["sample", "LiFePO4", "--z", "4"], "28 atoms.*at most 20"),
        (["sample", "nacl"], "is no formula"),
        (["sample", "NaCl", "--prior", "kldn"], "unknown prior 'kldn'"),
        (["test", "--split", "tests"], "no split 'tests'"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError, match=message):
        runner.invoke(app, arguments, catch_exceptions=False)


def test_test_on_the_split():
    summary = json.loads(run("test", "-n", "6", "-k", "2", "--json"))
    assert summary["n"] == 6
    assert summary["k"] == 2
    assert 0 <= summary["match_rate_first_sample"] <= summary["match_rate"] <= 1
    table = run("test", "-n", "3")
    assert "unseen stoichiometry" in table
    assert "match@1" in table


def test_test_on_an_mp20_style_csv(tmp_path):
    path = write(tmp_path / "test.csv", held_out("val", 5))
    summary = json.loads(run("test", str(path), "--json"))
    assert summary["n"] == 5
    assert summary["left_out"] == {"unreadable": 0, "beyond_the_prior": 0}


def test_list():
    names = {row["name"]: row["ready"] for row in json.loads(run("list", "--json"))}
    assert names["templates"]
    assert names["random"]
