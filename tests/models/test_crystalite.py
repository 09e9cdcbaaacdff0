"""Crystalite: cell numbers, preconditioning, noise grid, sampler with the exact denoiser."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from anchor.models.cells import paired, wrap
from anchor.models.crystalite import (
    SETTINGS,
    Crystalite,
    CrystaliteSettings,
    Heun,
    anti_annealing,
    from_triangle,
    noise_levels,
    on_circle,
    triangle,
)
from anchor.models.data import Batch, TrainingSet, to_batches
from anchor.models.noise import Noise
from anchor.models.transformer import TransformerSize
from anchor.priors.match_rate import held_out

TINY = TransformerSize(
    width=32, layers=2, heads=4, frequencies=4, pair_frequencies=2, gaussians=6, pair_hidden=16
)


def batch_of(n: int, count: int = 4) -> Batch:
    crystals = held_out("val")
    chosen = TrainingSet(crystals[np.flatnonzero(crystals.counts == n)[:count]])
    return to_batches(chosen.crystals)[0][1]


def streams(count: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in range(count)]


@pytest.mark.parametrize("standardise", [False, True])
def test_cells_survive_encoding(standardise):
    model = Crystalite(CrystaliteSettings(size=TINY, standardise=standardise))
    data = TrainingSet(held_out("val", 500))
    model.fit_statistics(data.crystals)
    lattice = torch.from_numpy(data.crystals.lattice).float()
    rotation = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)))[0]
    y = model.encode_cell(lattice @ rotation)
    fits = lattice.abs().amax(dim=(1, 2)) < 10  # shears beyond 10 Å are clamped
    torch.testing.assert_close(model.decode_cell(y)[fits], lattice[fits], rtol=1e-3, atol=1e-2)
    if standardise:
        torch.testing.assert_close(y.std(dim=0), torch.full((6,), 0.3), rtol=0.01, atol=0.0)
        assert y.mean(dim=0).abs().max() < 1e-3


def test_triangle_is_inverted_and_clamped():
    y = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(triangle(from_triangle(y)), y)
    wild = from_triangle(100 * y)
    assert torch.isfinite(wild).all()
    assert wild.abs().max() < 150


def test_published_noise_grid():
    levels = noise_levels(400)
    assert levels[0].item() == pytest.approx(80)
    assert levels[-1].item() == pytest.approx(0.002)
    # "acts for σ < 25, κ up to 4.33" and "acts only for σ > 35, κ ≤ 1.19"
    kappa = anti_annealing(400, 4)
    assert kappa.max().item() == pytest.approx(4.33, abs=0.01)
    assert levels[kappa > 1].max().item() == pytest.approx(25, abs=1)
    kappa = anti_annealing(150, 10)
    assert kappa.max().item() == pytest.approx(1.19, abs=0.01)
    assert noise_levels(150)[kappa > 1].min().item() == pytest.approx(35, abs=1)
    assert (anti_annealing(30, 0) == 1).all()


def test_preconditioning_and_loss_weight_make_unit_targets():
    """λ c_out² = 1: the loss is the plain error of the network's own output."""
    sigma = torch.tensor([0.002, 0.1, 1.0, 80.0], dtype=torch.float64)
    both = sigma**2 + 0.3**2
    out, weight = sigma * 0.3 / both.sqrt(), both / (sigma * 0.3) ** 2
    torch.testing.assert_close(weight * out**2, torch.ones_like(sigma))
    model = Crystalite(CrystaliteSettings(size=TINY)).double()
    batch = batch_of(3, 4)
    x, y = batch.frac.double() - 0.5, model.encode_cell(batch.lattice.double())
    seen = {}

    def network(_numbers, frac, scaled, _lattice, _sigma, *, extra):
        assert extra is None
        seen.update(frac=frac, scaled=scaled)
        return torch.ones(4, 3, 3).double(), torch.full((4, 6), 2.0).double(), torch.zeros(4, 3, 8)

    model.network = torch.nn.Module()
    model.network.forward = network
    clean_x, clean_y = model.denoise(batch.numbers, x, y, sigma)
    skip = (0.3**2 / both)[:, None]
    torch.testing.assert_close(clean_y, skip * y + 2 * out[:, None])
    torch.testing.assert_close(clean_x, skip[..., None] * x + out[:, None, None])
    torch.testing.assert_close(seen["scaled"], y / both.sqrt()[:, None])
    torch.testing.assert_close(wrap(seen["frac"] - batch.frac), torch.zeros_like(x), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("steps", "churn", "annealing", "sigma_max"),
    [
        (30, 0.0, (0.0, 0.0), 80.0),
        (50, 20.0, (0.0, 0.0), 80.0),
        (400, 30.0, (4.0, 4.0), 80.0),
        (12, 4.0, (0.0, 0.0), 1.0),
    ],
)
def test_exact_denoiser_of_one_crystal_leads_to_it(steps, churn, annealing, sigma_max):
    batch = batch_of(8, 1)
    model = Crystalite(CrystaliteSettings(size=TINY))
    clean_y = model.encode_cell(batch.lattice)
    count = 16

    def denoise(_numbers, x, _y, _sigma):
        return (batch.frac - 0.5).expand(len(x), -1, -1), clean_y.expand(len(x), -1)

    end = Heun(
        denoise,
        batch.numbers.expand(count, -1),
        steps,
        churn=churn,
        churn_noise=1.003,
        annealing=annealing,
        sigma_max=sigma_max,
    ).run(Noise(streams(count)))
    x, y = end["x"], end["y"]
    exact = not any(annealing)  # the last anti-annealed step goes past the end by design
    assert wrap(x + 0.5 - batch.frac).abs().max() < (1e-4 if exact else 0.03)
    assert (y - clean_y).abs().max() < (1e-4 if exact else 0.03)


