"""KLDM: closed forms against simulation and autograd, the published numbers, samplers with exact scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from anchor.models.cells import centre
from anchor.models.data import Batch, TrainingSet, to_batches
from anchor.models.kldm import (
    FINEST,
    FIRST,
    EulerMaruyama,
    Kldm,
    KldmSettings,
    beta,
    cell_signal,
    coordinate_variance,
    noised,
    predictor_corrector,
    score_scale,
    velocity_variance,
    wrap_angle,
    wrapped_score,
)
from anchor.models.network import CspSize
from anchor.models.noise import Noise
from anchor.models.omatg import Omatg, OmatgSettings
from anchor.priors.match_rate import held_out

TINY = CspSize(hidden=32, messages=24, layers=2, frequencies=4, time_features=16, shells=8)


def batch_of(n: int, count: int = 4) -> Batch:
    crystals = held_out("val")
    chosen = TrainingSet(crystals[np.flatnonzero(crystals.counts == n)[:count]])
    return to_batches(chosen.crystals)[0][1]


def streams(count: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in range(count)]


def test_published_score_scale():
    found = score_scale(torch.tensor([0.001, 0.5, 1.0], dtype=torch.float64))
    np.testing.assert_allclose(found, [998_668, 6.599, 1.0053], rtol=1e-4)
    longer = score_scale(torch.tensor([0.0005, 0.25, 0.5], dtype=torch.float64), 4.0)  # the same s
    np.testing.assert_allclose(longer, found, rtol=1e-3)


def test_score_scale_against_sampling():
    t = torch.tensor(0.3)
    variance = coordinate_variance(2 * t)
    d = wrap_angle(variance.sqrt() * torch.randn(200_000, generator=torch.Generator().manual_seed(0)))
    g = wrapped_score(d, variance.expand_as(d))
    assert (g**2).mean().item() == pytest.approx(score_scale(t).item(), rel=0.02)


@pytest.mark.parametrize("s", [0.002, 0.02, 0.29, 0.31, 1.0, 2.0])
def test_variances_in_single_precision(s):
    exact = 2 * s - 4 * math.tanh(s / 2) + 1e-6
    assert coordinate_variance(torch.tensor(s)).item() == pytest.approx(exact, rel=1e-4)
    assert velocity_variance(torch.tensor(s)).item() == pytest.approx(1 - math.exp(-2 * s) + 1e-6, rel=1e-5)


def test_wrapped_score_is_the_derivative_of_the_wrapped_density():
    for variance in (0.01, 0.5, 1.5):
        distance = torch.linspace(-3.1, 3.1, 41, dtype=torch.float64)
        mu = torch.zeros_like(distance, requires_grad=True)
        k = 2 * math.pi * torch.arange(-30, 31, dtype=torch.float64)
        log_density = torch.logsumexp(-((distance[:, None] - mu[:, None] + k) ** 2) / (2 * variance), dim=1)
        (expected,) = torch.autograd.grad(log_density.sum(), mu)
        found = wrapped_score(distance, torch.full_like(distance, variance))
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-7)


def test_closed_form_is_the_simulated_process():
    """Moments of (v, r − r₀) at s against small steps of dr = v ds, dv = −v ds + √2 dW."""
    steps, s, count, n = 400, 1.2, 4000, 3
    rng = torch.Generator().manual_seed(0)
    h = s / steps
    v = torch.zeros(count, n, 3, dtype=torch.float64)
    r = torch.zeros_like(v)
    for _ in range(steps):
        kick = centre(torch.randn(count, n, 3, generator=rng, dtype=torch.float64))
        new = v - h * v + math.sqrt(2 * h) * kick
        r = r + h * (v + new) / 2
        v = new
    share = (n - 1) / n  # of the variance that centring leaves
    time = torch.tensor(s, dtype=torch.float64)
    gain, sv2 = torch.tanh(time / 2), velocity_variance(time)
    assert v.var().item() == pytest.approx(share * sv2.item(), rel=0.03)
    assert (v * r).mean().item() == pytest.approx(share * (gain * sv2).item(), rel=0.04)
    assert r.var().item() == pytest.approx(
        share * (gain**2 * sv2 + coordinate_variance(time)).item(), rel=0.04
    )
    noise = centre(torch.randn(2, count, n, 3, generator=rng, dtype=torch.float64))
    v1, r1, _ = noised(
        torch.zeros_like(v), torch.full((count, 1, 1), s, dtype=torch.float64), noise[0], noise[1]
    )
    assert v1.var().item() == pytest.approx(v.var().item(), rel=0.05)
    assert (v1 * r1).mean().item() == pytest.approx((v * wrap_angle(r)).mean().item(), rel=0.06)
    assert torch.cos(r1).mean().item() == pytest.approx(torch.cos(r).mean().item(), abs=0.02)


def test_cell_noise_solves_its_equation():
    """α' = −½βα by a numerical derivative, and σ² = 1 − α²."""
    t = torch.linspace(0.01, 1, 50, dtype=torch.float64)
    eps = 1e-6
    slope = (cell_signal(t + eps)[0] - cell_signal(t - eps)[0]) / (2 * eps)
    alpha, sigma = cell_signal(t)
    torch.testing.assert_close(slope, -0.5 * beta(t) * alpha, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(alpha**2 + sigma**2, torch.ones_like(t))


def fitted() -> Kldm:
    model = Kldm(KldmSettings(size=TINY))
    model.fit_statistics(TrainingSet(held_out("val", 800)).crystals)
    return model


def test_cells_survive_encoding():
    model = fitted()
    for n in (1, 2, 8, 19):
        batch = batch_of(n)
        back = model.cells.decode(model.cells.encode(batch.lattice, n), n)
        torch.testing.assert_close(back @ back.mT, batch.lattice @ batch.lattice.mT, rtol=1e-3, atol=2e-3)
    assert torch.isfinite(model.cells.log_length_mean[1:]).all()
    assert (model.cells.log_length_std[1:] >= 0.05).all()


def test_numbers_that_are_no_cell_decode_to_nan():
    model = fitted()
    l = torch.tensor([[0.0, 0, 0, 30, 30, 30], [0.0, 0, 0, 0, 0, 0]])
    assert torch.isnan(model.cells.decode(l, 4)[0]).any()
    assert torch.isfinite(model.cells.decode(l, 4)[1]).all()
    assert torch.isfinite(model.cells.decode(l, 4, least=0.02)).all()


def test_network_follows_permutations_and_ignores_origin():
    torch.manual_seed(0)
    model = fitted().double()
    torch.nn.init.normal_(model.network.push_out.weight)
    batch = batch_of(6)
    t = torch.full((len(batch),), 0.4).double()
    r, v = 2 * math.pi * batch.frac.double(), centre(torch.randn(len(batch), 6, 3).double())
    l = torch.randn(len(batch), 6).double()
    with torch.no_grad():
        y, cell = model.predict(batch.numbers, t, r, v, l)
        order = torch.randperm(6)
        y2, cell2 = model.predict(batch.numbers[:, order], t, r[:, order], v[:, order], l)
        torch.testing.assert_close(y2, y[:, order], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(cell2, cell, atol=1e-4, rtol=1e-4)
        y3, cell3 = model.predict(batch.numbers, t, wrap_angle(r + 7 * torch.rand(len(batch), 1, 3)), v, l)
        torch.testing.assert_close(y3, y, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(cell3, cell, atol=1e-4, rtol=1e-4)
    assert y.mean(dim=1).abs().max() < 1e-6


@pytest.mark.parametrize(
    ("sampler", "span", "heat"),
    [("em", 2.0, 1.0), ("exact", 2.0, 1.0), ("pc", 2.0, 1.0), ("exact", 4.0, 1.0), ("exact", 4.0, 0.3)],
)
def test_exact_scores_of_one_crystal_lead_to_it(sampler, span, heat):
    """The data are one crystal at any origin, so the centred displacement is known and the score exact.

    For a single crystal g = wrapped_score(r − r₀ − μ): the network's answer is C(g)/√λ, with the origin taken
    where the mean displacement of the sample is.
    """
    batch = batch_of(4, 1)
    model = fitted()
    count, n = 24, 4
    numbers = batch.numbers.expand(count, -1)
    r0 = wrap_angle(2 * math.pi * batch.frac)
    clean = model.cells.encode(batch.lattice, n)

    def net(_numbers, t, r, v, l):
        time = t[:, None, None]
        variance = coordinate_variance(span * time)
        shift = r - r0
        # The centre of mass never moves in the forward process: compare with the crystal moved to it.
        origin = torch.atan2(shift.sin().mean(dim=1, keepdim=True), shift.cos().mean(dim=1, keepdim=True))
        d = wrap_angle(shift - origin - torch.tanh(span * time / 2) * v)
        g = wrapped_score(d, variance.expand_as(d))
        return centre(g) / score_scale(time, span).sqrt(), clean.expand(len(l), -1)

    noise = Noise(streams(count))
    if sampler == "pc":
        r, l = predictor_corrector(net, numbers, noise, steps=200)
    else:
        end = EulerMaruyama(net, numbers, 200, cell_step=sampler, span=span, heat=heat).run(noise)
        r, l = end["r"], end["l"]
    shift = r - r0
    relative = wrap_angle(shift - shift[:, :1])
    # Most paths end at the crystal; a few stop where two images of an atom pull alike.
    arrived = (relative.abs().amax(dim=(1, 2)) < 0.1).float().mean()
    assert arrived > 0.7
    tolerance = {"em": 0.2, "exact": 0.06, "pc": 0.15}[sampler]
    assert (l - clean).abs().max() < tolerance


def test_em_velocity_of_pure_noise_stays_standard_normal():
    """With the score of the stationary law alone (s large, g = 0) velocities keep unit variance."""
    numbers = torch.ones(300, 3, dtype=torch.long)
    kept = []

    def net(_numbers, _t, r, v, l):
        kept.append(v)
        return torch.zeros_like(r), torch.zeros_like(l)

    EulerMaruyama(net, numbers, 50, cell_step="em").run(Noise(streams(300)))
    # σ_v is near 1 until s is small; look half way.
    assert kept[20].var().item() == pytest.approx(2 / 3, rel=0.15)


def test_times_start_above_zero():
    assert FIRST == 0.001


def test_one_atom_trains_and_samples():
    model = fitted()
    batch = batch_of(1, 2)
    sums = model.loss_sums(batch, torch.rand(2), torch.Generator().manual_seed(0))
    assert sums["velocity"].item() == pytest.approx(0, abs=1e-6)
    for sampler in ("em", "pc"):
        other = Kldm(KldmSettings(size=TINY, sampler=sampler))
        with torch.no_grad():
            frac, _ = other.generate(batch.numbers, Noise(streams(2)), steps=4)
        assert torch.isfinite(frac).all()


# The small model's view


def denoiser() -> Kldm:
    torch.manual_seed(0)
    model = Kldm(KldmSettings(size=TINY, span=4.0, view="denoiser", pairing="nearest"))
    model.fit_statistics(TrainingSet(held_out("val", 800)).crystals)
    torch.nn.init.normal_(model.network.push_out.weight)
    return model


def test_the_velocity_says_nothing_beyond_the_coordinates_without_it():
    """v_s and r_s − tanh(s/2) v_s are independent, and the latter is r₀ + σ_r ε_r: noise of σ_r alone."""
    count, n, s = 20_000, 4, torch.tensor(3.0)
    rng = torch.Generator().manual_seed(0)
    r0 = torch.zeros(count, n, 3)
    noise = [centre(torch.randn(count, n, 3, generator=rng)) for _ in range(2)]
    v, r, g = noised(r0, s, *noise)
    seen = wrap_angle(r - torch.tanh(s / 2) * v)
    assert abs((v * seen.sin()).mean().item()) < 0.01
    expected = wrap_angle(coordinate_variance(s).sqrt() * noise[1])
    torch.testing.assert_close(wrap_angle(seen - expected), torch.zeros_like(seen), atol=1e-4, rtol=0)
    torch.testing.assert_close(
        g, wrapped_score(seen, coordinate_variance(s).expand_as(seen)), atol=1e-3, rtol=1e-3
    )


def test_the_denoiser_sees_coordinates_without_the_velocity():
    model = denoiser()
    batch = batch_of(5)
    t, l = torch.rand(len(batch)), torch.randn(len(batch), 6)
    r, v = 2 * math.pi * batch.frac, centre(torch.randn(len(batch), 5, 3))
    moved = r - torch.tanh(4.0 * t[:, None, None] / 2) * v
    with torch.no_grad():
        one, two = model.predict(batch.numbers, t, r, v, l), model.predict(batch.numbers, t, moved, 0 * v, l)
    torch.testing.assert_close(one, two, atol=1e-3, rtol=1e-3)


def test_a_denoiser_begins_as_an_omatg():
    """Without velocity, and at the time omatg counts the same noise as, both answer alike."""
    torch.manual_seed(1)
    other = Omatg(OmatgSettings(size=TINY, cell_features="shape", time_scale=1000.0, target="end"))
    torch.nn.init.normal_(other.network.push_out.weight)
    model = denoiser()
    model.begin_as(other)
    batch = batch_of(5)
    t, l = torch.linspace(0.1, 0.9, len(batch)), torch.randn(len(batch), 6)
    spread = coordinate_variance(4.0 * t).sqrt()
    z = spread / (2 * math.pi * 0.2)
    with torch.no_grad():
        score, numbers = model.predict(batch.numbers, t, 2 * math.pi * batch.frac, 0 * batch.frac, l)
        cell = model.cells.decode(l, 5, least=0.02)
        drift, expected = other.outputs(batch.numbers, 1 - z / (1 + z**2).sqrt(), batch.frac, cell)
    torch.testing.assert_close(numbers, expected, atol=1e-4, rtol=1e-3)
    gain = 2 * math.pi / (spread**2 + FINEST**2).sqrt()
    torch.testing.assert_close(score, -gain[:, None, None] * centre(drift), atol=1e-3, rtol=1e-3)


def test_targets_of_the_denoiser_are_of_unit_size():
    """The right displacement of each atom, −σ_r ε_r/2π, times the gain is about ε_r where noise is coarse."""
    model = denoiser()
    s = torch.tensor([0.8, 1.5, 2.5])
    spread = coordinate_variance(s).sqrt()
    gain = 2 * math.pi / (spread**2 + FINEST**2).sqrt()
    assert ((gain * spread / (2 * math.pi)) > 0.7).all()
    batch = batch_of(6, 40)
    u = (torch.arange(len(batch)) + 0.5) / len(batch)
    model.predict = lambda _numbers, _t, r, _v, l: (torch.zeros_like(r), torch.zeros_like(l))
    sums = model.loss_sums(batch, u, torch.Generator().manual_seed(0))
    assert sums["velocity"].item() / (len(batch) * 18) == pytest.approx(5 / 6, rel=0.2)
