"""`anchor search`, `resume`, `sample`, `report` and `export` on one tiny real campaign."""

import json
from pathlib import Path

import ase.io
import pytest
from pymatgen.core import Composition
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.errors import AnchorError, InputError

RUNNER = CliRunner()
TINY = [
    "--preset", "default", "-n", "8", "--elements", "Na,Mg,Cl,F", "--k", "2", "--max-atoms", "5",
    "--seed", "1",
    "--set", "grpo.group_size=8", "--set", "relax.max_steps=3", "--set", "run.workers=1", "--finds", "2",
    "--verify", "0",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("campaign")
    result = RUNNER.invoke(app, ["search", "--out", str(place), "--json", *TINY])
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["counts"]["proposed"] == 8
    return place


def test_search_leaves_its_files(folder: Path) -> None:
    for name in ("ledger.db", "metrics.jsonl", "finds.csv", "report.html"):
        assert (folder / name).stat().st_size > 0
    page = (folder / "report.html").read_text()
    assert "of 8 proposed" in page
    assert "src=" not in page.split("<body>")[1]  # nothing is loaded from elsewhere


def test_resume_goes_on(folder: Path) -> None:
    result = RUNNER.invoke(app, ["resume", str(folder), "-n", "16", "--finds", "0", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["counts"]["proposed"] == 16
    result = RUNNER.invoke(app, ["resume", str(folder), "--beyond", "catalog"])
    assert "'catalog' is no catalogue" in str(result.exception)


def test_sample_draws_from_the_campaigns_policy(folder: Path) -> None:
    result = RUNNER.invoke(app, ["sample", str(folder), "-n", "5", "--must-contain", "Na", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.output)
    assert len(rows) == 5
    for row in rows:
        counts = Composition(row["cell"]).get_el_amt_dict()
        assert "Na" in counts
        assert set(counts) <= {"Na", "Mg", "Cl", "F"}  # what the campaign may propose
        assert sum(counts.values()) <= 5
    beyond = ["--elements", "Li,Na,Cl", "--must-contain", "Li"]
    result = RUNNER.invoke(app, ["sample", str(folder), "-n", "5", *beyond, "--json"])
    assert all("Li" in row["cell"] for row in json.loads(result.output))


def test_export_opens_in_ase(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "valid.extxyz"
    command = ["export", str(folder), "--as", "extxyz", "--which", "valid", "--out", str(out), "--json"]
    result = RUNNER.invoke(app, command)
    assert result.exit_code == 0, result.output
    frames = ase.io.read(out, ":")
    assert len(frames) == json.loads(result.output)["crystals"] > 0
    assert "e_above_hull" in frames[0].info


def test_print_config_names_sources() -> None:
    result = RUNNER.invoke(app, ["search", "--print-config", "--set", "grpo.group_size=16"])
    assert result.exit_code == 0
    assert "group_size: 16  # --set" in result.output
    assert "structures: 960  # preset quick" in result.output


def test_options_reach_the_configuration_as_they_are_and_name_themselves() -> None:
    options = ["--elements", "Y, N,No", "--counts", "Y=1-2,No=3", "--k", "2,3", "-n", "64", "--seed", "5"]
    result = RUNNER.invoke(app, ["search", "--print-config", "--set", "run.seed=4", *options])
    assert result.exit_code == 0, result.output
    assert "elements: [Y, N, 'No']  # --elements" in result.output
    assert "max_counts: {'No': 3, Y: 2}  # --counts" in result.output
    assert "min_counts: {Y: 1}  # --counts" in result.output
    assert "k: [2, 3]  # --k" in result.output
    assert "structures: 64  # -n" in result.output
    assert "seed: 5  # --seed" in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["search", "--set", "grpo.group_sise=1"], "did you mean"),
        (["search", "--elements", ","], "names no element"),
        (["resume", "nowhere"], "no ledger"),
        (["report", "nowhere"], "no ledger"),
        (["sample", "nowhere.safetensors"], "no policy file"),
        (["sample", __file__], "test_search.py: not a policy file"),
        (["policy", "chances", "--labels", "l.csv"], "--labels is for a fit"),
        (["policy", "plausibility", "--surrogate", "s.safetensors"], "--surrogate is for a fit"),
        (["prior", "test", __file__], "test_search.py"),
        (["export", "nowhere", "--as", "extxy"], "did you mean"),
    ],
)
def test_wrong_input_is_explained(arguments: list[str], expected: str) -> None:
    result = RUNNER.invoke(app, arguments)
    assert isinstance(result.exception, InputError)
    assert expected in str(result.exception)


def test_nothing_to_export_is_said(folder: Path) -> None:
    result = RUNNER.invoke(app, ["export", str(folder), "--which", "valid", "--where", "e_hull < -9"])
    assert isinstance(result.exception, AnchorError)
    assert "no valid to export" in str(result.exception)


def test_two_campaigns_in_one_picture(folder: Path, tmp_path: Path) -> None:
    """The same budget from an untrained source, laid over the first campaign."""
    other, picture, summary = tmp_path / "neutral", tmp_path / "curves.png", tmp_path / "curves.json"
    command = ["search", "--source", "neutral", "--out", str(other), "--json", *TINY, "--finds", "0"]
    assert RUNNER.invoke(app, command).exit_code == 0
    command = ["report", str(folder), "--compare", str(other)]
    result = RUNNER.invoke(app, [*command, "--picture", str(picture), "--summary", str(summary), "--json"])
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.output)) == {"report", "picture", "summary"}
    assert picture.read_bytes().startswith(b"\x89PNG")
    first, second = json.loads(summary.read_text())["runs"]
    assert (first["source"], second["source"]) == ("policy", "neutral")
    assert second["relaxations"] == second["proposed"] == 8  # neutral ones are all realised
    assert sum(second["share_of_time"].values()) == pytest.approx(1.0, abs=1e-3)
    assert "beta" in first["curves"]
    assert "beta" not in second["curves"]


