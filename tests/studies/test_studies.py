"""Studies: declarations that fit the paper's numbers, cells that are shared, and every study end to end."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.executors import Workplace
from anchor.studies import tables
from anchor.studies.budget import plan_study
from anchor.studies.cells import Results, run_study
from anchor.studies.declaration import (
    FIXED,
    FREE,
    SCALES,
    Given,
    Searched,
    Table,
    digest,
    evaluation_identity,
    paper_tables,
)
from anchor.studies.declared import STUDIES, find_study

SMOKE, PAPER = SCALES["smoke"], SCALES["paper"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by all studies, as a user's is."""
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", STUDIES)
def test_rows_name_rows_of_the_paper(name: str) -> None:
    study = STUDIES[name]
    named = [row.paper for row in study.rows if row.paper is not None]
    if study.paper is None:
        assert not named
        return
    table = paper_tables()[study.paper]
    assert named, "a table of the paper that no row stands beside"
    assert set(named) <= set(table["rows"])
    assert all(row.cell is not None or row.paper for row in study.rows)


def test_columns_are_the_papers() -> None:
    for study in STUDIES.values():
        if study.paper is None or study.table is not None:
            continue
        theirs = {column for row in paper_tables()[study.paper]["rows"].values() for column in row}
        beside = {"Known": "MP-20"}
        known = [column for column in study.columns if beside.get(column, column) in theirs]
        assert len(known) >= len(study.columns) - 1, (study.name, study.columns, theirs)


def test_some_numbers_of_the_paper() -> None:
    """Read off its tables by eye."""
    tables_ = paper_tables()
    assert tables_["tab:explore-ablation"]["rows"]["none"]["Unique"] == [0.7, 0.5]
    assert tables_["tab:internal"]["rows"]["KLDM-DNG → CSP"]["MSUN"] == [11.4, 0.8]
    assert tables_["tab:mattergen_dng"]["rows"]["MatterGen+REPA"]["MSUN"] == 29.2
    assert tables_["tab:gates"]["rows"]["KLDM backbone"]["LeMat-GenBench: MSUN"] == 32.5
    assert tables_["tab:run-budget"]["rows"]["none"]["Structures"] == 648_000
    assert tables_["tab:app-ft"]["rows"]["Crystalite-CSP: FT: MP-20 + ANCHOR"]["SUN"] == 24.5


def test_cells_are_known_by_their_settings() -> None:
    full = Searched()
    assert digest(full.identity(SMOKE)) == digest(Searched(("reward.invalid=-0.2",)).identity(SMOKE))
    assert digest(full.identity(SMOKE)) != digest(Searched(("reward.invalid=-0.5",)).identity(SMOKE))
    assert digest(full.identity(SMOKE)) != digest(full.identity(PAPER))
    judged = {digest(evaluation_identity(Given("neutral"), how, SMOKE)) for how in (FREE, FIXED)}
    assert len(judged) == 2


def test_the_paper_scale_is_the_paper() -> None:
    config = PAPER.config(())
    assert config.reward.order == "paper"
    assert config.relax.optimizer == "ase-bfgs"
    assert config.run.structures == 100_000
    assert SMOKE.config(()).reward.order == "fast"


def test_an_unknown_study_names_the_nearest() -> None:
    answer = CliRunner().invoke(app, ["study", "table", "exploratoin"])
    assert "exploration" in str(answer.exception)


def test_the_table_of_nothing_shows_the_paper(tmp_path: Path) -> None:
    made = tables.make_table(find_study("invalid-penalty"), Results(tmp_path, SMOKE))
    assert made.head[:4] == ["row", "N", "Valid", "Valid, paper"]
    assert made.rows[0][:4] == ["r_inv = -0.1", "–", "–", "96.6"]
    assert any("123,000 to 126,000" in note for note in made.notes)


def test_forms_of_a_table() -> None:
    table = Table(["row", "MSUN %"], [["a_b", "1|2"]], ["a note"])
    assert tables.as_csv(table) == "row,MSUN %\na_b,1|2\n"
    assert "| a_b | 1\\|2 |" in tables.as_markdown(table)
    assert r"a\_b & 1|2 \\" in tables.as_latex(table)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_end_to_end(name: str, folder: Path) -> None:
    study, results = STUDIES[name], Results(folder, SMOKE)
    said: list[str] = []
    run_study(study, results, where=Workplace(workers=1), say=said.append)
    assert len(said) == len(study.made)
    assert not tables.unfinished(study, results)
    table = tables.make_table(study, results)
    assert table.rows
    assert all(len(row) == len(table.head) for row in table.rows)
    if study.made:
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
        run_study(study, results, where=Workplace(workers=1), say=lambda _: None)
        after = {path: path.stat().st_mtime_ns for path in folder.rglob("summary.json")}
        assert all(before[path] == time for path, time in after.items()), "what is made is not made again"
        plan = plan_study(study, results)
        assert plan["structures_left"] == 0