@pytest.mark.parametrize(("mean", "spread", "sigma_max"), [(1.0, 0.5, 80.0), (0.0, 0.3, 1.0)])
def test_exact_denoiser_of_gaussian_cells_gives_their_spread(mean, spread, sigma_max):
    """For y ~ N(mean, spread²) the denoiser is linear; samples must have that mean and spread.

    Starting below σ = 80 is exact for numbers of mean 0 and spread σ_data, as standardised ones are.
    """
    count = 3000

    def denoise(_numbers, x, y, sigma):
        share = spread**2 / (spread**2 + sigma**2)[:, None]
        return x, mean + share * (y - mean)

    y = Heun(
        denoise,
        torch.ones(count, 1, dtype=torch.long),
        40,
        churn=10.0,
        churn_noise=1.0,
        annealing=(0.0, 0.0),
        sigma_max=sigma_max,
    ).run(Noise(streams(count)))["y"]
    assert y.mean().item() == pytest.approx(mean, abs=0.02)
    assert y.std().item() == pytest.approx(spread, rel=0.05)


def test_noise_levels_of_training_are_log_normal():
    model = Crystalite(CrystaliteSettings(size=TINY))
    batch = batch_of(2, 1)
    many = Batch(
        batch.numbers.expand(2000, -1), batch.frac.expand(2000, -1, -1), batch.lattice.expand(2000, -1, -1)
    )
    seen = []

    def denoise(_numbers, x, y, sigma):
        seen.append(sigma)
        return torch.zeros_like(x), torch.zeros_like(y)

    model.denoise = denoise
    model.loss_sums(many, (torch.arange(2000) + 0.5) / 2000, torch.Generator().manual_seed(0))
    logs = seen[0].log()
    assert logs.mean().item() == pytest.approx(-1.2, abs=0.01)
    assert logs.std().item() == pytest.approx(1.2, rel=0.01)


# What the small model changes


def test_a_place_on_the_circle_is_found_from_anywhere():
    """A large p decides alone, whatever x and however many cells it is away; the way is the short one."""
    x = torch.linspace(-2.3, 2.3, 60).view(20, 1, 3)
    goal = torch.tensor([0.5, 0.1, -0.45])
    angle = 2 * math.pi * goal.expand(20, 1, 3)
    answer = 1e4 * torch.cat([angle.cos(), angle.sin(), torch.zeros_like(angle)], dim=-1)
    moved = on_circle(x, answer, torch.ones(20, 1, 1), torch.ones(20, 1, 1))
    torch.testing.assert_close(wrap(x + moved - goal), torch.zeros_like(x), atol=1e-4, rtol=0)
    assert moved.abs().max() <= 0.5


def test_small_answers_on_the_circle_are_the_published_ones():
    """With little noise a step q moves by c_out q, as in D = c_skip x + c_out net with c_skip → 1."""
    x = torch.rand(8, 2, 3, generator=torch.Generator().manual_seed(0))
    step = torch.randn(8, 2, 3, generator=torch.Generator().manual_seed(1))
    answer = torch.cat([torch.zeros(8, 2, 6), step], dim=-1)
    moved = on_circle(x, answer, torch.ones(8, 1, 1), torch.full((8, 1, 1), 1e-3))
    torch.testing.assert_close(moved, 1e-3 * step, atol=1e-6, rtol=1e-3)


