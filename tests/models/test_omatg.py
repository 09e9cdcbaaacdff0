"""OMatG: base cells, interpolant, symmetries of the velocity, and the sampler with the exact velocity."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from anchor.models.cells import lengths_and_angles, wrap
from anchor.models.data import Batch, TrainingSet, to_batches
from anchor.models.network import CspSize
from anchor.models.noise import Noise
from anchor.models.omatg import Omatg, OmatgSettings, integrate, paired
from anchor.priors.match_rate import held_out

TINY = CspSize(hidden=32, messages=24, layers=2, frequencies=4, time_features=16, shells=8)


def batch_of(n: int, count: int = 4) -> Batch:
    crystals = held_out("val")
    chosen = TrainingSet(crystals[np.flatnonzero(crystals.counts == n)[:count]])
    return to_batches(chosen.crystals)[0][1]


def streams(count: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in range(count)]


def test_base_cells_are_log_normal_with_uniform_angles_and_never_flat():
    model = Omatg(OmatgSettings(size=TINY))
    data = TrainingSet(held_out("val", 300))
    model.fit_statistics(data.crystals)
    noise = Noise(streams(4000))
    cells = model.base_cells(noise.normal(3), noise.uniform(16, 3))
    lengths, angles = lengths_and_angles(cells)
    true = np.log(np.linalg.norm(data.crystals.lattice, axis=2))
    np.testing.assert_allclose(lengths.log().mean(0), true.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(lengths.log().std(0), true.std(axis=0), rtol=0.05)
    assert torch.rad2deg(angles).min() > 59.99
    assert torch.rad2deg(angles).max() < 120.01
    assert (torch.linalg.det(cells) > 0.1 * lengths.prod(dim=1)).all()


def test_velocity_follows_permutations_translations_and_rotations():
    torch.manual_seed(0)
    model = Omatg(OmatgSettings(size=TINY, cell_features="shape")).double()
    torch.nn.init.normal_(model.network.push_out.weight)
    batch = batch_of(6)
    t, frac, cell = torch.full((len(batch),), 0.4).double(), batch.frac.double(), batch.lattice.double()
    with torch.no_grad():
        v, w = model.velocity(batch.numbers, t, frac, cell)
        order = torch.randperm(6)
        v2, w2 = model.velocity(batch.numbers[:, order], t, frac[:, order], cell)
        torch.testing.assert_close(v2, v[:, order], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(w2, w, atol=1e-4, rtol=1e-4)
        v3, w3 = model.velocity(batch.numbers, t, (frac + torch.rand(len(batch), 1, 3)) % 1.0, cell)
        torch.testing.assert_close(v3, v, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(w3, w, atol=1e-4, rtol=1e-4)
        rotation = torch.linalg.qr(torch.randn(3, 3).double())[0]
        v4, w4 = model.velocity(batch.numbers, t, frac, cell @ rotation)
        torch.testing.assert_close(v4, v, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(w4, w @ rotation, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("annealing", [(0.0, 0.0), (10.1827, 1.8245)])
def test_exact_velocity_of_one_crystal_leads_to_it(annealing):
    """For a single crystal the velocity is known: w1(f₁ − f_t)/(1 − t) and (L₁ − L_t)/(1 − t)."""
    batch = batch_of(8, 1)
    count = 16
    numbers = batch.numbers.expand(count, -1)

    def velocity(_numbers, t, frac, cell):
        left = (1 - t)[:, None, None]
        return wrap(batch.frac - frac) / left, (batch.lattice - cell) / left

    model = Omatg(OmatgSettings(size=TINY))
    noise = Noise(streams(count))
    frac, cell = integrate(
        velocity,
        numbers,
        noise.uniform(8, 3),
        model.base_cells(noise.normal(3), noise.uniform(16, 3)),
        steps=100,
        annealing=annealing,
    )
    assert wrap(frac - batch.frac).abs().max() < 2e-3
    assert (cell - batch.lattice).abs().max() < 0.02


def test_the_target_of_the_loss_is_what_the_path_does():
    """A model that answers with the true (centred) velocity has no loss; checked by finite differences."""
    batch = batch_of(5, 3)
    model = Omatg(OmatgSettings(size=TINY))
    seen = []

    def spy(_numbers, t, frac, cell):
        seen.append((t, frac, cell))
        return torch.zeros_like(frac), torch.zeros_like(cell)

    model.velocity = spy
    early, late = 0.5, 0.51
    for u in (early, late):
        sums = model.loss_sums(batch, torch.full((3,), u), torch.Generator().manual_seed(5))
    (t0, f0, c0), (t1, f1, c1) = seen
    dt = (t1 - t0)[:, None, None]
    rate = wrap(f1 - f0) / dt
    centred = rate - rate.mean(dim=1, keepdim=True)
    assert sums["coordinates"].item() == pytest.approx((centred**2).sum().item(), rel=1e-2)
    assert sums["cell"].item() == pytest.approx((((c1 - c0) / dt) ** 2).sum().item(), rel=1e-2)


def test_pairing_shortens_paths_and_keeps_the_base():
    batch = batch_of(5, 3)
    base = torch.rand(3, 5, 3, generator=torch.Generator().manual_seed(3))
    found = paired(base, batch)

    def length(positions, i):
        return (wrap(batch.frac[i] - positions) ** 2).sum().item()

    for i in range(3):
        numbers = batch.numbers[i].tolist()
        same_elements = [
            list(order)
            for order in itertools.permutations(range(5))
            if [numbers[k] for k in order] == numbers
        ]
        best = min(length(found[i, order], i) for order in same_elements)
        assert length(found[i], i) == pytest.approx(best, rel=1e-4)
        assert length(found[i], i) < length(base[i], i)
        # One shift and one exchange of equal atoms lead back to the base.
        assert any(
            wrap(found[i, order] - base[i] - (found[i, order] - base[i])[:1]).abs().max() < 1e-5
            for order in same_elements
        )


def test_one_atom_has_no_velocity_to_learn():
    batch = batch_of(1, 2)
    model = Omatg(OmatgSettings(size=TINY))
    model.velocity = lambda _numbers, _t, frac, cell: (torch.zeros_like(frac), torch.zeros_like(cell))
    assert model.loss_sums(batch, torch.rand(2), torch.Generator())["coordinates"] == 0


def test_predicted_ends_give_the_same_velocity():
    """A network that knows the end gives the velocity of the path, also through damping and cell numbers."""
    batch = batch_of(6, 3)
    model = Omatg(OmatgSettings(size=TINY, target="end"))
    t = torch.tensor([0.1, 0.6, 0.98])
    base = torch.rand(3, 6, 3, generator=torch.Generator().manual_seed(0))
    path = wrap(batch.frac - base)
    path = path - path.mean(dim=1, keepdim=True)
    cell0 = torch.eye(3).expand(3, 3, 3) * 5
    cell = torch.lerp(cell0, batch.lattice, t[:, None, None])
    damping = ((1 - t) / (1 - t + 0.1))[:, None, None]
    model.outputs = lambda *_: (damping * path, model.cells.encode(batch.lattice, 6))
    frac_velocity, cell_velocity = model.velocity(batch.numbers, t, base, cell)
    torch.testing.assert_close(frac_velocity, path, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(cell_velocity, batch.lattice - cell0, atol=0.02, rtol=1e-3)
