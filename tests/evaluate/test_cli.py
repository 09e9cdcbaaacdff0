"""`anchor evaluate` and `anchor compare` with a real potential, few steps and small crystals."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.crystals.crystals import Crystals
from anchor.errors import InputError
from anchor.evaluate.sources import find_source
from anchor.formats import write
from anchor.search.ledger import Ledger

RUNNER = CliRunner()
FAST = ["--potential", "mattersim-1m", "--max-steps", "2"]
FORMULAS = "formulas:NaCl,MgO,nonsense,LiF"


def run(*arguments: str | Path) -> str:
    result = RUNNER.invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def refused(*arguments: str | Path) -> InputError:
    result = RUNNER.invoke(app, [str(a) for a in arguments])
    assert isinstance(result.exception, InputError), result.output
    return result.exception


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of four formulas by the template prior."""
    out = tmp_path_factory.mktemp("eval") / "a"
    command = ("evaluate", FORMULAS, "--prior", "templates", "--seeds", "2", "--out", out, *FAST)
    text = run(*command)
    assert "8 structures read = 8 rows, 6 with a crystal; 2 failed, 6 measured" in text
    return out


def test_summary_shows_counts_intervals_and_footer(folder: Path) -> None:
    text = run("evaluate", FORMULAS, "--prior", "templates", "--seeds", "2", "--out", folder, *FAST)
    assert re.search(r"Valid %\t75\.0 ± 0\.0 \(6/8\)\t40\.9 – 92\.9", text)
    assert "potential: mattersim-1m (" in text
    assert "hull: union" in text
    for name in ("table.csv", "table.jsonl", "relaxed.extxyz", "generated.extxyz", "summary.json"):
        assert (folder / name).stat().st_size > 0
    rows = [json.loads(line) for line in (folder / "table.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows[:4]] == ["measured", "measured", "failed", "measured"]
    assert "nonsense" in rows[2]["reason"]


def test_json_is_one_document(folder: Path) -> None:
    text = run("evaluate", FORMULAS, "--prior", "templates", "--seeds", "2", "--out", folder, "--json", *FAST)
    assert json.loads(text)["read"]["rows"] == 8


def test_changed_settings_are_refused(folder: Path) -> None:
    error = refused("evaluate", FORMULAS, "--prior", "templates", "--seeds", "2", "--out", folder,
                    "--potential", "mattersim-1m", "--max-steps", "3")  # fmt: skip
    assert "another" in error.message
    assert "--out" in str(error.hint)


def test_another_gate_rescores_and_another_prior_pairs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lemat = folder.parent / "lemat"
    with monkeypatch.context() as patch:  # nothing is relaxed again
        patch.delattr("anchor.outcomes.judge.Judge.relaxed")
        text = run("evaluate", folder, "--gate", "lemat", "--out", lemat, *FAST)
    assert "LeMat-GenBench" in text
    measured = "checkpoint/seed-1.measured.jsonl"
    assert (lemat / measured).read_bytes() == (folder / measured).read_bytes()
    other = folder.parent / "random"
    run("evaluate", FORMULAS, "--prior", "random", "--seeds", "2", "--out", other, *FAST)
    table = run("compare", folder, other, lemat)
    assert table.count("gate: ") == 2  # two footers, two tables
    assert "* best" in table
    assert run("compare", folder, other, "--as", "md").count("|\n") == 4
    assert r"\toprule" in run("compare", folder, other, "--as", "latex")
    assert run("compare", folder, other, "--as", "csv").startswith("row,group,metric")
    assert json.loads(run("compare", folder, other, "--json"))[0]["rows"][0]["n"] == 8
    paired = json.loads(run("compare", folder, other, "--paired", "--json"))
    assert paired["pairs"][0]["differences"]["unique"]["value"] == 0
    assert paired["pairs"][0]["differences"]["valid"]["n"] == 8
    assert "Valid" in run("compare", folder, other, "--paired")
    assert "judged differently" in refused("compare", folder, lemat, "--paired").message


def test_another_hull_places_the_same_structures_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dft = folder.parent / "dft"
    with monkeypatch.context() as patch:  # nothing is relaxed again
        patch.delattr("anchor.outcomes.judge.Judge.relaxed")
        run("evaluate", folder, "--hull", "dft", "--out", dft, *FAST)
    before, after = (
        [json.loads(line) for line in (out / "table.jsonl").read_text().splitlines()] for out in (folder, dft)
    )
    for old, new in zip(before, after, strict=True):
        assert new["energy_ev"] == old["energy_ev"]
        assert new["status"] == old["status"]
        above = new["energy_above_hull_ev_per_atom"]
        assert above == old["energy_above_dft_hull_ev_per_atom"]
    assert sum(row["status"] == "measured" for row in after) == 6


def test_files_of_anyone_and_unreadable_ones(tmp_path: Path, small: Crystals) -> None:
    write(tmp_path / "generated_crystals.extxyz", small[:3])
    (tmp_path / "broken.cif").write_text("not a crystal")
    text = run("evaluate", tmp_path / "generated_crystals.extxyz", tmp_path / "broken.cif",
               "--out", tmp_path / "out", *FAST)  # fmt: skip
    assert "4 structures read = 4 rows, 3 with a crystal" in text


def test_self_test_says_which_fail_and_why(tmp_path: Path) -> None:
    document = json.loads(run("evaluate", "self-test", "-n", "5", "--out", tmp_path / "s", "--json", *FAST))
    assert document["read"]["rows"] == 5
    valid = document["metrics"]["valid"]["pooled"]["k"]
    assert len(document["failures"]) == 5 - valid
    assert all(failure["why"] for failure in document["failures"])
    assert "known crystals do not pass" in run(
        "evaluate", "self-test", "-n", "5", "--out", tmp_path / "s", *FAST
    )


def test_a_campaign_by_its_policy_and_by_its_structures(tmp_path: Path) -> None:
    campaign = tmp_path / "campaign"
    run("search", "--out", campaign, "--preset", "default", "-n", "8", "--elements", "Na,Mg,Cl,F", "--k", "2",
        "--max-atoms", "5", "--set", "grpo.group_size=8", "--set", "relax.max_steps=2",
        "--set", "run.workers=1", "--set", "prior.query=free", "--finds", "1", "--json")  # fmt: skip
    policy = tmp_path / "policy"
    run("evaluate", campaign, "-n", "4", "--seeds", "1", "--out", policy, *FAST)
    settings = json.loads((policy / "evaluation.json").read_text())
    assert set(settings["source"]["space"]["elements"]) == {"Na", "Mg", "Cl", "F"}
    assert settings["prior"]["name"] == "templates-all"  # the campaign's
    cells = [row["cell"] for row in Ledger.open(campaign).rows(("cell",))]
    proposed = find_source([f"{campaign}:proposed"])
    assert [row["cell"] for row in proposed.draw(0, 3).rows()] == cells[:3]
    assert [row["cell"] for row in proposed.draw(1, 3).rows()] == cells[3:6]
    with pytest.raises(InputError, match=r"has proposed 8 compositions, 3 × 3 are asked for"):
        proposed.draw(2, 3)
    run("evaluate", f"{campaign}:proposed", "-n", "3", "--seeds", "1", "--out", tmp_path / "proposed", *FAST)
    asked = json.loads((tmp_path / "proposed" / "evaluation.json").read_text())["prior"]
    assert asked["query"] == "free"  # as the campaign asked
    text = run("evaluate", f"{campaign}:generated", "--out", tmp_path / "generated", *FAST)
    assert "8 structures read = 8 rows" in text
    assert "nothing" in refused("evaluate", f"{campaign}:nothing", *FAST).message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "netural"), "no source 'netural'"),
        (("evaluate", "random", "--prior", "templtes", "--potential", "mattersim-1m"), "unknown prior"),
        (("evaluate", "self-test", "--pre-relax", "chgnet"), "no option pre_relax"),
        (("evaluate", "self-test", "--official"), "no official package"),
        (("compare", "missing"), "no summary"),
    ],
)
def test_bad_input_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments, message
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    error = refused(*arguments)
    assert message in error.message
    assert error.hint
