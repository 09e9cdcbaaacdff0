"""Whole training runs of priors: folders, resuming, cards, commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from anchor.cli.main import app
from anchor.errors import InputError
from anchor.models.files import read_lines
from anchor.models.kldm_dng import KldmDng
from anchor.models.registry import load_model, weights_file
from anchor.models.run import Plan, Rhythm, make_trainer
from anchor.priors import load_prior
from anchor.priors.training import Matches, train

QUICK: dict[str, Any] = {"rhythm": Rhythm(log=0.0), "matches": Matches(2, watch_steps=2, test=2)}


def test_a_run_in_a_folder_can_be_resumed_and_used(tmp_path: Path):
    def plan(steps: int) -> Plan:
        return Plan("omatg", steps=steps, max_atoms=3, recipe=(("batch_size", 8),), settings=(("steps", 4),))

    train(plan(2), tmp_path / "run", **QUICK)
    with pytest.raises(InputError, match="already holds a run"):
        train(plan(2), tmp_path / "run", **QUICK)
    with pytest.raises(InputError, match="another seed"):
        train(Plan(**{**plan(3).__dict__, "seed": 1}), tmp_path / "run", resume=True, **QUICK)
    card = train(
        plan(3),
        tmp_path / "run",
        resume=True,
        command=["anchor", "prior", "train"],
        **QUICK,
    )
    assert card["steps"] == 3
    train(plan(3), tmp_path / "whole", **QUICK)
    resumed, _ = load_model(tmp_path / "run" / "omatg.safetensors")
    whole, _ = load_model(tmp_path / "whole" / "omatg.safetensors")
    for a, b in zip(resumed.state_dict().values(), whole.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines if line["kind"] == "training"] == [1, 2, 3]
    page = (tmp_path / "run" / "omatg.md").read_text()
    assert "anchor prior train" in page
    assert card["data_hash"] in page
    prior = load_prior(str(tmp_path / "run" / "omatg.safetensors"), steps=3)
    assert prior.sample("NaCl", n=2, units=1).formulas == ["NaCl", "NaCl"]


def test_plans_are_checked(tmp_path: Path):
    with pytest.raises(InputError, match="needs an end"):
        train(Plan("omatg"), tmp_path)
    with pytest.raises(InputError, match="no run to resume"):
        train(Plan("omatg", steps=1), tmp_path / "nothing", resume=True)
    with pytest.raises(InputError, match="there is no setting 'stepz'"):
        train(Plan("omatg", steps=1, settings=(("stepz", 1),)), tmp_path / "a")


def test_what_is_trained_further_may_be_sampled_otherwise():
    def plan(**settings: Any) -> Plan:
        return Plan("kldm-dng", steps=1, max_atoms=3, start="kldm-dng", settings=tuple(settings.items()))

    model = make_trainer(plan(uncovering="in turn")).model
    assert model.settings()["uncovering"] == "in turn"
    before, _ = load_model(weights_file("kldm-dng"))
    for a, b in zip(model.state_dict().values(), before.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(InputError, match=r"uncovering = 'sideways': Input should be 'by chance' or"):
        make_trainer(plan(uncovering="sideways"))
    with pytest.raises(InputError, match=r"setting csp = 3: Input should be"):
        make_trainer(plan(csp=3))
    with pytest.raises(InputError, match=r"csp: with this setting the network of kldm-dng is another one"):
        make_trainer(plan(csp=KldmDng().settings()["csp"] | {"view": "published"}))


def test_commands(tmp_path: Path):
    run = CliRunner().invoke
    small = ["--max-atoms", "2", "--batch-size", "4", "--test", "1", "--match", "2", "--json"]
    out = tmp_path / "run"
    result = run(
        app, ["prior", "train", "omatg", "--out", str(out), "--steps", "1", "--set", "steps=3", *small]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["steps"] == 1
    weights = str(out / "omatg.safetensors")
    result = run(app, ["prior", "finetune", weights, "--out", str(tmp_path / "more"), "--steps", "1", *small])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["recipe"]["learning_rate"] == 1e-4
    assert json.loads(result.stdout)["started_from"]["steps"] == 1
    result = run(
        app,
        ["prior", "train", "kldm", "--start-from", weights, "--out", f"{tmp_path}/k", "--steps", "1", *small],
    )
    assert result.exit_code == 0, result.output
    result = run(app, ["prior", "test", "--prior", weights, "-n", "2", "--set", "steps=3", "--json"])
    assert json.loads(result.stdout)["settings"] == {"steps": 3, "fallback": "random"}
    result = run(app, ["prior", "train", "omatgg", "--out", str(tmp_path / "x"), "--steps", "1"])
    assert isinstance(result.exception, InputError)
    assert "did you mean 'omatg'?" in str(result.exception)
    assert not (tmp_path / "x").exists()
