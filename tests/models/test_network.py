"""The networks: published sizes, symmetries, and geometry against brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from anchor.errors import InputError
from anchor.models import crystalite, kldm, omatg
from anchor.models.data import Batch, to_batches
from anchor.models.network import CspNet, CspSize, nearest_distance, shells, sinusoids
from anchor.models.transformer import GeometryBias, TransformerSize, pair_geometry
from anchor.priors.match_rate import held_out

TINY = CspSize(hidden=32, messages=24, layers=2, frequencies=4, time_features=16, shells=8, descriptors=True)
TINY_TRANSFORMER = TransformerSize(
    width=32, layers=2, heads=4, frequencies=4, pair_frequencies=2, gaussians=6, pair_hidden=16
)


def batch_of(n: int, count: int = 4) -> Batch:
    crystals = held_out("val")
    return to_batches(crystals[np.flatnonzero(crystals.counts == n)[:count]])[0][1]


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    """All weights random, so that zero-initialised ones take part."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


def test_published_sizes():
    """Counts of the released networks (without heads that crystal structure prediction does not use)."""
    with torch.device("meta"):
        size = kldm.SETTINGS["published"].size
        net = CspNet(size, lattice_features=6, self_pairs=False, velocities=True)
    per_layer = 2 * 512 + 2566 * 512 + 512 + 512 * 512 + 512 + 1024 * 512 + 512 + 512 * 512 + 512
    rest = 101 * 512 + (768 * 512 + 512) + (3 * 768 + 768) + 2 * 512
    assert sum(p.numel() for p in net.parameters()) == 6 * per_layer + rest
    assert kldm.Kldm(kldm.SETTINGS["published"]).n_parameters == pytest.approx(14.92e6, rel=2e-3)
    # 12.40 M with the denoiser's and the types' heads, of which CSP by an ODE uses none.
    unused = 2 * (512 * 100 + 100) + 512 * 12
    assert omatg.Omatg(omatg.SETTINGS["published"]).n_parameters + unused == pytest.approx(12.40e6, rel=1e-3)


def test_published_crystalite_size():
    with torch.device("meta"):
        model = crystalite.Crystalite(crystalite.SETTINGS["published"])
    assert model.n_parameters == pytest.approx(270e6, rel=2e-3)


def test_small_sizes_fit_a_cpu():
    for model in (omatg.Omatg(), kldm.Kldm(), crystalite.Crystalite()):
        assert 1.5e6 < model.n_parameters < 5e6, model.name


