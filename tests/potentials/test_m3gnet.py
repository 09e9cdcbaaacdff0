"""The three-body trick piece by piece, each against SciPy or a plain sum over triplets."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import eval_legendre, spherical_jn

from anchor.potentials.m3gnet import DEGREES, ThreeBody, bessel_roots, solid_harmonics, spherical_bessel


def unit_vectors(n: int, seed: int) -> torch.Tensor:
    vectors = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 3)))
    return vectors / vectors.norm(dim=1, keepdim=True)


def test_roots_are_the_first_zeros_of_the_spherical_bessel_functions():
    roots = bessel_roots()
    for l in range(DEGREES):
        assert np.abs(spherical_jn(l, roots[l])).max() < 1e-12
        grid = np.linspace(1e-3, roots[l, -1] + 1e-3, 100_000)
        values = spherical_jn(l, grid)
        assert int((np.sign(values[1:]) != np.sign(values[:-1])).sum()) == DEGREES


def test_addition_theorem():
    u, v = unit_vectors(50, 1), unit_vectors(50, 2)
    products = solid_harmonics(u) * solid_harmonics(v)
    for l, part in enumerate(products.split([1, 3, 5, 7], dim=1)):
        assert np.allclose(part.sum(dim=1), eval_legendre(l, (u * v).sum(dim=1)), atol=1e-12)


def test_spherical_bessel_functions():
    x = torch.from_numpy(np.random.default_rng(0).uniform(0.5, 15, (40, DEGREES, DEGREES)))
    expected = np.stack([spherical_jn(l, x[:, l].numpy()) for l in range(DEGREES)], axis=1)
    assert np.allclose(spherical_bessel(x), expected, atol=1e-10)


def test_density_sum_equals_the_sum_over_triplets():
    rng = np.random.default_rng(3)
    center = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    length = torch.from_numpy(rng.uniform(1.5, 3.9, len(center)))
    vectors = unit_vectors(len(center), 4) * length[:, None]
    cutoff, short = 5.0, 4.0
    got = ThreeBody(cutoff, short, torch.float64)(vectors, length, center, 3)

    def envelope(r: float) -> float:
        return 1 - 6 * (r / short) ** 5 + 15 * (r / short) ** 4 - 10 * (r / short) ** 3

    roots = bessel_roots()
    expected = np.zeros((len(center), DEGREES, DEGREES))
    for a in range(len(center)):
        for b in range(len(center)):
            if a == b or center[a] != center[b]:
                continue
            cosine = float(vectors[a] @ vectors[b] / (length[a] * length[b]))
            for l in range(DEGREES):
                angular = np.sqrt((2 * l + 1) / (4 * np.pi)) * eval_legendre(l, cosine)
                radial = spherical_jn(l, roots[l] * float(length[b]) / cutoff)
                radial = radial * np.sqrt(2 / cutoff**3) / np.abs(spherical_jn(l + 1, roots[l]))
                expected[a, l] += angular * radial * envelope(float(length[a])) * envelope(float(length[b]))
    assert np.allclose(got, expected.reshape(len(center), -1), atol=1e-12)
    assert got[-1].abs().max() < 1e-15, "one neighbour makes no triplet"
