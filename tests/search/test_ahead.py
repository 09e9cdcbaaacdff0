"""Campaigns whose steps overlap: the same whoever relaxes, stopped and resumed, or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anchor.config import Config, load_config
from anchor.errors import InputError
from anchor.executors import Turns
from anchor.policy.constraints import Limits
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment
from anchor.search.ledger import Ledger

SETTINGS = [
    "run.structures=40", "run.seed=3", "grpo.group_size=8", "grpo.learning_rate=1e-2", "relax.max_steps=3",
    "relax.chunk_atoms=12", "action_space.max_atoms=6", "action_space.k=[2]", "search.staleness=2",
    "action_space.elements=[Na, Mg, O, F, Cl]",
]  # fmt: skip


def configured(*overrides: str) -> Config:
    return load_config(overrides=[*SETTINGS, *overrides]).config


def content(ledger: Ledger) -> tuple[list[dict[str, Any]], list[dict[str, Any]], bytes | None]:
    steps = [{k: v for k, v in row.items() if k != "seconds"} for row in ledger.step_rows()]
    return list(ledger.rows()), steps, ledger.state()


@pytest.fixture(scope="module")
def here() -> Environment:
    return Environment.load(configured("run.executor=inline"))


@pytest.fixture(scope="module")
def finished(here: Environment, tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    campaign = Campaign.start(configured(), tmp_path_factory.mktemp("run"), environment=here)
    campaign.run()
    return campaign.ledger


def test_every_step_is_of_the_policy_of_two_updates_before(finished: Ledger) -> None:
    rows = finished.step_rows()
    assert [row["structures"] for row in rows] == [8, 16, 24, 32, 40]
    assert all(row["metrics"]["approx_kl"] >= 0 for row in rows)
    assert [row["id"] for row in finished.rows(["id"])] == list(range(40))


def test_the_same_on_processes_stopped_and_resumed(finished: Ledger, tmp_path: Path) -> None:
    config = configured("run.workers=2")
    environment = Environment.load(config)
    assert isinstance(environment.judge.relaxer.executor, Turns)
    first = Campaign.start(config, tmp_path, environment=environment)
    first.run(stop=lambda: first.next_step == 2)
    assert not first.ahead.steps
    assert first.structures == 16
    second = Campaign.resume(tmp_path, environment=environment)
    second.run()
    assert content(second.ledger) == content(finished)


def test_the_ranking_goes_on_where_it_was(here: Environment, tmp_path: Path) -> None:
    wishes = ("policy.source=screened", "action_space.k=[3]", "run.structures=20")
    found = []
    for name, stale in (("ahead", 2), ("paper", 0)):
        config = configured(*wishes, f"search.staleness={stale}")
        limits = Limits.from_config(config.action_space, searchable=here.hull.searchable_elements)
        environment = replace(here, limits=limits)
        campaign = Campaign.start(config, tmp_path / name, environment=environment)
        campaign.run(stop=lambda c=campaign: c.next_step == 1)
        campaign.run()
        found.append(list(campaign.ledger.rows()))
    assert found[0] == found[1]  # nobody learns: only when work is done differs


def test_processors_of_another_kind_are_refused(finished: Ledger) -> None:
    with pytest.raises(InputError, match="began on CPUs"):
        Campaign.resume(finished.location, where={"gpus": 1.0, "executor": "ray"})
