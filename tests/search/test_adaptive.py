"""Screening that learns: it avoids what fails, stays diverse, and goes on as if it had never stopped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from told_outcomes import broken, outcomes

from anchor.chemistry.formula import parse_amounts
from anchor.config import Config, load_config
from anchor.policy.constraints import Limits
from anchor.screening import learning, order
from anchor.search import adaptive
from anchor.search.adaptive import Adaptive
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment

SMALL = [
    "policy.source=adaptive", "run.structures=14", "run.workers=1", "grpo.group_size=8", "relax.max_steps=2",
    "action_space.max_atoms=5", "action_space.k=[3]", "action_space.elements=[Na, Mg, O, F, Cl]",
    "prior.query=free",
]  # fmt: skip


@pytest.fixture(autouse=True)
def blocks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(order, "cache_dir", lambda: folder)
    monkeypatch.setattr(adaptive, "BLOCK", 12)
    monkeypatch.setattr(learning, "BLOCK", 12)
    monkeypatch.setattr(adaptive, "SMALLEST_POOL", 400)
    monkeypatch.setattr(adaptive, "places_that_ship", lambda _limits: 0)


def settings(*more: str) -> Config:
    return load_config(preset="quick", overrides=["policy.source=adaptive", *more]).config


def run(learner: Adaptive, steps: int, bad: str = "O") -> list[str]:
    for step in range(steps):
        learner.step(step, outcomes(bad))
    return learner.tried


def test_it_learns_what_fails_and_repeats_nothing() -> None:
    learner = Adaptive(order.default_limits(), settings("grpo.group_size=12"))
    tried = run(learner, 12)
    assert len(set(tried)) == len(tried) == 144
    begin, end = tried[:36], tried[-36:]
    with_oxygen = [sum("O" in parse_amounts(f) for f in part) for part in (begin, end)]
    assert with_oxygen[0] > 0
    assert with_oxygen[1] < with_oxygen[0] / 2
    elements = Counter(e for f in tried for e in parse_amounts(f))
    assert max(elements.values()) <= 0.25 * len(tried) + 1


def test_what_comes_next_follows_from_the_outcomes_alone() -> None:
    """Steps that do not fit the block, a stop after any of them, and other group sizes change nothing."""
    config = settings("grpo.group_size=5")
    limits = order.default_limits()
    straight = Adaptive(limits, config)
    tried = run(straight, 9)
    for stop in (1, 4):
        first = Adaptive(limits, config)
        run(first, stop)
        known = zip(first.tried, first.above, strict=True)
        assert run(Adaptive.resume(limits, config, known), 9 - stop) == tried
    other = Adaptive(limits, settings("grpo.group_size=12"))
    assert run(other, 2) == tried[:24]


def test_a_pool_that_grows_between_two_lessons_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever resumes has heard the last lesson about formulas of the larger pool."""
    monkeypatch.setattr(adaptive, "SMALLEST_POOL", 100)
    monkeypatch.setattr(learning, "LESSONS", 1)  # lessons after 12, 24, 48: none when the pool grows
    config, limits = settings("grpo.group_size=12"), order.default_limits()
    straight = Adaptive(limits, config)
    places: list[int] = []
    for step in range(7):
        straight.step(step, outcomes("O"))
        places.append(straight.pool().places)
    grows = next(i for i in range(1, 7) if places[i] > places[i - 1])
    assert learning.lesson(12 * (grows + 1)) < 12 * (grows + 1)
    known = list(zip(straight.tried, straight.above, strict=True))[: 12 * (grows + 1)]
    resumed = Adaptive.resume(limits, config, known)
    run(resumed, 6 - grows)
    assert resumed.tried == straight.tried


def test_the_pool_grows_sooner_where_the_order_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive, "SMALLEST_POOL", 100)
    limits, config = order.default_limits(), settings("grpo.group_size=12")
    few = Limits.from_config(load_config(overrides=SMALL).config.action_space)
    assert order.places_that_ship(limits) >= 65_536
    assert order.places_that_ship(few) == 0

    def places(at_hand: int, tried: int) -> int:
        monkeypatch.setattr(adaptive, "places_that_ship", lambda _limits: at_hand)
        names = order.screened_order(limits, tried).compositions.formulas[:tried]
        return Adaptive.resume(limits, config, ((name, 0.0) for name in names)).pool().places

    assert [places(0, n) for n in (0, 24, 60, 120)] == [100, 100, 200, 400]  # two for each
    assert [places(800, n) for n in (0, 24, 60, 120)] == [100, 400, 800, 800]  # sixteen, while there are


def test_what_the_file_knows_of_hulls_changes_nothing() -> None:
    pool = Adaptive(order.default_limits(), settings()).pool()
    assert pool.order.hull_energy is not None
    rows = np.arange(0, pool.places, pool.places // 30)
    again = learning.portraits(pool.order.compositions[rows])
    assert pool.portraits[rows] == pytest.approx(again, abs=1e-5)


def test_faults_of_the_machine_teach_nothing() -> None:
    limits, config = order.default_limits(), settings("grpo.group_size=12")
    learner = Adaptive(limits, config)
    learner.step(0, broken)
    assert np.isinf(learner.above).all()
    pool = learner.pool().portraits
    chances = learning.learn(pool[:0], np.zeros(0), seed=config.run.seed).worth(pool)
    untried = [i for i, f in enumerate(learner.pool().order.compositions.formulas) if f not in learner.tried]
    assert untried[int(np.argmax(chances[untried]))] in learner.block()


def test_a_small_space_is_exhausted_and_then_visited_again() -> None:
    config = load_config(overrides=SMALL).config
    limits = Limits.from_config(config.action_space)
    learner = Adaptive(limits, config)
    n = len(learner.pool().order)
    assert n < 100
    visits: list[int] = []
    step = 0
    while len(learner.tried) < 2 * n:
        proposal, told = learner.step(step, outcomes("O"))
        assert proposal.visits is not None
        visits += proposal.visits.tolist()
        step += 1
    assert len(set(learner.tried[:n])) == n
    assert visits[:n] == [0] * n
    assert visits[n : 2 * n] == [1] * n
    assert told["formulas_tried"] == told["formulas_within_limits"] == n


def test_a_campaign_that_was_stopped_is_the_one_that_was_not(tmp_path: Path) -> None:
    config = load_config(overrides=SMALL).config
    environment = Environment.load(config)
    straight = Campaign.start(config, tmp_path / "straight", environment=environment)
    straight.run()
    broken = Campaign.start(config, tmp_path / "broken", environment=environment)
    broken.run(8)
    resumed = Campaign.resume(tmp_path / "broken", environment=environment)
    resumed.run()
    columns = ["formula", "reward", "energy_above_hull_ev_per_atom"]
    assert list(resumed.ledger.rows(columns)) == list(straight.ledger.rows(columns))
