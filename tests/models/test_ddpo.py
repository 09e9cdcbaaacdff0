"""DDPO: gradients by hand and by finite differences, zero advantages, discarded epochs, bounded memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny_ways import NUMBERS, model_of, noise, rollout
from torch import Tensor, nn

from anchor.models.base import StructureModel
from anchor.models.ddpo import Rules, Way, accumulate, update
from anchor.models.noise import Noise
from anchor.models.transitions import Gaussian, Process, State, Trajectory, Transition
from anchor.weights import live_hash


class _Shift(Process):
    """x' = x + θ + ξ: the exactly solvable case."""

    steps = 3

    def __init__(self, theta: Tensor, numbers: Tensor) -> None:
        self.theta, self.numbers = theta, numbers

    def start(self, noise: Noise) -> State:
        return {"x": torch.zeros(len(self.numbers), 1, dtype=torch.float64) + 0 * noise.normal(1)}

    def transition(self, i: int, state: State) -> Transition:
        return Transition({"x": Gaussian(state["x"] + self.theta, 0.5 + 0.1 * i)})


class Toy(StructureModel):
    """One weight θ that every step adds."""

    name = "toy"
    settings = fit_statistics = entries = loss_sums = generate = None  # type: ignore[assignment]

    def __init__(self, theta: float = 0.3) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta, dtype=torch.float64))

    def process(self, numbers: Tensor, *, steps: int | None = None) -> Process:  # noqa: ARG002
        return _Shift(self.theta, numbers)


def toy_way(model: Toy, count: int, seed: int = 0) -> Way:
    way = Trajectory()
    with torch.no_grad():
        model.process(torch.zeros(count, 1)).run(noise(count, seed), way)
    return Way(way, np.arange(count))


def test_gradient_is_that_of_the_formula_and_of_finite_differences():
    """∂L/∂θ = mean_i A_i mean_t (x' − x − θ)/σ_t² at ratio 1; else finite differences."""
    model = Toy()
    way = toy_way(model, 5)
    advantage = torch.tensor([1.0, -2.0, 0.5, math.nan, 1.5], dtype=torch.float64)
    first = accumulate(model, [way], [advantage], clip=0.05)
    states = [state["x"][:, 0] for state in way.trajectory.states]
    terms = [(states[t + 1] - states[t] - 0.3) / (0.5 + 0.1 * t) ** 2 for t in range(3)]
    expected = float((torch.stack(terms).mean(0) * advantage)[[0, 1, 2, 4]].mean())
    assert -model.theta.grad.item() == pytest.approx(expected, rel=1e-12)
    assert first.drift == 0
    assert first.objective == pytest.approx(float(advantage.nanmean()))

    def objective(theta: float) -> float:
        return accumulate(Toy(theta), [way], [advantage], first.log_probs, clip=0.05).objective

    moved = Toy(0.31)
    moved.theta.grad = None
    accumulate(moved, [way], [advantage], first.log_probs, clip=0.05)
    slope = (objective(0.31 + 1e-6) - objective(0.31 - 1e-6)) / 2e-6
    assert -moved.theta.grad.item() == pytest.approx(slope, rel=1e-5)
    assert slope != pytest.approx(expected, rel=1e-3), "some ratios are clipped here"


