"""Screening as a source of a campaign: in order, each formula once, then again; resumed, it is the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anchor.config import Config, load_config
from anchor.errors import InputError
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Scores
from anchor.screening import order
from anchor.screening.order import screened_order
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment
from anchor.search.screened import Screened

SETTINGS = [
    "policy.source=screened", "run.structures=14", "run.workers=1", "grpo.group_size=8", "relax.max_steps=2",
    "action_space.max_atoms=5", "action_space.k=[3]", "action_space.elements=[Na, Mg, O, F, Cl]",
    "prior.query=free",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "cache_dir", lambda: folder)
        yield folder


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(overrides=SETTINGS).config


@pytest.fixture(scope="module")
def limits(config: Config) -> Limits:
    return Limits.from_config(config.action_space)


def constant(proposal):  # type: ignore[no-untyped-def]
    return [Scores(np.zeros(proposal.group_size)) for _ in proposal.contexts]


def test_a_small_space_is_exhausted_and_then_visited_again(config: Config, limits: Limits) -> None:
    space = screened_order(limits, 1)
    assert space.exhausted
    n = len(space)
    screened = Screened(limits, config)
    formulas, visits, told = [], [], {}
    for step in range(3 * n // 8 + 1):
        proposal, told = screened.step(step, constant)
        formulas += proposal.compositions.formulas
        visits += proposal.visits.tolist()
    assert formulas[:n] == space.compositions.formulas
    assert len(set(formulas[:n])) == n
    assert formulas[n : 2 * n] == formulas[:n]
    assert visits[: 2 * n] == [0] * n + [1] * n
    assert told["formulas_tried"] == told["formulas_within_limits"] == n
    assert told["structures_each"] == 1 + (len(formulas) - 1) // n


def test_groups_take_turns(config: Config, limits: Limits) -> None:
    one, two = (config.model_copy(update={"grpo": config.grpo.model_copy(update=u)}) for u in (
        {"group_size": 6}, {"group_size": 3, "groups_per_step": 2},
    ))  # fmt: skip
    a, b = Screened(limits, one).rollout(0), Screened(limits, two).rollout(0)
    assert a.compositions.formulas == b.compositions.formulas
    assert [len(c) for c, _ in b.groups()] == [3, 3]


def test_the_budget_is_kept_to_the_last_structure(config: Config, tmp_path: Path) -> None:
    """Stopped after its first step and resumed, it writes what a campaign writes that was not."""
    environment = Environment.load(config)
    straight = Campaign.start(config, tmp_path / "straight", environment=environment)
    straight.run()
    assert straight.structures == straight.ledger.n_candidates == 14
    stopped = Campaign.start(config, tmp_path / "stopped", environment=environment)
    stopped.run(stop=lambda: True)
    assert stopped.structures == 8
    resumed = Campaign.resume(tmp_path / "stopped", environment=environment)
    resumed.run()
    assert list(resumed.ledger.rows()) == list(straight.ledger.rows())
    rows = list(straight.ledger.rows(["id", "formula", "cell", "relaxed", "known_in"]))
    assert [row["id"] for row in rows] == list(range(14))
    n = len(screened_order(environment.limits, 1))
    assert n < 14  # so that some come twice
    assert len({row["formula"] for row in rows}) == n
    assert not any(row["known_in"] for row in rows)
    again = [(rows[i]["relaxed"], rows[i + n]["relaxed"]) for i in range(14 - n)]
    assert all(first != second for first, second in again)  # other structures


def test_nothing_within_the_limits_is_said(config: Config) -> None:
    space = config.action_space.model_copy(update={"elements": ("Na", "K"), "k": (2,)})
    with pytest.raises(InputError, match="no unknown charge-neutral formula"):
        Screened(Limits.from_config(space), config).rollout(0)