def test_messages_by_parts_are_messages_of_joined_vectors():
    net = CspNet(TINY, lattice_features=9, self_pairs=True)
    layer = net.layers[0]
    torch.manual_seed(1)
    h, pairs, cell = torch.randn(2, 3, 32), torch.randn(2, 3, 3, 4 * 6 + 16), torch.randn(2, 9)
    joined_weight = torch.cat(
        [layer.receiver.weight, layer.sender.weight, layer.lattice.weight, layer.pair.weight], 1
    )
    x = layer.norm(h)
    joined = torch.cat(
        [
            x[:, :, None].expand(-1, -1, 3, -1),
            x[:, None].expand(-1, 3, -1, -1),
            cell[:, None, None].expand(-1, 3, 3, -1),
            pairs,
        ],
        dim=-1,
    )
    first = torch.nn.functional.silu(joined @ joined_weight.T + layer.pair.bias)
    message = torch.nn.functional.silu(layer.message(first))
    expected = h + layer.update(torch.cat([x, message.mean(dim=2)], dim=-1))
    torch.testing.assert_close(layer(h, pairs, cell, self_pairs=True)[0], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("n", [1, 4, 8])
@pytest.mark.parametrize("velocities", [False, True])
def test_csp_network_ignores_order_and_origin(n, velocities):
    batch = batch_of(n)
    b = len(batch)
    net = randomised(CspNet(TINY, lattice_features=9, self_pairs=not velocities, velocities=velocities))
    time = sinusoids(torch.linspace(0.1, 0.9, b), 16)
    torch.manual_seed(2)
    velocity = torch.randn(b, n, 3) if velocities else None
    gram = (batch.lattice @ batch.lattice.mT).flatten(1) / 50

    def run(numbers, frac, velocity):
        return net(numbers, time, frac, batch.lattice, gram, velocity)

    with torch.no_grad():
        atoms, push = run(batch.numbers, batch.frac, velocity)
        order = torch.randperm(n)
        permuted = run(
            batch.numbers[:, order], batch.frac[:, order], None if velocity is None else velocity[:, order]
        )
        torch.testing.assert_close(permuted[0], atoms[:, order], atol=2e-4, rtol=1e-3)
        torch.testing.assert_close(permuted[1], push[:, order], atol=2e-4, rtol=1e-3)
        shifted = (batch.frac + torch.rand(b, 1, 3) + torch.randint(-2, 3, (b, n, 3))) % 1.0
        moved = run(batch.numbers, shifted, velocity)
        torch.testing.assert_close(moved[0], atoms, atol=2e-3, rtol=1e-2)
        torch.testing.assert_close(moved[1], push, atol=2e-3, rtol=1e-2)


def test_nearest_distance_against_all_images():
    batch = batch_of(6, 8)
    difference = batch.frac[:, None] - batch.frac[:, :, None]
    found = nearest_distance(difference, batch.lattice)
    shifts = torch.tensor(list(product((-2.0, -1.0, 0.0, 1.0, 2.0), repeat=3)))
    vectors = (difference[..., None, :] + shifts) @ batch.lattice[:, None, None]
    torch.testing.assert_close(found, vectors.norm(dim=-1).amin(dim=-1), atol=2e-4, rtol=1e-4)


def test_shells_count_images_whatever_the_axes():
    batch = batch_of(5, 6)
    difference = batch.frac[:, None] - batch.frac[:, :, None]
    inner, outward = shells(difference, batch.lattice, 8)
    # Brute force for one pair: the windowed sum of Gaussians over 27 images of the wrapped difference.
    d = difference[0, 1, 3] - difference[0, 1, 3].round()
    images = torch.tensor(list(product((-1.0, 0.0, 1.0), repeat=3)))
    distance = ((d + images) @ batch.lattice[0]).norm(dim=-1)
    centres = torch.arange(1, 9).float()
    window = (torch.cos(torch.pi * (d + images) / 3) ** 2).prod(dim=-1)
    gaussians = window[:, None] * torch.exp(-0.5 * (distance[:, None] - centres) ** 2)
    torch.testing.assert_close(inner[0, 1, 3, :8], torch.log1p(gaussians.sum(0)), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(outward[0, 1, 3], gaussians.T @ (d + images), atol=1e-3, rtol=1e-3)
    # Axes in another order or turned round: the same counts, and vectors that follow the axes.
    change = torch.tensor([[0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]])
    inner2, outward2 = shells(difference @ torch.linalg.inv(change), change @ batch.lattice, 8)
    torch.testing.assert_close(inner2, inner, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(outward2 @ change, outward, atol=5e-3, rtol=1e-2)


def test_transformer_ignores_order_and_whole_cells():
    model = crystalite.Crystalite(crystalite.CrystaliteSettings(size=TINY_TRANSFORMER))
    randomised(model.network)
    batch = batch_of(6, 3)
    x, y, sigma = batch.frac - 0.5, model.encode_cell(batch.lattice), torch.tensor([0.05, 0.5, 5.0])
    with torch.no_grad():
        out_x, out_y = model.denoise(batch.numbers, x, y, sigma)
        order = torch.randperm(6)
        permuted = model.denoise(batch.numbers[:, order], x[:, order], y, sigma)
        torch.testing.assert_close(permuted[0], out_x[:, order], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(permuted[1], out_y, atol=1e-4, rtol=1e-4)
        # A whole cell enters through the skip connection only: the network sees the wrapped coordinate.
        whole = torch.randint(-1, 2, x.shape).float()
        far = model.denoise(batch.numbers, x + whole, y, sigma)
        skip = 0.09 / (sigma**2 + 0.09)
        torch.testing.assert_close(far[0] - skip[:, None, None] * whole, out_x, atol=1e-3, rtol=1e-3)


def test_geometry_bias_starts_as_a_gated_distance():
    batch = batch_of(4, 3)
    sigma = torch.tensor([0.01, 1.0, 100.0])
    pairs, distance = pair_geometry(batch.frac, batch.lattice, TINY_TRANSFORMER)
    bias = GeometryBias(TINY_TRANSFORMER)(pairs, distance, sigma)
    expected = -distance / (1 + sigma)[:, None, None]
    torch.testing.assert_close(bias[:, 2, :4, :4], expected, atol=1e-5, rtol=1e-4)
    assert (bias[:, :, 4] == 0).all()
    assert (bias[:, :, :, 4] == 0).all()


def test_geometry_survives_absurd_cells():
    batch = batch_of(4, 3)
    pairs, distance = pair_geometry(batch.frac, batch.lattice * 1e20, TINY_TRANSFORMER)
    assert torch.isfinite(pairs).all()
    assert torch.isfinite(distance).all()


def test_a_network_of_another_process_is_taken_over_where_it_means_the_same():
    omatg = randomised(CspNet(TINY, lattice_features=7, self_pairs=True))
    kldm = CspNet(TINY, lattice_features=6, self_pairs=False, velocities=True)
    fresh = {name: p.clone() for name, p in kldm.named_parameters()}
    kldm.begin_as(omatg)
    mine, theirs = dict(kldm.named_parameters()), dict(omatg.named_parameters())
    assert torch.equal(mine["layers.0.message.weight"], theirs["layers.0.message.weight"])
    waves_and_shells = torch.cat(
        [mine["layers.1.pair.weight"][:, :24], mine["layers.1.pair.weight"][:, -16:]], dim=1
    )
    assert torch.equal(waves_and_shells, theirs["layers.1.pair.weight"])
    for kept in ("layers.0.lattice.weight", "push_out.weight", "velocity_in.weight"):
        assert torch.equal(mine[kept], fresh[kept])
    with pytest.raises(InputError, match="differ in size"):
        kldm.begin_as(CspNet(replace(TINY, layers=1), lattice_features=7, self_pairs=True))