def test_the_optimum_of_a_bandit_is_found():
    """Reward −(x_T − 2)²: θ ends where three steps lead to 2."""
    model = Toy(0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for episode in range(60):
        way = toy_way(model, 32, seed=episode)
        reward = -((way.trajectory.states[-1]["x"][:, 0].numpy() - 2) ** 2)
        update(model, optimiser, [way], (reward - reward.mean()) / reward.std(), Rules())
    assert model.theta.item() == pytest.approx(2 / 3, abs=0.15)


@pytest.mark.parametrize("name", ["kldm", "crystalite"])
def test_advantages_of_zero_change_nothing_even_with_momentum(name):
    model = model_of(name).requires_grad_(True)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    way = Way(rollout(model), np.array([0, 1]))
    update(model, optimiser, [way], np.array([1.0, -1.0]), Rules(trust=math.inf))
    before = live_hash(model, "")
    metrics = update(model, optimiser, [way], np.zeros(2), Rules())
    assert live_hash(model, "") == before
    assert metrics["epochs"] == 0
    update(model, optimiser, [way], np.array([np.nan, 0.0]), Rules())
    assert live_hash(model, "") == before


@pytest.mark.parametrize("name", ["kldm", "crystalite"])
def test_what_earned_more_becomes_more_likely(name):
    model = model_of(name).requires_grad_(True)
    way = Way(rollout(model, steps=8), np.array([0, 1]))
    steps = model.informative(way.trajectory)
    with torch.no_grad():
        before = model.log_prob(way.trajectory, steps).mean(0)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)
    metrics = update(model, optimiser, [way], np.array([1.0, -1.0]), Rules(epochs=2, trust=math.inf))
    with torch.no_grad():
        gain = model.log_prob(way.trajectory, steps).mean(0) - before
    assert gain[0] > gain[1]
    assert metrics["epochs"] == 2
    assert metrics["drift"] > 0


def test_an_epoch_that_went_too_far_is_discarded():
    model = model_of("kldm").requires_grad_(True)
    way = Way(rollout(model), np.array([0, 1]))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    metrics = update(model, optimiser, [way], np.array([1.0, -1.0]), Rules(epochs=2))
    assert (metrics["epochs"], metrics["discarded"]) == (1, 1)
    assert metrics["drift"] > 0.05
    after_one = live_hash(model, "")
    again = model_of("kldm").requires_grad_(True)
    update(
        again, torch.optim.Adam(again.parameters(), lr=1e-2), [way], np.array([1.0, -1.0]), Rules(epochs=1)
    )
    assert live_hash(again, "") == after_one


def test_steps_are_added_up_one_at_a_time():
    """The sum over single steps is the gradient of the whole, and no graph outlives its step."""
    model = model_of("kldm").requires_grad_(True)
    way = Way(rollout(model), np.array([0, 1]))
    advantage = torch.tensor([1.0, -0.5])
    calls: list[list[int]] = []
    trajectory = way.trajectory
    replay, score = trajectory.replay, trajectory.log_prob_of
    trajectory.log_prob_of = lambda step, transition: calls.append([step]) or score(step, transition)
    accumulate(model, [way], [advantage], clip=0.05)
    assert calls == [[0], [1], [2], [3]]
    pieces = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    (-(replay(model.process(NUMBERS, steps=4), [0, 1, 2, 3]) @ advantage).mean() / 2).backward()
    whole = [p.grad for p in model.parameters() if p.grad is not None]
    for a, b in zip(pieces, whole, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4 * float(b.abs().max()) + 1e-9, rtol=1e-3)


def test_crystalite_is_scored_where_its_noise_tells_something():
    model = model_of("crystalite")
    way = rollout(model, steps=20)
    chosen = model.informative(way)
    added = [way.transitions[i].parts["x"].std for i in chosen]
    assert chosen
    assert all(0.2 <= s <= 2.0 for s in added)
    assert len(chosen) < len(way.scored)
    assert model_of("kldm").informative(rollout(model_of("kldm"))) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["kldm", "crystalite"])
def test_a_crystal_that_is_no_number_spoils_nothing(name):
    numbers, earned = NUMBERS[[0, 1, 0]], np.array([1.0, -1.0, 0.5])
    hashes = []
    for broken in (True, False):
        model = model_of(name).requires_grad_(True)
        trajectory = rollout(model, numbers, steps=8)
        if broken:
            for state in trajectory.states[4:]:
                next(iter(state.values()))[2] = math.nan
        ways = [Way(trajectory, np.array([0, 1, 2 if broken else -1]))]
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        assert update(model, optimiser, ways, earned, Rules())["crystals"] == 2
        assert all(bool(p.isfinite().all()) for p in model.parameters())
        hashes.append(live_hash(model, ""))
    assert hashes[0] == hashes[1], "as if it had not been there"


def test_owners():
    way = Way(Trajectory(numbers=NUMBERS), np.array([1, -1]))
    assert way.owned_by(np.array([7, 9])).owner.tolist() == [9, -1]
