"""A run that was stopped and goes on writes the files of one that was not; what joins is what was made."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anchor.errors import InputError
from anchor.executors import Inline
from anchor.filling import make
from anchor.filling.joining import join
from anchor.filling.labels import filling_origin
from anchor.filling.make import Maker, Run

FORMULAS = ["KYSe2", "Y2Se5", "LiCl6", "K5Cl4", "LiYSe4"]
PLAN: dict[str, Any] = {"seed": 0}


@pytest.fixture(scope="module")
def maker() -> Maker:
    return Maker.load("mattersim-1m", "chgnet", Inline())


@pytest.fixture(scope="module")
def whole(maker: Maker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "CHUNK", 2)
        run = Run.begin(tmp_path_factory.mktemp("whole"), PLAN, lambda: FORMULAS)
        assert [number for number, _ in run.work(maker)] == [0, 1, 2]
    return run


def test_a_run_goes_on_where_it_was(
    maker: Maker, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "CHUNK", 2)
    run = Run.begin(tmp_path, PLAN, lambda: FORMULAS)
    next(run.work(maker))
    assert run.done() == [0]
    again = Run.begin(tmp_path, PLAN, lambda: pytest.fail("the formulas are chosen once"))
    assert [number for number, _ in again.work(maker, time_limit_s=np.inf)] == [1, 2]
    for number in range(3):
        assert run.chunk_path(number).read_bytes() == whole.chunk_path(number).read_bytes()
    assert again.seconds() > 0
    assert [number for number, _ in again.work(maker)] == []


def test_another_plan_is_refused(whole: Run) -> None:
    with pytest.raises(InputError, match="seed"):
        Run.begin(whole.folder, {"seed": 1}, lambda: FORMULAS)


def test_a_damaged_plan_is_named(tmp_path: Path) -> None:
    Run.begin(tmp_path, PLAN, lambda: FORMULAS)
    (tmp_path / "plan.json").write_text("{")
    for read in (lambda: Run.begin(tmp_path, PLAN, lambda: FORMULAS), lambda: filling_origin(tmp_path)):
        with pytest.raises(InputError, match=r"plan\.json is damaged"):
            read()


def test_nothing_made_yet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing has been made"):
        Run.begin(tmp_path, PLAN, lambda: FORMULAS).made()


def test_what_joins(maker: Maker, whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "CHUNK", 2)
    names, made = whole.made()
    assert names == FORMULAS
    filling, card = join(names, made, identity={"potential": "mattersim-1m"}, second="chgnet")
    assert "KYSe2" in filling.crystals.formulas
    assert "LiCl6" not in filling.crystals.formulas
    assert card["made"] == 5 == sum(card["verdicts"].values())
    assert [(r["formula"], r["why"]) for r in card["refused"]] == [
        ("LiCl6", "low because the potential's elements are")
    ]
    # the energies are those of the potential at the crystals that are stored
    again = maker.judge.potential.evaluate(filling.crystals).energy / filling.crystals.counts
    assert np.abs(again - filling.energies).max() < 1e-4
    scores = maker.guards.hull.score(
        filling.crystals,
        filling.energies * filling.crystals.counts,
        checkpoint_hash=maker.judge.potential.checkpoint_hash,
    )
    first = filling.crystals.formulas.index("KYSe2")
    row = card["deepest"][0]
    assert row["formula"] == "KYSe2"
    assert row["above_oqmd"] == pytest.approx(scores.above["oqmd"][first], abs=1e-3)
    assert row["above_mp"] == pytest.approx(scores.above["mp"][first], abs=1e-3)
