"""Rewards that train the prior: frozen by default, the same after a kill, refused without densities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_ways import model_of

from anchor.chemistry.composition import Composition, Compositions
from anchor.config import Config, load_config
from anchor.errors import InputError
from anchor.models.registry import save_model
from anchor.potentials.base import Potential
from anchor.potentials.registry import load_potential
from anchor.priors import load_prior
from anchor.priors.learned import LearnedPrior
from anchor.reward.score import Memory
from anchor.search.campaign import Campaign
from anchor.search.environment import Environment, load_configured_prior
from anchor.search.ledger import PRIOR
from anchor.search.prior_learner import PriorLearner, save_trained

SETTINGS = [
    "run.structures=9", "run.workers=1", "run.seed=3", "grpo.group_size=3", "relax.max_steps=1",
    "action_space.max_atoms=6", "action_space.k=[2]", "action_space.elements=[Na, Mg, O, F, Cl]",
    "policy.source=neutral", "prior.train_after=1", "prior.train_learning_rate=1e-3", "prior.train_trust=1e9",
]  # fmt: skip
STEPS = 12
"""Of the samplers: as few as still have some that are scored."""
CARD = {"steps": 0, "epochs": 0, "hours": 0}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tiny models with random weights, as files."""
    folder = tmp_path_factory.mktemp("weights")
    paths = {}
    for name in ("kldm", "crystalite", "omatg"):
        model = model_of(name)
        model.chosen = replace(model.chosen, steps=STEPS)
        path = folder / f"{name}.safetensors"
        save_model(path, model, {"elements": list(range(1, 95)), "card": CARD})
        paths[name] = str(path)
    return paths


@pytest.fixture(scope="module")
def potential() -> Potential:
    return load_potential("mattersim-1m")


def configured(weights: str, *more: str) -> Config:
    return load_config(overrides=[*SETTINGS, f"prior.name={weights}", *more]).config


def content(campaign: Campaign) -> tuple[Any, ...]:
    ledger = campaign.ledger
    steps = [{k: v for k, v in row.items() if k != "seconds"} for row in ledger.step_rows()]
    return list(ledger.rows()), steps, ledger.state(), ledger.state(PRIOR)


def test_a_prior_is_frozen_by_default(weights: dict[str, str], potential: Potential, tmp_path: Path) -> None:
    config = configured(weights["kldm"])
    assert config.prior.train == "none"
    environment = Environment.load(config, potential=potential)
    prior = environment.prior
    assert isinstance(prior, LearnedPrior)
    before = {name: tensor.clone() for name, tensor in prior.model.state_dict().items()}
    campaign = Campaign.start(config, tmp_path, environment=environment)
    campaign.run()
    assert campaign.prior_learner is None
    assert all(bool((before[n] == t).all()) for n, t in prior.model.state_dict().items())
    assert not any(p.requires_grad for p in prior.model.parameters())
    assert campaign.ledger.state(PRIOR) is None
    assert environment.identity()["prior"] == campaign.ledger.identity["prior"]


@pytest.mark.parametrize(
    ("name", "train", "scored"), [("kldm", "shared", 0.5), ("crystalite", "stability", 1.0)]
)
def test_killed_and_resumed_it_is_the_same_weights_included(
    weights: dict[str, str], potential: Potential, tmp_path: Path, name: str, train: str, scored: float
) -> None:
    config = configured(weights[name], f"prior.train={train}", f"prior.train_scored={scored}")

    def fresh() -> Environment:
        return Environment.load(config, potential=potential)

    whole = Campaign.start(config, tmp_path / "whole", environment=fresh())
    whole.run()
    steps = whole.ledger.step_rows()
    assert "prior_crystals" not in steps[0]["metrics"], "held"
    assert steps[1]["metrics"]["prior_epochs"] == 2
    assert steps[1]["metrics"]["prior_drift"] > 0
    assert whole.environment.prior.hash != whole.ledger.identity["prior"]["hash"]
    assert whole.ledger.state_names() == ["latest"]
    file = save_trained(whole.ledger, tmp_path / "trained.safetensors")
    assert load_prior(str(file)).hash == whole.environment.prior.hash
    parts = Campaign.start(config, tmp_path / "parts", environment=fresh())
    parts.run(6)
    resumed = Campaign.resume(tmp_path / "parts", environment=fresh())
    resumed.run()
    assert content(resumed) == content(whole)
    assert resumed.environment.prior.hash == whole.environment.prior.hash


