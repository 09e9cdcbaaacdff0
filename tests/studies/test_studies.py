"""Studies: declarations that fit the paper's numbers, cells that are shared, and every study end to end."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.executors import Workplace
from anchor.studies import tables
from anchor.studies.budget import plan_studies, plan_study
from anchor.studies.cells import Results, Unit, draw_figures, run_study, waves
from anchor.studies.declaration import (
    FIXED,
    FREE,
    OTHERS,
    Judging,
    Row,
    Study,
    Table,
    evaluation_identity,
    paper_tables,
)
from anchor.studies.declared import STUDIES, find_study
from anchor.studies.kinds import Distilled, Generated, Given, Searched, depth, digest, needs
from anchor.studies.scales import SCALES
from anchor.studies.search_figure import ABOVE, finished_ledgers, progress
from anchor.studies.watch import Watch, structures_so_far

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
    tuned = [Generated("kldm-dng"), Generated("kldm-dng", "mean"), Generated("kldm-dng", "bal")]
    assert len({digest(cell.identity(SMOKE)) for cell in tuned}) == 3
    arms = [Distilled("kldm", arm, ("relaxed",)) for arm in ("start", "control", "relaxed")]
    assert len({digest(cell.identity(SMOKE)) for cell in arms}) == 1, "arms share their distillation"
    own = Judging(None)
    assert len({digest(evaluation_identity(cell, own, SMOKE)) for cell in arms}) == 3
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
    assert made.head[:4] == ["row", "N", "Valid", "Bond"]
    assert made.rows[:2] == [
        ["r_inv = -0.1", *["–"] * 7],
        ["r_inv = -0.1, the paper", "–", "96.6", "96.7", "99.9", "100", "8.7", "22"],
    ]
    assert made.values[0]["ours"] is None
    assert made.values[0]["paper"]["SUN"] == 8.7
    assert "8 structures per policy, N = 2" in made.budgets[0]
    assert "123,000 to 126,000" in made.budgets[1]
    assert "123,000 to 126,000" in tables.as_markdown(made).split("| row")[0], "above the table"
    assert all("123,000 to 126,000" in line for line in tables.as_csv(made).splitlines()[1:])
    assert "123,000 to 126,000" in tables.as_latex(made)


def test_forms_of_a_table() -> None:
    table = Table(["row", "MSUN %"], [["a_b", "1|2"]], ["a note"])
    assert tables.as_csv(table) == "row,MSUN %\na_b,1|2\n"
    assert "| a_b | 1\\|2 |" in tables.as_markdown(table)
    assert r"a\_b & 1|2 \\" in tables.as_latex(table)


def test_what_a_cell_needs_is_made_before_it() -> None:
    trained, full = Generated("crystalite-dng"), Searched()
    tuned, arm = Generated("crystalite-dng", "bal"), Distilled("kldm", "relaxed", ("relaxed",))
    assert needs(tuned) == (() if trained.ships else (trained,))
    assert needs(arm) == (full,)
    assert depth(arm) == 1
    rows = (Row("a", tuned, Judging(None)), Row("b", arm, Judging(None)), Row("c", Given("neutral"), FIXED))
    order = list(waves(Study("any", "any", None, rows)))
    made = [unit for wave in order for unit in wave]
    assert made.index(Unit(full)) < made.index(Unit(arm)) < made.index(Unit(arm, Judging(None)))
    assert made.index(Unit(Given("neutral"), FREE)) < made.index(Unit(Given("neutral"), FIXED))
    for wave in order:
        assert not any(other in wave for unit in wave for other in map(Unit, needs(unit.cell)))
    both = (Row("a", arm, Judging(None)), Row("b", Distilled("kldm", "control", ("relaxed",)), Judging(None)))
    made = [unit for wave in waves(Study("any", "any", None, both)) for unit in wave]
    assert sum(isinstance(unit.cell, Distilled) and unit.judging is None for unit in made) == 1


def test_every_row_of_the_paper_is_made_but_those_of_others() -> None:
    for study in STUDIES.values():
        assert all(row.needs == OTHERS for row in study.rows if row.cell is None)
        whole = ("tab:internal", "tab:mattergen_dng", "tab:app-ft", "tab:relax-budget")
        if study.paper in whole and study.name != "transfer":
            named = {row.paper for row in study.rows}
            assert set(paper_tables()[study.paper]["rows"]) <= named


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_end_to_end(name: str, folder: Path) -> None:
    study, results = STUDIES[name], Results(folder, SMOKE)
    run_study(study, results, where=Workplace(workers=1), say=lambda _: None)
    assert not tables.unfinished(study, results)
    table = tables.make_table(study, results)
    assert table.rows
    assert all(len(row) == len(table.head) for row in table.rows)
    for values in table.values:
        ours = values["ours"]
        assert ours is None or all(cell["k"] is None or 0 <= cell["k"] <= cell["n"] for cell in ours.values())
    drawn = draw_figures(study, results)
    assert all(path.stat().st_size > (1000 if path.suffix == ".png" else 100) for path in drawn)
    assert bool(drawn) == (study.draw is not None)
    said: list[str] = []
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("summary.json")}
    run_study(study, results, where=Workplace(workers=1), say=said.append)
    assert not said, "what is made is not made again"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("summary.json")} == before
    plan = plan_study(study, results)
    assert plan["structures_left"] == plan["structures_to_evaluate"] == plan["training_steps_left"] == 0


def test_curves_of_a_search_add_up(folder: Path) -> None:
    """Window by window what the ledger has in all."""
    study, results = find_study("invalid-penalty"), Results(folder, SMOKE)
    run_study(study, results, where=Workplace(workers=1), say=lambda _: None)
    ledgers = finished_ledgers(study, results)
    assert list(ledgers) == [row.label for row in study.rows]
    for ledger in ledgers.values():
        rows = list(ledger.rows(("formula", "valid", "known_in", ABOVE)))
        structures, valid, first, known, median = progress(ledger).T
        sizes = np.diff(structures, prepend=0)
        assert structures[-1] == len(rows)
        assert valid @ sizes / 100 == pytest.approx(sum(bool(row["valid"]) for row in rows))
        assert first @ sizes / 100 == pytest.approx(len({row["formula"] for row in rows}))
        count = np.nan_to_num(known) @ (valid * sizes) / 1e4
        assert count == pytest.approx(sum(bool(row["valid"]) and row["known_in"] != "" for row in rows))
        above = [row[ABOVE] for row in rows if row["valid"] and row[ABOVE] is not None]
        assert np.nanmin(median) >= min(above)
        assert np.nanmax(median) <= max(above)


def test_a_hundred_steps_are_read_off_the_longer_relaxations(folder: Path) -> None:
    """Everything of the smoke scale ends within a hundred steps, so that both budgets cost the same."""
    study, results = find_study("relaxation-budget"), Results(folder, SMOKE)
    run_study(study, results, where=Workplace(workers=1), say=lambda _: None)
    table = tables.relaxation_budget(study, results)
    ours = [line for line in table.rows if not line[0].endswith("the paper")]
    assert [line[0] for line in ours] == [row.label for row in study.rows]
    for line, row in zip(ours, study.rows, strict=True):
        done = results.evaluation(row)
        assert done is not None
        steps = [r["relaxation_steps"] for r in done.rows() if r["relaxation"] is not None]
        assert line[1] == str(len(steps))
        assert line[2:4] == line[4:6]
        assert line[3] == f"{np.mean(steps) if steps else 0:.1f} steps"
    assert any("times the steps" in note for note in table.notes)


def test_who_waits_hears_how_far_the_searches_are(tmp_path: Path) -> None:
    study, results = find_study("invalid-penalty"), Results(tmp_path, SMOKE)
    of = len(study.rows) * SMOKE.structures
    assert structures_so_far(study, results) == (0, of)
    heard: list[tuple[int, int, float]] = []
    with Watch(study, results, lambda *told: heard.append(told), every=0.01):
        run_study(study, results, where=Workplace(workers=1), say=lambda _: None)
    done = [told[0] for told in heard]
    assert done
    assert done == sorted(set(done))
    assert all(0 < n <= total == of and left >= 0 for n, total, left in heard)
    assert structures_so_far(study, results) == (of, of)


def test_a_killed_study_goes_on_side_by_side(folder: Path, tmp_path: Path) -> None:
    """Killed in its first search, then finished by two processes: the same table as one that was not."""
    study, whole = find_study("invalid-penalty"), Results(folder, SMOKE)
    run_study(study, whole, where=Workplace(workers=1), say=lambda _: None)
    command = [sys.executable, "-m", "anchor.cli.main", "study", "run", study.name, "--out", str(tmp_path)]
    begun = subprocess.Popen([*command, "--workers", "1"], env={**os.environ, "OMP_NUM_THREADS": "1"})
    while begun.poll() is None and not list(tmp_path.glob("searches/*/ledger.db")):
        time.sleep(0.02)
    begun.kill()
    begun.wait()
    parts = Results(tmp_path, SMOKE)
    left = tables.unfinished(study, parts)
    assert left, "it was killed too late to show anything"
    said: list[str] = []
    run_study(study, parts, at_a_time=2, say=said.append)
    assert said
    assert not tables.unfinished(study, parts)
    for place in [*tmp_path.glob("searches/*/"), *tmp_path.glob("evaluations/*/")]:
        assert place.with_suffix(".txt").read_text().startswith("smoke: search")
    assert tables.make_table(study, parts) == tables.make_table(study, whole)


def test_the_plan_of_the_paper(tmp_path: Path) -> None:
    plan = plan_study(find_study("where"), Results(tmp_path, PAPER))
    assert plan["campaigns"] == 7, "the full method, two reward-trained priors, two rewards of two generators"
    assert plan["structures_left"] == 3 * 100_000 + 4 * 16 * 4_100
    assert plan["relaxations_at_most"] == plan["structures_left"] + plan["structures_to_evaluate"]
    assert plan["training_steps_left"] >= 150_000 * (4 + 2)
    assert plan["gpu_hours_in_the_paper"] == 3 * 168


def test_the_plan_of_all_studies_is_that_of_each(tmp_path: Path) -> None:
    found = plan_studies(STUDIES.values(), Results(tmp_path, PAPER))
    assert list(found) == list(STUDIES)
    assert found["where"] == plan_study(find_study("where"), Results(tmp_path, PAPER))
    line = ["study", "plan", "--scale", "smoke", "--out", str(tmp_path), "--json"]
    shown = CliRunner().invoke(app, line)
    assert list(json.loads(shown.stdout)) == list(STUDIES), shown.output
    assert "of one study" in str(CliRunner().invoke(app, [*line, "--only", "full"]).exception)
