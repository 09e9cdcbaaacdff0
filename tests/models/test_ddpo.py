"""DDPO: gradients by hand and by finite differences, zero advantages, discarded epochs, bounded memory."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from tiny_ways import NUMBERS, joint_model_of, joint_rollout, model_of, noise, rollout
from torch import Tensor, nn

from anchor.models import ddpo
from anchor.models.base import SampledModel, StructureModel
from anchor.models.ddpo import Rules, Tether, Way, accumulate, drawn_steps, update
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

    def transition(self, i: int | Tensor, state: State) -> Transition:
        std = 0.5 + 0.1 * (i.double() if isinstance(i, Tensor) else i)
        return Transition({"x": Gaussian(state["x"] + self.theta, std)})


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


def one_step_at_a_time(
    model: SampledModel, trajectory: Trajectory, advantage: Tensor, old: Tensor | None, tether: Tether | None
) -> dict[str, Tensor]:
    """The gradient of −L as (eq:ddpo) reads: a call and a backward pass for each step of the sampler."""
    model.zero_grad(set_to_none=True)
    steps, clip = model.informative(trajectory), 0.05
    process = model.process(trajectory.numbers, steps=len(trajectory))
    for place, i in enumerate(steps):
        transition = process.transition(i, trajectory.states[i])
        now = trajectory.log_prob_of(i, transition)
        ratio = (now - (now.detach() if old is None else old[place])).exp()
        loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
        if tether is not None:
            with torch.no_grad():
                other = tether.model.process(trajectory.numbers, steps=len(trajectory))
                then = other.transition(i, trajectory.states[i])
            loss = loss + tether.weight * transition.divergence(then)
        (loss.mean() / len(steps)).backward()
    return gradient(model)


def gradient(model: SampledModel) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def moved(name: str, by: float) -> SampledModel:
    """A model a little away from the one that made the way."""
    model = MODELS[name]().requires_grad_(True)
    stream = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += by * torch.randn(parameter.shape, generator=stream)
    return model


MODELS = {
    "kldm": lambda: model_of("kldm"),
    "crystalite": lambda: model_of("crystalite"),
    "kldm-dng": lambda: joint_model_of("kldm-dng"),
    "crystalite-dng": lambda: joint_model_of("crystalite-dng"),
}


def way_of(name: str) -> Trajectory:
    model = MODELS[name]()
    return rollout(model, steps=16) if isinstance(model, StructureModel) else joint_rollout(model, steps=16)


@pytest.mark.parametrize("pairs", [18, 50, 4000])
@pytest.mark.parametrize("name", MODELS)
def test_many_steps_in_one_call_have_the_gradient_of_one_at_a_time(name, pairs, monkeypatch):
    """At ratio 1, with ratios beyond the clip, and with a tether; one, two or all steps in a call."""
    monkeypatch.setattr(ddpo, "MOST_PAIRS", pairs)  # a step of this way has 18
    trajectory, advantage = way_of(name), torch.tensor([1.0, -0.6])
    way = Way(trajectory, np.arange(2))
    tether = Tether(moved(name, 0.01), 0.1)
    same, near = moved(name, 0.0), moved(name, 1e-4)
    steps = len(same.informative(trajectory))
    old = accumulate(same, [way], [advantage], clip=0.05).log_probs
    assert old[0].shape == (steps, 2)
    for model, then, pull in ((same, None, None), (near, old, None), (near, old, tether)):
        expected = one_step_at_a_time(model, trajectory, advantage, then and then[0], pull)
        model.zero_grad(set_to_none=True)
        found = accumulate(model, [way], [advantage], then, clip=0.05, tether=pull)
        largest = max(float(g.abs().max()) for g in expected.values())
        assert largest > 0
        for key, value in gradient(model).items():
            torch.testing.assert_close(value, expected[key], atol=1e-4 * largest, rtol=1e-3)
        assert (found.drift == 0) == (then is None)
        assert (found.kl > 0) == (pull is not None)


@pytest.mark.parametrize("name", MODELS)
def test_memory_is_that_of_one_call(name, monkeypatch):
    """No call sees more pairs than it may, however many steps there are."""
    monkeypatch.setattr(ddpo, "MOST_PAIRS", 40)
    model, trajectory = moved(name, 0.0), way_of(name)
    sizes: list[int] = []
    process = model.process
    monkeypatch.setattr(model, "process", lambda n, **k: sizes.append(n.shape[0] * 9) or process(n, **k))
    accumulate(model, [Way(trajectory, np.arange(2))], [torch.ones(2)], clip=0.05)
    assert max(sizes) == 36


def test_a_share_of_the_steps_has_the_gradient_of_all_on_average():
    """Over all subsets of two of three steps, exactly; a share of each way is drawn, at least one step."""
    model = Toy()
    way, advantage = toy_way(model, 4), torch.tensor([1.0, -2.0, 0.5, 1.5], dtype=torch.float64)

    def slope(steps: list[int]) -> float:
        model.theta.grad = None
        accumulate(model, [way], [advantage], clip=0.05, steps=[steps])
        return model.theta.grad.item()

    subsets = [list(pair) for pair in combinations(range(3), 2)]
    assert np.mean([slope(steps) for steps in subsets]) == pytest.approx(slope([0, 1, 2]), rel=1e-12)
    rng = np.random.default_rng(0)
    drawn = [tuple(drawn_steps([0, 1, 2], 0.5, rng)) for _ in range(3000)]
    assert {len(steps) for steps in drawn} == {2}
    for steps in subsets:
        assert drawn.count(tuple(steps)) == pytest.approx(1000, abs=5 * math.sqrt(3000 * 2 / 9))
    assert len(drawn_steps([4, 7], 0.01, rng)) == 1
    assert drawn_steps([4, 7], 1.0, None) == [4, 7]


def test_epochs_replay_the_same_share():
    model = model_of("kldm").requires_grad_(True)
    way = Way(rollout(model, steps=8), np.array([0, 1]))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-8)
    rules = Rules(epochs=2, trust=math.inf, scored=0.25)
    found = update(model, optimiser, [way], np.array([1.0, -1.0]), rules, rng=np.random.default_rng(0))
    assert found["epochs"] == 2
    assert 0 < found["drift"] < 0.05, "ratios are of the same steps under both weights"


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
