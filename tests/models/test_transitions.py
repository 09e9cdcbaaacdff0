"""Samplers as transitions: densities against SciPy and against draws, replay, gradients, refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from tiny_ways import NUMBERS, model_of, noise, rollout

from anchor.errors import AnchorError
from anchor.models.cells import centre
from anchor.models.transitions import Gaussian, Trajectory, Transition

# One Gaussian


def test_free_density_is_that_of_scipy():
    mean, value = torch.randn(5, 6, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    expected = [
        stats.multivariate_normal.logpdf(v, m, 0.7**2 * np.eye(6)) for v, m in zip(value, mean, strict=True)
    ]
    found = Gaussian(mean, 0.7).log_prob(value, mean)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_centred_density_is_that_of_scipy_in_the_centred_subspace(n):
    """The covariance s²(1 − 11ᵀ/n) is singular: SciPy takes its pseudo-determinant of 3(n − 1) dimensions."""
    generator = torch.Generator().manual_seed(n)
    mean, value = (centre(torch.randn(4, n, 3, dtype=torch.float64, generator=generator)) for _ in range(2))
    found = Gaussian(mean, 0.3, centred=True).log_prob(value, mean)
    if n == 1:
        assert not found.any(), "a single atom has no velocity: nothing is random"
        return
    covariance = 0.3**2 * np.kron(np.eye(n) - 1 / n, np.eye(3))
    expected = [
        stats.multivariate_normal(m.flatten(), covariance, allow_singular=True).logpdf(v.flatten())
        for v, m in zip(value, mean, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_draws_have_the_mean_the_deviation_and_the_rank():
    count, n = 20_000, 3
    mean = centre(torch.arange(9.0).view(1, n, 3) ** 2).expand(count, -1, -1)
    drawn = Gaussian(mean, 0.5, centred=True).draw(noise(count))
    np.testing.assert_allclose(drawn.mean(dim=0), mean[0], atol=0.02)
    covariance = np.cov(drawn.flatten(1).T.double())
    np.testing.assert_allclose(covariance, 0.25 * np.kron(np.eye(n) - 1 / n, np.eye(3)), atol=0.01)
    assert np.linalg.matrix_rank(covariance, tol=1e-6) == 3 * (n - 1)


def test_entropy_of_draws_is_the_mean_of_the_density():
    """−E[ln p] = D/2 (1 + ln 2πs²) for D free dimensions: densities are normalised."""
    count, s = 4000, 0.8
    for shape, centred, free in (((4, 3), True, 9), ((4, 3), False, 12), ((6,), False, 6)):
        part = Gaussian(torch.zeros(count, *shape), s, centred=centred)
        found = -part.log_prob(part.draw(noise(count)), part.mean).mean().item()
        assert found == pytest.approx(free / 2 * (1 + math.log(2 * math.pi * s**2)), abs=0.1)


def test_a_periodic_mean_is_taken_at_the_image_it_was_drawn_around():
    then, value = torch.tensor([[0.49]]), torch.tensor([[0.9]])
    now = Gaussian(torch.tensor([[-0.49]]), 0.3, periodic=True)  # 0.51, wrapped
    expected = Gaussian(torch.tensor([[0.51]]), 0.3).log_prob(value, then)
    torch.testing.assert_close(now.log_prob(value, then), expected)
    assert not torch.isclose(replace(now, periodic=False).log_prob(value, then), expected)


# Models


@pytest.mark.parametrize(("name", "scored"), [("kldm", [0, 1, 2, 3]), ("crystalite", [0, 1, 2])])
def test_a_replay_with_the_same_weights_gives_the_same_density(name, scored):
    model = model_of(name)
    way = rollout(model)
    assert len(way.states) == 5
    assert way.scored == scored, "the last step of crystalite adds no noise"
    with torch.no_grad():
        again = model.log_prob(way)
        assert torch.equal(again, way.log_prob()), "ratio 1, to the bit"
        assert torch.equal(model.log_prob(way, steps=[1]), again[1:2])
    assert again.shape == (len(scored), 2)
    # With a gradient torch may choose another kernel for attention.
    torch.testing.assert_close(model.log_prob(way).detach(), again, atol=2e-3, rtol=1e-4)


@pytest.mark.parametrize("name", ["kldm", "crystalite"])
def test_recording_changes_nothing(name):
    model = model_of(name)
    with torch.no_grad():
        plain = model.generate(NUMBERS, noise(2), steps=4)
        recorded = model.generate(NUMBERS, noise(2), steps=4, recorder=Trajectory())
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))


def test_kldm_scores_velocity_and_cell_and_coordinates_follow():
    model = model_of("kldm")
    way = rollout(model)
    h = 2.0 * 0.999 / 4
    for before, after, step in zip(way.states, way.states[1:], way.transitions, strict=False):
        assert set(step.parts) == {"v", "l"}
        assert step.parts["v"].std == pytest.approx(math.sqrt(math.expm1(2 * h)), rel=1e-5)
        moved = torch.remainder(before["r"] - h * after["v"] - after["r"] + math.pi, 2 * math.pi) - math.pi
        assert moved.abs().max() < 1e-4
        assert step.parts["v"].mean.mean(dim=1).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["kldm", "crystalite"])
def test_many_draws_from_one_state_have_the_density_of_the_transition(name):
    """What the sampler draws is what is scored: covariance, rank and entropy of 2,000 draws."""
    model = model_of(name)
    way = rollout(model)
    count = 2000
    with torch.no_grad():
        process = model.process(NUMBERS[:1].expand(count, -1), steps=4)
        state = {part: value[:1].expand(count, *value.shape[1:]) for part, value in way.states[1].items()}
        step = process.transition(1, state)
        drawn = step.draw(noise(count, seed=1))
        total = sum(part.log_prob(drawn[key], part.mean) for key, part in step.parts.items())
    errors = torch.cat(
        [((drawn[key] - part.mean) / part.std).flatten(1) for key, part in step.parts.items()], dim=1
    )
    free = 6 + 3 * (3 - 1 if name == "kldm" else 3)
    covariance = np.cov(errors.T.double())
    assert np.linalg.matrix_rank(covariance, tol=1e-4) == free
    assert np.trace(covariance) == pytest.approx(free, rel=0.05)
    entropy = sum(
        (6 if key in "ly" else free - 6) / 2 * (1 + math.log(2 * math.pi * part.std**2))
        for key, part in step.parts.items()
    )
    assert -total.mean().item() == pytest.approx(entropy, abs=0.3)


@pytest.mark.parametrize("name", ["kldm", "crystalite"])
def test_gradients_of_replayed_densities_are_those_of_finite_differences(name):
    model = model_of(name)
    way = rollout(model)
    # Along the gradient, where the change is far above the rounding of single precision.
    model.requires_grad_(True)
    weights = torch.tensor([1.0, -0.5])
    (model.log_prob(way) @ weights).sum().backward()
    gradient = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    assert len(gradient) > 0.8 * len(list(model.parameters()))
    size = math.sqrt(sum(float((g**2).sum()) for g in gradient.values()))
    assert size > 1e-3
    start = {key: p.detach().clone() for key, p in model.named_parameters()}

    def moved(step: float) -> float:
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                parameter.copy_(start[key] + step * gradient.get(key, 0.0) / size)
            return float((model.log_prob(way).double() @ weights.double()).sum())

    step = 1e-3
    assert (moved(step) - moved(-step)) / (2 * step) == pytest.approx(size, rel=0.03)


def test_what_has_no_density_is_refused():
    with pytest.raises(AnchorError, match="'omatg' is deterministic"):
        rollout(model_of("omatg"))
    kldm = model_of("kldm")
    kldm.chosen = replace(kldm.chosen, noise=0.0)
    still = rollout(kldm)
    assert not still.scored
    with pytest.raises(AnchorError, match="have no density"):
        kldm.log_prob(still)
    kldm.chosen = replace(kldm.chosen, sampler="pc")
    with pytest.raises(AnchorError, match="no density"):
        rollout(kldm)
    crystalite = model_of("crystalite")
    way = rollout(crystalite)
    with pytest.raises(AnchorError, match="deterministic"):
        crystalite.log_prob(way, steps=[3])
    with pytest.raises(AnchorError, match="cannot be replayed"):
        way.replay(crystalite.process(NUMBERS, steps=5))


def test_only_steps_with_noise_in_every_part_are_random():
    part = Gaussian(torch.zeros(1, 2), 1.0)
    assert Transition({"a": part}).random
    assert not Transition({"a": part, "b": replace(part, std=0.0)}).random
