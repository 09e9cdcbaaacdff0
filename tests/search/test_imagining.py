"""A policy that learns from free rollouts: what it proposes, what it learns, and that it resumes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from told_outcomes import broken, outcomes

from anchor.chemistry.charge import is_neutral
from anchor.chemistry.composition import Compositions
from anchor.chemistry.formula import parse_amounts
from anchor.config import Config, load_config
from anchor.errors import InputError
from anchor.policy.constraints import Limits
from anchor.policy.weights import load_policy
from anchor.reference.reference import load_reference
from anchor.screening import learning
from anchor.screening.order import default_limits
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment
from anchor.search.imagining import Imagining
from anchor.search.policies import load_trained, policy_file

SMALL = [
    "policy.draws=8", "grpo.group_size=8", "grpo.groups_per_step=2", "run.structures=40", "run.workers=1",
    "relax.max_steps=2", "action_space.max_atoms=8", "grpo.learning_rate=1e-3",
]  # fmt: skip


@pytest.fixture(autouse=True)
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "BLOCK", 16)


def settings(*more: str) -> Config:
    return load_config(preset="climb", overrides=[*SMALL, *more]).config


def start(config: Config) -> Imagining:
    limits = default_limits()
    policy = load_policy(policy_file("default").read_bytes())
    return Imagining.start(policy, limits, config)


def run(learner: Imagining, steps: int, *, first: int = 0, bad: str = "O") -> list[str]:
    for step in range(first, first + steps):
        learner.step(step, outcomes(bad))
    return learner.tried


def test_it_proposes_unknown_neutral_formulas_once_each_and_learns_what_fails() -> None:
    learner = start(settings("policy.draws=16"))
    tried = run(learner, 12, bad="F")
    assert len(tried) == len(set(tried)) == 12 * 16
    assert is_neutral(Compositions.from_list(tried)).all()
    reference = load_reference()
    assert not any(reference.known(formula) for formula in tried)
    with_fluorine = [sum("F" in parse_amounts(f) for f in part) for part in (tried[:48], tried[-48:])]
    assert with_fluorine[1] < with_fluorine[0]
    elements = Counter(e for f in tried for e in parse_amounts(f))
    assert max(elements.values()) <= 0.25 * len(tried) + 1


def test_the_policy_itself_moves_to_what_is_believed() -> None:
    """Not only the choice among its draws: its own draws have less oxygen afterwards."""

    def share(learner: Imagining) -> float:
        drawn = Compositions.concatenate([learner.learner.rollout(10_000 + i).compositions for i in range(4)])
        return float(np.mean(["O" in parse_amounts(f) for f in drawn.formulas]))

    learner = start(settings())
    before = share(learner)
    run(learner, 15)
    assert share(learner) < 0.8 * before


def test_what_comes_next_follows_from_state_and_outcomes_alone() -> None:
    config = settings()
    straight = start(config)
    tried = run(straight, 5)
    first = start(config)
    run(first, 2)
    known = zip(first.tried, first.above, strict=True)
    second = Imagining.resume(first.anchor, first.limits, config, first.state(), known)
    assert run(second, 3, first=2) == tried


def test_faults_of_the_machine_teach_nothing() -> None:
    learner = start(settings())
    learner.step(0, broken)
    assert np.isinf(learner.above).all()
    fresh = start(settings())
    assert np.array_equal(learner._taught().chances(learner.seen), fresh._taught().chances(learner.seen))


def test_a_budget_that_is_no_multiple_of_the_groups_is_kept() -> None:
    proposal = start(settings()).rollout(0, left=5)
    assert len(proposal.compositions) == 5


def test_a_small_space_is_visited_again() -> None:
    config = settings("action_space.elements=[Na, Cl]", "action_space.k=[2]", "action_space.max_atoms=4")
    limits = Limits.from_config(config.action_space)
    policy = load_policy(policy_file("default").read_bytes())
    learner = Imagining.start(policy, limits, config)
    proposal, _ = learner.step(0, outcomes("O"))
    assert len(proposal.compositions) == 16
    assert set("".join(proposal.compositions.formulas)) <= set("NaCl234")


def test_it_hears_every_outcome_before_it_goes_on() -> None:
    with pytest.raises(InputError, match="imagined"):
        start(settings("search.staleness=1"))


def test_a_campaign_that_was_stopped_is_the_one_that_was_not(tmp_path: Path) -> None:
    config = settings()
    environment = Environment.load(config)
    straight = Campaign.start(config, tmp_path / "straight", environment=environment)
    straight.run()
    broken = Campaign.start(config, tmp_path / "broken", environment=environment)
    broken.run(16)
    resumed = Campaign.resume(tmp_path / "broken", environment=environment)
    resumed.run()
    columns = ["formula", "reward", "energy_above_hull_ev_per_atom"]
    assert list(resumed.ledger.rows(columns)) == list(straight.ledger.rows(columns))
    drawn = load_trained(str(tmp_path / "straight")).draw(8)  # its policy is one like any other
    assert len(drawn) == 8
