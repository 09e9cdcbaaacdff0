"""A whole small distillation: stopped and resumed it gives the same table; pairs are compositions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_ledger import caesium_chloride, candidate, small_ledger
from tiny_ways import model_of

from anchor.distill.arms import make_arms
from anchor.distill.corpus import Rules
from anchor.distill.exam import differences, summarise
from anchor.distill.run import Settings, distill, weights_file
from anchor.distill.table import markdown
from anchor.distill.turns import run_turns
from anchor.errors import InputError
from anchor.models.registry import save_model
from anchor.reading import read_json
from anchor.search.ledger import Ledger
from anchor.weights import read


def test_differences_are_over_compositions() -> None:
    first = {"match": np.array([[1.0, 1, 0], [0, 0, 0], [1, 1, 1]]), "rmse": np.array([[0.1, math.nan, 0.3]])}
    second = {"match": np.array([[0.0, 0, 0], [0, 0, 0], [1, 1, 0]]), "rmse": np.array([[math.nan] * 3])}
    found = differences(first, second)
    assert set(found) == {"match"}, "nothing is compared where one of them has no value"
    assert found["match"]["n"] == 3
    assert found["match"]["value"] == pytest.approx((2 / 3 + 0 + 1 / 3) / 3)
    assert found["match"]["low"] <= found["match"]["value"] <= found["match"]["high"]
    means = summarise(first)
    assert means["match"]["mean"] == pytest.approx(5 / 9)
    assert means["match"]["sum"] == 5
    assert means["rmse"]["count"] == 2


def test_every_arm_has_a_control_of_its_kind() -> None:
    corpora = {name: Path(name) for name in ("relaxed", "unrelaxed")}
    arms = {arm.name: arm for arm in make_arms(["relaxed", "unrelaxed", "scratch"], corpora)}
    assert arms["control"].corpus is arms["scratch-control"].corpus is None
    assert arms["relaxed"].control == arms["unrelaxed"].control == "control"
    assert (arms["scratch"].control, arms["scratch"].corpus) == ("scratch-control", Path("relaxed"))
    assert arms["scratch"].fresh
    assert arms["scratch-control"].fresh
    with pytest.raises(InputError, match="no arm 'relaxd'"):
        make_arms(["relaxd"], corpora)


def test_what_has_no_weights_is_refused() -> None:
    with pytest.raises(InputError, match="'templates' is not trained by likelihood"):
        weights_file("templates")


ROWS = [candidate(i, caesium_chloride(61, 20 + i)) for i in range(8)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two steps of four crystals of at most two atoms, from tiny random weights."""
    weights = tmp_path / "kldm.safetensors"
    past = {
        "plan": {"size": "small", "sources": ["nothing"]}, "recipe": {"batch_size": 1, "learning_rate": 0},
        "steps": 0, "epochs": 0, "hours": 0,
    }  # fmt: skip
    model = model_of("kldm")
    model.chosen = replace(model.chosen, steps=4)
    save_model(weights, model, {"elements": list(range(1, 95)), "card": past})
    return Settings(
        str(weights), arms=("relaxed",), rules=Rules(held_out=2), steps=2, batch_size=4, seeds=2, test=2,
        max_atoms=2,
    )  # fmt: skip


class _Stopped(Exception):
    pass


def test_stopped_and_resumed_it_is_the_same(settings: Settings, tmp_path: Path) -> None:
    small_ledger(tmp_path / "campaign", ROWS).close()

    def stop(text: str) -> None:
        if text.startswith("examining control"):
            raise _Stopped

    with pytest.raises(_Stopped):
        distill([tmp_path / "campaign"], settings, tmp_path / "parts", report=stop)
    parts = distill([tmp_path / "campaign"], settings, tmp_path / "parts")
    whole = distill([tmp_path / "campaign"], settings, tmp_path / "whole")
    for table in (parts, whole):
        for row in table["rows"]:
            row.pop("hours", None)
    assert parts == whole
    assert [row["name"] for row in whole["rows"]] == ["start", "control", "relaxed"]
    control, relaxed = whole["rows"][1:]
    assert relaxed["crystals"] == control["crystals"] + 6, "the corpus is the only difference"
    assert relaxed["steps"] == control["steps"] == 2
    one, other = (
        read(tmp_path / folder / "arms" / "relaxed" / "kldm.safetensors")[1] for folder in ("parts", "whole")
    )
    assert all(bool((one[name] == other[name]).all()) for name in one)
    assert "relaxed − control" in markdown(whole)
    with pytest.raises(InputError, match="another settings"):
        distill([tmp_path / "campaign"], replace(settings, steps=3), tmp_path / "whole")


def test_search_distil_search(settings: Settings, tmp_path: Path) -> None:
    """Two turns with a real search between them; the second one is done with the first one's weights."""
    small = [
        "grpo.group_size=3", "relax.max_steps=1", "run.workers=1", "action_space.max_atoms=4",
        "action_space.k=[2]", "action_space.elements=[Na, Mg, O, F]",
    ]  # fmt: skip
    small_ledger(tmp_path / "campaign", ROWS, small).close()
    told: list[str] = []
    out = tmp_path / "loop"
    found = run_turns(tmp_path / "campaign", settings, out, 2, structures=3, report=told.append)
    first, second = found["turns"]
    search = Ledger.open(out / "turn-1" / "search")
    assert search.n_candidates == 3
    assert search.config["prior"]["name"] == first["weights"]
    assert search.config["run"]["seed"] == 1
    assert first["accepted"] == (first["to_start"]["match test"]["high"] >= 0)
    kept = [
        read_json(out / f"turn-{turn}" / "distill" / "corpus" / "corpus.json")["held_out"] for turn in (1, 2)
    ]
    assert kept[0] == kept[1]
    before = len(told)
    again = run_turns(tmp_path / "campaign", settings, out, 2, structures=3, report=told.append)
    assert again == found
    assert not [text for text in told[before:] if text.startswith(("training", "search"))], "nothing twice"
    assert second["turn"] == 2