def test_a_taken_place_is_refused_before_anything_is_loaded(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CliRunner().invoke(app, ["search", "-n", "4", "--out", str(folder)])
    assert isinstance(result.exception, InputError)
    assert "holds a campaign already" in str(result.exception)
    assert "loading" not in result.output + capsys.readouterr().err


def test_stoichiometry_bounds_are_limits() -> None:
    command = ["sample", "default", "-n", "30", "--must-contain", "O,Li", "--json"]
    result = RUNNER.invoke(app, [*command, "--k", "3", "--max-atoms", "12", "--counts", "O=3-6,Li=2,Fe=2-"])
    assert result.exit_code == 0, result.output
    for row in json.loads(result.output):
        counts = Composition(row["cell"]).get_el_amt_dict()
        assert len(counts) == 3
        assert sum(counts.values()) <= 12
        assert 3 <= counts["O"] <= 6
        assert counts["Li"] <= 2
        assert counts.get("Fe", 2) >= 2


@pytest.mark.parametrize("text", ["O", "O=", "O=x", "O=-", "=3", "O=1-2-3"])
def test_wrong_bounds_are_refused(text: str) -> None:
    result = RUNNER.invoke(app, ["sample", "default", "--counts", text])
    assert isinstance(result.exception, InputError)
    assert "is not a bound" in str(result.exception)


def test_a_missing_logger_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anchor.search.loggers.find_spec", lambda _name: None)
    command = ["search", "--out", str(tmp_path / "run"), *TINY, "--set", "run.loggers=[wandb]"]
    result = RUNNER.invoke(app, command)
    assert isinstance(result.exception, AnchorError)
    assert "wandb, which is not installed" in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_what_people_keep_in_the_folder_stays(folder: Path) -> None:
    mine = [folder / "finds" / "mine.cif", folder / "notes.txt"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)  # a small campaign may have found nothing
        path.write_text("mine")
    (folder / "finds.csv").write_text("edited")
    result = RUNNER.invoke(app, ["resume", str(folder), "--finds", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert all(path.read_text() == "mine" for path in mine)
    assert (folder / "finds.csv").read_text() == "edited"
    assert json.loads(result.stdout)["files"]["finds"].endswith("finds-2.csv")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("report {} --out", "r.html"),
        ("report {} --summary", "s.json"),
        ("policy save {} --out", "p.safetensors"),
    ],
)
def test_nothing_is_written_over_unless_told(folder: Path, tmp_path: Path, command: str, name: str) -> None:
    path = tmp_path / name
    path.write_text("mine")
    words = [*command.format(folder).split(), str(path)]
    result = RUNNER.invoke(app, words)
    assert isinstance(result.exception, InputError)
    assert "--overwrite" in str(result.exception)
    assert path.read_text() == "mine"
    result = RUNNER.invoke(app, [*words, "--overwrite"])
    assert result.exit_code == 0, result.output
    assert path.stat().st_size > 100


def test_a_policy_is_not_saved_under_its_cards_name(folder: Path, tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["policy", "save", str(folder), "--out", str(tmp_path / "p.json")])
    assert isinstance(result.exception, InputError)
    (tmp_path / "q.json").write_text("mine")  # where the card would go
    result = RUNNER.invoke(app, ["policy", "save", str(folder), "--out", str(tmp_path / "q.safetensors")])
    assert isinstance(result.exception, InputError)
    assert [path.name for path in tmp_path.iterdir()] == ["q.json"]