def test_rewards_and_what_they_teach(weights: dict[str, str], potential: Potential) -> None:
    config = configured(weights["kldm"], "prior.train=shared", "prior.train_after=0")
    environment = Environment.load(config, potential=potential)
    learner = PriorLearner.start(environment.prior, config)
    assert learner is not None
    learner.begin(0)
    cells = Compositions.from_list([Composition(("Na", "Cl"), (1, 1))] * 4)
    (group,) = environment.realiser([cells], step=0)
    assert sorted(np.concatenate([way.owner[way.owner >= 0] for way in group.ways])) == [0, 1, 2, 3]
    equal = np.full(4, 0.25)
    scores = environment.scorer.score(cells, group.outcomes, group.embeddings, equal, Memory())
    before = environment.prior.hash
    same = replace(scores, reward=np.full(4, 0.7))
    assert learner.learn([group], [same])["prior_epochs"] == 0
    assert environment.prior.hash == before
    nobody = replace(scores, reward=np.full(4, np.nan), include=np.zeros(4, dtype=bool))
    assert learner.learn([group], [nobody])["prior_crystals"] == 0
    assert environment.prior.hash == before
    learner.learn([group], [replace(scores, reward=np.arange(4.0))])
    assert environment.prior.hash != before

    rising = replace(
        scores,
        reward=np.arange(4.0),
        valid=np.array([True, True, True, False]),
        objectives=np.full((4, 4), [[0.9, 0, 0, 0]]) * np.array([[1.0], [0.5], [0.0], [1.0]]),
    )
    np.testing.assert_allclose(learner._advantages(group, rising), (np.arange(4) - 1.5) / np.std(range(4)))
    only = PriorLearner(
        learner.prior, learner.optimiser, configured(weights["kldm"], "prior.train=stability")
    )
    earned = np.array([0.9, 0.45, 0.0, -0.2])
    expected = (earned - earned.mean()) / earned.std()
    np.testing.assert_allclose(
        only._advantages(group, rising), expected, err_msg="stability, r_inv if invalid"
    )


def test_broken_cells_earn_what_is_invalid(weights: dict[str, str], potential: Potential) -> None:
    """Or a prior would learn to leave what is hard to the one that answers in its place."""
    config = configured(weights["kldm"], "prior.train=stability", "prior.train_after=0")
    environment = Environment.load(config, potential=potential)
    learner = PriorLearner.start(environment.prior, config)
    assert learner is not None
    learner.begin(0)
    cells = Compositions.from_list([Composition(("Na", "Cl"), (1, 1))] * 4)
    (group,) = environment.realiser([cells], step=0)
    (way, *_) = group.ways
    broken = replace(group, ways=[replace(way, owner=np.array([0, -1, 2, -1]))])
    scores = environment.scorer.score(cells, group.outcomes, group.embeddings, np.full(4, 0.25), Memory())
    scores = replace(
        scores, valid=np.ones(4, dtype=bool), include=np.ones(4, dtype=bool), objectives=np.full((4, 4), 0.8)
    )
    found = learner._advantages(broken, scores)
    assert np.isnan(found[[1, 3]]).all()  # others answered for them
    earned = np.array([0.8, 0.8, -0.2, -0.2])  # r_inv
    np.testing.assert_allclose(found[[0, 2, 4, 5]], (earned - earned.mean()) / earned.std())
    before = environment.prior.hash
    assert learner.learn([broken], [scores])["prior_crystals"] == 4
    assert environment.prior.hash != before


def test_what_has_no_density_is_refused(weights: dict[str, str]) -> None:
    for name, why in (
        ("templates-all", "no denoising steps"),
        ("wyckoff", "no denoising steps"),
        (weights["omatg"], "deterministic"),
    ):
        config = configured(name, "prior.train=shared")
        with pytest.raises(InputError, match=why):
            PriorLearner.start(load_configured_prior(config.prior, device="cpu"), config)
    still = configured(weights["kldm"], "prior.train=shared", "prior.noise=0")
    with pytest.raises(InputError, match="adds no noise"):
        PriorLearner.start(load_configured_prior(still.prior, device="cpu"), still)
    early = configured(weights["kldm"], "prior.train=shared", "search.staleness=1")
    with pytest.raises(InputError, match="asked 1 steps ahead"):
        PriorLearner.start(load_configured_prior(early.prior, device="cpu"), early)
    with pytest.raises(InputError, match="no factor of noise"):
        load_configured_prior(configured(weights["crystalite"], "prior.noise=1").prior, device="cpu")


def test_the_shipped_kldm_samples_with_noise_where_rewards_train_it() -> None:
    frozen = load_configured_prior(configured("kldm").prior, device="cpu")
    trained = load_configured_prior(configured("kldm", "prior.train=shared").prior, device="cpu")
    asked = load_configured_prior(configured("kldm", "prior.noise=1").prior, device="cpu")
    assert frozen.hash != trained.hash == asked.hash
