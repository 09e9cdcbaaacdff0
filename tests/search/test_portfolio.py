"""A campaign with a portfolio: the same however many processes there are, and after a stop."""

from pathlib import Path

import pytest

from anchor.config import Config, load_config
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment
from anchor.search.ledger import Ledger, decode_crystal

SETTINGS = [
    "run.structures=16", "run.seed=3", "grpo.group_size=8", "relax.max_steps=3", "action_space.max_atoms=6",
    "action_space.k=[3]", "action_space.elements=[Na, Mg, O, F, Cl]", "prior.name=portfolio:cheap",
    "prior.query=free", "reward.order=paper", "prior.rounds=[[0, 2], [2, 1]]",
]  # fmt: skip


def content(ledger: Ledger) -> list[dict[str, object]]:
    return list(ledger.rows())


def config(workers: int) -> Config:
    return load_config(overrides=[*SETTINGS, f"run.workers={workers}"]).config


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    alone = config(1)
    campaign = Campaign.start(alone, tmp_path_factory.mktemp("run"), environment=Environment.load(alone))
    campaign.run()
    return campaign


def test_members_answer_and_the_cost_of_choosing_is_counted(finished: Campaign) -> None:
    rows = [row for row in finished.ledger.rows() if row["relaxed"] and row["status"] != "failed"]
    assert len(rows) >= 4
    assert {row["made_by"] for row in rows} <= {"templates-all", "merged-all"}
    assert all(row["evaluations"] > row["relaxation_steps"] + 1 for row in rows)
    for row in rows:
        assert decode_crystal(row["generated"]).formulas == decode_crystal(row["relaxed"]).formulas


def test_two_processes_give_the_same(finished: Campaign, tmp_path: Path) -> None:
    two = config(2)
    campaign = Campaign.start(two, tmp_path, environment=Environment.load(two))
    campaign.run()
    assert content(campaign.ledger) == content(finished.ledger)


def test_a_stop_changes_nothing(finished: Campaign, tmp_path: Path) -> None:
    first = Campaign.start(finished.config, tmp_path, environment=finished.environment)
    first.run(stop=lambda: first.next_step == 1)
    second = Campaign.resume(tmp_path, environment=finished.environment)
    second.run()
    assert content(second.ledger) == content(finished.ledger)
