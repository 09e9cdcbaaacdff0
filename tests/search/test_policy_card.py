"""A campaign's policy saved as a file: the same weights, counts that add up, and its parent."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from anchor.cli.policy import app
from anchor.config import load_config
from anchor.errors import InputError
from anchor.policy.weights import load_policy
from anchor.screening.order import PLACES
from anchor.search.campaign import Campaign
from anchor.search.ledger import Ledger
from anchor.search.policies import DEFAULT_POLICY, load_trained
from anchor.search.policy_card import save_policy

SETTINGS = [
    "run.structures=16", "run.workers=1", "grpo.group_size=8", "relax.max_steps=2",
    "action_space.max_atoms=5", "action_space.elements=[Na, Mg, O, Cl]", "policy.start_from=default",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    Campaign.start(load_config(overrides=SETTINGS).config, path).run()
    return path


def test_saved_policy_is_the_campaigns_and_its_card_adds_up(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.safetensors"
    result = CliRunner().invoke(app, ["save", str(folder), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    card = json.loads(out.with_suffix(".json").read_text())
    assert card == json.loads(result.stdout)
    saved, own = load_policy(out.read_bytes()).state_dict(), load_trained(str(folder)).network.state_dict()
    assert saved.keys() == own.keys()
    assert all(torch.equal(saved[name], own[name]) for name in own)
    assert card["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert card["started_from"]["sha256"] == hashlib.sha256(DEFAULT_POLICY.read_bytes()).hexdigest()
    assert card["started_from"]["card"] is not None
    assert card["elements"] == ["O", "Na", "Mg", "Cl"]
    rows = list(Ledger.open(folder).rows(["valid"]))
    assert card["proposed"] == len(rows) == sum(point["n"] for point in card["curve"]) == 16
    valid = sum(bool(row["valid"]) for row in rows)
    assert card["counts"]["valid"] == sum(point["valid"] for point in card["curve"]) == valid


def test_a_campaign_without_policy_is_refused(tmp_path: Path) -> None:
    config = load_config(overrides=[*SETTINGS, "policy.source=random", "policy.start_from=null"]).config
    campaign = Campaign.start(config, tmp_path / "run")
    campaign.step()
    with pytest.raises(InputError, match="no policy"):
        save_policy(campaign.ledger, tmp_path / "x.safetensors", command="test")
    assert not (tmp_path / "x.safetensors").exists()


def test_the_card_of_the_shipped_policy_says_how_it_was_fitted() -> None:
    card = json.loads(DEFAULT_POLICY.with_suffix(".json").read_text())
    assert hashlib.sha256(DEFAULT_POLICY.read_bytes()).hexdigest() == card["sha256"]
    assert card["command"].startswith("anchor policy fit --ranking")
    assert card["curve"][-1]["held_out"] > card["curve"][0]["held_out"] + 4  # nats
    assert card["ranking"]["formulas"] == PLACES
    assert card["draws"]["mean_chance"] > 0.5
