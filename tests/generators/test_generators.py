"""Generators: draws, figures, the proposer of a campaign, DDPO that stops and goes on to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import tiny_joint

from anchor.config import Config, load_config
from anchor.crystals.crystals import Crystals
from anchor.errors import AnchorError, InputError
from anchor.generators.figures import densities, distances, figures
from anchor.generators.generator import Generator, load_generator
from anchor.generators.learner import Generating, generator_in
from anchor.models.data import TrainingSet, reference_split
from anchor.models.finished import usable_cells
from anchor.models.registry import save_model
from anchor.policy.constraints import Limits
from anchor.policy.grpo import Scores


@pytest.fixture(scope="module", params=["kldm-dng", "crystalite-dng"])
def weights(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of random weights."""
    model = tiny_joint(request.param)
    model.fit_statistics(TrainingSet(reference_split("val")[:60]).crystals)
    path = tmp_path_factory.mktemp("weights") / f"{request.param}.safetensors"
    save_model(path, model, {"elements": [8], "card": {"steps": 0}})
    return str(path)


def config_of(weights: str, *more: str) -> Config:
    settings = [
        "policy.source=generator", f"generator.name={weights}", "generator.train=true", "generator.steps=4",
        "generator.learning_rate=1e-3", "grpo.group_size=4", "reward.weights=[0.4, 0.4, 0.1, 0.1]", *more,
    ]  # fmt: skip
    return load_config(overrides=settings).config


def learner(weights: str, *more: str) -> Generating:
    config = config_of(weights, *more)
    return Generating.start(config, Limits.from_config(config.action_space))


def prefer_oxygen(proposal) -> list[Scores]:
    """A reward that needs no potential: atoms of oxygen."""
    share = [np.mean(crystal.numbers == 8) for crystal in proposal.crystals]
    return [Scores(np.array(share) + 0.01 * np.arange(len(share)))]


def test_the_first_of_a_seed_do_not_depend_on_how_many(weights: str) -> None:
    generator = load_generator(weights, steps=4)
    three, five = (generator.draw(n, seed=7).crystals for n in (3, 5))
    assert three.numbers.tolist() == five[:3].numbers.tolist()
    np.testing.assert_allclose(three.lattice, five.lattice[:3], rtol=1e-3)
    assert generator.draw(3, seed=8).crystals.numbers.tolist() != three.numbers.tolist()


def test_sizes_are_those_of_the_training_set(weights: str) -> None:
    generator = load_generator(weights, steps=2)
    sizes = generator.model.marginals.draw_sizes(4000, np.random.default_rng(0))
    found = np.bincount(sizes, minlength=21) / 4000
    assert np.abs(found - generator.model.marginals.sizes.numpy()).max() < 0.03


def test_names_and_files() -> None:
    with pytest.raises(InputError, match="no generator 'kldm'"):
        load_generator("kldm")
    from anchor.models.registry import SHIPPED

    with pytest.raises(InputError, match="not a generator"):
        load_generator(str(SHIPPED / "kldm.safetensors"))


@pytest.mark.parametrize("share", ["1.0", "0.5"])
def test_episodes_learn_and_go_on_to_the_bit(weights: str, share: str) -> None:
    scored = f"generator.scored={share}"
    straight = learner(weights, scored)
    before = straight.generator.hash
    for step in range(3):
        proposal, metrics = straight.step(step, prefer_oxygen)
    assert len(proposal.compositions) == len(proposal.crystals) == 4
    assert metrics["epochs"] == 1
    assert straight.generator.hash != before
    stopped = learner(weights, scored)
    stopped.step(0, prefer_oxygen)
    for step in (1, 2):
        config = stopped.config
        stopped = Generating.resume(config, Limits.from_config(config.action_space), stopped.state())
        stopped.step(step, prefer_oxygen)
    assert stopped.state() == straight.state()
    loaded = generator_in(straight.state(), straight.config)
    assert loaded.hash == straight.generator.hash
    assert not any(p.requires_grad for p in loaded.model.parameters())


def test_a_reward_of_zero_changes_nothing(weights: str) -> None:
    taught = learner(weights)
    before = taught.state()
    for step in range(2):
        _, metrics = taught.step(step, lambda proposal: [Scores(np.zeros(len(proposal.compositions)))])
    assert taught.state() == before
    assert metrics["epochs"] == 0


def test_without_training_nothing_is_recorded_or_learned(weights: str) -> None:
    idle = learner(weights, "generator.train=false")
    before = idle.generator.hash
    proposal, _ = idle.step(0, prefer_oxygen)
    assert idle.generator.hash == before
    assert idle.rollout(0).made.ways == []
    again = Generating.resume(idle.config, idle.limits, idle.state())
    assert again.rollout(0).compositions.cells == proposal.compositions.cells


def test_the_penalty_holds_it_back(weights: str) -> None:
    free, held = learner(weights), learner(weights, "generator.kl=1000")
    for step in range(3):
        free.step(step, prefer_oxygen)
        _, metrics = held.step(step, prefer_oxygen)
    assert metrics["kl"] >= 0
    start = load_generator(weights).model.state_dict()

    def moved(who: Generating) -> float:
        now = who.generator.model.state_dict()
        return sum(float((now[key] - value).abs().sum()) for key, value in start.items())

    assert moved(held) < moved(free)


def test_what_it_refuses(weights: str) -> None:
    for share in ("0", "1.1"):
        with pytest.raises(InputError, match="scored"):
            learner(weights, f"generator.scored={share}")
    with pytest.raises(InputError, match="keeps no limits"):
        learner(weights, "action_space.elements=[Na, Cl]")
    taught = learner(weights)
    state = taught.state()
    with torch.no_grad():
        for parameter in taught.generator.model.parameters():
            parameter += 1
    other = Path(weights).with_name("other.safetensors")
    save_model(other, taught.generator.model, {"elements": [8], "card": {}})
    with pytest.raises(AnchorError, match="not those the campaign began with"):
        Generating.resume(config_of(str(other)), taught.limits, state)


def test_figures_of_the_reference_itself() -> None:
    """Test crystals are all usable, known, mostly neutral, and at no distance from themselves."""
    crystals = reference_split("test")
    found = figures(crystals)
    assert found["usable"] == found["known"] == found["n"] == len(crystals)
    assert found["charge_neutral"] > 0.5 * len(crystals)
    assert found["density"] == found["elements"] == found["atoms"] == found["composition"] == 0
    salt = Crystals(
        np.array([2]), np.array([11, 17]), np.array([[0, 0, 0], [0.5] * 3]), 3.99 * np.eye(3)[None]
    )
    assert densities(salt)[0] == pytest.approx((22.990 + 35.453) * 1.66054 / 3.99**3, rel=1e-4)
    assert distances(salt, crystals)["composition"] > 0.5
    assert distances(salt[:0], crystals)["density"] is None


def test_broken_cells_are_not_usable() -> None:
    lattice = np.stack([4 * np.eye(3), np.full((3, 3), np.nan), 100 * np.eye(3)])
    crystals = Crystals(np.ones(3, dtype=np.int64), np.array([11, 11, 11]), np.zeros((3, 3)), lattice)
    assert usable_cells(crystals).tolist() == [True, False, False]


def test_generator_takes_at_least_two_steps(weights: str) -> None:
    with pytest.raises(InputError, match="too few"):
        Generator(load_generator(weights).model, steps=1)