def small(**settings) -> Crystalite:
    torch.manual_seed(0)
    size = replace(TINY, roles=True, shared_bias=True, descriptors=True, pair_values=True)
    model = Crystalite(
        CrystaliteSettings(
            size=size, standardise=True, frame="canonical", pairing="nearest", answer="circle", **settings
        )
    )
    model.fit_statistics(TrainingSet(held_out("val", 300)).crystals)
    return model


def test_the_small_model_does_not_see_which_image_an_atom_is():
    model = small()
    batch = batch_of(5)
    sigma = torch.tensor([0.05, 0.3, 1.0, 3.0])
    x, y = batch.frac - 0.5, model.encode_cell(batch.lattice)
    images = torch.randint(-2, 3, x.shape, generator=torch.Generator().manual_seed(0)).float()
    with torch.no_grad():
        one, cell = model.denoise(batch.numbers, x, y, sigma)
        two, cell2 = model.denoise(batch.numbers, x + images, y, sigma)
    torch.testing.assert_close(wrap(one - two), torch.zeros_like(one), atol=1e-3, rtol=0)
    torch.testing.assert_close(cell, cell2, atol=1e-3, rtol=1e-3)


def test_the_small_model_follows_permutations():
    model = small()
    batch = batch_of(6)
    sigma = torch.full((len(batch),), 0.4)
    x, y = batch.frac - 0.5, model.encode_cell(batch.lattice)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        one, cell = model.denoise(batch.numbers, x, y, sigma)
        two, cell2 = model.denoise(batch.numbers[:, order], x[:, order], y, sigma)
    torch.testing.assert_close(wrap(one[:, order] - two), torch.zeros_like(one), atol=1e-4, rtol=0)
    torch.testing.assert_close(cell, cell2, atol=1e-4, rtol=1e-4)


def test_pairing_is_the_best_assignment_within_elements():
    """Against all permutations of four atoms, two of them equal and two more equal."""
    rng = torch.Generator().manual_seed(0)
    numbers = torch.tensor([[8, 22, 8, 22]]).expand(30, -1)
    clean, noisy = torch.rand(30, 4, 3, generator=rng), torch.rand(30, 4, 3, generator=rng)
    found = paired(numbers, clean, noisy)
    cost = (wrap(noisy - found) ** 2).sum(dim=(1, 2))
    allowed = [p for p in permutations(range(4)) if all(i % 2 == j % 2 for i, j in enumerate(p))]
    assert len(allowed) == 4
    every = torch.stack([(wrap(noisy - clean[:, list(p)]) ** 2).sum(dim=(1, 2)) for p in allowed])
    torch.testing.assert_close(cost, every.amin(dim=0))


def test_training_crystals_are_shifted_as_published_and_framed_in_the_small_model():
    assert Crystalite(SETTINGS["published"].__class__(size=TINY)).frame == "shifted"
    assert SETTINGS["published"] == CrystaliteSettings()
    assert SETTINGS["small"].frame == "canonical"


def test_gathered_pairs_reach_the_atoms():
    """With pair_values the answer depends on the geometry even where attention looks everywhere alike."""
    model = small()
    network = model.network
    with torch.no_grad():
        for block in network.blocks:
            block.modulation[1].bias.fill_(0.5)  # open the gates, which start at 0
            block.qkv.weight[: 2 * 32] = 0  # no difference between queries and keys
        for bias in network.biases:
            bias.slope.fill_(-40.0)  # no bias by distance
    batch = batch_of(4, 2)
    cell, sigma = torch.zeros(2, 6), torch.full((2,), 0.3)
    with torch.no_grad():
        one, _, _ = network(batch.numbers, batch.frac, cell, batch.lattice, sigma)
        stretched = batch.lattice * torch.tensor([1.0, 1.0, 1.6])
        two, _, _ = network(batch.numbers, batch.frac, cell, stretched, sigma)
        network.pairs = None
        for block in network.blocks:
            block.pair_out = None
        blind, _, _ = network(batch.numbers, batch.frac, cell, batch.lattice, sigma)
        blind2, _, _ = network(batch.numbers, batch.frac, cell, stretched, sigma)
    assert (one - two).abs().max() > 1e-3
    torch.testing.assert_close(blind, blind2, atol=1e-5, rtol=1e-5)
